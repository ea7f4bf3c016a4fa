//! The command as people and scripts see it: output, errors, exit codes.

mod harness;
mod launch;
mod tools;
mod traffic;
