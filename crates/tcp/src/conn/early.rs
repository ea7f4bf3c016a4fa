//! Payload that came before its turn: kept in place, told by SACK (RFC 2018), joined when the gap is filled.

use ringway_wire::SeqNumber;
use ringway_wire::tcp::{Flags as Bits, SackBlock, SackBlocks};

use super::{Conn, Flags, Owed};
use crate::assembler::{Arrival, Assembler};
use crate::packet::Segment;
use crate::span::Span;
use crate::stats::Counter;

/// SACK blocks beside timestamps, and alone (RFC 2018 3).
const BLOCKS_BESIDE_TIMESTAMPS: usize = 3;
const BLOCKS_ALONE: usize = 4;

impl Conn<'_> {
    /// `rcv_nxt` is the first sequence number behind the peer's SYN, offset 1.
    pub(super) fn begin_assembling(&mut self) {
        self.cold.early = Assembler::new(1);
    }

    /// Where in the peer's stream a sequence number near `rcv_nxt` is; the SYN is offset 0.
    fn received_offset(&self, seq: SeqNumber) -> u64 {
        self.cold.early.next().saturating_add_signed(i64::from(seq - self.hot.rcv_nxt))
    }

    fn received_seq(&self, offset: u64) -> SeqNumber {
        self.hot.rcv_nxt + (offset.wrapping_sub(self.cold.early.next()) as u32)
    }

    fn received_span(&self, segment: &Segment) -> Span {
        let start = self.received_offset(segment.seq);
        Span::new(start, start + segment.payload.len() as u64)
    }

    /// The segment begins behind the next expected byte: it is kept, and the gap is told at once (RFC 5681 4.2).
    pub(super) fn receive_early(&mut self, segment: &Segment) {
        self.cold.tally.early_segments = self.cold.tally.early_segments.wrapping_add(1);
        self.owe(Owed::ACK);
        self.hot.acks_owed = self.hot.acks_owed.saturating_add(1);
        let right = self.hot.rcv_nxt + self.hot.receive_window();
        let fits = (right - segment.seq).clamp(0, segment.payload.len() as i32) as usize;
        if segment.has(Bits::FIN) && fits == segment.payload.len() {
            self.cold.fin_at = Some(segment.end() - 1);
        }
        let start = self.received_offset(segment.seq);
        if fits == 0 {
            return;
        }
        if !self.hold_early(Span::new(start, start + fits as u64), segment.payload) {
            self.shared.count(Counter::EarlyDropped);
        } else if self.hot.flags.contains(Flags::SACK) {
            // Without SACK the window stays, so that the peer counts duplicates (Linux: `tcp_data_queue_ofo`).
            self.cold.window.measure_mss(fits);
            self.grow_window(fits as u32);
        }
    }

    /// Keeps what of `span` is new; its bytes begin `payload`. `false` if there is no room.
    fn hold_early(&mut self, span: Span, payload: &[u8]) -> bool {
        let cold = &mut *self.cold;
        let next = cold.early.next();
        let needed = cold.rx.len() + (span.end - next) as usize;
        if self.shared.pool.is_under_pressure() || !cold.rx.reserve(needed, &mut self.shared.pool) {
            return false;
        }
        let (rx, early) = (&mut cold.rx, &mut cold.early);
        early.for_each_new(span, |part| {
            let at = rx.len() + (part.start - next) as usize;
            rx.write_at(at, &payload[(part.start - span.start) as usize..(part.end - span.start) as usize]);
        });
        self.shared.count(Counter::Early);
        early.insert(span) != Arrival::Refused
    }

    /// `bytes` are at their place behind `rcv_nxt`; they and what they reach are there now. Answers whether something
    /// had come early.
    pub(super) fn join(&mut self, bytes: usize) -> bool {
        let early = &mut self.cold.early;
        let before = early.next();
        let gap = !early.is_empty();
        if gap {
            early.insert(Span::new(before, before + bytes as u64));
        } else {
            early.skip_to(before + bytes as u64);
        }
        let joined = (early.next() - before) as usize;
        self.cold.rx.extend(joined);
        self.hot.rcv_nxt += joined as u32;
        gap
    }

    pub(super) fn forget_early(&mut self) {
        self.cold.early.renege();
    }

    /// The beginning of the segment, or all of it, was here before (RFC 2883 4).
    pub(super) fn report_duplicate(&mut self, segment: &Segment) {
        let span = self.received_span(segment);
        let known = Span::new(span.start, span.end.min(self.cold.early.next()));
        if !known.is_empty() && self.hot.flags.contains(Flags::SACK) && self.shared.config.tcp_dsack {
            self.cold.early.insert(known);
        }
    }

    /// Whether SACK has something to say.
    pub(super) fn has_sack_news(&self) -> bool {
        self.hot.flags.contains(Flags::SACK) && (!self.cold.early.is_empty() || self.cold.early.has_duplicate())
    }

    /// The sequence number behind all that arrived early.
    pub(super) fn early_end(&self) -> Option<SeqNumber> {
        self.cold.early.held().last().map(|span| self.received_seq(span.end))
    }

    /// What to tell the peer of it (RFC 2018 4).
    pub(super) fn sack_blocks(&mut self) -> SackBlocks {
        let mut blocks = SackBlocks::EMPTY;
        if !self.has_sack_news() {
            return blocks;
        }
        let beside = self.hot.flags.contains(Flags::TIMESTAMPS);
        let room = if beside { BLOCKS_BESIDE_TIMESTAMPS } else { BLOCKS_ALONE };
        for span in self.cold.early.sack_blocks(room).as_slice() {
            blocks.push(SackBlock { left: self.received_seq(span.start), right: self.received_seq(span.end) });
        }
        blocks
    }
}
