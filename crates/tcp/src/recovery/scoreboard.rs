//! The scoreboard (RFC 6675 2): a record for each segment in flight, and the counts from which `pipe` follows.
//!
//! ```text
//!   una                                                        nxt
//!    |  first                                        first+len  |
//!    v   v                                                  v   v
//!        [ s0 | s1 | s2 | s3 | s4 | s5 | s6 | s7 ]   a ring of records, by number
//!          L    LR   S    S    -    S    -    -      Lost, Retransmitted, Sacked
//!          1    0    0    0    0    0    0    0      `waiting`: lost and not sent again
//!          1    1    0    0    1    0    1    1      `missing`: not SACKed
//!               ^              ^         ^    ^
//!          time order: s4 - s6 - s7 - s1 (retransmitted last)
//! ```
//!
//! Cost of an ACK: each record is SACKed, marked lost and dropped once for each time it was sent; what was SACKed
//! before is skipped 64 records at a time. So an ACK with any SACK blocks costs at most a few thousand steps even
//! with the largest window, which is what "SACK panic" attacks aim at.

use super::bit_ring::BitRing;
use super::segment::{APP_LIMITED, LAST, LISTED, LOST, PUSHED, RETRANSMITTED, SACKED, Segment};
use crate::rate::SendSnapshot;
use crate::span::Span;
use crate::time::Instant;

/// Most segments in flight: 95 MB of full-sized ones.
pub const SEGMENTS_MAX: u32 = 1 << 16;
const SEGMENTS_MIN: u32 = 4;

/// There are [`SEGMENTS_MAX`] segments in flight; send when some are acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScoreboardFull;

/// The segments between the left edge of the window and what is sent next.
#[derive(Clone, Debug)]
pub struct Scoreboard {
    ring: Box<[Segment]>,
    /// Number of the first record. Numbers wrap.
    first: u32,
    len: u32,
    una: u64,
    nxt: u64,
    /// End of the highest SACKed segment; at most `una` while none is SACKed.
    highest_sacked: u64,
    sacked_out: u32,
    lost_out: u32,
    retransmitted_out: u32,
    /// Lost, and not sent again since.
    waiting: BitRing,
    waiting_out: u32,
    missing: BitRing,
    /// Ends of the list by time of sending; meaningless while `listed` is 0.
    pub(super) oldest: u32,
    pub(super) newest: u32,
    pub(super) listed: u32,
}

impl Scoreboard {
    /// Nothing in flight; the next segment begins at `offset`. Allocates with the first segment.
    pub fn new(offset: u64) -> Scoreboard {
        Scoreboard {
            ring: Box::default(),
            first: 0,
            len: 0,
            una: offset,
            nxt: offset,
            highest_sacked: offset,
            sacked_out: 0,
            lost_out: 0,
            retransmitted_out: 0,
            waiting: BitRing::default(),
            waiting_out: 0,
            missing: BitRing::default(),
            oldest: 0,
            newest: 0,
            listed: 0,
        }
    }

    /// The left edge of the window: everything before it is acknowledged.
    pub fn una(&self) -> u64 {
        self.una
    }

    /// The offset after the last segment that was sent.
    pub fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Segments sent and not acknowledged cumulatively (`tcpi_unacked`).
    pub fn segments(&self) -> u32 {
        self.len
    }

    /// Segments that the receiver holds out of order (`tcpi_sacked`).
    pub fn sacked_out(&self) -> u32 {
        self.sacked_out
    }

    /// Segments of which a transmission is deemed lost (`tcpi_lost`).
    pub fn lost_out(&self) -> u32 {
        self.lost_out
    }

    /// Retransmissions deemed in flight (`tcpi_retrans`).
    pub fn retransmitted_out(&self) -> u32 {
        self.retransmitted_out
    }

    /// Segments deemed lost and not sent again yet.
    pub fn waiting_out(&self) -> u32 {
        self.waiting_out
    }

    // RFC 6675 4, SetPipe(), in segments instead of octets as Linux counts.
    /// Segments deemed to be in the network.
    pub fn pipe(&self) -> u32 {
        self.len - self.sacked_out - self.lost_out + self.retransmitted_out
    }

    /// End of the highest segment that the receiver holds, or `una` if it holds none out of order.
    pub fn highest_sacked(&self) -> u64 {
        self.highest_sacked.max(self.una)
    }

    /// Reads the first record, so that it is in the cache.
    #[inline]
    pub fn warm(&self) -> u32 {
        self.ring.first().map_or(self.len, |segment| segment.start)
    }

    /// Octets of memory held for records.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.ring) + self.waiting.memory_bytes() + self.missing.memory_bytes()
    }

    /// Returns the memory of an idle connection; the next segment allocates anew.
    pub fn release_memory(&mut self) {
        if self.len == 0 {
            (self.ring, self.waiting, self.missing) = Default::default();
        }
    }

    /// A new segment of `len` octets was sent at `nxt`.
    pub fn push(
        &mut self,
        len: u16,
        now: Instant,
        snapshot: SendSnapshot,
        app_limited: bool,
    ) -> Result<(), ScoreboardFull> {
        if self.len as usize == self.ring.len() {
            self.grow()?;
        }
        let number = self.first.wrapping_add(self.len);
        let flags = if app_limited { APP_LIMITED } else { 0 };
        *self.at_mut(number) =
            Segment { start: self.nxt as u32, len, transmissions: 1, flags, sent: now, snapshot, ..Segment::default() };
        self.len += 1;
        self.nxt += u64::from(len);
        self.missing.set(number);
        self.list_newest(number);
        Ok(())
    }

    /// The segment that was sent last carries PSH if `pushed`, and is the `last` of those that left together.
    pub fn mark_newest(&mut self, pushed: bool, last: bool) {
        let newest = self.first.wrapping_add(self.len.saturating_sub(1));
        self.at_mut(newest).flags |= if pushed { PUSHED } else { 0 } | if last { LAST } else { 0 };
    }

    /// How many segments from `number` on, at most `most`, left together and wait to be sent again.
    pub fn lost_together(&self, number: u32, most: u32) -> u32 {
        let end = self.first.wrapping_add(self.len);
        let most = most.min(end.wrapping_sub(number));
        let follows = |n: &u32| {
            let next = number.wrapping_add(*n);
            !self.at(next.wrapping_sub(1)).has(LAST) && self.waiting.get(next)
        };
        1 + (1..most).take_while(follows).count() as u32
    }

    /// The segment `number` was sent again.
    pub fn retransmitted(&mut self, number: u32, now: Instant, snapshot: SendSnapshot, app_limited: bool) {
        self.unlist(number);
        if !self.at(number).has(RETRANSMITTED) {
            self.retransmitted_out += 1;
        }
        self.stop_waiting(number);
        let segment = self.at_mut(number);
        segment.flags |= RETRANSMITTED;
        segment.flags = if app_limited { segment.flags | APP_LIMITED } else { segment.flags & !APP_LIMITED };
        segment.transmissions = segment.transmissions.saturating_add(1);
        (segment.sent, segment.snapshot) = (now, snapshot);
        self.list_newest(number);
    }

    /// The newest transmission of segment `number` is deemed lost. Answers whether that was news.
    pub fn mark_lost(&mut self, number: u32) -> bool {
        let segment = *self.at(number);
        if segment.has(SACKED) || (segment.has(LOST) && !segment.has(RETRANSMITTED)) {
            return false;
        }
        self.unlist(number);
        if !segment.has(LOST) {
            self.lost_out += 1;
        }
        if segment.has(RETRANSMITTED) {
            self.retransmitted_out -= 1;
        }
        let segment = self.at_mut(number);
        segment.flags = segment.flags & !RETRANSMITTED | LOST;
        self.waiting.set(number);
        self.waiting_out += 1;
        true
    }

    /// The receiver holds segment `number` out of order.
    pub fn mark_sacked(&mut self, number: u32) {
        let segment = *self.at(number);
        if segment.has(SACKED) {
            return;
        }
        self.unlist(number);
        self.stop_waiting(number);
        if segment.has(LOST) {
            self.lost_out -= 1;
        }
        // A retransmission of a segment that was not lost after all is still on its way; one of a lost segment is
        // taken to be what arrived.
        let still_in_flight = segment.has(RETRANSMITTED) && !segment.has(LOST);
        if segment.has(RETRANSMITTED) && !still_in_flight {
            self.retransmitted_out -= 1;
        }
        let keep = if still_in_flight { RETRANSMITTED } else { 0 };
        let segment = self.at_mut(number);
        segment.flags = segment.flags & (APP_LIMITED | PUSHED | LAST | keep) | SACKED;
        self.sacked_out += 1;
        self.missing.clear(number);
        self.highest_sacked = self.highest_sacked.max(self.span(number).end);
    }

    /// A DSACK says that segment `number` arrived twice: its retransmission is not in flight any more. (Of one deemed
    /// lost the SACK block that comes with the DSACK says that it is there.)
    pub fn retransmission_arrived(&mut self, number: u32) {
        let segment = self.at(number);
        if segment.has(RETRANSMITTED) && !segment.has(LOST) {
            self.retransmitted_out -= 1;
            self.at_mut(number).flags &= !RETRANSMITTED;
        }
    }

    /// Drops the first segment, which was acknowledged cumulatively.
    pub fn pop_first(&mut self) {
        let (number, segment) = (self.first, *self.at(self.first));
        self.unlist(number);
        self.stop_waiting(number);
        self.missing.clear(number);
        self.sacked_out -= u32::from(segment.has(SACKED));
        self.lost_out -= u32::from(segment.has(LOST));
        self.retransmitted_out -= u32::from(segment.has(RETRANSMITTED));
        self.una = self.span(number).end;
        self.first = self.first.wrapping_add(1);
        self.len -= 1;
    }

    /// Whether one segment is in flight, was sent once and nothing else is known of it.
    #[inline]
    pub(super) fn has_one_untouched(&self) -> bool {
        self.len == 1 && self.listed == 1 && self.sacked_out + self.lost_out + self.retransmitted_out == 0 && {
            let segment = self.at(self.first);
            segment.transmissions == 1
        }
    }

    /// Drops that one, which was acknowledged.
    #[inline]
    pub(super) fn pop_only(&mut self) -> Segment {
        let number = self.first;
        self.missing.clear(number);
        self.listed = 0;
        self.una = self.nxt;
        self.first = number.wrapping_add(1);
        self.len = 0;
        let segment = self.at_mut(number);
        segment.flags &= !LISTED;
        *segment
    }

    /// Cuts what was acknowledged, up to `ack`, off the first segment, which reaches further.
    pub fn trim_first(&mut self, ack: u64) {
        let cut = ack - self.span(self.first).start;
        let segment = self.at_mut(self.first);
        segment.start = ack as u32;
        segment.len -= cut as u16;
        self.una = ack;
    }

    /// Forgets all that was SACKed: the receiver threw it away (RFC 2018 8: it may).
    pub fn forget_sacks(&mut self) {
        for number in self.numbers().rev() {
            if self.at(number).has(SACKED) {
                self.at_mut(number).flags &= !SACKED;
                self.missing.set(number);
                self.list_oldest(number);
            }
        }
        self.sacked_out = 0;
        self.highest_sacked = self.una;
    }

    // RFC 5681 3.2, RFC 6582: without SACK, each duplicate ACK says that one more segment arrived, not which.
    /// Counts `dupacks` segments as held by a receiver that sends no SACK. Answers whether more duplicates came
    /// than segments can have caused them, which shows reordering.
    pub fn add_reno_sacks(&mut self, dupacks: u32) -> bool {
        self.sacked_out = self.sacked_out.saturating_add(dupacks);
        let holes = self.lost_out.max(1).min(self.len);
        let excess = self.sacked_out + holes > self.len;
        if excess {
            self.sacked_out = self.len - holes;
        }
        excess
    }

    /// An ACK covered `acked` segments of which one filled the hole and the others had caused duplicate ACKs.
    /// Answers whether there were too many duplicates, as [`Scoreboard::add_reno_sacks`] does.
    pub fn remove_reno_sacks(&mut self, acked: u32) -> bool {
        self.sacked_out = self.sacked_out.saturating_sub(acked.saturating_sub(1));
        self.add_reno_sacks(0)
    }

    /// Forgets the duplicate ACKs.
    pub fn reset_reno_sacks(&mut self) {
        self.sacked_out = 0;
    }

    /// Forgets what is deemed lost and not sent again: it was only late.
    pub fn forget_losses(&mut self) {
        // Those that waited were sent before the rest; going backwards puts the first of them first.
        for number in self.numbers().rev() {
            if self.at(number).has(LOST) {
                self.at_mut(number).flags &= !LOST;
                if !self.at(number).has(RETRANSMITTED) {
                    self.list_oldest(number);
                }
            }
        }
        self.waiting.clear_all();
        (self.waiting_out, self.lost_out) = (0, 0);
    }

    /// Segments larger than `mss` can not arrive any more: cuts them up and marks the pieces lost that are not SACKed.
    /// Answers how many. (Leaves them whole if the pieces would be more than [`SEGMENTS_MAX`]; then only their
    /// beginnings can be sent again, and partial acknowledgements cut the rest.) Allocates; paths seldom shrink.
    pub fn resegment(&mut self, mss: u32) -> u32 {
        let mss = mss.clamp(1, u32::from(u16::MAX)) as u16;
        let pieces = |len: u16| u32::from(len.div_ceil(mss));
        let whole = self.numbers().map(|n| pieces(self.at(n).len)).sum::<u32>() > SEGMENTS_MAX;
        let old = core::mem::replace(self, Scoreboard::new(self.una));
        let mut lost = 0;
        for segment in old.numbers().map(|number| *old.at(number)) {
            let too_large = segment.len > mss;
            let mut left = segment.len;
            while left > 0 {
                let len = if whole { left } else { left.min(mss) };
                left -= len;
                lost += u32::from(self.push_like(&segment, len, too_large));
                if left == 0 {
                    self.mark_newest(segment.has(PUSHED), segment.has(LAST));
                }
            }
        }
        lost
    }

    /// Appends a piece of `segment` in the state that it is in. Answers whether it was newly marked lost.
    fn push_like(&mut self, segment: &Segment, len: u16, too_large: bool) -> bool {
        let (sent, snapshot, app_limited) = (segment.sent, segment.snapshot, segment.has(APP_LIMITED));
        // There is room: `resegment` has counted.
        if self.push(len, sent, snapshot, app_limited).is_err() {
            return false;
        }
        let number = self.first.wrapping_add(self.len - 1);
        if segment.has(LOST) {
            self.mark_lost(number);
        }
        if segment.has(RETRANSMITTED) {
            self.retransmitted(number, sent, snapshot, app_limited);
        }
        self.at_mut(number).transmissions = segment.transmissions;
        if segment.has(SACKED) {
            self.mark_sacked(number);
        }
        too_large && self.mark_lost(number)
    }

    /// RFC 6675 4, NextSeg() (1): the first segment that is deemed lost and was not sent again.
    pub fn next_waiting(&self) -> Option<u32> {
        if self.waiting_out == 0 {
            return None;
        }
        self.waiting.first_set(self.first, self.len)
    }

    /// The first segment at or above `number` and below `end` that is not SACKed.
    pub fn next_missing(&self, number: u32, end: u32) -> Option<u32> {
        self.missing.first_set(number, end.wrapping_sub(number))
    }

    /// The numbers of all segments in flight, first to last.
    pub fn numbers(&self) -> impl DoubleEndedIterator<Item = u32> + use<> {
        let first = self.first;
        (0..self.len).map(move |index| first.wrapping_add(index))
    }

    /// The first segment in flight.
    pub fn first(&self) -> Option<u32> {
        (self.len > 0).then_some(self.first)
    }

    /// The last segment in flight that is not SACKed. Looks at those that are, one by one.
    pub fn last_missing(&self) -> Option<u32> {
        self.numbers().rev().find(|number| self.missing.get(*number))
    }

    /// Where in the stream segment `number` is.
    pub fn span(&self, number: u32) -> Span {
        let segment = self.at(number);
        // The window is smaller than 4 GiB, so the low half tells the rest.
        let start = self.una.wrapping_add_signed(i64::from(segment.start.wrapping_sub(self.una as u32) as i32));
        Span::new(start, start + u64::from(segment.len))
    }

    /// The record of segment `number`.
    pub fn segment(&self, number: u32) -> &Segment {
        self.at(number)
    }

    /// The number of the first segment that begins at `offset` or above; one past the last if there is none.
    pub fn first_from(&self, offset: u64) -> u32 {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.span(self.first.wrapping_add(middle)).start < offset {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.first.wrapping_add(low)
    }

    pub(super) fn at(&self, number: u32) -> &Segment {
        &self.ring[number as usize & (self.ring.len() - 1)]
    }

    pub(super) fn at_mut(&mut self, number: u32) -> &mut Segment {
        let mask = self.ring.len() - 1;
        &mut self.ring[number as usize & mask]
    }

    fn stop_waiting(&mut self, number: u32) {
        if self.waiting.get(number) {
            self.waiting.clear(number);
            self.waiting_out -= 1;
        }
    }

    fn grow(&mut self) -> Result<(), ScoreboardFull> {
        let capacity = (self.ring.len() as u32 * 2).max(SEGMENTS_MIN);
        if capacity > SEGMENTS_MAX {
            return Err(ScoreboardFull);
        }
        let mut ring = vec![Segment::default(); capacity as usize].into_boxed_slice();
        let (mut waiting, mut missing) = (BitRing::new(capacity), BitRing::new(capacity));
        for number in self.numbers() {
            ring[number as usize & (capacity as usize - 1)] = *self.at(number);
            if self.waiting.get(number) {
                waiting.set(number);
            }
            if self.missing.get(number) {
                missing.set(number);
            }
        }
        (self.ring, self.waiting, self.missing) = (ring, waiting, missing);
        Ok(())
    }
}

#[cfg(test)]
#[path = "scoreboard_tests.rs"]
mod tests;
