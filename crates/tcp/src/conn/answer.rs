//! When to acknowledge (RFC 9293 3.8.6.3, RFC 5681 4.2), as Linux does: at once for the first segments, for every
//! second full one, and whenever something is odd; otherwise after 40 ms or with our own data.

use super::{Conn, Owed, Timer};
use crate::time::Instant;

/// Linux's `TCP_ATO_MIN` and `TCP_DELACK_MIN`.
const DELAY_MIN_US: u32 = 40_000;
/// Linux's `TCP_DELACK_MAX`; RFC 9293 3.8.6.3 (MUST-40) allows 500 ms.
const DELAY_MAX_US: u32 = 200_000;
const QUICK_MAX: u8 = 16;

/// The state of answering.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answering {
    /// Acknowledgements that still go out at once, as the peer is in slow start.
    quick: u8,
    /// The two sides take turns: our reply will carry the acknowledgement.
    pub(crate) pingpong: bool,
    /// Data arrived that no acknowledgement has covered yet.
    scheduled: bool,
    /// Small segments among these, up to 2: the sender had no more to say.
    small: u8,
    /// Estimate of the time between segments, which is how long to wait for more.
    delay_us: u32,
    last_data: Instant,
}

impl Answering {
    pub(super) fn delay_us(&self) -> u32 {
        self.delay_us
    }

    pub(super) fn last_data(&self) -> Instant {
        self.last_data
    }

    /// Acknowledgements go out at once.
    pub(super) fn wants_quick(&self) -> bool {
        self.quick > 0 && !self.pingpong
    }
}

impl Conn<'_> {
    /// Acknowledge the next segments at once.
    pub(super) fn enter_quick_answers(&mut self) {
        let segments = self.hot.rcv_wnd / (2 * u32::from(self.cold.window.mss.max(1)));
        let segments = if segments == 0 { 2 } else { segments.min(u32::from(QUICK_MAX)) } as u8;
        let answering = &mut self.cold.answering;
        answering.quick = answering.quick.max(segments);
    }

    /// Something odd arrived: acknowledge quickly and end the taking of turns.
    pub(super) fn answer_quickly(&mut self) {
        self.enter_quick_answers();
        let answering = &mut self.cold.answering;
        (answering.pingpong, answering.delay_us) = (false, DELAY_MIN_US);
    }

    /// Payload arrived in order (`tcp_event_data_recv`).
    pub(super) fn on_data_received(&mut self, bytes: usize) {
        let now = self.shared.now;
        self.cold.window.measure_mss(bytes);
        if bytes < usize::from(self.cold.window.mss) {
            self.cold.answering.small = (self.cold.answering.small + 1).min(2);
        }
        let since_us = now.since_us(self.cold.answering.last_data).min(u64::from(u32::MAX)) as u32;
        let rto_us = self.rto_us();
        self.cold.answering.scheduled = true;
        let delay_us = self.cold.answering.delay_us;
        if delay_us == 0 {
            // The first data: the sender is in slow start.
            self.enter_quick_answers();
            self.cold.answering.delay_us = DELAY_MIN_US;
        } else if since_us <= DELAY_MIN_US / 2 {
            self.cold.answering.delay_us = delay_us / 2 + DELAY_MIN_US / 2;
        } else if since_us < delay_us {
            self.cold.answering.delay_us = (delay_us / 2 + since_us).min(rto_us);
        } else if since_us > rto_us {
            // So long a pause: the sender starts slowly again.
            self.enter_quick_answers();
        }
        self.cold.answering.last_data = now;
    }

    /// Something arrived that takes an acknowledgement, now or later.
    pub(super) fn schedule_answer(&mut self) {
        self.cold.answering.scheduled = true;
    }

    /// A segment has been processed: acknowledge now, later or not (`__tcp_ack_snd_check`).
    pub(super) fn check_answer(&mut self) {
        if !self.cold.answering.scheduled || self.hot.owed.contains(Owed::ACK) {
            return;
        }
        let unanswered = self.hot.rcv_nxt.offset_from(self.hot.rcv_wup);
        // RFC 5681 4.2: at least every second full-sized segment is acknowledged.
        let second_segment = unanswered > u32::from(self.cold.window.mss) && self.select_window() >= self.hot.rcv_wnd;
        if second_segment || self.cold.answering.wants_quick() {
            self.owe(Owed::ACK);
        } else {
            self.delay_answer();
        }
    }

    /// Acknowledges later (`tcp_send_delayed_ack`).
    pub(super) fn delay_answer(&mut self) {
        let now = self.shared.now;
        let srtt_us = self.srtt_us();
        let answering = &mut self.cold.answering;
        answering.scheduled = true;
        let mut delay_us = answering.delay_us.max(DELAY_MIN_US);
        if delay_us > DELAY_MIN_US {
            let most_us = srtt_us.map_or(DELAY_MAX_US, |us| us.clamp(DELAY_MIN_US, DELAY_MAX_US));
            delay_us = delay_us.min(most_us);
        }
        let at = match self.cold.timers.at(Timer::Answer) {
            Some(due) if due <= now + u64::from(delay_us / 4) => {
                self.owe(Owed::ACK);
                return;
            }
            Some(due) => due.min(now + u64::from(delay_us)),
            None => now + u64::from(delay_us),
        };
        self.cold.timers.set(Timer::Answer, at);
    }

    /// The acknowledgement has waited long enough (`tcp_delack_timer_handler`).
    pub(super) fn on_answer_timer(&mut self) {
        let rto_us = self.rto_us();
        let answering = &mut self.cold.answering;
        if !answering.scheduled {
            return;
        }
        if answering.pingpong {
            // Our reply did not come in time: no more turns.
            (answering.pingpong, answering.delay_us) = (false, DELAY_MIN_US);
        } else {
            answering.delay_us = (answering.delay_us * 2).min(rto_us);
        }
        self.owe(Owed::ACK);
    }

    /// A segment with an acknowledgement has left.
    pub(super) fn on_answered(&mut self) {
        let answering = &mut self.cold.answering;
        if answering.scheduled {
            answering.quick = answering.quick.saturating_sub(1);
            if answering.quick == 0 {
                answering.delay_us = answering.delay_us.max(DELAY_MIN_US);
            }
        }
        (answering.scheduled, answering.small) = (false, 0);
        self.hot.owed -= Owed::ACK;
        self.hot.acks_owed = 0;
        self.cold.timers.stop(Timer::Answer);
    }

    /// Data of ours has left (`tcp_event_data_sent`): soon after theirs, it was a reply.
    pub(super) fn on_data_sent(&mut self) {
        let since_us = self.shared.now.since_us(self.cold.answering.last_data);
        if since_us < u64::from(self.cold.answering.delay_us) {
            self.cold.answering.pingpong = true;
        }
        self.cold.last_sent = self.shared.now;
    }

    /// The application has read what arrived: whether an acknowledgement that waits should go (`__tcp_cleanup_rbuf`).
    pub(super) fn read_calls_for_answer(&self) -> bool {
        let answering = &self.cold.answering;
        let unanswered = self.hot.rcv_nxt.offset_from(self.hot.rcv_wup);
        let drained = self.unread() == 0 && (answering.small == 2 || answering.small == 1 && !answering.pingpong);
        answering.scheduled && (unanswered > u32::from(self.cold.window.mss) || drained)
    }
}
