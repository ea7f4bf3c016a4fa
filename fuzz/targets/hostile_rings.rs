//! A peer that scribbles over the words of a pipe's rings while both ends use them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ringway_port::hostile::play(bytes));
