//! Fragments in any order, overlapping, late: five bytes choose each; the harness of the property tests.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringway_wire::hostile::{FragmentTally, fragments};

fuzz_target!(|choices: &[u8]| fragments(choices, &mut FragmentTally::default()));
