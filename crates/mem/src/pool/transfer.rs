//! The transfer of a pipe: slots move from a tx ring to the other end's rx ring by swapping buffers.
//!
//! ```text
//!   tx slot, buffer a, sender's          rx slot, buffer b, receiver's (given back)
//!       1  journal: pair n of m, b comes back
//!       2  rx slot := tx slot                a is in both
//!       3  owner of a := receiver
//!       4  tx slot := b
//!       5  owner of b := sender              then the next pair; after the last:
//!       6  journal: commit, the new indices; 7  the indices; 8  journal: nothing
//! ```
//! A sender killed between any two of these leaves a journal from which the next one at that end (or whoever sets
//! the end right, [`Pool::reap`]) goes on: no frame of a begun transfer is lost or comes twice, and no buffer
//! is. Only whole frames (chains of NS_MOREFRAG slots) are begun.

use std::sync::atomic::compiler_fence;

use super::layout::RESERVED_BUFFERS;
use super::ports::Ring;
use crate::slot::{NETMAP_MAX_FRAGS, NS_BUF_CHANGED, Slot, SlotCell};
use crate::sync::Ordering::*;

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

/// Whole frames at the beginning of what is pending.
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
        let pending = tx.distance(k, own.rhead.load(Relaxed).min(tx.num_slots() - 1));
        let busy = rx.distance(rx.kring().hwcur.get(rx.num_slots()), j);
        let run = whole_frames(tx, k, pending, rx.num_slots() - 1 - busy);
        let swapped = swap_pairs(tx, rx, k, j, 0, run.slots);
        let run = if swapped == run.slots { run } else { cut_short(tx, rx, k, j, swapped) };
        commit(tx, rx, tx.advance(k, run.slots), rx.advance(j, run.slots));
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

/// The whole frames among `swapped` pairs; the frame in which the swapping stopped is lost.
#[cold]
fn cut_short(tx: &Ring, rx: &Ring, k: u32, j: u32, swapped: u32) -> Run {
    let (mut run, mut frame) = (Run::default(), Run::default());
    for n in 0..swapped {
        let slot = rx.slots()[rx.advance(j, n) as usize].load_word();
        (frame.slots, frame.bytes) = (frame.slots + 1, frame.bytes + u64::from(slot.len));
        if !slot.more_fragments() {
            run = Run { slots: n + 1, frames: run.frames + 1, bytes: run.bytes + frame.bytes, bad: 0 };
            frame = Run::default();
        }
    }
    let unsent = (swapped..tx.num_slots() - 1).map(|n| tx.slots()[tx.advance(k, n) as usize].load_word());
    Run { bad: frame.slots + unsent.take_while(|slot| slot.more_fragments()).count() as u32 + 1, ..run }
}

/// Whole frames among the `pending` slots from `k` on that fit into `room`.
fn whole_frames(tx: &Ring, k: u32, pending: u32, room: u32) -> Run {
    let (mut run, mut frame) = (Run::default(), Run::default());
    let buffer_bytes = tx.pool().config().buffer_bytes;
    let (slots, port, pool) = (tx.slots(), tx.port(), tx.pool());
    let (mut at, mut sound) = (k, true);
    for _ in 0..pending {
        let slot = slots[at as usize].load_word();
        at = tx.next(at);
        frame.slots += 1;
        frame.bytes += u64::from(slot.len);
        sound &= u32::from(slot.len) <= buffer_bytes && slot.buf_idx >= RESERVED_BUFFERS;
        sound &= frame.slots <= NETMAP_MAX_FRAGS as u32 && pool.may_use(port, slot.buf_idx);
        if slot.more_fragments() {
            continue;
        }
        if !sound {
            return Run { bad: frame.slots, ..run };
        }
        if run.slots + frame.slots > room {
            break;
        }
        run = Run { slots: run.slots + frame.slots, frames: run.frames + 1, bytes: run.bytes + frame.bytes, bad: 0 };
        frame = Run::default();
    }
    if !sound || frame.slots > NETMAP_MAX_FRAGS as u32 { Run { bad: frame.slots, ..run } } else { run }
}

/// Swaps the pairs `from..m`; returns how many pairs are done, fewer than `m` if a slot holds a
/// buffer that is not its user's and the pool has no other.
fn swap_pairs(tx: &Ring, rx: &Ring, k: u32, j: u32, from: u32, m: u32) -> u32 {
    let (pool, sender, receiver) = (tx.pool(), tx.port(), rx.port());
    let journal = &tx.kring().own.journal;
    let (mut k, mut j) = (tx.advance(k, from), rx.advance(j, from));
    for n in from..m {
        let (tx_cell, rx_cell) = (&tx.slots()[k as usize], &rx.slots()[j as usize]);
        let mut slot = tx_cell.load();
        if pool.owner(slot.buf_idx) != sender.0 {
            let Some(usable) = usable(tx, tx_cell) else { return n };
            slot.buf_idx = usable;
        }
        let mut b = rx_cell.load_word().buf_idx;
        if b < RESERVED_BUFFERS || pool.owner(b) != receiver.0 {
            let Some(usable) = usable(rx, rx_cell) else { return n };
            b = usable;
        }
        journal.store(pair_word(b, n, m), Relaxed);
        compiler_fence(SeqCst);
        rx_cell.store(Slot { flags: slot.flags | NS_BUF_CHANGED, ..slot });
        compiler_fence(SeqCst);
        pool.set_owner(slot.buf_idx, receiver);
        compiler_fence(SeqCst);
        tx_cell.store(Slot { buf_idx: b, flags: NS_BUF_CHANGED, ..slot });
        compiler_fence(SeqCst);
        pool.set_owner(b, sender);
        compiler_fence(SeqCst);
        (k, j) = (tx.next(k), rx.next(j));
    }
    m
}

/// The buffer of a slot that does not hold one of its port's: one of the same family, or a fresh one, put there
/// now, if the slot's is not its user's (given to the other end a moment ago from another slot, say).
#[cold]
fn usable(ring: &Ring, cell: &SlotCell) -> Option<u32> {
    let slot = cell.load();
    if slot.buf_idx >= RESERVED_BUFFERS && ring.pool().may_use(ring.port(), slot.buf_idx) {
        return Some(slot.buf_idx);
    }
    let buf_idx = ring.pool().take_buffer(ring.port())?;
    cell.store(Slot { buf_idx, ..slot });
    Some(buf_idx)
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
    let m = swap_pairs(tx, rx, k, j, n, m);
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
        swap_pairs(tx, rx, 0, 0, 0, 1);
        own.journal.store(pair_word(tx.slots()[0].load().buf_idx, 0, m), Relaxed);
    }
    let all: [&dyn Fn(); 9] = [
        &|| own.journal.store(pair_word(empty.buf_idx, n as u32, m), Relaxed),
        &|| rx.slots()[n].store(sent),
        &|| pool.set_owner(sent.buf_idx, rx.port()),
        &|| tx.slots()[n].store(Slot { buf_idx: empty.buf_idx, ..sent }),
        &|| pool.set_owner(empty.buf_idx, tx.port()),
        &|| assert_eq!(swap_pairs(tx, rx, 0, 0, 2, m), m),
        &|| own.journal.store(COMMIT | u64::from(m) << BUFFER_BITS | u64::from(m), Relaxed),
        &|| rx.kring().hwtail.set(m),
        &|| tx.kring().hwcur.set(m),
    ];
    all.iter().take(steps.saturating_sub(1)).for_each(|step| step());
}
