//! The filter of `ringway ss`: a filter, or an error that points into the text.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The command is a program without a library; this is the part of it that reads filters.
#[allow(dead_code, unused_imports)]
#[path = "../../crates/cli/src/sockets/mod.rs"]
mod sockets;

fuzz_target!(|text: &str| {
    if let Err(problem) = sockets::filter::parse(text) {
        assert!(!problem.to_string().is_empty());
    }
});
