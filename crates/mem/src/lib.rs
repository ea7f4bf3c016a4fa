//! Everything that two address spaces share.

#[cfg(not(loom))]
pub mod limits;
pub mod region;
pub mod ring;
#[cfg(not(loom))]
pub mod stats;
pub mod sync;
