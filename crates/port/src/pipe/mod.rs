//! A pipe: two ends in one pool, each other's tx and rx rings linked. Sending swaps buffers; nothing is copied, and no
//! lock is shared between the ends.
//!
//! ```text
//!   end X{id                                end X}id
//!   tx 0  --- slots, buffers swapped --->   rx 0       the sender's sync moves hwtail of the receiver's ring,
//!   rx 0  <-------------------------------  tx 0       the receiver's sync gives slots back by hwcur
//! ```
//! What survives a killed end is in `ringway_mem::pool`: begun transfers are completed, the end is set right for its next
//! user, and its buffers are accounted for.

use ringway_mem::pool::{self, Kind, Registration, Ring};

use crate::backend::Backend;
use crate::error::PortError;
use crate::kring::{RxKring, TxKring};

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

/// One end; the other end's rings by the numbers of ours.
pub(crate) struct Pipe {
    their_rx: Vec<Ring>,
    their_tx: Vec<Ring>,
}

impl Pipe {
    /// The end that `registration` opened, with these of its rings.
    pub(crate) fn new(registration: &Registration, rings: &[(Kind, u32)]) -> Option<Pipe> {
        let pool = registration.pool();
        let peer = pool.peer(registration.port())?;
        let linked = |ours: Kind, theirs: Kind| {
            let of_kind = rings.iter().filter(move |(kind, _)| *kind == ours);
            of_kind.map(|(_, index)| pool.ring(peer, theirs, *index)).collect::<Option<Vec<Ring>>>()
        };
        Some(Pipe { their_rx: linked(Kind::Tx, Kind::Rx)?, their_tx: linked(Kind::Rx, Kind::Tx)? })
    }
}

impl Backend for Pipe {
    fn sync_tx(&mut self, ring: usize, tx: &TxKring, _now_ns: u64) -> Result<(), PortError> {
        let Some(rx) = self.their_rx.get(ring) else { return Ok(()) };
        let resumed = pool::resume(tx.ring(), rx);
        let done = pool::transfer(tx.ring(), rx);
        tx.count(done.frames, done.bytes);
        if done.dropped > 0 {
            tx.count_dropped(done.dropped);
        }
        if done.slots > 0 || resumed {
            rx.wake();
        }
        Ok(())
    }

    fn sync_rx(&mut self, ring: usize, _rx: &RxKring, released: u32, _now_ns: u64) -> Result<(), PortError> {
        let Some(tx) = self.their_tx.get(ring) else { return Ok(()) };
        if released > 0 {
            tx.wake();
        }
        Ok(())
    }
}
