//! Urgent data as Linux does it: one byte out of line, or a mark in the stream (RFC 9293 3.8.5, RFC 6093).

use ringway_wire::SeqNumber;
use ringway_wire::tcp::Flags as Bits;

use super::{Conn, Flags};
use crate::error::{Error, Result};
use crate::event::Ready;
use crate::packet::Segment;

/// How far ahead the 16-bit pointer reaches.
const POINTER_MAX: i32 = 0xffff;

/// The peer's urgent byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Urgent {
    #[default]
    None,
    /// Announced; here or still to come.
    At(SeqNumber),
    /// Read out of line, but its place in the stream was not passed yet.
    Read(SeqNumber),
}

impl Urgent {
    fn seq(self) -> Option<SeqNumber> {
        match self {
            Urgent::None => None,
            Urgent::At(seq) | Urgent::Read(seq) => Some(seq),
        }
    }
}

impl Conn<'_> {
    // RFC 9293 3.10.7.4, sixth: "If the URG bit is set, RCV.UP <- max(RCV.UP,SEG.UP), and signal the user that the remote
    // side has urgent data". RFC 6093 4: the pointer is what the RFCs say only if `tcp_stdurg` is set.
    pub(super) fn take_urgent(&mut self, segment: &Segment) {
        if !segment.has(Bits::URG) || !self.state().may_receive() {
            return;
        }
        let behind = u32::from(!self.shared.config.tcp_stdurg && segment.urgent > 0);
        let at = segment.seq + u32::from(segment.urgent) - behind;
        let seen = at < self.hot.copied || at < self.hot.rcv_nxt;
        let older = self.cold.urgent.seq().is_some_and(|known| at <= known);
        if !seen && !older {
            self.cold.urgent = Urgent::At(at);
            self.hot.flags |= Flags::LONG_WAY;
            self.tell(Ready::URGENT);
        }
    }

    /// Whether the urgent byte is here and was not read.
    pub(super) fn has_urgent(&self) -> bool {
        matches!(self.cold.urgent, Urgent::At(seq) if seq < self.hot.rcv_nxt)
    }

    /// Reads the urgent byte out of line (`MSG_OOB`).
    pub(super) fn receive_urgent(&mut self, out: &mut [u8], peek: bool) -> Result<usize> {
        let Urgent::At(seq) = self.cold.urgent else { return Err(Error::Invalid) };
        if self.cold.options.urgent_inline || out.is_empty() {
            return Err(Error::Invalid);
        }
        if seq >= self.hot.rcv_nxt {
            return Err(Error::WouldBlock);
        }
        let bytes = self.cold.rx.copy_to(seq.offset_from(self.hot.copied) as usize, &mut out[..1]);
        if !peek {
            self.cold.urgent = Urgent::Read(seq);
        }
        Ok(bytes)
    }

    /// How many of `wanted` bytes may be read at once: not over the mark. At the mark, the byte is passed over unless it
    /// stays in line.
    pub(super) fn before_mark(&mut self, wanted: usize) -> usize {
        let Some(seq) = self.cold.urgent.seq() else { return wanted };
        let ahead = seq - self.hot.copied;
        if ahead < 0 {
            self.forget_urgent();
            return wanted;
        }
        if ahead > 0 {
            return wanted.min(ahead as usize);
        }
        if !self.cold.options.urgent_inline && self.cold.rx.len() > 0 {
            self.cold.rx.consume(1);
            self.hot.copied += 1;
            self.forget_urgent();
        }
        wanted
    }

    /// Whether the next byte to read is the urgent one (`SIOCATMARK`).
    pub(crate) fn is_at_mark(&self) -> bool {
        self.cold.urgent.seq() == Some(self.hot.copied)
    }

    fn forget_urgent(&mut self) {
        self.cold.urgent = Urgent::None;
        self.hot.flags -= Flags::LONG_WAY;
    }

    /// The pointer for a segment that begins at `seq`, while something urgent is not acknowledged yet.
    pub(super) fn urgent_pointer(&self, seq: SeqNumber) -> Option<u16> {
        let end = self.cold.urgent_sent?;
        let ahead = end - seq;
        (end > self.hot.snd_una && ahead > 0 && ahead <= POINTER_MAX).then_some(ahead as u16)
    }

    /// Something urgent is not acknowledged yet.
    pub(super) fn has_urgent_in_flight(&self) -> bool {
        self.cold.urgent_sent.is_some_and(|end| end > self.hot.snd_una)
    }
}
