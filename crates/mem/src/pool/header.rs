//! The first pages of a pool's region: what it is, and the ports in it.

use super::layout::RingCounts;
use crate::sync::{AtomicU32, AtomicU64, Ordering::*};

/// Ports of a region at most. Port 0 is nobody, so one less can be made.
pub const PORTS_MAX: u32 = 256;
/// Bytes of a port's name at most.
pub const NAME_BYTES: usize = 64;

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"ringpool");
/// Of the layout below and in `layout`; who finds another one refuses the region.
pub(super) const VERSION: u32 = 2;

#[repr(C)]
pub(super) struct Header {
    pub(super) magic: AtomicU64,
    pub(super) version: AtomicU32,
    pub(super) buffers: AtomicU32,
    pub(super) buffer_bytes: AtomicU32,
    pub(super) object_pages: AtomicU32,
    /// Random; tells one region from another.
    pub(super) id: AtomicU64,
    /// The name under which its users met; see [`Text`].
    pub(super) met_at: Text,
}

/// A name in shared memory: up to [`NAME_BYTES`] bytes, zeros behind them.
#[repr(transparent)]
pub(super) struct Text([AtomicU64; NAME_BYTES / 8]);

impl Text {
    /// Writes a name, cut to the bytes that there are.
    pub(super) fn set(&self, name: &str) {
        let mut bytes = [0; NAME_BYTES];
        let len = name.len().min(NAME_BYTES);
        bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
        for (word, chunk) in self.0.iter().zip(bytes.as_chunks::<8>().0) {
            word.store(u64::from_le_bytes(*chunk), Relaxed);
        }
    }

    /// The name, whatever bytes it has made readable.
    pub(super) fn get(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(NAME_BYTES);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

/// `state` of a record.
pub(super) const UNUSED: u32 = 0;
/// Made, and in the state in which it was made or renewed: nobody has opened it since.
pub(super) const CLEAN: u32 = 1;
/// Somebody opened it, and may have died since.
pub(super) const OPENED: u32 = 2;

/// One port of the region. Written under the control lock; zero is free.
#[repr(C, align(256))]
pub struct PortRecord {
    /// UNUSED, CLEAN or OPENED.
    pub(super) state: AtomicU32,
    /// Not 0: the port is being set right after a death; nobody delivers to it.
    pub(super) frozen: AtomicU32,
    /// Grows with each wake-up of a futex sleeper for any of the port's rings.
    pub turn: AtomicU32,
    /// First of its pages for rings, and how many.
    pub(super) first_page: AtomicU32,
    pub(super) pages: AtomicU32,
    /// Not 0: a switch delivers to the port, and detaches it before it may be removed.
    pub(super) pinned: AtomicU32,
    counts: [AtomicU32; 6],
    /// The other end (a port number) if this is one end of a pipe, else 0.
    pub(super) peer: AtomicU32,
    /// How many feeds of monitors the port has, in the low byte; a generation above.
    pub(super) monitors: AtomicU32,
    /// Buffers may move freely between ports of one domain: those that one family of processes opened.
    pub(super) domain: AtomicU64,
    /// What back ends of the port keep here, by their own rules.
    pub scratch: [AtomicU64; 8],
    pub(super) name: Text,
    /// Of a feed: what it watches; see `monitor`.
    pub(super) watches: AtomicU32,
}

const _: () = assert!(size_of::<PortRecord>() == 256);

impl PortRecord {
    /// Grows whenever a monitor of the port comes or goes; None if there is none.
    #[inline]
    pub fn monitored(&self) -> Option<u32> {
        let word = self.monitors.load(Relaxed);
        (word & 0xff != 0).then_some(word)
    }

    /// Whether delivering to this port must wait: what a dead user left is being set right.
    #[inline]
    pub fn frozen(&self) -> bool {
        self.frozen.load(Acquire) != 0
    }

    /// Whether a switch delivers to the port. Such a port is not removed when its users are gone; the
    /// switch unpins it first.
    pub fn pin(&self, pinned: bool) {
        self.pinned.store(pinned.into(), Release);
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.pinned.load(Acquire) != 0
    }

    pub(super) fn set_counts(&self, c: RingCounts) {
        for (word, value) in self.counts.iter().zip([c.tx, c.host_tx, c.rx, c.host_rx, c.tx_slots, c.rx_slots]) {
            word.store(value, Relaxed);
        }
    }

    /// As written; the caller checks them.
    pub(super) fn counts(&self) -> RingCounts {
        let [tx, host_tx, rx, host_rx, tx_slots, rx_slots] = self.counts.each_ref().map(|word| word.load(Relaxed));
        RingCounts { tx, host_tx, rx, host_rx, tx_slots, rx_slots }
    }
}
