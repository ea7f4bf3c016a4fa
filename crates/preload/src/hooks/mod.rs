//! The exported names: conversions only, the work is elsewhere.

pub(crate) mod fd;
pub(crate) mod io;
mod poll;
mod process;
pub(crate) mod signal;
mod socket;
mod stdio;
mod syscall;
mod transfer;
