//! The software switch and its routing.

#![forbid(unsafe_code)]

pub mod dxr;
