//! netmap's control interface, version 14, over packet ports: what an open `/dev/netmap` answers to ioctl and poll.
//!
//! ```text
//!   ioctl(fd, NIOCCTRL, &header)        ioctl(fd, NIOCREGIF, &nmreq)       ioctl(fd, NIOC[TR]XSYNC)   poll(fd)
//!        |                                   |                                  |                       |
//!   request   copied, bounded            legacy   taken for its new twin        |                       |
//!        |                                   |                                  |                       |
//!        +------- device: what the descriptor is bound to ----------------------+-----------------------+
//!                    |                |                |                        |                       |
//!                 register          info            vale, csb, ...           rings: which are synced, and when
//!                    |
//!               ringway_port: the port, its rings and their back end
//! ```
//! - [`Device`] is one open `/dev/netmap`. Nothing here is unsafe: user addresses are read and written through
//!   `ringway_mem::user`, which answers `EFAULT`, and whatever lies in shared memory is bounded where it is read.
//! - [`abi`] holds the interface's numbers and layouts. Source: netmap(4) and `net/netmap.h`, API 14.
//! - A crate of its own because a port of a switch is opened here as any other, and the switch stands above the ports.

#![forbid(unsafe_code)]

pub mod abi;
mod bound;
mod csb;
mod device;
mod error;
mod extra;
mod info;
mod kloop;
mod legacy;
mod name;
mod note;
mod offsets;
mod poll;
mod register;
mod request;
#[cfg(test)]
mod tests;
mod vale;

pub use device::{Answer, Device};
pub use poll::Progress;
/// From then on programs meet others at switches and pipes, through the monitor whose sockets are in a folder.
pub use ringway_port::meeting::meet_in;
