//! What to send now: SYN, what is lost, new data as the windows and Nagle allow, FIN, probes, acknowledgements.

use super::timers::Waiting;
use super::{Conn, Flags, Owed, State, Timer};
use crate::packet::TxBatch;
use crate::stats::Counter;

impl Conn<'_> {
    /// Writes what is owed into `batch`; `false` if that is full and something is left.
    pub(crate) fn poll_transmit(&mut self, batch: &mut dyn TxBatch) -> bool {
        match self.state() {
            State::Closed | State::TimeWait | State::Listen => {
                self.hot.owed = Owed::empty();
                true
            }
            State::SynSent | State::SynReceived => self.send_syn(batch),
            _ if self.leaves_alone() => self.send_alone(batch),
            _ => self.send_segments(batch) && self.send_acks(batch),
        }
    }

    fn send_syn(&mut self, batch: &mut dyn TxBatch) -> bool {
        if self.hot.owed.contains(Owed::SYN) && !self.emit_syn(batch) {
            return false;
        }
        self.hot.owed -= Owed::SYN;
        if self.cold.fast_open.answers_early() {
            // RFC 7413 4.2.2: the server may answer before the handshake is over.
            return self.send_segments(batch) && self.send_acks(batch);
        }
        self.hot.owed -= Owed::DATA;
        !self.hot.owed.contains(Owed::ACK) || self.state() == State::SynSent || self.emit_acks(batch)
    }

    fn send_segments(&mut self, batch: &mut dyn TxBatch) -> bool {
        if self.hot.owed.contains(Owed::RESEND) {
            while let Some(resend) = self.next_resend() {
                if !self.emit_again(batch, resend) {
                    return false;
                }
            }
            self.hot.owed -= Owed::RESEND;
        }
        if self.hot.owed.contains(Owed::TAIL_PROBE) {
            if !self.send_tail_probe(batch) {
                return false;
            }
            self.hot.owed -= Owed::TAIL_PROBE;
        }
        if self.hot.owed.contains(Owed::PROBE) {
            if !self.emit_probe(batch) {
                return false;
            }
            self.hot.owed -= Owed::PROBE;
        }
        if self.hot.owed.contains(Owed::DATA) {
            let before = self.hot.snd_nxt;
            let done = self.send_new(batch);
            self.after_sending(self.hot.snd_nxt != before);
            if !done {
                return false;
            }
            self.hot.owed -= Owed::DATA;
            self.arm_window_probe();
        }
        // Without new data, what F-RTO held back goes after all.
        !self.hot.owed.contains(Owed::RESEND) || self.send_segments(batch)
    }

    /// RFC 8985 7.3: a new segment if there is one that the window takes, else the last one once more.
    fn send_tail_probe(&mut self, batch: &mut dyn TxBatch) -> bool {
        let new = self.next_in_window();
        let (sent, retransmitted) = match (new, self.cold.recovery.probe_segment()) {
            (Some((len, fin)), _) => (self.emit_new(batch, len, fin), Some(false)),
            (None, Some(resend)) => (self.emit_again(batch, resend), Some(true)),
            (None, None) => (true, None),
        };
        if sent {
            self.shared.count(Counter::TailProbes);
            self.cold.recovery.on_probe(self.shared.now, retransmitted);
            self.sync_alarm();
        }
        sent
    }

    fn send_acks(&mut self, batch: &mut dyn TxBatch) -> bool {
        !self.hot.owed.contains(Owed::ACK) || self.emit_acks(batch)
    }

    /// New data and FIN, as far as they may go.
    fn send_new(&mut self, batch: &mut dyn TxBatch) -> bool {
        if !self.state().may_transmit() && !self.cold.fast_open.answers_early() {
            return true;
        }
        self.plan_bundle();
        while let Some((len, fin)) = self.next_new() {
            if !self.pacing_allows() {
                break;
            }
            if !self.emit_new(batch, len, fin) {
                return false;
            }
            self.plan_bundle();
        }
        true
    }

    /// The length of the next new segment and whether FIN goes with it; `None` if nothing may be sent.
    fn next_new(&self) -> Option<(u32, bool)> {
        let (len, fin) = self.next_in_window()?;
        let held = !fin && len < u32::from(self.hot.mss) && self.nagle_holds(len);
        (!held && self.has_room()).then_some((len, fin))
    }

    /// The same, as far as the peer's window is concerned.
    pub(super) fn next_in_window(&self) -> Option<(u32, bool)> {
        let unsent = (self.hot.write_seq - self.hot.snd_nxt).max(0) as u32;
        let fin_waits = self.hot.flags.contains(Flags::FIN_QUEUED) && !self.hot.flags.contains(Flags::FIN_SENT);
        let len = unsent.min(u32::from(self.hot.mss));
        // RFC 9293 3.8.6.2.1 (MUST-38): only whole segments, or all there is, so that no silly window is filled.
        let window_end = self.hot.snd_una + self.hot.snd_wnd;
        let end = self.hot.snd_nxt + len;
        let fin = fin_waits && len == unsent && end < window_end;
        ((len > 0 && end <= window_end) || fin).then_some((len, fin))
    }

    /// Whether the rate that the application asked for lets a segment go now; if not, a timer waits.
    fn pacing_allows(&mut self) -> bool {
        if self.cold.options.pacing_rate_max == 0 || self.cold.pacer.is_due(self.shared.now) {
            return true;
        }
        self.cold.timers.set(Timer::Pace, self.cold.pacer.next());
        false
    }

    // RFC 9293 3.7.4 (SHLD-7, MUST-17), in Minshall's form as Linux has it: a small segment waits while one is
    // unacknowledged.
    pub(super) fn nagle_holds(&self, len: u32) -> bool {
        let options = &self.cold.options;
        if self.cold.let_go {
            return false;
        }
        if options.cork || self.cold.more_follows {
            return true;
        }
        let small_in_flight = self.cold.small_end > self.hot.snd_una && self.cold.small_end <= self.hot.snd_nxt;
        !options.nodelay && self.hot.flight() > 0 && small_in_flight && len > 0
    }

    /// Nothing is in flight, and what waits may not go: a timer must look after it.
    fn arm_window_probe(&mut self) {
        if self.has_unsent()
            && self.hot.flight() == 0
            && self.cold.timers.at(Timer::Retransmit).is_none()
            && self.cold.timers.at(Timer::Pace).is_none()
        {
            self.cold.timers.waiting = Waiting::Window;
            self.cold.timers.set(Timer::Retransmit, self.shared.now + self.probe_interval_us());
        }
    }

    /// Bytes or a FIN that were not sent yet.
    pub(super) fn has_unsent(&self) -> bool {
        let fin_waits = self.hot.flags.contains(Flags::FIN_QUEUED) && !self.hot.flags.contains(Flags::FIN_SENT);
        self.hot.write_seq - self.hot.snd_nxt > 0 || fin_waits
    }
}
