//! Everything that two address spaces share.

pub mod region;
pub mod stats;
pub mod sync;
