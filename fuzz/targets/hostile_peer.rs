//! A peer that scribbles on every word of the ring region; the harness of the property tests.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut choices = bytes;
    ringway_channel::hostile::run(&mut choices, u64::MAX);
});
