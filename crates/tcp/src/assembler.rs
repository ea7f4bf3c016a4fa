//! What of the stream arrived early: disjoint intervals above the next expected octet, and the SACK blocks that tell
//! the sender about them.
//!
//! ```text
//!            next                held[0]        held[1]
//!   ...======|                 [========]     [===]            only the intervals are here;
//!   read or  |    missing      |  early |     | e |            the octets are in the receive ring
//!   readable
//! ```

use core::cmp::Ordering;

use crate::span::Span;

/// Most intervals held: 16 KiB of memory. A segment that would begin one more is refused; its sender will send it
/// again, as with one that was lost.
pub const INTERVALS_MAX: usize = 1024;
/// RFC 2018 3: a TCP header has room for four blocks (three beside timestamps).
pub const SACK_BLOCKS_MAX: usize = 4;

/// What became of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// It was the next expected: everything below `next` is now complete.
    InOrder { next: u64 },
    /// It was early and is held. The sender needs a duplicate ACK at once (RFC 5681 4.2).
    Early,
    /// Nothing of it is new. The sender needs an ACK at once.
    Duplicate,
    /// It was early, and [`INTERVALS_MAX`] intervals are held: drop it.
    Refused,
}

/// The blocks of one SACK option.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SackBlocks {
    blocks: [Span; SACK_BLOCKS_MAX],
    len: usize,
}

impl SackBlocks {
    pub fn as_slice(&self) -> &[Span] {
        &self.blocks[..self.len]
    }

    fn push(&mut self, block: Span) {
        self.blocks[self.len] = block;
        self.len += 1;
    }
}

/// The receive side of one connection's stream, by offsets.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    next: u64,
    /// Sorted; neither overlapping nor side by side; all above `next`.
    held: Vec<Span>,
    /// The intervals that changed last, newest first.
    recent: SackBlocks,
    /// What arrived twice, until it has been reported.
    duplicate: Option<Span>,
}

impl Assembler {
    /// Nothing received; `next` is expected first.
    pub fn new(next: u64) -> Assembler {
        Assembler { next, ..Assembler::default() }
    }

    /// The next expected offset (RCV.NXT).
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether nothing arrived early.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The early intervals, lowest first.
    pub fn held(&self) -> &[Span] {
        &self.held
    }

    /// Octets in early intervals.
    pub fn held_bytes(&self) -> u64 {
        self.held.iter().map(|span| span.len()).sum()
    }

    /// Moves the next expected offset over data that arrived in order, when nothing is held: the short way.
    pub fn skip_to(&mut self, next: u64) {
        debug_assert!(self.held.is_empty());
        self.next = next;
    }

    /// Calls `copy` for each part of `span` that has not arrived before: what came first stays (RFC 9293 3.10.7.4
    /// leaves it open; consistent with what a middlebox saw).
    pub fn for_each_new(&self, span: Span, mut copy: impl FnMut(Span)) {
        let mut start = span.start.max(self.next);
        let from = self.held.partition_point(|held| held.end <= start);
        for held in self.held[from..].iter().take_while(|held| held.start < span.end) {
            if start < held.start {
                copy(Span::new(start, held.start));
            }
            start = held.end;
        }
        if start < span.end {
            copy(Span::new(start, span.end));
        }
    }

    /// A segment with the octets of `span` arrived. The caller has cut it to the receive window.
    pub fn insert(&mut self, span: Span) -> Arrival {
        if span.is_empty() {
            return Arrival::Duplicate;
        }
        if span.start < self.next {
            self.note_duplicate(Span::new(span.start, span.end.min(self.next)));
        }
        let span = Span::new(span.start.max(self.next), span.end);
        if span.is_empty() {
            return Arrival::Duplicate;
        }
        // The intervals that it touches are `held[from..to]`.
        let from = self.held.partition_point(|held| held.end < span.start);
        let to = from + self.held[from..].partition_point(|held| held.start <= span.end);
        let overlap =
            self.held[from..to].iter().map(|held| held.intersection(span)).find(|overlap| !overlap.is_empty());
        if let Some(overlap) = overlap {
            self.note_duplicate(overlap);
        }
        match span.start.cmp(&self.next) {
            Ordering::Equal => self.complete(span, to),
            _ => self.hold(span, from, to, overlap),
        }
    }

    /// The blocks for an ACK that has room for `room`, and forgets the duplicate that they report.
    pub fn sack_blocks(&mut self, room: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let room = room.min(SACK_BLOCKS_MAX);
        // RFC 2883 4 (1): the first block reports the duplicate, once.
        if let Some(duplicate) = self.duplicate.take()
            && room > 0
        {
            blocks.push(duplicate);
        }
        // RFC 2018 4: first the block with the segment that triggered this ACK, then the most recently reported.
        for block in self.recent.as_slice() {
            if blocks.len < room {
                blocks.push(*block);
            }
        }
        blocks
    }

    /// Whether a duplicate waits to be reported.
    pub fn has_duplicate(&self) -> bool {
        self.duplicate.is_some()
    }

    /// The stream has ended at `next`, which its end took: nothing more is reported (Linux: `tcp_fin`).
    pub fn end(&mut self, next: u64) {
        *self = Assembler::new(next);
    }

    /// The receiver is out of memory: forgets everything early, as RFC 2018 8 allows it to.
    pub fn renege(&mut self) {
        self.held.clear();
        self.recent = SackBlocks::default();
    }

    /// `span` begins at `next` and reaches the intervals below index `to`.
    fn complete(&mut self, span: Span, to: usize) -> Arrival {
        let reached = self.held[..to].last().map_or(span.end, |held| held.end.max(span.end));
        self.held.drain(..to);
        self.next = reached;
        self.forget_recent(|block| block.end <= reached);
        Arrival::InOrder { next: reached }
    }

    /// `span` is early and touches `held[from..to]`, with which it becomes one.
    fn hold(&mut self, span: Span, from: usize, to: usize, overlap: Option<Span>) -> Arrival {
        if from == to {
            if self.held.len() == INTERVALS_MAX {
                return Arrival::Refused;
            }
            self.held.insert(from, span);
            self.make_recent(span);
            return Arrival::Early;
        }
        let merged = self.held[from..to].iter().fold(span, |merged, held| merged.merged(*held));
        self.held[from] = merged;
        self.held.drain(from + 1..to);
        self.make_recent(merged);
        if overlap == Some(span) { Arrival::Duplicate } else { Arrival::Early }
    }

    /// RFC 2883 4: "the first contiguous sequence of duplicate data"; one that waits already goes first.
    fn note_duplicate(&mut self, span: Span) {
        match &mut self.duplicate {
            Some(known) if known.touches(span) => *known = known.merged(span),
            Some(_) => {}
            none => *none = Some(span),
        }
    }

    fn make_recent(&mut self, merged: Span) {
        self.forget_recent(|block| merged.covers(*block));
        let recent = &mut self.recent;
        recent.len = (recent.len + 1).min(SACK_BLOCKS_MAX);
        recent.blocks[..recent.len].rotate_right(1);
        recent.blocks[0] = merged;
    }

    fn forget_recent(&mut self, gone: impl Fn(&Span) -> bool) {
        let mut kept = SackBlocks::default();
        self.recent.as_slice().iter().filter(|block| !gone(block)).for_each(|block| kept.push(*block));
        self.recent = kept;
    }
}

#[cfg(test)]
#[path = "assembler_tests.rs"]
mod tests;
