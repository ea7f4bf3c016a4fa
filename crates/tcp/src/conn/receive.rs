//! Payload and FIN (RFC 9293 3.10.7.4, seventh and eighth).

use ringway_wire::tcp::Flags as Bits;

use super::{Conn, Flags, Owed, State};
use crate::error::Error;
use crate::event::Ready;
use crate::packet::Segment;
use crate::stats::Counter;

impl Conn<'_> {
    /// Takes in what a segment in the window carries.
    pub(super) fn receive(&mut self, segment: &Segment) {
        if !self.state().may_receive() {
            // RFC 9293 3.10.7.4: "This should not occur since a FIN has been received from the remote side. Ignore the
            // segment text." A segment repeated is acknowledged again.
            if segment.end() <= self.hot.rcv_nxt {
                self.owe(Owed::ACK);
            }
            return;
        }
        if self.refuses_data(segment) {
            return;
        }
        if !segment.payload.is_empty() {
            self.cold.tally.data_segments_in = self.cold.tally.data_segments_in.wrapping_add(1);
            self.take_mark(segment);
        }
        if segment.end() <= self.hot.rcv_nxt {
            // All of it was here before: our acknowledgement was lost.
            self.shared.count(Counter::Duplicate);
            self.answer_quickly();
            self.report_duplicate(segment);
            self.owe(Owed::ACK);
        } else if segment.seq > self.hot.rcv_nxt {
            self.receive_early(segment);
        } else {
            self.receive_in_order(segment);
        }
    }

    /// Takes in the data of a SYN.
    pub(super) fn receive_with_syn(&mut self, segment: &Segment) {
        self.receive_in_order(segment);
    }

    /// Data for an application that has closed: the peer must learn that they are lost (RFC 9293 3.6.1, MUST-19).
    fn refuses_data(&mut self, segment: &Segment) -> bool {
        let nobody = !self.hot.flags.contains(Flags::OPEN) || self.hot.flags.contains(Flags::READ_SHUTDOWN);
        let closing = matches!(self.state(), State::FinWait1 | State::FinWait2);
        let fresh = segment.seq + segment.payload.len() as u32 > self.hot.rcv_nxt;
        if !(nobody && closing && fresh) {
            return false;
        }
        self.shared.count(Counter::DataAfterClose);
        self.shared.reply_with_reset(&self.hot.key, segment);
        self.end(Error::ConnectionReset);
        true
    }

    /// The segment begins at or before the next expected byte and reaches beyond it.
    fn receive_in_order(&mut self, segment: &Segment) {
        let window = self.hot.receive_window();
        if window == 0 && !segment.payload.is_empty() {
            // RFC 9293 3.8.6.1 (MUST-36): a probe of our closed window is acknowledged.
            self.shared.count(Counter::WindowFull);
            self.answer_quickly();
            self.owe(Owed::ACK);
            return;
        }
        let known = self.hot.rcv_nxt.offset_from(segment.seq) as usize;
        if known > 0 {
            self.report_duplicate(segment);
        }
        let fresh = segment.payload.get(known..).unwrap_or_default();
        // RFC 9293 3.10.7.4: "segments... trimmed to fit in the window".
        let fits = &fresh[..fresh.len().min(window as usize)];
        if !self.place(fits) {
            return;
        }
        let whole = fits.len() == fresh.len();
        // RFC 5681 4.2: "a TCP receiver SHOULD send an immediate ACK when the incoming segment fills in all or part of a
        // gap in the sequence space."
        let before = self.hot.rcv_nxt;
        let gap_filled = self.join(fits.len());
        if !fits.is_empty() {
            self.cold.tally.bytes_received += u64::from(self.hot.rcv_nxt.offset_from(before));
            self.measure_receive_rtt(segment);
            self.on_data_received(fits.len());
            self.grow_window(fits.len() as u32);
            self.tell(Ready::READABLE);
        }
        if gap_filled || !whole {
            self.owe(Owed::ACK);
        }
        if segment.has(Bits::FIN) && whole {
            self.cold.fin_at = Some(segment.end() - 1);
        }
        self.check_fin();
    }

    /// Puts `bytes` behind `rcv_nxt`; `false` if there is no memory for them, and they are dropped.
    pub(super) fn place(&mut self, bytes: &[u8]) -> bool {
        let at = self.cold.rx.len();
        if !self.cold.rx.reserve(at + bytes.len(), &mut self.shared.pool) {
            self.shared.count(Counter::NoMemory);
            return false;
        }
        self.cold.rx.write_at(at, bytes);
        true
    }

    // RFC 9293 3.10.7.4, eighth: check the FIN bit.
    /// If the peer's FIN is next, it is taken.
    fn check_fin(&mut self) {
        if self.cold.fin_at != Some(self.hot.rcv_nxt) || self.hot.flags.contains(Flags::FIN_RECEIVED) {
            return;
        }
        // "advance RCV.NXT over the FIN, and send an acknowledgment for the FIN."
        self.hot.rcv_nxt += 1;
        self.hot.flags |= Flags::FIN_RECEIVED;
        let next = self.cold.early.next();
        self.cold.early.end(next + 1);
        self.schedule_answer();
        match self.state() {
            // "SYN-RECEIVED STATE, ESTABLISHED STATE: Enter the CLOSE-WAIT state."
            State::SynReceived | State::Established => {
                self.set_state(State::CloseWait);
                self.cold.answering.pingpong = true;
            }
            // "If our FIN has been ACKed (perhaps in this segment), then enter TIME-WAIT...; otherwise, enter the
            // CLOSING state."
            State::FinWait1 => {
                self.set_state(State::Closing);
                self.owe(Owed::ACK);
            }
            // "FIN-WAIT-2 STATE: Enter the TIME-WAIT state."
            State::FinWait2 => {
                self.owe(Owed::ACK);
                self.enter_time_wait();
            }
            _ => {}
        }
        self.tell(Ready::READABLE | Ready::READ_HANGUP);
    }
}
