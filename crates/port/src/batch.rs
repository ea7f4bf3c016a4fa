//! The user's side of rings: batches of slots to fill or to read.
//!
//! A batch is the slots from head to tail of one ring. It is the user's until [`TxBatch::send`] or
//! [`RxBatch::release`] moves the head; the port learns of it at the next sync. Buffers move between rings of one
//! pool by [`RxBatch::swap`], without copying.

use std::sync::atomic::Ordering::Relaxed;

use ringway_mem::pool::Ring;
use ringway_mem::slot::{NETMAP_MAX_FRAGS, NS_BUF_CHANGED, NS_INDIRECT, NS_MOREFRAG, Slot, SlotCell};

use crate::sys::buffers;

/// Slots to fill and send.
pub struct TxBatch<'a> {
    slots: Span<'a>,
}

/// Slots that were received.
pub struct RxBatch<'a> {
    slots: Span<'a>,
}

/// The user's slots of a ring: from the header's head to the tail that the last sync showed.
struct Span<'a> {
    ring: &'a mut Ring,
    head: u32,
    len: u32,
}

impl<'a> Span<'a> {
    fn new(ring: &'a mut Ring) -> Span<'a> {
        let last = ring.num_slots() - 1;
        let head = ring.header().head.load(Relaxed).min(last);
        let tail = ring.kring().own.rtail.load(Relaxed).min(last);
        let len = ring.distance(head, tail);
        Span { ring, head, len }
    }

    /// # Panics
    /// If `i` is not below the span's length.
    #[inline]
    fn cell(&self, i: u32) -> &SlotCell {
        assert!(i < self.len, "slot {i} of a batch of {}", self.len);
        &self.ring.slots()[self.ring.advance(self.head, i) as usize]
    }

    /// Gives the first `n` slots to the port: moves the head, and cur with it.
    #[inline]
    fn give(self, n: u32) {
        let head = self.ring.advance(self.head, n.min(self.len));
        self.ring.header().head.store(head, Relaxed);
        self.ring.header().cur.store(head, Relaxed);
    }

    /// Waits end only when the tail has passed the first `n` slots.
    fn wake_up_behind(&self, n: u32) {
        self.ring.header().cur.store(self.ring.advance(self.head, n), Relaxed);
    }
}

/// Every method that takes the number of a slot panics if it is not below `len`.
impl<'a> TxBatch<'a> {
    pub(crate) fn new(ring: &'a mut Ring) -> TxBatch<'a> {
        TxBatch { slots: Span::new(ring) }
    }

    /// Slots that can be filled.
    #[inline]
    pub fn len(&self) -> u32 {
        self.slots.len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slots.len == 0
    }

    #[inline]
    pub fn slot(&self, i: u32) -> Slot {
        self.slots.cell(i).load()
    }

    /// Sets length and flags of a slot.
    #[inline]
    pub fn set(&mut self, i: u32, len: u16, flags: u16) {
        let cell = self.slots.cell(i);
        cell.store_word(Slot { len, flags, ..cell.load_word() });
    }

    /// Has a slot send `len` bytes at an address of this process (NS_INDIRECT; ports at a switch only), which is read at
    /// the next sync.
    pub fn set_indirect(&mut self, i: u32, address: u64, len: u16) {
        let cell = self.slots.cell(i);
        cell.store(Slot { len, flags: NS_INDIRECT, ptr: address, ..cell.load_word() });
    }

    /// The whole buffer of a slot.
    #[inline]
    pub fn bytes_mut(&mut self, i: u32) -> &mut [u8] {
        let buffer = self.slots.cell(i).load_word().buf_idx;
        buffers::of_user_mut(self.slots.ring, buffer)
    }

    /// Copies a packet into slots from the i-th on, in as many fragments as it needs. Returns how many slots it took;
    /// None, and nothing changes, if there are too few or it is longer than 64 buffers.
    pub fn put(&mut self, i: u32, packet: &[u8]) -> Option<u32> {
        let buffer_bytes = self.slots.ring.pool().config().buffer_bytes as usize;
        let slots = packet.len().div_ceil(buffer_bytes).max(1);
        if slots > NETMAP_MAX_FRAGS || i as usize + slots > self.len() as usize {
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
        self.slots.give(n);
    }

    /// Waits are to end only when at least `n` slots are free, of which [`TxBatch::len`] are already.
    pub fn want(&mut self, n: u32) {
        self.slots.wake_up_behind(n.clamp(1, self.len() + 1) - 1);
    }
}

/// Every method that takes the number of a slot panics if it is not below `len`.
impl<'a> RxBatch<'a> {
    pub(crate) fn new(ring: &'a mut Ring) -> RxBatch<'a> {
        RxBatch { slots: Span::new(ring) }
    }

    /// Slots that were received.
    #[inline]
    pub fn len(&self) -> u32 {
        self.slots.len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slots.len == 0
    }

    #[inline]
    pub fn slot(&self, i: u32) -> Slot {
        self.slots.cell(i).load()
    }

    /// The bytes of a slot, cut at the buffer's end.
    #[inline]
    pub fn bytes(&self, i: u32) -> &[u8] {
        let slot = self.slots.cell(i).load_word();
        buffers::of_user(self.slots.ring, slot.buf_idx, usize::from(slot.len))
    }

    /// Like [`RxBatch::bytes`], to change in place.
    #[inline]
    pub fn bytes_mut(&mut self, i: u32) -> &mut [u8] {
        let slot = self.slots.cell(i).load_word();
        let bytes = buffers::of_user_mut(self.slots.ring, slot.buf_idx);
        let len = usize::from(slot.len).min(bytes.len());
        &mut bytes[..len]
    }

    /// Slots of the packet that begins at `i`; None if its end has not come. A chain beyond 64 slots ends there.
    pub fn packet_slots(&self, i: u32) -> Option<u32> {
        let most = (self.len() - i).min(NETMAP_MAX_FRAGS as u32);
        let end = (0..most).find(|n| !self.slots.cell(i + n).load_word().more_fragments());
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
        if self.slots.ring.pool().id() != to.slots.ring.pool().id() {
            return false;
        }
        let (from_cell, to_cell) = (self.slots.cell(i), to.slots.cell(j));
        let (received, empty) = (from_cell.load(), to_cell.load());
        to_cell.store(Slot { flags: received.flags & NS_MOREFRAG | NS_BUF_CHANGED, ..received });
        from_cell.store(Slot { flags: NS_BUF_CHANGED, ..empty });
        true
    }

    /// The first `n` slots are given back at the next sync.
    #[inline]
    pub fn release(self, n: u32) {
        self.slots.give(n);
    }

    /// Keeps all slots, but has waits end only when more come than there are.
    pub fn hold(&mut self) {
        self.slots.wake_up_behind(self.len());
    }
}
