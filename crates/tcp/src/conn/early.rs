//! Payload that came before its turn: kept in place, told by SACK (RFC 2018), joined when the gap is filled.

use ringway_wire::SeqNumber;
use ringway_wire::tcp::SackBlocks;

use super::{Conn, Owed};
use crate::packet::Segment;

impl Conn<'_> {
    /// The segment begins behind the next expected byte.
    pub(super) fn receive_early(&mut self, _segment: &Segment) {
        self.owe(Owed::ACK);
        self.hot.acks_owed = self.hot.acks_owed.saturating_add(1);
    }

    /// What lies right behind `rcv_nxt` is there already: moves over it. Answers whether a gap was filled.
    pub(super) fn join_early(&mut self) -> bool {
        false
    }

    pub(super) fn forget_early(&mut self) {}

    /// The whole segment was here before (RFC 2883).
    pub(super) fn report_duplicate(&mut self, _segment: &Segment) {}

    /// `left` to `right` were here before.
    pub(super) fn report_duplicate_part(&mut self, _left: SeqNumber, _right: SeqNumber) {}

    /// The sequence number behind all that arrived early.
    pub(super) fn early_end(&self) -> Option<SeqNumber> {
        None
    }

    /// What to tell the peer of it (RFC 2018 4); `with_timestamps` leaves less room.
    pub(super) fn sack_blocks(&self, _with_timestamps: bool) -> SackBlocks {
        SackBlocks::EMPTY
    }
}
