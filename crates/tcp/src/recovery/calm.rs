//! The short ways for a sender that has nothing or one segment in flight, while nothing is amiss: every request and every
//! reply goes them. They do what the long ways would do, and a test compares the two.

use super::ack::Ack;
use super::alarms::Alarm;
use super::segment::APP_LIMITED;
use super::{Hold, Recovery, State};
use crate::congestion::AckSample;
use crate::congestion::window::SendReport;
use crate::rate::Delivery;
use crate::time::Instant;

impl Recovery {
    /// Whether an acknowledgement of all that was sent, without SACK blocks or echoes of marks, can be given to
    /// [`Recovery::on_calm_ack`].
    #[inline]
    pub fn is_calm(&self) -> bool {
        self.state == State::Open && self.board.has_one_untouched() && self.config.sack && self.tlp.end().is_none()
    }

    /// The same for any acknowledgement.
    #[inline]
    pub(super) fn is_calm_ack(&self, ack: &Ack) -> bool {
        self.is_calm() && ack.ack == self.board.nxt() && ack.sacks.is_empty() && !ack.ece
    }

    /// All that was sent is acknowledged.
    #[inline]
    pub fn on_calm_ack(&mut self, now: Instant) {
        let prior_una = self.board.una();
        (self.hold, self.timeouts, self.alarm) = (Hold::No, 0, None);
        let segment = self.board.pop_only();
        let (sent, end) = (segment.sent(), self.board.nxt());
        self.rate.on_delivery(Delivery {
            snapshot: segment.snapshot,
            sent,
            end,
            app_limited: segment.has(APP_LIMITED),
            retransmitted: false,
        });
        self.rack.on_delivered(now, &segment, end, 0);
        let us = now.since_us_u32(sent);
        // A lone short segment is what receivers delay ACKs for.
        self.rtt.on_min_rtt(now, us, end - prior_una < u64::from(self.mss));
        self.rtt.on_sample(us, end, end);
        if let Some(prior_delivered) = self.rate.sampled_prior_delivered() {
            self.rack.adapt_window(prior_delivered, self.rate.delivered().wrapping_add(1));
        }
        let min_us = self.rtt.min_rtt_us().unwrap_or(0);
        let rate = self.rate.on_ack_end(now.into(), 1, min_us, self.reneged);
        let (una, nxt, rtt_us) = (end, end, Some(us));
        self.congestion.on_ack(&AckSample { now, delivered: 1, marked: 0, una, nxt, rtt_us, rate, may_grow: true });
    }

    /// Whether a segment that leaves alone can be given to [`Recovery::on_alone`].
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.state == State::Open && self.board.segments() == 0 && self.hold == Hold::No
    }

    /// A segment of `len` octets leaves, `pushed` or not, and nothing is left to send: [`Recovery::on_transmit`] and
    /// [`Recovery::after_sending`] in one.
    #[inline]
    pub fn on_alone(&mut self, now: Instant, len: u16, pushed: bool) {
        let snapshot = self.rate.on_send(now.into(), false);
        let room = self.board.push(len, now, snapshot, self.rate.is_app_limited());
        debug_assert!(room.is_ok(), "an empty scoreboard has room");
        self.board.mark_newest(pushed, true);
        self.last_sent = now;
        let limited = self.congestion.window.cwnd() <= 1;
        let (una, nxt, rto_us) = (self.board.una(), self.board.nxt(), self.rtt.rto_us());
        let decay_us = self.config.slow_start_after_idle.then_some(rto_us);
        self.congestion.window.on_sent(SendReport { now, una, nxt, segments: 1, limited }, decay_us);
        if !limited {
            self.rate.on_app_limited(1);
        }
        self.alarm = Some((Alarm::Timeout, now + u64::from(rto_us)));
        self.schedule_probe(now, rto_us);
    }
}
