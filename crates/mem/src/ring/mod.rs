//! A single-producer, single-consumer ring of bytes between two address spaces that do not trust
//! each other.
//!
//! ```text
//!   producer's process                 shared                       consumer's process
//!   ProducerState (private)   ProducerLine  tail, epoch     ------>  ConsumerState (private)
//!     tail, head_seen         area of class c (bytes)       ------>    head, tail_seen
//!     epoch                   ConsumerLine  head            <------    epoch
//! ```
//!
//! Offsets are positions in the byte stream; they only grow. Each side trusts its own private copy
//! of what it wrote and reads the other side's word once, then bounds it: an impossible value is a
//! [`Violation`], never an access outside the area.
//!
//! **Epochs.** The capacity is not fixed: the producer publishes "from offset G on, byte `o` lies at
//! `(o - G) & (capacity - 1)` in the area of class c". It may do so again only when everything from
//! before the current epoch is consumed. So two epochs matter at a time, and the producer publishes both. Growing moves on to a larger area without
//! copying; starting over at the area's first byte whenever the ring is empty keeps a quiet
//! connection inside one page.
//!
//! This file has no pointers to the areas: [`Producer::spans`] and [`Consumer::spans`] say where the
//! bytes go, the caller copies, then `publish` or `consume` makes it so.

mod consumer;
mod producer;

pub use consumer::{Consumer, ConsumerState};
pub use producer::{Producer, ProducerState, Resized};

use crate::sync::{AtomicU32, AtomicU64};

/// Capacity of a ring by class, in bytes. Powers of two.
pub const CLASS_BYTES: [usize; 4] = [16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Bytes of the first page of an area; a ring that is empty starts over when it has left it.
pub const PAGE_BYTES: u64 = 4096;

/// Written by the sender for each publish.
#[repr(C, align(128))]
pub struct ProducerLine {
    /// Stream offset after the last published byte; only grows.
    pub tail: AtomicU64,
    /// The current [`Epoch`] as a number.
    pub epoch: AtomicU64,
    /// CPU that the sender ran on when it last published, plus one; 0 = unknown. A hint for spinning.
    pub cpu: AtomicU32,
    /// The epoch before the current one, stored first: an observer that knows it has missed none.
    pub previous_epoch: AtomicU64,
}

/// Written by the receiver for each read.
#[repr(C, align(128))]
pub struct ConsumerLine {
    /// Stream offset after the last consumed byte; only grows.
    pub head: AtomicU64,
    /// CPU that the receiver ran on when it last consumed, plus one; 0 = unknown.
    pub cpu: AtomicU32,
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<ProducerLine>() == 128 && align_of::<ProducerLine>() == 128);
    assert!(size_of::<ConsumerLine>() == 128 && align_of::<ConsumerLine>() == 128);
    assert!(std::mem::offset_of!(ProducerLine, tail) == 0 && std::mem::offset_of!(ProducerLine, epoch) == 8);
};

/// Where the bytes from `start` on lie. As a number: `start << 2 | class`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch(pub u64);

impl Epoch {
    pub fn new(start: u64, class: usize) -> Epoch {
        Epoch(start << 2 | (class as u64 & 3))
    }

    /// First stream offset that this epoch places.
    pub fn start(self) -> u64 {
        self.0 >> 2
    }

    /// Index into [`CLASS_BYTES`]; always valid.
    pub fn class(self) -> usize {
        (self.0 & 3) as usize
    }

    pub fn capacity(self) -> u64 {
        CLASS_BYTES[self.class()] as u64
    }

    /// Position of stream offset `offset` inside the area; always below the capacity.
    pub fn position(self, offset: u64) -> u64 {
        offset.wrapping_sub(self.start()) & (self.capacity() - 1)
    }

    /// Where `len` bytes from `offset` on lie: at most two pieces, both inside the area.
    fn spans(self, offset: u64, len: u64) -> Spans {
        let len = len.min(self.capacity());
        let at = self.position(offset);
        let first = len.min(self.capacity() - at);
        Spans { class: self.class(), at: at as usize, first: first as usize, second: (len - first) as usize }
    }
}

/// A stretch of the ring: `first` bytes at position `at`, then `second` bytes at position 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spans {
    /// Which area.
    pub class: usize,
    pub at: usize,
    pub first: usize,
    pub second: usize,
}

impl Spans {
    pub fn bytes(&self) -> usize {
        self.first + self.second
    }

    pub fn is_empty(&self) -> bool {
        self.bytes() == 0
    }
}

/// The other side published something that no correct peer publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The consumer's head went back or beyond the tail.
    Head { head: u64, tail: u64 },
    /// The producer's tail went back or beyond the capacity.
    Tail { head: u64, tail: u64 },
    /// The producer's epoch starts before the one that is in use.
    Epoch { start: u64, head: u64 },
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Violation::Head { head, tail } => write!(f, "peer's head {head} is impossible with tail {tail}"),
            Violation::Tail { head, tail } => write!(f, "peer's tail {tail} is impossible with head {head}"),
            Violation::Epoch { start, head } => write!(f, "peer's epoch at {start} is impossible with head {head}"),
        }
    }
}

impl std::error::Error for Violation {}

#[cfg(all(test, not(loom)))]
mod tests;
#[cfg(all(test, loom))]
mod tests_loom;
