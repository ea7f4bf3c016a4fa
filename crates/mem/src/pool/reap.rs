//! What dead users leave: ports nobody will open again are removed, ends of pipes are set right for the next user.
//!
//! A user may be killed between any two instructions: with a buffer in two slots and another one in none, in the
//! middle of a transfer, with buffers in his own hands. The owner words tell
//! what was his; each of his slots gets a buffer that is his alone, and everything else of his is freed (or left
//! to another open port of the same family, which may hold it). Going through it again changes nothing, so the
//! one who does it may be killed, too.

use std::sync::Arc;
use std::time::Duration;

use super::control::Control;
use super::header::{CLEAN, OPENED};
use super::layout::{Kind, RESERVED_BUFFERS};
use super::ports::{PortId, Ring};
use super::transfer::resume;
use super::{Pool, PoolError};
use crate::slot::{InterfaceHeader, Slot};
use crate::sync::{Ordering::*, fence};

impl Pool {
    /// Removes ports that nobody has open, and sets right what dead users of the others left.
    ///
    /// # Errors
    /// [`PoolError::Stuck`] if another process keeps the pool locked.
    pub fn reap(self: &Arc<Pool>) -> Result<(), PoolError> {
        let control = self.control()?;
        self.reap_under(&control, true);
        Ok(())
    }

    /// Like [`Pool::reap`]; does nothing if another process has the pool locked.
    pub fn try_reap(self: &Arc<Pool>) {
        if let Ok(control) = self.control_within(Duration::ZERO) {
            self.reap_under(&control, false);
        }
    }

    /// `may_wait` for those who write to a monitor's rings; without, such a monitor is left for the next time.
    pub(super) fn reap_under(self: &Arc<Pool>, control: &Control, may_wait: bool) {
        let ports: Vec<PortId> = self.ports().collect();
        for port in ports {
            if self.is_open(port) || self.record(port.0).is_ok_and(|record| record.is_pinned()) {
                continue;
            }
            if !self.peer(port).is_some_and(|peer| self.is_open(peer)) {
                if !self.stop_feeding(port, may_wait) {
                    continue;
                }
                self.leave_monitors(port, control);
                self.leave_to_heir(port);
                self.remove_port(port);
            } else if self.record(port.0).is_ok_and(|r| r.state.load(Relaxed) == OPENED) {
                self.renew(port);
            }
        }
    }

    /// An open port of the same family, which may have buffers of `port` in its slots or hands.
    fn heir(&self, port: PortId) -> Option<PortId> {
        self.ports().find(|other| *other != port && self.same_domain(other.0, port.0) && self.is_open(*other))
    }

    /// Before a port is removed: buffers that are not in its slots go to an heir, if there is one.
    fn leave_to_heir(self: &Arc<Pool>, port: PortId) {
        let Some(heir) = self.heir(port) else { return };
        self.free_extra_list(port);
        let in_slots = self.claim_slots(port, &self.rings(port));
        for buffer in self.buffer_owners().all_of(port.0).filter(|b| !in_slots[*b as usize]) {
            self.buffer_owners().pass(buffer, port.0, heir.0);
        }
    }

    /// Sets an end of a pipe right whose user died, for the next one.
    fn renew(self: &Arc<Pool>, port: PortId) {
        let Ok(record) = self.record(port.0) else { return };
        record.frozen.store(1, SeqCst);
        fence(SeqCst);
        if self.wait_for_deliveries(port) {
            self.finish_transfers(port);
            self.free_extra_list(port);
            let rings = self.rings(port);
            let in_slots = self.claim_slots(port, &rings);
            self.refill(port, &rings, &in_slots);
            rings.iter().for_each(reset);
            record.domain.store(0, Relaxed);
            record.state.store(CLEAN, Release);
        }
        record.frozen.store(0, Release);
        self.peer(port).map_or(vec![], |peer| self.rings(peer)).iter().for_each(Ring::wake);
    }

    /// Until no delivery into the frozen port's rings is under way; false if somebody keeps his ring locked.
    fn wait_for_deliveries(self: &Arc<Pool>, port: PortId) -> bool {
        let Some(peer) = self.peer(port) else { return true };
        self.rings(peer).iter().filter(|ring| ring.kind().sends()).all(|ring| ring.kring().own.lock.lock().is_ok())
    }

    /// What a dead sender began to transfer arrives.
    fn finish_transfers(self: &Arc<Pool>, port: PortId) {
        let Some(peer) = self.peer(port) else { return };
        for index in 0..self.counts(port).map_or(0, |counts| counts.tx) {
            let rings = (self.ring(port, Kind::Tx, index), self.ring(peer, Kind::Rx, index));
            if let (Some(tx), Some(rx)) = rings
                && resume(&tx, &rx)
            {
                rx.wake();
            }
        }
    }

    /// The list of extra buffers, as far as it is one, goes back to the pool.
    fn free_extra_list(&self, port: PortId) {
        if let Ok((_, interface)) = self.interface(port) {
            self.free_list_of(port, interface);
        }
    }

    pub(super) fn free_list_of(&self, port: PortId, interface: &InterfaceHeader) {
        let mut next = interface.bufs_head.swap(0, Relaxed);
        for _ in 0..self.config().buffers {
            let mut bytes = [0; 4];
            self.copy_out(next, 0, &mut bytes);
            if next < RESERVED_BUFFERS || !self.free_buffer(port, next) {
                return;
            }
            next = u32::from_le_bytes(bytes);
        }
    }

    /// Makes each buffer in a slot that the port's user may use, and that is in no slot of its owner, the port's
    /// own. Returns which they are.
    fn claim_slots(self: &Arc<Pool>, port: PortId, rings: &[Ring]) -> Vec<bool> {
        let mut elsewhere = vec![false; self.config().buffers as usize];
        let family = self.ports().filter(|other| *other != port && self.same_domain(other.0, port.0));
        for (other, ring) in family.flat_map(|other| self.rings(other).into_iter().map(move |ring| (other, ring))) {
            for buffer in super::account::slots_of(&ring).into_iter().filter(|b| self.owner(*b) == other.0) {
                elsewhere[buffer as usize] = true;
            }
        }
        let mut claimed = vec![false; self.config().buffers as usize];
        for buffer in rings.iter().flat_map(super::account::slots_of) {
            if buffer >= RESERVED_BUFFERS && self.may_use(port, buffer) && !elsewhere[buffer as usize] {
                let owner = self.owner(buffer);
                claimed[buffer as usize] = owner == port.0 || self.buffer_owners().pass(buffer, owner, port.0);
            }
        }
        claimed
    }

    /// Gives each slot a buffer of its own and frees the port's other ones, unless an heir may hold them.
    fn refill(&self, port: PortId, rings: &[Ring], in_slots: &[bool]) {
        let heir = self.heir(port).map_or(0, |heir| heir.0);
        for buffer in self.buffer_owners().all_of(port.0).filter(|b| !in_slots[*b as usize]) {
            self.buffer_owners().pass(buffer, port.0, heir);
        }
        let mut placed = vec![false; self.config().buffers as usize];
        for cell in rings.iter().flat_map(|ring| ring.slots()) {
            let slot = cell.load();
            let index = slot.buf_idx as usize;
            if in_slots.get(index) == Some(&true) && !placed[index] {
                placed[index] = true;
                continue;
            }
            // An exhausted pool leaves the reserved buffer 0, which every receiver drops.
            let buf_idx = self.take_buffer(port).unwrap_or(0);
            cell.store(Slot { buf_idx, len: 0, ..slot });
        }
    }
}

/// The ring as its next user finds it: nothing half-sent; of what was received, all that the dead user never saw (what
/// he saw was his, to change as he liked).
fn reset(ring: &Ring) {
    let (kring, n) = (ring.kring(), ring.num_slots());
    let (hwcur, hwtail) = (kring.hwcur.get(n), kring.hwtail.get(n));
    let first = if ring.kind().sends() {
        kring.hwtail.set(ring.previous(hwcur));
        hwcur
    } else {
        let shown = kring.own.rtail.load(Relaxed).min(n - 1);
        let possible = ring.distance(hwcur, shown) <= ring.distance(hwcur, hwtail);
        let unseen = if possible { shown } else { hwtail };
        kring.hwcur.set(unseen);
        unseen
    };
    for word in [&kring.own.rhead, &kring.own.rcur, &ring.header().head, &ring.header().cur] {
        word.store(first, Relaxed);
    }
    let tail = if ring.kind().sends() { ring.previous(first) } else { first };
    kring.own.rtail.store(tail, Relaxed);
    ring.header().tail.store(tail, Relaxed);
    ring.header().flags.store(0, Relaxed);
}
