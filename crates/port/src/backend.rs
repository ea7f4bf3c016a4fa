//! What a kind of port must be able to do. Everything else (checking the user's words, locks, batches, waiting)
//! is the same for all and lives in [`Port`](crate::Port).

use std::os::fd::OwnedFd;

use rustix::event::PollFlags;

use crate::error::PortError;
use crate::kring::{RxKring, TxKring};

/// A back end: the other side of a port's rings.
///
/// A sync moves what it can right now and never waits. It runs with the ring's lock held, in the thread of the user
/// that called it; `now_ns` is that thread's monotonic clock.
pub trait Backend: Send {
    /// Sends pending slots of `tx`, the `ring`-th of the port, and takes back those that were sent.
    fn sync_tx(&mut self, ring: usize, tx: &TxKring, now_ns: u64) -> Result<(), PortError>;

    /// Fills free slots of `rx`. The user has just given back `released` slots, which are the last of the free ones.
    fn sync_rx(&mut self, ring: usize, rx: &RxKring, released: u32, now_ns: u64) -> Result<(), PortError>;

    /// Before a sync of tx ring `ring`: who synced it before died inside.
    fn sender_died(&mut self, _ring: usize) {}

    /// What ends a wait besides somebody moving the port's rings.
    fn wakers(&self, _wakers: &mut Wakers) {}
}

/// See [`Backend::wakers`].
#[derive(Debug, Default)]
pub struct Wakers {
    /// Descriptors to poll, and for what. Duplicates, so that they outlive a closed port.
    pub fds: Vec<(OwnedFd, PollFlags)>,
    /// Monotonic time at which a sync may find more, in nanoseconds.
    pub deadline_ns: Option<u64>,
}

impl Wakers {
    /// Wakes at `at_ns` at the latest.
    pub fn at(&mut self, at_ns: u64) {
        self.deadline_ns = Some(self.deadline_ns.map_or(at_ns, |before| before.min(at_ns)));
    }
}
