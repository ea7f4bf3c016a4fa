//! What is in flight, what of it is lost, and what is due to be sent again.

use ringway_wire::SeqNumber;

use super::timers::Waiting;
use super::{Conn, Owed, Timer};
use crate::packet::Segment;

impl Conn<'_> {
    pub(super) fn reset_recovery(&mut self) {}

    pub(super) fn rto_us(&self) -> u32 {
        200_000
    }

    pub(super) fn srtt_us(&self) -> Option<u32> {
        None
    }

    /// Our SYN was acknowledged by `segment`.
    pub(super) fn on_syn_acknowledged(&mut self, _segment: &Segment) {}

    /// `len` of sequence space from `seq` on have left for the first time.
    pub(super) fn on_sent(&mut self, _seq: SeqNumber, _len: u32) {
        if self.cold.timers.at(Timer::Retransmit).is_none() {
            self.rearm_timeout();
        }
    }

    /// The peer acknowledged what lies between `before` and `snd_una`, and perhaps more selectively.
    pub(super) fn on_ack(&mut self, _segment: &Segment, before: SeqNumber, _window_changed: bool) {
        if self.hot.snd_una == before {
            return;
        }
        self.cold.timeouts = 0;
        if self.hot.flight() == 0 {
            self.cold.timers.stop(Timer::Retransmit);
        } else {
            self.rearm_timeout();
        }
    }

    /// An acknowledgement from before; its SACK blocks may still tell something.
    pub(super) fn take_old_ack(&mut self, _segment: &Segment) {}

    /// The next piece to send again.
    pub(super) fn next_resend(&self) -> Option<(SeqNumber, u32)> {
        let len = self.hot.flight().min(u32::from(self.hot.mss));
        (len > 0).then_some((self.hot.snd_una, len))
    }

    pub(super) fn on_resent(&mut self) {
        self.hot.owed -= Owed::RESEND;
    }

    /// How many bytes of new data congestion control lets out now.
    pub(super) fn sendable_bytes(&self) -> u32 {
        (10 * u32::from(self.hot.mss)).saturating_sub(self.hot.flight())
    }

    pub(super) fn rearm_timeout(&mut self) {
        self.cold.timers.waiting = Waiting::Timeout;
        let backed_off = u64::from(self.rto_us()) << self.cold.timeouts.min(9);
        self.cold.timers.set(Timer::Retransmit, self.shared.now + backed_off);
    }

    pub(super) fn on_timeout(&mut self) {
        self.owe(Owed::RESEND);
        self.rearm_timeout();
    }

    pub(super) fn back_off(&mut self) {}

    pub(super) fn on_tail_probe_timer(&mut self) {}

    pub(super) fn on_reordering_timer(&mut self) {}

    pub(super) fn release_recovery(&mut self) {}
}
