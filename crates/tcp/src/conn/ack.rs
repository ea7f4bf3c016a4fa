//! What an acknowledgement says of what we sent (RFC 9293 3.10.7.4, fifth), and of the peer's window.

use ringway_wire::SeqNumber;
use ringway_wire::tcp::Flags as Bits;

use super::timers::Waiting;
use super::{Conn, Flags, State, Timer};
use crate::event::Ready;
use crate::packet::Segment;
use crate::stats::Counter;

impl Conn<'_> {
    /// Processes the acknowledgement; `false` if the segment is to be dropped for it.
    pub(super) fn take_ack(&mut self, segment: &Segment) -> bool {
        let ack = segment.ack;
        if ack < self.hot.snd_una {
            // RFC 5961 5.2: "The ACK value is considered acceptable only if it is in the range of
            // ((SND.UNA - MAX.SND.WND) <= SEG.ACK <= SND.NXT)... TCP MUST send an ACK back" otherwise.
            if ack < self.hot.snd_una - self.cold.max_window {
                self.challenge();
                return false;
            }
            self.take_old_ack(segment);
            return true;
        }
        // RFC 9293 3.10.7.4: "If the ACK acks something not yet sent (SEG.ACK > SND.NXT), then send an ACK, drop the
        // segment, and return."
        if ack > self.hot.snd_nxt {
            self.shared.count(Counter::AckOfUnsent);
            self.challenge();
            return false;
        }
        // Linux: `MSG_MORE` is a word about one call; what arrives lets go what it held back.
        self.cold.more_follows = false;
        let window_changed = self.take_window(segment);
        self.cold.last_ack_received = self.shared.now;
        self.cold.probes = 0;
        let before = self.hot.snd_una;
        self.hot.snd_una = ack;
        self.on_ack(segment, before, window_changed);
        self.drop_acknowledged();
        self.check_window_probe();
        true
    }

    // RFC 9293 3.10.7.4: "If SND.UNA =< SEG.ACK =< SND.NXT, the send window should be updated. If (SND.WL1 < SEG.SEQ or
    // (SND.WL1 = SEG.SEQ and SND.WL2 =< SEG.ACK)), set SND.WND <- SEG.WND"; as `tcp_may_update_window` reads it.
    fn take_window(&mut self, segment: &Segment) -> bool {
        let scale = if segment.has(Bits::SYN) { 0 } else { self.hot.snd_wscale };
        let window = u32::from(segment.window) << scale;
        let newer = segment.ack > self.hot.snd_una
            || segment.seq > self.hot.snd_wl1
            || (segment.seq == self.hot.snd_wl1 && (window > self.hot.snd_wnd || window == 0));
        if !newer {
            return false;
        }
        let changed = window != self.hot.snd_wnd;
        self.set_send_window(window, segment.seq);
        if changed && self.has_unsent() {
            self.before_sending();
        }
        changed
    }

    pub(super) fn set_send_window(&mut self, window: u32, seq: SeqNumber) {
        (self.hot.snd_wnd, self.hot.snd_wl1) = (window, seq);
        if window > self.cold.max_window {
            self.cold.max_window = window;
            self.update_mss();
        }
    }

    /// Frees what is acknowledged, and tells the application of the room.
    pub(super) fn drop_acknowledged(&mut self) {
        let behind = self.hot.snd_una.min(self.hot.write_seq);
        let bytes = behind - self.cold.tx_base;
        if bytes <= 0 {
            return;
        }
        self.cold.tally.bytes_acked += bytes as u64;
        self.cold.tx.consume(bytes as usize);
        self.cold.tx_base = behind;
        if self.cold.tx.len() == 0 {
            self.cold.tx.release(&mut self.shared.pool);
        }
        if self.hot.flags.contains(Flags::SEND_BLOCKED) && self.is_writable() {
            self.hot.flags -= Flags::SEND_BLOCKED;
            self.tell(Ready::WRITABLE);
        }
    }

    /// The application's FIN may be acknowledged: RFC 9293 3.10.7.4, fifth, for the closing states.
    pub(super) fn after_ack_of_fin(&mut self) {
        let acknowledged = self.hot.flags.contains(Flags::FIN_SENT) && self.hot.snd_una == self.hot.write_seq + 1;
        if !acknowledged {
            return;
        }
        match self.state() {
            // "if the FIN segment is now acknowledged, then enter FIN-WAIT-2 and continue processing in that state."
            State::FinWait1 => self.enter_fin_wait_2(),
            // "if the ACK acknowledges our FIN, then enter the TIME-WAIT state".
            State::Closing => self.enter_time_wait(),
            // "If our FIN is now acknowledged, delete the TCB, enter the CLOSED state, and return."
            State::LastAck => self.finish(),
            _ => {}
        }
    }

    /// The window has opened, or nothing waits for it any more: no more probes.
    pub(super) fn check_window_probe(&mut self) {
        if self.cold.timers.waiting != Waiting::Window {
            return;
        }
        self.cold.timers.stop(Timer::Retransmit);
        self.cold.timers.waiting = Waiting::Recovery;
        if self.next_in_window().is_some() || !self.has_unsent() {
            (self.cold.probe_backoff, self.cold.retransmitting_since) = (0, None);
        }
    }
}
