//! A segment arrives at a connection (RFC 9293 3.10.7): the checks, in the RFC's order, then what it brings.

use ringway_wire::tcp::Flags as Bits;

use super::{Conn, Flags, Owed, State};
use crate::error::Error;
use crate::event::Ready;
use crate::packet::Segment;
use crate::stats::Counter;

/// RFC 7323 5.5: a timestamp is not compared with one that is older than 24 days.
const PAWS_IDLE_MAX_S: u32 = 24 * 24 * 3600;
/// Linux's `TCP_PAWS_WINDOW`: so much a clock may lag.
const PAWS_SLACK: u32 = 1;

impl Conn<'_> {
    /// A segment for this connection arrived.
    pub(crate) fn arrive(&mut self, segment: &Segment) {
        self.cold.last_received = self.shared.now;
        self.cold.tally.segments_in = self.cold.tally.segments_in.wrapping_add(1);
        match self.state() {
            State::SynSent => self.arrive_in_syn_sent(segment),
            State::Closed | State::TimeWait | State::Listen => {}
            _ if self.take_predicted(segment) => {}
            _ => self.arrive_synchronized(segment),
        }
    }

    /// RFC 9293 3.10.7.4, for SYN-RECEIVED and all states behind it.
    fn arrive_synchronized(&mut self, segment: &Segment) {
        if !self.is_acceptable(segment) || !self.survives_reset_and_syn(segment) {
            return;
        }
        // RFC 9293 3.10.7.4, fifth: "if the ACK bit is off, drop the segment and return."
        if !segment.has(Bits::ACK) {
            self.shared.count(Counter::NoAck);
            return;
        }
        if self.state() == State::SynReceived && !self.leave_syn_received(segment) {
            return;
        }
        if !self.take_ack(segment) {
            return;
        }
        self.after_ack_of_fin();
        if self.hot.flags.intersects(Flags::DONE | Flags::LINGERS) {
            return;
        }
        self.take_timestamp(segment);
        self.take_urgent(segment);
        if segment.seq_len() > 0 {
            self.receive(segment);
        }
        self.owe_data();
        self.check_answer();
    }

    // RFC 9293 3.10.7.4, first: check sequence number.
    /// Whether the segment fits the window and the clock; if not, it has been answered.
    fn is_acceptable(&mut self, segment: &Segment) -> bool {
        // RFC 7323 5.3 R1: "If SEG.TSval < TS.Recent... then: Send an acknowledgment in reply... drop the segment",
        // resets excepted.
        if self.is_old_by_timestamp(segment) && !segment.has(Bits::RST) {
            self.shared.count(Counter::Paws);
            if !segment.has(Bits::SYN) {
                self.answer_out_of_window(segment);
            } else {
                self.challenge();
            }
            return false;
        }
        if self.is_in_window(segment) {
            return true;
        }
        self.shared.count(Counter::OutOfWindow);
        // RFC 9293 3.10.7.4: "If an incoming segment is not acceptable, an acknowledgment should be sent in reply
        // (unless the RST bit is set, if so drop the segment and return)".
        if segment.has(Bits::RST) {
            return false;
        }
        if segment.has(Bits::SYN) {
            self.challenge();
        } else {
            self.answer_out_of_window(segment);
        }
        false
    }

    // RFC 9293 3.10.7.4, table 6, as Linux's `tcp_sequence`: what ends before the last told edge or begins behind
    // the window is not acceptable.
    fn is_in_window(&self, segment: &Segment) -> bool {
        let right = self.hot.rcv_nxt + self.hot.receive_window();
        segment.end() >= self.hot.rcv_wup && segment.seq <= right
    }

    fn is_old_by_timestamp(&self, segment: &Segment) -> bool {
        let Some(timestamps) = segment.options.timestamps else { return false };
        if !self.hot.flags.contains(Flags::TIMESTAMPS) {
            return false;
        }
        let behind = self.hot.ts_recent.wrapping_sub(timestamps.value) as i32;
        let age_s = self.shared.now_s().wrapping_sub(self.hot.ts_recent_s);
        behind > PAWS_SLACK as i32 && age_s < PAWS_IDLE_MAX_S && !self.is_harmless_duplicate_ack(segment)
    }

    /// Linux's `tcp_disordered_ack`: an old acknowledgement overtaken by newer ones; it needs no answer.
    fn is_harmless_duplicate_ack(&self, segment: &Segment) -> bool {
        let pure = segment.flags - Bits::PSH == Bits::ACK && segment.seq_len() == 0;
        let unchanged = u32::from(segment.window) << self.hot.snd_wscale == self.hot.snd_wnd;
        pure && segment.seq == self.hot.rcv_nxt && segment.ack == self.hot.snd_una && unchanged
    }

    // RFC 9293 3.10.7.4, second and fourth: check the RST bit, check the SYN bit; with RFC 5961.
    /// Whether the segment goes on; a reset or a SYN has been dealt with.
    fn survives_reset_and_syn(&mut self, segment: &Segment) -> bool {
        if segment.has(Bits::RST) {
            // RFC 5961 3.2: "If the RST bit is set and the sequence number exactly matches the next expected sequence
            // number (RCV.NXT), then TCP MUST reset the connection." Else "MUST send an acknowledgment".
            if segment.seq == self.hot.rcv_nxt || self.is_edge_of_early(segment) {
                self.be_reset();
            } else {
                self.challenge();
            }
            return false;
        }
        if segment.has(Bits::SYN) {
            // RFC 9293 3.5 (figure 7): the other side of a simultaneous open answers with SYN and ACK.
            let crossing = self.state() == State::SynReceived
                && segment.has(Bits::ACK)
                && segment.seq + 1 == self.hot.rcv_nxt
                && segment.ack == self.hot.snd_nxt;
            if !crossing {
                // RFC 5961 4.2: "If the SYN bit is set, irrespective of the sequence number, TCP MUST send an ACK."
                self.challenge();
                return false;
            }
        }
        true
    }

    /// Linux: after a segment was lost, the peer's reset may lie behind what arrived early.
    fn is_edge_of_early(&self, segment: &Segment) -> bool {
        self.early_end().is_some_and(|end| segment.seq == end)
    }

    /// The peer has reset the connection (`tcp_reset`).
    fn be_reset(&mut self) {
        let error = match self.state() {
            // RFC 9293 3.10.7.4: "If this connection was initiated with an active OPEN... 'connection refused'".
            State::SynReceived => Error::ConnectionRefused,
            State::CloseWait => Error::BrokenPipe,
            _ => Error::ConnectionReset,
        };
        self.shared.count(Counter::ResetReceived);
        self.end(error);
    }

    // RFC 9293 3.10.7.4, fifth, SYN-RECEIVED.
    fn leave_syn_received(&mut self, segment: &Segment) -> bool {
        // "If SND.UNA < SEG.ACK =< SND.NXT, then enter ESTABLISHED state... If the segment acknowledgment is not
        // acceptable, form a reset segment <SEQ=SEG.ACK><CTL=RST> and send it."
        if segment.ack <= self.hot.snd_una || segment.ack > self.hot.snd_nxt {
            self.shared.reply_with_reset(&self.hot.key, segment);
            return false;
        }
        let unscaled = segment.has(Bits::SYN);
        let window = u32::from(segment.window) << if unscaled { 0 } else { self.hot.snd_wscale };
        self.hot.snd_una = self.hot.snd_una.max(self.cold.iss + 1);
        self.set_send_window(window, segment.seq);
        self.on_syn_acknowledged(segment);
        self.establish();
        self.tell(Ready::WRITABLE);
        if unscaled {
            self.owe(Owed::ACK);
        }
        true
    }

    // RFC 7323 4.3 (2): "If SEG.TSval >= TS.Recent and SEG.SEQ <= Last.ACK.sent then SEG.TSval is copied to TS.Recent."
    fn take_timestamp(&mut self, segment: &Segment) {
        let Some(timestamps) = segment.options.timestamps else { return };
        let newer = timestamps.value.wrapping_sub(self.hot.ts_recent) as i32 >= 0
            || self.shared.now_s().wrapping_sub(self.hot.ts_recent_s) >= PAWS_IDLE_MAX_S;
        if self.hot.flags.contains(Flags::TIMESTAMPS) && newer && segment.seq <= self.hot.rcv_wup {
            self.store_timestamp(timestamps.value);
        }
    }

    pub(super) fn store_timestamp(&mut self, value: u32) {
        (self.hot.ts_recent, self.hot.ts_recent_s) = (value, self.shared.now_s());
    }

    /// Acknowledges something odd that might be forged: seldom (RFC 5961 7; `tcp_invalid_ratelimit`).
    pub(super) fn challenge(&mut self) {
        if self.may_answer_oddity() && self.shared.take_challenge() {
            self.shared.count(Counter::Challenge);
            self.owe(Owed::ACK);
        }
    }

    /// Acknowledges a segment out of window; data and FIN at once, as the peer may wait, the rest seldom
    /// (`tcp_send_dupack`, `tcp_oow_rate_limited`).
    pub(super) fn answer_out_of_window(&mut self, segment: &Segment) {
        if segment.end() != segment.seq && segment.seq < self.hot.rcv_nxt {
            self.answer_quickly();
            self.report_duplicate(segment);
        }
        if segment.seq_len() > 0 || self.may_answer_oddity() {
            self.owe(Owed::ACK);
        }
    }

    fn may_answer_oddity(&mut self) -> bool {
        let now = self.shared.now;
        let pause_us = u64::from(self.shared.config.tcp_invalid_ratelimit) * 1000;
        if self.cold.last_rate_limited_ack.is_some_and(|at| now.since_us(at) < pause_us) {
            self.shared.count(Counter::RateLimited);
            return false;
        }
        self.cold.last_rate_limited_ack = Some(now);
        true
    }
}
