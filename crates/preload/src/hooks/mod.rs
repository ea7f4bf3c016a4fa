//! The exported names: conversions only, the work is elsewhere.

pub(crate) mod fd;
pub(crate) mod io;
mod open;
pub(crate) mod poll;
mod process;
pub(crate) mod signal;
pub(crate) mod socket;
mod stdio;
mod syscall;
mod transfer;
