//! The user's side of rings: batches of slots to fill or to read.
//!
//! A batch is the slots from head to tail of one ring. It is the user's until [`TxBatch::send`] or
//! [`RxBatch::release`] moves the head; the port learns of it at the next sync. Buffers move between rings of one
//! pool by [`RxBatch::swap`], without copying.

use std::sync::atomic::Ordering::Relaxed;

use ringway_mem::pool::Ring;
use ringway_mem::slot::{NETMAP_MAX_FRAGS, NS_BUF_CHANGED, NS_INDIRECT, NS_MOREFRAG, Slot};

use crate::sys::buffers;

/// Slots to fill and send.
pub struct TxBatch<'a> {
    ring: &'a mut Ring,
    head: u32,
    len: u32,
}

/// Slots that were received.
pub struct RxBatch<'a> {
    ring: &'a mut Ring,
    head: u32,
    len: u32,
}

/// The user's slots of a ring: from the header's head to the tail that the last sync showed.
fn span(ring: &Ring) -> (u32, u32) {
    let last = ring.num_slots() - 1;
    let head = ring.header().head.load(Relaxed).min(last);
    let tail = ring.kring().own.rtail.load(Relaxed).min(last);
    (head, ring.distance(head, tail))
}

/// Moves the head, and cur with it.
fn move_head(ring: &Ring, head: u32) {
    ring.header().head.store(head, Relaxed);
    ring.header().cur.store(head, Relaxed);
}

impl<'a> TxBatch<'a> {
    pub(crate) fn new(ring: &'a mut Ring) -> TxBatch<'a> {
        let (head, len) = span(ring);
        TxBatch { ring, head, len }
    }

    /// Slots that can be filled.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// # Panics
    /// Here and below: if `i` is not below [`TxBatch::len`].
    #[inline]
    fn cell(&self, i: u32) -> &ringway_mem::slot::SlotCell {
        assert!(i < self.len, "slot {i} of a batch of {}", self.len);
        &self.ring.slots()[self.ring.advance(self.head, i) as usize]
    }

    #[inline]
    pub fn slot(&self, i: u32) -> Slot {
        self.cell(i).load()
    }

    /// Sets length and flags of a slot.
    #[inline]
    pub fn set(&mut self, i: u32, len: u16, flags: u16) {
        let cell = self.cell(i);
        cell.store_word(Slot { len, flags, ..cell.load_word() });
    }

    /// Has a slot send `len` bytes at an address of this process (NS_INDIRECT; ports at a switch only), which is read at
    /// the next sync.
    pub fn set_indirect(&mut self, i: u32, address: u64, len: u16) {
        let cell = self.cell(i);
        cell.store(Slot { len, flags: NS_INDIRECT, ptr: address, ..cell.load_word() });
    }

    /// The whole buffer of a slot.
    #[inline]
    pub fn bytes_mut(&mut self, i: u32) -> &mut [u8] {
        let buffer = self.cell(i).load_word().buf_idx;
        buffers::of_user_mut(self.ring, buffer)
    }

    /// Copies a packet into slots from the i-th on, in as many fragments as it needs. Returns how many slots it took;
    /// None, and nothing changes, if there are too few or it is longer than 64 buffers.
    pub fn put(&mut self, i: u32, packet: &[u8]) -> Option<u32> {
        let buffer_bytes = self.ring.pool().config().buffer_bytes as usize;
        let slots = packet.len().div_ceil(buffer_bytes).max(1);
        if slots > NETMAP_MAX_FRAGS || i as usize + slots > self.len as usize {
            return None;
        }
        for n in 0..slots {
            let part = &packet[n * buffer_bytes..packet.len().min((n + 1) * buffer_bytes)];
            self.bytes_mut(i + n as u32)[..part.len()].copy_from_slice(part);
            self.set(i + n as u32, part.len() as u16, if n + 1 < slots { NS_MOREFRAG } else { 0 });
        }
        Some(slots as u32)
    }

    /// The first `n` slots are to be sent at the next sync.
    #[inline]
    pub fn send(self, n: u32) {
        move_head(self.ring, self.ring.advance(self.head, n.min(self.len)));
    }

    /// Waits are to end only when at least `n` slots are free, of which [`TxBatch::len`] are already.
    pub fn want(&mut self, n: u32) {
        let cur = self.ring.advance(self.head, n.clamp(1, self.len + 1) - 1);
        self.ring.header().cur.store(cur, Relaxed);
    }
}

impl<'a> RxBatch<'a> {
    pub(crate) fn new(ring: &'a mut Ring) -> RxBatch<'a> {
        let (head, len) = span(ring);
        RxBatch { ring, head, len }
    }

    /// Slots that were received.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn cell(&self, i: u32) -> &ringway_mem::slot::SlotCell {
        assert!(i < self.len, "slot {i} of a batch of {}", self.len);
        &self.ring.slots()[self.ring.advance(self.head, i) as usize]
    }

    /// # Panics
    /// Here and below: if `i` is not below [`RxBatch::len`].
    #[inline]
    pub fn slot(&self, i: u32) -> Slot {
        self.cell(i).load()
    }

    /// The bytes of a slot, cut at the buffer's end.
    #[inline]
    pub fn bytes(&self, i: u32) -> &[u8] {
        let slot = self.cell(i).load_word();
        buffers::of_user(self.ring, slot.buf_idx, usize::from(slot.len))
    }

    /// Like [`RxBatch::bytes`], to change in place.
    #[inline]
    pub fn bytes_mut(&mut self, i: u32) -> &mut [u8] {
        let slot = self.cell(i).load_word();
        let bytes = buffers::of_user_mut(self.ring, slot.buf_idx);
        let len = usize::from(slot.len).min(bytes.len());
        &mut bytes[..len]
    }

    /// Slots of the packet that begins at `i`; None if its end has not come. A chain beyond 64 slots ends there.
    pub fn packet_slots(&self, i: u32) -> Option<u32> {
        let most = (self.len - i).min(NETMAP_MAX_FRAGS as u32);
        let end = (0..most).find(|n| !self.cell(i + n).load_word().more_fragments());
        end.map(|n| n + 1).or((most == NETMAP_MAX_FRAGS as u32).then_some(most))
    }

    /// Appends the bytes of slots `i..i + n` to `packet`.
    pub fn copy_packet(&self, i: u32, n: u32, packet: &mut Vec<u8>) {
        (i..i + n).for_each(|i| packet.extend_from_slice(self.bytes(i)));
    }

    /// Moves a received buffer into a slot to be sent, with length and flags; the other slot's buffer comes back. False,
    /// and nothing changes, if the rings are of different pools.
    #[inline]
    pub fn swap(&mut self, i: u32, to: &mut TxBatch<'_>, j: u32) -> bool {
        if self.ring.pool().id() != to.ring.pool().id() {
            return false;
        }
        let (from_cell, to_cell) = (self.cell(i), to.cell(j));
        let (received, empty) = (from_cell.load(), to_cell.load());
        to_cell.store(Slot { flags: received.flags & NS_MOREFRAG | NS_BUF_CHANGED, ..received });
        from_cell.store(Slot { flags: NS_BUF_CHANGED, ..empty });
        true
    }

    /// The first `n` slots are given back at the next sync.
    #[inline]
    pub fn release(self, n: u32) {
        move_head(self.ring, self.ring.advance(self.head, n.min(self.len)));
    }

    /// Keeps all slots, but has waits end only when more come than there are.
    pub fn hold(&mut self) {
        self.ring.header().cur.store(self.ring.advance(self.head, self.len), Relaxed);
    }
}
