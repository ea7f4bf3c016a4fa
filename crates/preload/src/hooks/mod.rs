//! The exported names: conversions only, the work is elsewhere.

mod fd;
pub(crate) mod io;
mod poll;
pub(crate) mod signal;
mod socket;
mod transfer;
