//! The policy file: whatever it says, it is a policy or an error that can be shown.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use ringway_daemon::policy::Policy;

fuzz_target!(|text: &str| {
    if let Err(problem) = Policy::parse(text, Path::new("policy.toml")) {
        assert!(!problem.to_string().is_empty());
    }
});
