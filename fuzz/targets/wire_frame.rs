//! A frame from the wire, down to the transport; the harness of the property tests.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringway_wire::hostile::{Tally, frame};

fuzz_target!(|bytes: &[u8]| frame(bytes, &mut Tally::default()));
