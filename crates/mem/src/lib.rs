//! Everything that two address spaces share.

pub mod region;
pub mod ring;
#[cfg(not(loom))]
pub mod stats;
pub mod sync;
