//! The receiving side of a ring.

use super::{ConsumerLine, Epoch, ProducerLine, Spans, Violation};
use crate::sync::{AtomicU64, Ordering::*};

/// The consumer's own copies: in memory that the producer cannot reach, shared only by the processes
/// that hold this end. Access needs the end's receive lock; atomics because siblings map it too.
#[repr(C)]
#[derive(Debug, Default)]
pub struct ConsumerState {
    pub head: AtomicU64,
    /// The producer's tail as last read; never ahead of the truth.
    pub tail_seen: AtomicU64,
    pub epoch: AtomicU64,
}

/// A view for one call, made from the lines and the private state.
#[derive(Clone, Copy)]
pub struct Consumer<'a> {
    line: &'a ConsumerLine,
    peer: &'a ProducerLine,
    own: &'a ConsumerState,
}

impl<'a> Consumer<'a> {
    pub fn new(line: &'a ConsumerLine, peer: &'a ProducerLine, own: &'a ConsumerState) -> Self {
        Consumer { line, peer, own }
    }

    /// Stream offset after the last consumed byte.
    #[inline]
    pub fn head(&self) -> u64 {
        self.own.head.load(Relaxed)
    }

    /// The producer's tail, unchecked. Needs no lock and proves nothing: for spinning and readiness.
    #[inline]
    pub fn published(&self) -> u64 {
        self.peer.tail.load(Acquire)
    }

    /// Whether the producer has published anything beyond `head`; as `published`.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.published() != self.head()
    }

    /// Bytes between `head` and the tail as last read; over all epochs.
    #[inline]
    pub fn known(&self) -> u64 {
        self.own.tail_seen.load(Relaxed) - self.head()
    }

    /// Where the bytes lie that follow the `skip` next ones, for looking ahead without consuming; at
    /// most `wanted`, at most up to the end of an epoch.
    pub fn ahead(&self, skip: usize, wanted: usize) -> Result<Spans, Violation> {
        let first = self.spans(skip.saturating_add(wanted))?;
        let (epoch, published) = (Epoch(self.own.epoch.load(Relaxed)), Epoch(self.peer.epoch.load(Acquire)));
        let (from, tail) = (self.head() + skip as u64, self.own.tail_seen.load(Relaxed));
        let (epoch, end) = if skip < first.bytes() || published == epoch {
            (epoch, self.head() + first.bytes() as u64)
        } else {
            (published, tail)
        };
        if from < epoch.start() && epoch == published {
            return Ok(epoch.spans(from, 0));
        }
        let len = end.saturating_sub(from).min(wanted as u64);
        if len > epoch.capacity() {
            return Err(Violation::Tail { head: from, tail: end });
        }
        Ok(epoch.spans(from, len))
    }

    /// Where the next byte will lie if the ring is in its smallest class: what to prefetch.
    pub fn next_position_in_first_class(&self) -> usize {
        let epoch = Epoch(self.own.epoch.load(Relaxed));
        epoch.position(self.head()) as usize % super::CLASS_BYTES[0]
    }

    /// The producer's tail, read afresh and bounded.
    pub fn refresh(&self) -> Result<u64, Violation> {
        let (head, seen) = (self.head(), self.own.tail_seen.load(Relaxed));
        let tail = self.peer.tail.load(Acquire);
        if tail < head || tail < seen {
            return Err(Violation::Tail { head, tail });
        }
        self.own.tail_seen.store(tail, Relaxed);
        Ok(tail)
    }

    /// Published bytes that were not consumed, by a fresh look; over all epochs.
    pub fn queued(&self) -> Result<u64, Violation> {
        Ok(self.refresh()? - self.head())
    }

    /// Where the next bytes lie: at most `wanted`, at most up to the end of the current epoch (call
    /// again after consuming for what lies beyond). Reads the producer's line only if what was last
    /// seen of it is used up or less than `wanted`.
    #[inline]
    pub fn spans(&self, wanted: usize) -> Result<Spans, Violation> {
        let head = self.head();
        let mut tail = self.own.tail_seen.load(Relaxed);
        if tail - head < wanted as u64 {
            tail = self.refresh()?;
        }
        let mut epoch = Epoch(self.own.epoch.load(Relaxed));
        let mut end = tail;
        // Acquire on the tail made every epoch visible that places bytes below it.
        let published = Epoch(self.peer.epoch.load(Acquire));
        if published != epoch {
            (epoch, end) = self.adopt(published, epoch, head, tail)?;
        }
        if end - head > epoch.capacity() {
            return Err(Violation::Tail { head, tail });
        }
        Ok(epoch.spans(head, (end - head).min(wanted as u64)))
    }

    /// The next bytes, at most `wanted`, if that takes no thought: they lie in one piece of the current epoch, and the ring
    /// is less than half full. `None` if there are none, too; then [`Consumer::spans`] has the answer.
    #[inline(always)]
    pub fn stretch(&self, wanted: usize) -> Option<Spans> {
        let (head, epoch) = (self.head(), Epoch(self.own.epoch.load(Relaxed)));
        let tail = self.peer.tail.load(Acquire);
        let unread = tail.wrapping_sub(head);
        if self.peer.epoch.load(Acquire) != epoch.0 || tail < self.own.tail_seen.load(Relaxed) {
            return None;
        }
        if unread.wrapping_sub(1) >= epoch.capacity() / 2 - 1 {
            return None;
        }
        let at = epoch.position(head);
        let first = unread.min(wanted as u64).min(epoch.capacity() - at);
        self.own.tail_seen.store(tail, Relaxed);
        Some(Spans { class: epoch.class(), at: at as usize, first: first as usize, second: 0 })
    }

    /// Moves on to the published epoch if all earlier bytes are consumed; otherwise stays in the old
    /// one, which ends where the published one starts.
    #[cold]
    fn adopt(&self, published: Epoch, old: Epoch, head: u64, tail: u64) -> Result<(Epoch, u64), Violation> {
        let (next, end) = if published.start() <= head {
            (published, tail)
        } else {
            // Stored before the published one, so it is the one that came before it.
            let previous = Epoch(self.peer.previous_epoch.load(Acquire));
            let began = previous.start() <= head && previous.start() >= old.start();
            (if began { previous } else { old }, tail.min(published.start()))
        };
        if next.start() < old.start() {
            return Err(Violation::Epoch { start: next.start(), head });
        }
        self.own.epoch.store(next.0, Relaxed);
        Ok((next, end))
    }

    /// Completes what a process that died in the middle of `consume` or `spans` has begun.
    pub fn repair(&self) {
        self.line.head.store(self.head(), Release);
    }

    /// Gives the next `len` bytes back to the producer; `len` is at most what `spans` returned.
    #[inline]
    pub fn consume(&self, len: usize, cpu: u32) {
        let head = self.head() + len as u64;
        self.own.head.store(head, Relaxed);
        self.line.cpu.store(cpu, Relaxed);
        self.line.head.store(head, Release);
    }
}
