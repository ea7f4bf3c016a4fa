//! The port's side of a ring: what a back end sees during a sync.
//!
//! ```text
//!  tx:   hwcur ....... rhead ....... hwtail          pending slots: hwcur..rhead, to be sent
//!  rx:   hwcur ....... hwtail ...... hwcur - 1       free slots: hwtail..hwcur - 1, to be filled
//! ```
//! All access copies or goes by value: the user's side may be another process that writes whenever it likes.

use std::sync::atomic::Ordering::Relaxed;

use ringway_mem::pool::{Pool, Ring};
use ringway_mem::slot::{NETMAP_MAX_FRAGS, Slot};

/// A ring on which the user sends.
#[derive(Clone, Debug)]
pub struct TxKring {
    ring: Ring,
    /// Slots that a sync may take; `u32::MAX` for all.
    limit: u32,
}

/// A ring on which the user receives.
#[derive(Clone, Debug)]
pub struct RxKring {
    ring: Ring,
}

impl TxKring {
    /// The port's side of `ring`. Only one thread may move its indices at a time: its user's syncs, or the switch
    /// that serves it.
    pub fn new(ring: Ring) -> TxKring {
        TxKring { ring, limit: u32::MAX }
    }

    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// The same ring, of which at most `slots` may be taken.
    pub fn limited(&self, slots: u32) -> TxKring {
        TxKring { ring: self.ring.clone(), limit: slots.min(self.limit) }
    }

    fn hwcur(&self) -> u32 {
        self.ring.kring().hwcur.get(self.ring.num_slots())
    }

    /// Slots to be sent.
    #[inline]
    pub fn pending(&self) -> u32 {
        let rhead = self.ring.kring().own.rhead.load(Relaxed).min(self.ring.num_slots() - 1);
        self.ring.distance(self.hwcur(), rhead).min(self.limit)
    }

    /// The i-th pending slot, `i` below the slot count. Its buffer and length are as the user wrote them.
    #[inline]
    pub fn slot(&self, i: u32) -> Slot {
        self.ring.slots()[self.index(i)].load()
    }

    /// Replaces the i-th pending slot.
    #[inline]
    pub fn set_slot(&self, i: u32, slot: Slot) {
        self.ring.slots()[self.index(i)].store(slot);
    }

    fn index(&self, i: u32) -> usize {
        self.ring.advance(self.hwcur(), i) as usize
    }

    /// How many slots the packet that begins at slot `i` has: None if its end is not among the `pending` first.
    /// More than 64 slots are no packet; the 64 are taken for one.
    pub fn packet_slots(&self, i: u32, pending: u32) -> Option<u32> {
        let most = (pending - i).min(NETMAP_MAX_FRAGS as u32);
        let end = (0..most).find(|n| !self.slot(i + n).more_fragments());
        end.map(|n| n + 1).or((most == NETMAP_MAX_FRAGS as u32).then_some(most))
    }

    /// Appends the bytes of slots `i..i + n` to `packet`.
    pub fn copy_packet(&self, i: u32, n: u32, packet: &mut Vec<u8>) {
        for slot in (i..i + n).map(|i| self.slot(i)) {
            append(self.ring.pool(), slot, packet);
        }
    }

    /// The first `n` pending slots are sent, and the user's again.
    #[inline]
    pub fn take(&self, n: u32) {
        let k = self.ring.advance(self.hwcur(), n.min(self.pending()));
        self.ring.kring().hwcur.set(k);
        self.ring.kring().hwtail.set(self.ring.previous(k));
    }

    /// The first `n` pending slots are on their way; [`TxKring::complete`] gives them back.
    #[inline]
    pub fn take_for_later(&self, n: u32) {
        self.ring.kring().hwcur.set(self.ring.advance(self.hwcur(), n.min(self.pending())));
    }

    /// `n` more of the slots that were taken for later are the user's again.
    pub fn complete(&self, n: u32) {
        let kring = self.ring.kring();
        let hwtail = kring.hwtail.get(self.ring.num_slots());
        let out = self.ring.distance(self.ring.next(hwtail), self.hwcur());
        kring.hwtail.set(self.ring.advance(hwtail, n.min(out)));
    }

    pub fn count(&self, packets: u32, bytes: u64) {
        count(&self.ring, packets, bytes);
    }

    /// Counts `slots` as thrown away.
    pub fn count_dropped(&self, slots: u32) {
        add(&self.ring.kring().own.dropped, u64::from(slots));
    }
}

impl RxKring {
    /// The port's side of `ring`. Only one thread may deliver at a time.
    pub fn new(ring: Ring) -> RxKring {
        RxKring { ring }
    }

    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    fn hwtail(&self) -> u32 {
        self.ring.kring().hwtail.get(self.ring.num_slots())
    }

    /// Slots that can be filled.
    #[inline]
    pub fn free(&self) -> u32 {
        let hwcur = self.ring.kring().hwcur.get(self.ring.num_slots());
        self.ring.num_slots() - 1 - self.ring.distance(hwcur, self.hwtail())
    }

    /// The i-th free slot; only `buf_idx` has a meaning.
    #[inline]
    pub fn slot(&self, i: u32) -> Slot {
        self.ring.slots()[self.index(i)].load()
    }

    #[inline]
    pub fn set_slot(&self, i: u32, slot: Slot) {
        self.ring.slots()[self.index(i)].store(slot);
    }

    fn index(&self, i: u32) -> usize {
        self.ring.advance(self.hwtail(), i) as usize
    }

    /// Copies a packet into free slots from the i-th on; returns how many it took, None if there is no room.
    pub fn put(&self, i: u32, packet: &[u8]) -> Option<u32> {
        let buffer_bytes = self.ring.pool().config().buffer_bytes as usize;
        let slots = packet.len().div_ceil(buffer_bytes).max(1) as u32;
        if slots > NETMAP_MAX_FRAGS as u32 || i + slots > self.free() {
            return None;
        }
        for (n, part) in packet.chunks(buffer_bytes).enumerate() {
            let at = i + n as u32;
            let buf_idx = self.slot(at).buf_idx;
            self.ring.pool().copy_in(buf_idx, 0, part);
            let more = if n as u32 + 1 < slots { ringway_mem::slot::NS_MOREFRAG } else { 0 };
            self.set_slot(at, Slot { buf_idx, len: part.len() as u16, flags: more, ptr: 0 });
        }
        Some(slots)
    }

    /// Shows the first `n` free slots to the user; [`RxKring::wake`] rings.
    #[inline]
    pub fn publish(&self, n: u32) {
        self.ring.kring().hwtail.set(self.ring.advance(self.hwtail(), n.min(self.free())));
    }

    /// Wakes the user if he sleeps for this ring.
    #[inline]
    pub fn wake(&self) {
        self.ring.wake();
    }

    pub fn count(&self, packets: u32, bytes: u64) {
        count(&self.ring, packets, bytes);
    }

    /// Counts `slots` as thrown away: the ring was full.
    pub fn count_dropped(&self, slots: u32) {
        add(&self.ring.kring().own.dropped, u64::from(slots));
    }
}

/// Appends the bytes that `slot` names, cut at its buffer's end.
pub(crate) fn append(pool: &Pool, slot: Slot, packet: &mut Vec<u8>) {
    let before = packet.len();
    packet.resize(before + usize::from(slot.len), 0);
    let copied = pool.copy_out(slot.buf_idx, 0, &mut packet[before..]);
    packet.truncate(before + copied);
}

fn count(ring: &Ring, packets: u32, bytes: u64) {
    add(&ring.kring().own.packets, u64::from(packets));
    add(&ring.kring().own.bytes, bytes);
}

/// Counters have one writer at a time: no need for a locked instruction.
pub(crate) fn add(counter: &std::sync::atomic::AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
}
