//! The sending side of a ring.

use super::{CLASS_BYTES, ConsumerLine, Epoch, PAGE_BYTES, ProducerLine, Spans, Violation};
use crate::sync::{AtomicU64, Ordering::*, fence};

/// The producer's own copies: in memory that the consumer cannot reach, shared only by the processes
/// that hold this end. Access needs the end's send lock; atomics because siblings map it too.
#[repr(C)]
#[derive(Debug, Default)]
pub struct ProducerState {
    pub tail: AtomicU64,
    /// The consumer's head as last read; never ahead of the truth.
    pub head_seen: AtomicU64,
    pub epoch: AtomicU64,
    /// Page crossings in a row at which a large ring was found empty.
    quiet: AtomicU64,
}

/// What [`Producer::make_room`] did to the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resized {
    /// Nothing.
    No,
    /// A larger area is in use from here on.
    Grown,
    /// A smaller area is in use from here on; the pages of the area of this class may be given back.
    Shrunk { released_class: usize },
}

/// Whether `len` bytes at `position` reach into a page that the byte before them is not in.
#[inline(always)]
fn enters_page(position: u64, len: usize) -> bool {
    (position + len as u64).saturating_sub(1) / PAGE_BYTES != position.saturating_sub(1) / PAGE_BYTES
}

/// A view for one call, made from the lines and the private state.
#[derive(Clone, Copy)]
pub struct Producer<'a> {
    line: &'a ProducerLine,
    peer: &'a ConsumerLine,
    own: &'a ProducerState,
}

/// Quiet page crossings before a large ring shrinks.
const QUIET_CROSSINGS: u64 = 16;

/// Largest class that a stream grows to by itself: 256 KiB, which stays in the second-level cache.
const STREAM_CLASS: usize = 2;

impl<'a> Producer<'a> {
    pub fn new(line: &'a ProducerLine, peer: &'a ConsumerLine, own: &'a ProducerState) -> Self {
        Producer { line, peer, own }
    }

    /// Stream offset after the last published byte.
    #[inline]
    pub fn tail(&self) -> u64 {
        self.own.tail.load(Relaxed)
    }

    fn epoch(&self) -> Epoch {
        Epoch(self.own.epoch.load(Relaxed))
    }

    /// Reads the consumer's head afresh.
    pub fn refresh(&self) -> Result<u64, Violation> {
        let (tail, seen) = (self.tail(), self.own.head_seen.load(Relaxed));
        let head = self.peer.head.load(Acquire);
        if head < seen || head > tail {
            return Err(Violation::Head { head, tail });
        }
        self.own.head_seen.store(head, Relaxed);
        Ok(head)
    }

    #[inline]
    fn free_with(&self, head: u64) -> u64 {
        let epoch = self.epoch();
        epoch.capacity() - (self.tail() - head.max(epoch.start()))
    }

    /// Bytes that fit now, by what was last seen of the consumer; reads the consumer's line only if
    /// that is less than `wanted`.
    #[inline]
    pub fn free(&self, wanted: usize) -> Result<usize, Violation> {
        let known = self.free_with(self.own.head_seen.load(Relaxed));
        if known >= wanted as u64 {
            return Ok(known as usize);
        }
        let head = self.refresh()?;
        Ok(self.free_with(head) as usize)
    }

    /// Whether a send would find room for a quarter of the ring, counting room that growing would make whatever the consumer
    /// does meanwhile: a program that was told so may write by a call that blocks, and must not be caught in it. The
    /// consumer wakes a sleeper when half of the ring is free; the difference is what lets it do without a fence.
    pub fn is_writable(&self, class_max: usize) -> Result<bool, Violation> {
        let (epoch, head) = (self.epoch(), self.refresh()?);
        let can_grow = epoch.class() < class_max.min(STREAM_CLASS) && head >= epoch.start();
        Ok(can_grow || self.free_with(head) >= epoch.capacity() / 4)
    }

    /// Bytes published and not yet consumed.
    pub fn queued(&self) -> Result<u64, Violation> {
        Ok(self.tail() - self.refresh()?)
    }

    /// Where the next `len` bytes go. `len` must be at most what [`Producer::free`] returned.
    #[inline]
    pub fn spans(&self, len: usize) -> Spans {
        self.epoch().spans(self.tail(), len as u64)
    }

    /// Where the next `len` bytes, at most [`PAGE_BYTES`], go if that takes no thought: in the page of the byte before
    /// them, with room that is known of.
    #[inline(always)]
    pub fn place(&self, len: usize) -> Option<Spans> {
        let (epoch, tail) = (self.epoch(), self.tail());
        let position = epoch.position(tail);
        let has_room = self.free_with(self.own.head_seen.load(Relaxed)) >= len as u64;
        let stays_in_page = (position % PAGE_BYTES).wrapping_sub(1) < PAGE_BYTES.saturating_sub(len as u64);
        (has_room && stays_in_page).then_some(Spans {
            class: epoch.class(),
            at: position as usize,
            first: len,
            second: 0,
        })
    }

    /// Makes the next `len` bytes visible to the consumer.
    #[inline]
    pub fn publish(&self, len: usize, cpu: u32) {
        let tail = self.tail() + len as u64;
        self.own.tail.store(tail, Relaxed);
        self.line.cpu.store(cpu, Relaxed);
        self.line.tail.store(tail, Release);
    }

    /// Called before `len` bytes are sent: starts over at the area's beginning, grows or shrinks the
    /// ring if that helps and is allowed. `class_max` bounds growth. Cheap when nothing is to be done.
    #[inline]
    pub fn make_room(&self, len: usize, class_max: usize) -> Result<Resized, Violation> {
        let (epoch, tail) = (self.epoch(), self.tail());
        let position = epoch.position(tail);
        let short = self.free_with(self.own.head_seen.load(Relaxed)) < len as u64;
        if !enters_page(position, len) && !short {
            return Ok(Resized::No);
        }
        self.resize(len, class_max)
    }

    #[cold]
    fn resize(&self, len: usize, class_max: usize) -> Result<Resized, Violation> {
        let (epoch, tail, head) = (self.epoch(), self.tail(), self.refresh()?);
        if head != tail {
            self.own.quiet.store(0, Relaxed);
            let may_change = head >= epoch.start();
            let class = self.next_class(epoch, head, len, class_max);
            if self.free_with(head) >= len as u64 || class <= epoch.class() || !may_change {
                return Ok(Resized::No);
            }
            self.begin_epoch(tail, class);
            return Ok(Resized::Grown);
        }
        let wanted = CLASS_BYTES.iter().position(|&c| c >= len).unwrap_or(CLASS_BYTES.len() - 1).min(class_max);
        let quiet = self.own.quiet.load(Relaxed) + 1;
        if wanted > epoch.class() {
            self.own.quiet.store(0, Relaxed);
            self.begin_epoch(tail, wanted);
            return Ok(Resized::Grown);
        }
        if wanted < epoch.class() && quiet >= QUIET_CROSSINGS {
            self.own.quiet.store(0, Relaxed);
            self.begin_epoch(tail, wanted);
            return Ok(Resized::Shrunk { released_class: epoch.class() });
        }
        self.own.quiet.store(quiet, Relaxed);
        self.begin_epoch(tail, epoch.class());
        Ok(Resized::No)
    }

    /// The class to grow to. A consumer that reads keeps up best with a ring that stays in the cache;
    /// one that has not read at all gets all the room there is.
    fn next_class(&self, epoch: Epoch, head: u64, len: usize, class_max: usize) -> usize {
        let idle = head <= epoch.start();
        let fits = CLASS_BYTES.iter().position(|&c| c >= len).unwrap_or(CLASS_BYTES.len() - 1);
        if idle { class_max } else { (epoch.class() + 1).min(STREAM_CLASS).max(fits).min(class_max) }
    }

    /// Completes what a process that died in the middle of `publish` or `make_room` has begun: its own
    /// copies are changed first, so they are what must be shown.
    pub fn repair(&self) {
        let shown = self.line.epoch.load(Relaxed);
        if shown != self.own.epoch.load(Relaxed) {
            self.line.previous_epoch.store(shown, Relaxed);
            self.line.epoch.store(self.own.epoch.load(Relaxed), Release);
        }
        self.line.tail.store(self.tail(), Release);
    }

    fn begin_epoch(&self, start: u64, class: usize) {
        let epoch = Epoch::new(start, class);
        self.line.previous_epoch.store(self.epoch().0, Relaxed);
        self.own.epoch.store(epoch.0, Relaxed);
        // Visible before any byte that it places: to the consumer because the tail is stored later, with
        // Release; to observers, who look at bytes that are being overwritten, because of the fence.
        self.line.epoch.store(epoch.0, Release);
        fence(Release);
    }
}
