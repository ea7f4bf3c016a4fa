//! How segments of a connection are written: their header, options and the bookkeeping of having left.

use ringway_wire::tcp::{Flags as Bits, Options, Repr, Timestamps};
use ringway_wire::{Ecn, SeqNumber};

use super::{Conn, Flags, Owed, State};
use crate::ecn::Marking;
use crate::packet::{IpFields, Leaving, TxBatch, emit};
use crate::recovery::Resend;
use crate::stats::Counter;

impl Conn<'_> {
    /// Our clock as the peer sees it (RFC 7323 4.1): milliseconds and an offset.
    pub(super) fn timestamp(&self) -> u32 {
        (self.shared.now.ms() as u32).wrapping_add(self.hot.ts_offset)
    }

    /// SYN or SYN-ACK, first or again.
    pub(super) fn emit_syn(&mut self, batch: &mut dyn TxBatch) -> bool {
        let answers = self.state() == State::SynReceived;
        let header = Repr {
            seq: self.cold.iss,
            flags: self.syn_marks(answers) | if answers { Bits::SYN | Bits::ACK } else { Bits::SYN },
            // RFC 7323 2.2: not scaled.
            window: self.hot.rcv_wnd.min(65_535) as u16,
            options: self.syn_options(),
            ..self.header()
        };
        let len = self.syn_data_len(&header.options);
        if !self.write(batch, header, len, Marking::default()) {
            return false;
        }
        if self.hot.snd_nxt == self.cold.iss {
            self.hot.snd_nxt = self.cold.iss + 1 + len;
            self.hot.rcv_wup = self.hot.rcv_nxt;
        }
        self.cold.retransmitting_since.get_or_insert(self.shared.now);
        self.arm_syn_timer();
        true
    }

    /// The next `len` bytes, FIN with them if `fin`.
    pub(super) fn emit_new(&mut self, batch: &mut dyn TxBatch, len: u32, fin: bool) -> bool {
        let seq = self.hot.snd_nxt;
        let end = seq + len;
        let pushed = len > 0 && self.cold.push.is_due(end);
        let push = pushed || self.cold.bundle.is_last_of_several(end);
        if !self.emit_data(batch, seq, len, end_flags(push, fin), true) {
            return false;
        }
        self.cold.push.on_sent(seq + len);
        let space = len + u32::from(fin);
        self.hot.snd_nxt += space;
        if len < u32::from(self.hot.mss) && len > 0 {
            self.cold.small_end = seq + len;
        }
        if fin {
            self.hot.flags |= Flags::FIN_SENT;
        }
        if len > 0 {
            self.on_data_sent();
            let rate = self.cold.options.pacing_rate_max;
            self.cold.pacer.set_max((rate > 0).then_some(rate));
            self.cold.pacer.on_sent(self.shared.now, u64::from(len), 1, None);
        }
        self.on_sent(space, pushed, self.cold.bundle.ends(end));
        true
    }

    /// A segment once more.
    pub(super) fn emit_again(&mut self, batch: &mut dyn TxBatch, resend: Resend) -> bool {
        let (seq, len) = (self.sent_seq(resend.span), resend.span.len() as u32);
        let fin = seq + len > self.hot.write_seq;
        let pushed = self.cold.recovery.board.segment(resend.number).is_pushed();
        let push = pushed || self.resend_ends_bundle(resend.number);
        if !self.emit_data(batch, seq, len - u32::from(fin), end_flags(push, fin), false) {
            return false;
        }
        self.cold.tally.bytes_resent += u64::from(len);
        self.shared.count(Counter::Retransmitted);
        self.on_resent(resend.number);
        self.sync_alarm();
        true
    }

    fn emit_data(&mut self, batch: &mut dyn TxBatch, seq: SeqNumber, len: u32, end: Bits, new: bool) -> bool {
        let mut flags = Bits::ACK | end;
        let marking = self.cold.ecn.mark(new && len > 0);
        if marking.cwr {
            flags |= Bits::CWR;
        }
        let mut header = Repr { seq, ..self.header() };
        if let Some(pointer) = self.urgent_pointer(seq) {
            flags |= Bits::URG;
            header.urgent = pointer;
        }
        header.flags |= flags;
        self.write(batch, header, len, marking)
    }

    /// Acknowledgements: one, or one for each segment that came out of order.
    pub(super) fn emit_acks(&mut self, batch: &mut dyn TxBatch) -> bool {
        loop {
            let more = self.hot.acks_owed.saturating_sub(1);
            if !self.emit_control(batch, self.hot.snd_nxt, Bits::ACK) {
                return false;
            }
            if more == 0 {
                return true;
            }
            self.hot.acks_owed = more;
            self.hot.owed |= Owed::ACK;
        }
    }

    /// A segment without payload; these carry SACK, so that payload keeps its room.
    fn emit_control(&mut self, batch: &mut dyn TxBatch, seq: SeqNumber, flags: Bits) -> bool {
        let mut header = Repr { seq, ..self.header() };
        header.flags |= flags;
        header.options.sack = self.sack_blocks();
        let marking = self.cold.ecn.mark(false);
        self.write(batch, header, 0, marking)
    }

    /// A probe of a closed window or a silent peer: a byte that was acknowledged already, of which nothing is sent
    /// (`tcp_xmit_probe_skb`); or, if the window has room, the next data.
    pub(super) fn emit_probe(&mut self, batch: &mut dyn TxBatch) -> bool {
        let room = (self.hot.snd_una + self.hot.snd_wnd) - self.hot.snd_nxt;
        let unsent = self.hot.write_seq - self.hot.snd_nxt;
        if room > 0 && unsent > 0 {
            let len = (room.min(unsent) as u32).min(u32::from(self.hot.mss));
            self.cold.push.next_ends(self.hot.snd_nxt + len);
            return self.emit_new(batch, len, false);
        }
        self.emit_control(batch, self.hot.snd_una - 1, Bits::ACK)
    }

    /// What every segment says at this moment.
    pub(super) fn header(&self) -> Repr {
        let window = self.select_window();
        Repr {
            source_port: self.hot.key.local_port(),
            destination_port: self.hot.key.remote_port(),
            seq: self.hot.snd_nxt,
            ack: if self.state() == State::SynSent { SeqNumber(0) } else { self.hot.rcv_nxt },
            flags: if self.cold.ecn.ece() { Bits::ACK | Bits::ECE } else { Bits::ACK },
            window: (window >> self.hot.rcv_wscale).min(65_535) as u16,
            urgent: 0,
            options: self.options(),
        }
    }

    /// `header` leaves: what it acknowledges and tells of the window may not be taken back.
    pub(super) fn remember_told(&mut self, header: &Repr) {
        self.told(header.window);
    }

    /// The peer is told of all that was received and of a window, not scaled.
    pub(super) fn told(&mut self, window: u16) {
        self.hot.rcv_wnd = u32::from(window) << self.hot.rcv_wscale;
        self.hot.rcv_wup = self.hot.rcv_nxt;
    }

    fn options(&self) -> Options {
        let timestamps = Timestamps { value: self.timestamp(), echo: self.hot.ts_recent };
        let agreed = self.hot.flags.contains(Flags::TIMESTAMPS);
        Options { timestamps: agreed.then_some(timestamps), ..Options::NONE }
    }

    /// Writes one segment with `len` bytes of what is buffered; what it acknowledges and tells is then said.
    fn write(&mut self, batch: &mut dyn TxBatch, header: Repr, len: u32, marking: Marking) -> bool {
        let ip = IpFields {
            traffic_class: self.cold.options.traffic_class,
            ecn: Ecn::from_traffic_class(marking.codepoint as u8),
            ttl: self.cold.options.ttl.unwrap_or(self.shared.config.ip_default_ttl as u8),
            identification: 0,
            dont_fragment: true,
            flow_label: self.hot.ts_offset,
        };
        let payload = match len {
            0 => (&[][..], &[][..]),
            // A SYN's own number comes before its data's.
            _ if header.flags.contains(Bits::SYN) => self.cold.tx.pieces(0, len as usize),
            _ => self.cold.tx.pieces(self.cold.tx_offset(header.seq), len as usize),
        };
        if !emit(batch, &Leaving { key: &self.hot.key, ip, header, payload }) {
            return false;
        }
        self.shared.count(Counter::SegmentsOut);
        let tally = &mut self.cold.tally;
        tally.segments_out = tally.segments_out.wrapping_add(1);
        if len > 0 {
            tally.data_segments_out = tally.data_segments_out.wrapping_add(1);
            tally.bytes_sent += u64::from(len);
        }
        if header.flags.contains(Bits::ACK) && !header.flags.intersects(Bits::SYN | Bits::RST) {
            self.remember_told(&header);
            if len == 0 || !self.has_sack_news() {
                self.on_answered();
            }
        }
        true
    }
}

/// What the end of a segment says: that a write, or all there is, ends there.
fn end_flags(pushed: bool, fin: bool) -> Bits {
    let push = if pushed { Bits::PSH } else { Bits::NONE };
    if fin { push | Bits::FIN } else { push }
}
