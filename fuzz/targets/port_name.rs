//! Names of ports: a name that parses displays as one that parses to the same, or an error that shows the grammar.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringway_port::PortName;

fuzz_target!(|text: &str| match text.parse::<PortName>() {
    Ok(name) => assert_eq!(name.to_string().parse(), Ok(name)),
    Err(problem) => assert!(problem.to_string().contains("is expected")),
});
