//! Slots, rings and the interface object of a packet port, exactly as netmap's API 14 lays them out.
//!
//! ```text
//!  interface (56 bytes)         ring (256 bytes)                    slot (16 bytes)
//!  0   name, version, flags     0    buf_ofs, num_slots, buf bytes  0  buf_idx u32
//!  24  ring counts, bufs_head   16   ringid, dir                    4  len u16
//!  56  ring_ofs: NIC tx,        20   head, cur (the user's), tail   6  flags u16
//!      host tx, NIC rx,         32   flags, ts, offset_mask         8  ptr u64
//!      host rx                  128  sem (scratch), 256 slots...
//! ```
//! Programs built against netmap's header map the same memory, so every word is an atomic here: others may
//! change it at any time, and whoever reads a word reads it once and bounds it. Offsets: netmap(4) and
//! `net/netmap.h`, API 14.

use crate::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Version of the API whose layout this is.
pub const NETMAP_API: u32 = 14;

/// The slot's buffer index is another one than before.
pub const NS_BUF_CHANGED: u16 = 0x0001;
/// The sender wants to see its slot come back as soon as it is sent.
pub const NS_REPORT: u16 = 0x0002;
/// A received slot that is to be passed on to the peer ring (host or NIC) when it is released.
pub const NS_FORWARD: u16 = 0x0004;
/// A switch must not learn the source of this frame.
pub const NS_NO_LEARN: u16 = 0x0008;
/// The data lies at the user address in `ptr` (switch ports, sending only).
pub const NS_INDIRECT: u16 = 0x0010;
/// The frame goes on in the next slot; set on all slots of a chain but the last.
pub const NS_MOREFRAG: u16 = 0x0020;
/// A monitor saw this frame on its way out.
pub const NS_TXMON: u16 = 0x0040;
/// Slots of one frame at most.
pub const NETMAP_MAX_FRAGS: usize = 64;

/// The ring's `ts` is set by each sync.
pub const NR_TIMESTAMP: u32 = 0x0002;
/// NS_FORWARD counts on this ring.
pub const NR_FORWARD: u32 = 0x0004;

/// The region belongs to this port alone.
pub const NI_PRIV_MEM: u32 = 0x1;

/// A slot's value: which buffer, how much of it, and how it is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Slot {
    /// Number of the buffer in the pool; 0 and 1 are never given out.
    pub buf_idx: u32,
    /// Bytes of this fragment.
    pub len: u16,
    /// `NS_*`; in the high byte a switch port (sending) or the number of fragments (receiving).
    pub flags: u16,
    /// User address (NS_INDIRECT), or offset of the data in the buffer.
    pub ptr: u64,
}

impl Slot {
    /// Whether the frame goes on in the next slot.
    #[inline]
    pub fn more_fragments(self) -> bool {
        self.flags & NS_MOREFRAG != 0
    }

    #[inline]
    fn to_word(self) -> u64 {
        u64::from(self.buf_idx) | u64::from(self.len) << 32 | u64::from(self.flags) << 48
    }

    #[inline]
    fn from_word(word: u64, ptr: u64) -> Slot {
        Slot { buf_idx: word as u32, len: (word >> 32) as u16, flags: (word >> 48) as u16, ptr }
    }
}

/// A slot's place in shared memory.
#[derive(Debug, Default)]
#[repr(C)]
pub struct SlotCell {
    word: AtomicU64,
    ptr: AtomicU64,
}

impl SlotCell {
    /// The value, each word read once. What it says of a buffer is not checked.
    #[inline]
    pub fn load(&self) -> Slot {
        Slot::from_word(self.word.load(Relaxed), self.ptr.load(Relaxed))
    }

    /// The value without `ptr`, which costs a load less.
    #[inline]
    pub fn load_word(&self) -> Slot {
        Slot::from_word(self.word.load(Relaxed), 0)
    }

    #[inline]
    pub fn store(&self, slot: Slot) {
        self.word.store(slot.to_word(), Relaxed);
        self.ptr.store(slot.ptr, Relaxed);
    }

    /// Stores all but `ptr`.
    #[inline]
    pub fn store_word(&self, slot: Slot) {
        self.word.store(slot.to_word(), Relaxed);
    }
}

/// The ring as its user sees it. The user writes `head`, `cur` and `flags`; the rest is written by syncs.
#[repr(C, align(128))]
pub struct RingHeader {
    /// Distance from this header to buffer 0 of the pool, in bytes.
    pub buf_ofs: AtomicU64,
    pub num_slots: AtomicU32,
    /// Bytes of each buffer.
    pub buf_bytes: AtomicU32,
    /// `ringid` in the low half; `dir` in the high half: 0 sends, 1 receives.
    pub ringid_dir: AtomicU32,
    /// First slot that the user keeps; those before it are given back by the next sync.
    pub head: AtomicU32,
    /// Wake-up point: a wait ends when `tail` has moved past it. Between head and tail.
    pub cur: AtomicU32,
    /// First slot that is not the user's. Written by syncs only.
    pub tail: AtomicU32,
    /// `NR_*`.
    pub flags: AtomicU32,
    /// Seconds of the last sync's time stamp (with NR_TIMESTAMP).
    pub ts_s: AtomicU64,
    /// And its microseconds.
    pub ts_us: AtomicU64,
    /// Bits of a slot's `ptr` that are an offset into the buffer.
    pub offset_mask: AtomicU64,
    /// Alignment that offsets keep, in bytes.
    pub buf_align: AtomicU64,
    _gap: [AtomicU64; 7],
    /// The user's own scratch.
    pub sem: [AtomicU64; 16],
}

/// What a program finds first in a port's memory: how many rings there are and where.
/// The ring offsets (i64 each, from this object) follow.
#[repr(C, align(8))]
pub struct InterfaceHeader {
    pub name: [AtomicU64; 2],
    pub version: AtomicU32,
    /// `NI_*`.
    pub flags: AtomicU32,
    pub tx_rings: AtomicU32,
    pub rx_rings: AtomicU32,
    /// First of the extra buffers, each holding the number of the next in its first four bytes; 0 ends.
    pub bufs_head: AtomicU32,
    pub host_tx_rings: AtomicU32,
    pub host_rx_rings: AtomicU32,
    _spare: [AtomicU32; 3],
}

#[cfg(not(loom))]
const _: () = {
    use std::mem::offset_of;
    assert!(cfg!(target_endian = "little"), "a slot's first word is laid out for little-endian machines");
    assert!(size_of::<Slot>() == 16 && size_of::<SlotCell>() == 16 && align_of::<SlotCell>() == 8);
    assert!(offset_of!(Slot, len) == 4 && offset_of!(Slot, flags) == 6 && offset_of!(Slot, ptr) == 8);
    assert!(offset_of!(SlotCell, ptr) == 8);
    assert!(size_of::<RingHeader>() == 256 && align_of::<RingHeader>() == 128);
    assert!(offset_of!(RingHeader, num_slots) == 8 && offset_of!(RingHeader, buf_bytes) == 12);
    assert!(offset_of!(RingHeader, ringid_dir) == 16 && offset_of!(RingHeader, head) == 20);
    assert!(offset_of!(RingHeader, cur) == 24 && offset_of!(RingHeader, tail) == 28);
    assert!(offset_of!(RingHeader, flags) == 32 && offset_of!(RingHeader, ts_s) == 40);
    assert!(offset_of!(RingHeader, offset_mask) == 56 && offset_of!(RingHeader, buf_align) == 64);
    assert!(offset_of!(RingHeader, sem) == 128);
    assert!(size_of::<InterfaceHeader>() == 56);
    assert!(offset_of!(InterfaceHeader, version) == 16 && offset_of!(InterfaceHeader, tx_rings) == 24);
    assert!(offset_of!(InterfaceHeader, bufs_head) == 32 && offset_of!(InterfaceHeader, host_tx_rings) == 36);
};

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_stored_field_by_field_where_c_programs_look() {
        let cell = SlotCell::default();
        let slot = Slot { buf_idx: 0x0102_0304, len: 0x0506, flags: 0x0708, ptr: 9 };
        cell.store(slot);
        assert_eq!(cell.load(), slot);
        assert_eq!(cell.load_word(), Slot { ptr: 0, ..slot });
        // SAFETY: both are 16 plain bytes, alignment of Slot is not above that of SlotCell.
        let as_c: Slot = unsafe { std::ptr::read((&raw const cell).cast()) };
        assert_eq!(as_c, slot);
    }
}
