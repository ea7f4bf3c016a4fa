//! The keeper: a process of the user's own that keeps ports open, joins them and serves isolated switches after the command
//! that asked for it has ended.
//!
//! ```text
//!   ringway port|switch add, attach, del, show
//!        | one line of JSON each way, at `keeper-NAMESPACE.sock` beside the monitor's sockets
//!   keeper: what it holds, each by the name under which it was asked for
//!        port      open, so that it stays           (pipes, TAP devices, ports of switches)
//!        patch     two ports, and a thread that passes packets on between them
//!        switch    a port without rings keeps the memory behind the switch's name
//!        isolated  a thread that serves the switch
//! ```
//! It ends with the last thing that it holds. What it holds ends with it, however it ends: everything is descriptors.

mod client;
mod held;
mod message;
mod patch;
mod serve;

pub(crate) use client::{ask, ask_or_start};
pub(crate) use message::{Held, Request, Traffic};
pub(crate) use serve::run;
