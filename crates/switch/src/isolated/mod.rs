//! A switch in a process of its own, for users that do not trust each other: each maps nothing but its own pool, and the
//! switch's process, which maps all, copies.
//!
//! ```text
//!   user                                       the switch's process, at `switch-NAME.sock`
//!     own pool, a port in it, CSB cells            |
//!     | Request { port, pool } + [pool, cells] --> |  maps both, checks all, gives the port a place
//!     | <------------------------- Met, or why not |
//!     | head, cur in the cells;  a byte if the other side sleeps
//!     | hwcur, hwtail in the cells; the ring's bell if we sleep
//! ```
//! The connection stands as long as the port does: whichever side dies, the other learns it from the kernel. The messages
//! are those of [`meeting`](ringway_port::meeting), with the roles of the memory exchanged.

mod guest;
mod host;

use std::path::{Path, PathBuf};

pub use guest::open;
pub use host::Host;

/// Where the switch of this name is served; `folder` has the monitor's sockets.
pub fn socket(folder: &Path, switch: &str) -> PathBuf {
    folder.join(format!("switch-{switch}.sock"))
}

#[cfg(test)]
mod tests;
