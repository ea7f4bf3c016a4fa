//! The transfer of a pipe: slots move from a tx ring to the other end's rx ring by swapping buffers.
//!
//! ```text
//!   tx slot, buffer a, sender's          rx slot, buffer b, receiver's (given back)
//!       1  journal: pair n, its frame ends before m, b comes back
//!       2  rx slot := tx slot                a is in both
//!       3  owner of a := receiver
//!       4  tx slot := b
//!       5  owner of b := sender              then the next pair; after the last:
//!       6  journal: commit, the new indices; 7  the indices; 8  journal: nothing
//! ```
//! A sender killed between any two of these leaves a journal from which the next one at that end (or whoever sets
//! the end right, [`Pool::reap`]) goes on: no frame that was begun is lost or comes twice, and no buffer is. Only
//! whole frames (chains of NS_MOREFRAG slots) are begun.

use std::sync::atomic::compiler_fence;

use super::layout::RESERVED_BUFFERS;
use super::owners::Owners;
use super::ports::Ring;
use crate::slot::{NETMAP_MAX_FRAGS, NS_BUF_CHANGED, Slot, SlotCell};
use crate::sync::{AtomicU64, Ordering::*};

/// What a transfer did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transferred {
    /// Slots that the receiver can see now.
    pub slots: u32,
    /// Frames they are.
    pub frames: u32,
    pub bytes: u64,
    /// Slots thrown away: buffers that are not the sender's, lengths beyond a buffer, chains without end.
    pub dropped: u32,
}

/// Whole frames at the beginning of what is pending, or one frame.
#[derive(Default)]
struct Run {
    slots: u32,
    frames: u32,
    bytes: u64,
    /// Slots of an impossible frame that follows.
    bad: u32,
}

/// Transfers what fits from `tx` (hwcur to rhead) to `rx`, and shows it to the receiver. The caller holds the
/// lock of `tx` and has [resumed](resume) what its previous holder may have left.
pub fn transfer(tx: &Ring, rx: &Ring) -> Transferred {
    let mut done = Transferred::default();
    let own = &tx.kring().own;
    while !rx.record().frozen() {
        let (k, j) = (tx.kring().hwcur.get(tx.num_slots()), rx.kring().hwtail.get(rx.num_slots()));
        // A feed's is written by another thread than the one that transfers.
        let pending = tx.distance(k, own.rhead.load(Acquire).min(tx.num_slots() - 1));
        let busy = rx.distance(rx.kring().hwcur.get(rx.num_slots()), j);
        let run = Swap::new(tx, rx, k, j).frames(pending, rx.num_slots() - 1 - busy);
        if run.slots > 0 {
            commit(tx, rx, tx.advance(k, run.slots), rx.advance(j, run.slots));
        }
        done.slots += run.slots;
        done.frames += run.frames;
        done.bytes += run.bytes;
        done.dropped += run.bad;
        if run.bad == 0 {
            break;
        }
        let k = tx.advance(k, run.slots + run.bad);
        tx.kring().hwcur.set(k);
        tx.kring().hwtail.set(tx.previous(k));
    }
    done
}

/// Slots of `tx` from `k` on change places with slots of `rx` from `j` on.
#[derive(Clone, Copy)]
struct Swap<'a> {
    tx: &'a Ring,
    rx: &'a Ring,
    k: u32,
    j: u32,
    // Kept by value, in registers: every step of a pair is a barrier to the compiler.
    owners: Owners<'a>,
    journal: &'a AtomicU64,
    sender: u32,
    receiver: u32,
}

impl<'a> Swap<'a> {
    fn new(tx: &'a Ring, rx: &'a Ring, k: u32, j: u32) -> Swap<'a> {
        let (owners, journal) = (tx.pool().buffer_owners(), &tx.kring().own.journal);
        Swap { tx, rx, k, j, owners, journal, sender: tx.port().0, receiver: rx.port().0 }
    }

    /// Swaps the whole frames among `pending` slots that fit into `room`, up to an impossible one.
    fn frames(self, pending: u32, room: u32) -> Run {
        let mut run = Run::default();
        loop {
            self.single_slots(&mut run, pending.min(room));
            if run.slots == pending {
                return run;
            }
            // A chain, something odd, or no room.
            let frame = self.next_frame(run.slots, pending);
            if frame.bad > 0 {
                return Run { bad: frame.bad, ..run };
            }
            if frame.slots == 0 || run.slots + frame.slots > room {
                return run;
            }
            let end = run.slots + frame.slots;
            if self.pairs(run.slots, end) < end {
                return Run { bad: frame.slots, ..run };
            }
            run = Run { slots: end, frames: run.frames + 1, bytes: run.bytes + frame.bytes, bad: 0 };
        }
    }

    /// The frame that begins at pending slot `n`: no slots if its end is not there yet, `bad` if it is impossible.
    #[cold]
    fn next_frame(self, n: u32, pending: u32) -> Run {
        let (tx, buffer_bytes) = (self.tx, self.tx.pool().config().buffer_bytes);
        let (mut frame, mut sound) = (Run::default(), true);
        for i in n..pending {
            let slot = tx.slots()[tx.advance(self.k, i) as usize].load_word();
            frame.slots += 1;
            frame.bytes += u64::from(slot.len);
            sound &= u32::from(slot.len) <= buffer_bytes && tx.pool().may_use(tx.port(), slot.buf_idx);
            let too_long = frame.slots > NETMAP_MAX_FRAGS as u32;
            if !slot.more_fragments() || too_long {
                return if sound && !too_long { frame } else { Run { bad: frame.slots, ..Run::default() } };
            }
        }
        Run::default()
    }

    /// Swaps slots that are a frame each, up to pending slot `end` or the first that is not or is not plainly the
    /// sender's.
    fn single_slots(self, run: &mut Run, end: u32) {
        let Swap { tx, rx, k, j, owners, .. } = self;
        let buffer_bytes = tx.pool().config().buffer_bytes;
        while run.slots < end {
            let (tx_cells, _) = tx.stretch(tx.advance(k, run.slots), end - run.slots);
            let (rx_cells, _) = rx.stretch(rx.advance(j, run.slots), end - run.slots);
            for (tx_cell, rx_cell) in tx_cells.iter().zip(rx_cells) {
                let (slot, empty) = (tx_cell.load(), rx_cell.load());
                let plain = !slot.more_fragments() && u32::from(slot.len) <= buffer_bytes;
                if !plain || owners.of(slot.buf_idx) != self.sender || owners.of(empty.buf_idx) != self.receiver {
                    return;
                }
                self.pair((tx_cell, slot), (rx_cell, empty), run.slots, run.slots + 1);
                run.slots += 1;
                run.frames += 1;
                run.bytes += u64::from(slot.len);
            }
        }
    }

    /// Swaps the pairs `from..m` of one frame; returns how many are done, fewer than `m` if a slot holds a buffer
    /// that is not its user's and the pool has no other.
    fn pairs(self, from: u32, m: u32) -> u32 {
        let Swap { tx, rx, k, j, .. } = self;
        for n in from..m {
            let (tx_cell, rx_cell) = (&tx.slots()[tx.advance(k, n) as usize], &rx.slots()[rx.advance(j, n) as usize]);
            let (Some(slot), Some(empty)) = (usable(tx, tx_cell), usable(rx, rx_cell)) else { return n };
            self.pair((tx_cell, slot), (rx_cell, empty), n, m);
        }
        m
    }

    /// Swaps pair `n` of a frame that ends before `m`: see the module's drawing.
    #[inline(always)]
    fn pair(self, tx: (&SlotCell, Slot), rx: (&SlotCell, Slot), n: u32, m: u32) {
        let ((tx_cell, slot), (rx_cell, empty)) = (tx, rx);
        self.journal.store(pair_word(empty.buf_idx, n, m), Relaxed);
        compiler_fence(SeqCst);
        if slot.ptr | empty.ptr != 0 {
            rx_cell.store(slot);
        }
        rx_cell.store_word(Slot { flags: slot.flags | NS_BUF_CHANGED, ..slot });
        compiler_fence(SeqCst);
        self.owners.set(slot.buf_idx, self.receiver);
        compiler_fence(SeqCst);
        tx_cell.store_word(Slot { buf_idx: empty.buf_idx, flags: NS_BUF_CHANGED, ..slot });
        compiler_fence(SeqCst);
        self.owners.set(empty.buf_idx, self.sender);
        compiler_fence(SeqCst);
    }
}

/// A slot with a buffer that its user may give away: its own, or a fresh one, put there now, if the slot's is not
/// its user's (given to the other end a moment ago from another slot, say).
#[cold]
fn usable(ring: &Ring, cell: &SlotCell) -> Option<Slot> {
    let slot = cell.load();
    if ring.pool().may_use(ring.port(), slot.buf_idx) {
        return Some(slot);
    }
    let slot = Slot { buf_idx: ring.pool().take_buffer(ring.port())?, ..slot };
    cell.store(slot);
    Some(slot)
}

const COMMIT: u64 = 1 << 63;
const INDEX_BITS: u32 = 14;
const BUFFER_BITS: u32 = 32;
const _: () = assert!(super::layout::RING_SLOTS_MAX == 1 << INDEX_BITS && BUFFER_BITS + 2 * INDEX_BITS < 63);

fn pair_word(b: u32, n: u32, m: u32) -> u64 {
    u64::from(b) | u64::from(n) << BUFFER_BITS | u64::from(m) << (BUFFER_BITS + INDEX_BITS)
}

fn index_at(word: u64, bit: u32) -> u32 {
    (word >> bit) as u32 & ((1 << INDEX_BITS) - 1)
}

/// Shows the receiver what came, and the sender which slots are his again.
fn commit(tx: &Ring, rx: &Ring, k: u32, j: u32) {
    let journal = &tx.kring().own.journal;
    journal.store(COMMIT | u64::from(k) << BUFFER_BITS | u64::from(j), Relaxed);
    compiler_fence(SeqCst);
    rx.kring().hwtail.set(j);
    tx.kring().hwcur.set(k);
    tx.kring().hwtail.set(tx.previous(k));
    compiler_fence(SeqCst);
    journal.store(0, Relaxed);
}

/// Completes the transfer that a dead sender left half-done; returns whether there was one. The caller holds the
/// lock of `tx`, or knows that nobody can.
pub fn resume(tx: &Ring, rx: &Ring) -> bool {
    let word = tx.kring().own.journal.load(Relaxed);
    if word == 0 {
        return false;
    }
    let (k, j) = (tx.kring().hwcur.get(tx.num_slots()), rx.kring().hwtail.get(rx.num_slots()));
    if word & COMMIT != 0 {
        let (k, j) = (index_at(word, BUFFER_BITS), index_at(word, 0));
        commit(tx, rx, k.min(tx.num_slots() - 1), j.min(rx.num_slots() - 1));
        return true;
    }
    let (b, n) = (word as u32, index_at(word, BUFFER_BITS));
    let m = index_at(word, BUFFER_BITS + INDEX_BITS).min(tx.num_slots() - 1).min(rx.num_slots() - 1);
    let n = finish_pair(tx, rx, k, j, b, n.min(m));
    let m = Swap::new(tx, rx, k, j).pairs(n, m);
    commit(tx, rx, tx.advance(k, m), rx.advance(j, m));
    true
}

/// Completes the swap of pair `n` if it was begun; returns how many pairs are done.
fn finish_pair(tx: &Ring, rx: &Ring, k: u32, j: u32, b: u32, n: u32) -> u32 {
    let tx_cell = &tx.slots()[tx.advance(k, n) as usize];
    let in_rx = rx.slots()[rx.advance(j, n) as usize].load_word().buf_idx;
    if in_rx == b || b < RESERVED_BUFFERS {
        return n;
    }
    tx.pool().set_owner(in_rx, rx.port());
    tx_cell.store(Slot { buf_idx: b, flags: NS_BUF_CHANGED, ..tx_cell.load() });
    tx.pool().set_owner(b, tx.port());
    n + 1
}

/// Does the first `steps` steps of transferring `m` single slots, of which the first pair is already swapped.
#[cfg(test)]
pub(super) fn tear(tx: &Ring, rx: &Ring, m: u32, steps: usize) {
    let (pool, n) = (tx.pool(), 1);
    let (sent, empty) = (tx.slots()[n].load(), rx.slots()[n].load());
    let own = &tx.kring().own;
    if steps > 0 {
        Swap::new(tx, rx, 0, 0).pairs(0, 1);
        own.journal.store(pair_word(tx.slots()[0].load().buf_idx, 0, m), Relaxed);
    }
    let all: [&dyn Fn(); 9] = [
        &|| own.journal.store(pair_word(empty.buf_idx, n as u32, m), Relaxed),
        &|| rx.slots()[n].store(sent),
        &|| pool.set_owner(sent.buf_idx, rx.port()),
        &|| tx.slots()[n].store(Slot { buf_idx: empty.buf_idx, ..sent }),
        &|| pool.set_owner(empty.buf_idx, tx.port()),
        &|| assert_eq!(Swap::new(tx, rx, 0, 0).pairs(2, m), m),
        &|| own.journal.store(COMMIT | u64::from(m) << BUFFER_BITS | u64::from(m), Relaxed),
        &|| rx.kring().hwtail.set(m),
        &|| tx.kring().hwcur.set(m),
    ];
    all.iter().take(steps.saturating_sub(1)).for_each(|step| step());
}
