//! poll on a bound descriptor: it does the I/O, as netmap's does.
//!
//! A tx ring is synced if slots are waiting to be sent (unless NR_NO_TX_POLL) or if room is asked for and there is none;
//! an rx ring if packets are asked for and there are none beyond cur, or slots are to be given back (without being asked
//! for packets only with NR_DO_RX_POLL). A ring with impossible words starts over and the answer is POLLERR, as it is in CSB mode.

use std::sync::atomic::Ordering::Relaxed;

use ringway_mem::pool::Ring;
use ringway_port::clock;
use rustix::event::PollFlags;

use crate::abi::flag;
use crate::bound::Binding;

const TX: PollFlags = PollFlags::OUT.union(PollFlags::WRNORM);
const RX: PollFlags = PollFlags::IN.union(PollFlags::RDNORM);

/// How far a device's rings are, for those who want to hear of each step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    came: u64,
    room: u64,
}

impl Progress {
    /// For what there is more than before.
    pub fn since(self, before: Progress) -> PollFlags {
        let rx = if self.came == before.came { PollFlags::empty() } else { RX };
        if self.room == before.room { rx } else { rx | TX }
    }
}

impl Binding {
    /// Does the I/O that `events` ask for; returns those that came.
    pub(crate) fn poll(&mut self, events: PollFlags) -> PollFlags {
        self.poll_for(events, false)
    }

    /// Like [`Binding::poll`]; with `also_more`, rings are synced for more packets though there are some.
    pub(crate) fn poll_for(&mut self, events: PollFlags, also_more: bool) -> PollFlags {
        if self.csb.is_some() {
            return PollFlags::ERR;
        }
        let mut found = PollFlags::empty();
        let now_ns = clock::monotonic_ns();
        for i in self.tx.clone() {
            let wanted = events.intersects(TX) && !found.intersects(TX);
            found |= self.poll_tx(i, wanted, events & TX, now_ns);
        }
        let wanted = events.intersects(RX);
        if wanted || self.note.has(flag::DO_RX_POLL) {
            for i in self.rx.clone() {
                found |= self.poll_rx(i, (wanted, also_more), events & RX, now_ns);
            }
        }
        found
    }

    fn poll_tx(&mut self, i: usize, wanted: bool, events: PollFlags, now_ns: u64) -> PollFlags {
        let Some(ring) = self.port.tx_ring(i) else { return PollFlags::empty() };
        let pushes = !self.note.has(flag::NO_TX_POLL) && has_unsynced(ring);
        if !pushes && !wanted {
            return PollFlags::empty();
        }
        if !pushes && has_shown(ring) {
            return events;
        }
        match self.port.sync_tx_at(i, now_ns) {
            Err(_) => PollFlags::ERR,
            Ok(_) if wanted && self.port.tx_ring(i).is_some_and(has_shown) => events,
            Ok(_) => PollFlags::empty(),
        }
    }

    fn poll_rx(&mut self, i: usize, (wanted, also_more): (bool, bool), events: PollFlags, now_ns: u64) -> PollFlags {
        let Some(ring) = self.port.rx_ring(i) else { return PollFlags::empty() };
        if (has_unsynced(ring) || (wanted && (also_more || !has_shown(ring))))
            && self.port.sync_rx_at(i, now_ns).is_err()
        {
            return PollFlags::ERR;
        }
        let shown = self.port.rx_ring(i).is_some_and(has_shown);
        if wanted && shown { events } else { PollFlags::empty() }
    }

    /// Numbers that change when packets come, and when there is more room.
    pub(crate) fn progress(&self) -> Progress {
        // All rings have far fewer slots than the factor.
        let fold = |sum: u64, tail: u32| u64::from(tail) + sum.wrapping_mul(1 << 20 | 1);
        let came = self.rx_rings().map(|(_, ring)| ring.kring().hwtail.get(ring.num_slots()));
        let room = self.tx_rings().map(|(_, ring)| ring.kring().own.rtail.load(Relaxed));
        Progress { came: came.fold(0, fold), room: room.fold(0, fold) }
    }

    /// Asks those who move the rings that `events` wait for to ring the bell of this number.
    ///
    /// False if so many wait for a ring already that it must be looked at from time to time instead.
    pub(crate) fn arm(&self, events: PollFlags, bell: u32) -> bool {
        self.awaited(events).map(|ring| ring.kring().waiters.arm_caller(bell)).fold(true, |all, armed| all & armed)
    }

    pub(crate) fn disarm(&self, events: PollFlags, bell: u32) {
        self.awaited(events).for_each(|ring| ring.kring().waiters.disarm_caller(bell));
    }

    fn awaited(&self, events: PollFlags) -> impl Iterator<Item = &Ring> {
        let tx = self.tx_rings().filter(move |_| events.intersects(TX));
        tx.chain(self.rx_rings().filter(move |_| events.intersects(RX))).map(|(_, ring)| ring)
    }
}

/// Whether the user moved his head since the last sync.
fn has_unsynced(ring: &Ring) -> bool {
    ring.header().head.load(Relaxed) != ring.kring().own.rhead.load(Relaxed)
        || ring.kind().sends() && ring.kring().own.rhead.load(Relaxed) != ring.kring().hwcur.get(ring.num_slots())
}

/// Whether there is something beyond the user's cur, as far as the last sync showed.
fn has_shown(ring: &Ring) -> bool {
    ring.header().cur.load(Relaxed) != ring.kring().own.rtail.load(Relaxed)
}
