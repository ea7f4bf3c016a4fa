//! Delivery-rate samples: how fast the network delivered the flight that an ACK ends
//! (draft-cheng-iccrg-delivery-rate-estimation; Linux: `net/ipv4/tcp_rate.c`).
//!
//! Each segment remembers how much had been delivered when it was sent. The ACK that delivers it gives a sample:
//! what was delivered since, over the longer of the time that sending and that acknowledging took.

use crate::stamp::Stamp;
use crate::time::Instant;

/// What the estimator knew when a segment was sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendSnapshot {
    /// Segments delivered so far.
    delivered: u32,
    /// When `delivered` last grew.
    delivered_at: Stamp,
    /// When the flight began of which this segment is a part.
    first_sent: Stamp,
}

/// A segment that an ACK delivered.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    pub snapshot: SendSnapshot,
    /// When it was sent last.
    pub sent: Instant,
    /// Offset after its last octet.
    pub end: u64,
    pub app_limited: bool,
    /// Whether it was ever sent again.
    pub retransmitted: bool,
}

/// One sample, for one ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RateSample {
    /// Segments delivered during the interval.
    pub delivered: u32,
    /// Segments delivered when the sampled segment was sent.
    pub prior_delivered: u32,
    /// Length of the interval; never 0.
    pub interval_us: u32,
    /// Whether the application, not the network, may have limited the rate.
    pub app_limited: bool,
    /// Whether the sampled segment was a retransmission.
    pub retransmitted: bool,
}

impl RateSample {
    /// Whether this sample shows at least the rate of `other`.
    fn is_as_fast_as(&self, other: &RateSample) -> bool {
        let ours = u64::from(self.delivered) * u64::from(other.interval_us);
        ours >= u64::from(other.delivered) * u64::from(self.interval_us)
    }

    /// Octets a second, for segments of `mss` octets.
    pub fn bytes_per_s(&self, mss: u32) -> u64 {
        u64::from(self.delivered) * u64::from(mss) * 1_000_000 / u64::from(self.interval_us.max(1))
    }
}

/// The sample that an ACK is gathering.
#[derive(Clone, Copy, Debug)]
struct Gathering {
    newest: Delivery,
    /// How long the sampled flight took to send.
    send_us: u32,
}

/// The estimator of one connection.
#[derive(Clone, Debug, Default)]
pub struct RateEstimator {
    delivered: u32,
    delivered_at: Stamp,
    first_sent: Stamp,
    /// Until this many segments are delivered, samples are limited by the application.
    app_limited_until: Option<u32>,
    gathering: Option<Gathering>,
    best: Option<RateSample>,
}

impl RateEstimator {
    /// A segment is being sent (or sent again); `in_flight` says whether any is unacknowledged already.
    pub fn on_send(&mut self, now: Stamp, in_flight: bool) -> SendSnapshot {
        if !in_flight {
            // The flight begins now: what is delivered from here on is delivered in this interval.
            (self.first_sent, self.delivered_at) = (now, now);
        }
        SendSnapshot { delivered: self.delivered, delivered_at: self.delivered_at, first_sent: self.first_sent }
    }

    /// An ACK delivered a segment. To be called for each, before [`RateEstimator::on_ack_end`].
    pub fn on_delivery(&mut self, delivery: Delivery) {
        let newer = self.gathering.is_none_or(|g| (delivery.sent, delivery.end) > (g.newest.sent, g.newest.end));
        if newer {
            self.first_sent = delivery.sent.into();
            let send_us = self.first_sent.since_us(delivery.snapshot.first_sent);
            self.gathering = Some(Gathering { newest: delivery, send_us });
        }
    }

    /// Segments that had been delivered when the segment was sent that this ACK samples.
    pub fn sampled_prior_delivered(&self) -> Option<u32> {
        self.gathering.map(|gathering| gathering.newest.snapshot.delivered)
    }

    /// The ACK has been read: `newly_delivered` segments arrived with it. Answers its sample, if it gives one.
    /// `reneged` voids it: the counts are wrong while the receiver takes back what it had.
    pub fn on_ack_end(
        &mut self,
        now: Stamp,
        newly_delivered: u32,
        min_rtt_us: u32,
        reneged: bool,
    ) -> Option<RateSample> {
        self.delivered = self.delivered.wrapping_add(newly_delivered);
        if self.app_limited_until.is_some_and(|until| (until.wrapping_sub(self.delivered) as i32) < 0) {
            self.app_limited_until = None;
        }
        if newly_delivered > 0 {
            self.delivered_at = now;
        }
        let Gathering { newest, send_us } = self.gathering.take()?;
        // The longer phase: ACKs that arrive compressed, or sends in a burst, would show a rate that was not there.
        let interval_us = send_us.max(now.since_us(newest.snapshot.delivered_at));
        if reneged || interval_us < min_rtt_us.max(1) {
            // Faster than light: a spurious retransmission was taken for the original.
            return None;
        }
        let sample = RateSample {
            delivered: self.delivered.wrapping_sub(newest.snapshot.delivered),
            prior_delivered: newest.snapshot.delivered,
            interval_us,
            app_limited: newest.app_limited,
            retransmitted: newest.retransmitted,
        };
        if !sample.app_limited || self.best.is_none_or(|best| sample.is_as_fast_as(&best)) {
            self.best = Some(sample);
        }
        Some(sample)
    }

    /// The sender ran out of data while the network had room: until the `pipe` segments in flight are delivered,
    /// samples say nothing of the network.
    pub fn on_app_limited(&mut self, pipe: u32) {
        self.app_limited_until = Some(self.delivered.wrapping_add(pipe));
    }

    /// Whether segments sent now count as limited by the application.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until.is_some()
    }

    /// Segments delivered since the beginning (`tcpi_delivered`).
    pub fn delivered(&self) -> u32 {
        self.delivered
    }

    /// A segment was delivered that the scoreboard did not hold: the SYN-ACK of a passive open.
    pub fn count_handshake(&mut self) {
        self.delivered = self.delivered.wrapping_add(1);
    }

    /// The latest sample that the network limited, or a faster one that the application limited
    /// (`tcpi_delivery_rate`).
    pub fn best(&self) -> Option<RateSample> {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Stamp {
        Stamp::from(Instant::from_us(us))
    }

    fn delivery(snapshot: SendSnapshot, sent: u64, end: u64) -> Delivery {
        Delivery { snapshot, sent: Instant::from_us(sent), end, app_limited: false, retransmitted: false }
    }

    /// Ten segments sent over 9 ms through a path of 50 ms, acknowledged one by one at the same pace.
    #[test]
    fn a_steady_flow_shows_its_rate() {
        let mut rate = RateEstimator::default();
        let mut snapshots = Vec::new();
        let mut last = None;
        for ms in 0..120u64 {
            if ms >= 50 {
                let index = (ms - 50) as usize;
                rate.on_delivery(delivery(snapshots[index], index as u64 * 1000, index as u64 + 1));
                last = rate.on_ack_end(at(ms * 1000), 1, 50_000, false);
            }
            snapshots.push(rate.on_send(at(ms * 1000), ms > 0));
        }
        let sample = last.unwrap();
        assert_eq!((sample.delivered, sample.interval_us), (50, 50_000));
        assert_eq!(sample.bytes_per_s(1000), 1_000_000);
        assert_eq!(rate.best(), Some(sample));
    }

    #[test]
    fn compressed_acks_do_not_inflate_the_rate() {
        let mut rate = RateEstimator::default();
        let first = rate.on_send(at(0), false);
        let last = rate.on_send(at(90_000), true);
        rate.on_delivery(delivery(first, 0, 1));
        rate.on_delivery(delivery(last, 90_000, 2));
        let sample = rate.on_ack_end(at(91_000), 10, 1000, false).unwrap();
        assert_eq!((sample.delivered, sample.interval_us), (10, 91_000));
    }

    #[test]
    fn limited_by_the_application_until_the_bubble_is_delivered() {
        let mut rate = RateEstimator::default();
        rate.on_app_limited(2);
        assert!(rate.is_app_limited());
        rate.on_ack_end(at(1), 2, 1, false);
        assert!(rate.is_app_limited());
        rate.on_ack_end(at(2), 1, 1, false);
        assert!(!rate.is_app_limited());
    }

    #[test]
    fn impossible_samples_are_void() {
        let mut rate = RateEstimator::default();
        let snapshot = rate.on_send(at(1000), false);
        rate.on_delivery(delivery(snapshot, 1000, 1));
        assert_eq!(rate.on_ack_end(at(1100), 1, 500, false), None);
        rate.on_delivery(delivery(snapshot, 1000, 1));
        assert_eq!(rate.on_ack_end(at(9000), 1, 500, true), None);
    }
}
