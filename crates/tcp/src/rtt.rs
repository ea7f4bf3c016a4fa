//! Round-trip time and the retransmission timeout that follows from it: RFC 6298 with Linux's refinements
//! (`tcp_rtt_estimator` in `net/ipv4/tcp_input.c`).

use crate::min_filter::MinFilter;
use crate::time::Instant;

/// RFC 6298 2.1: the timeout before the first sample.
pub const INITIAL_RTO_US: u32 = 1_000_000;
/// RFC 6298 5.7: the timeout after a handshake that needed its SYN retransmitted and took no sample.
pub const FALLBACK_RTO_US: u32 = 3_000_000;
/// Linux's `TCP_RTO_MIN`; RFC 6298 2.4 says 1 s, which no current stack does.
pub const MIN_RTO_US: u32 = 200_000;
/// Linux's `TCP_RTO_MAX`; RFC 6298 2.5 asks for at least 60 s.
pub const MAX_RTO_US: u32 = 120_000_000;
/// Linux's `tcp_min_rtt_wlen`, 300 s.
pub const MIN_RTT_WINDOW_US: u64 = 300_000_000;

/// What a connection may change about its timeout.
#[derive(Clone, Copy, Debug)]
pub struct RttConfig {
    /// Least variance term of the timeout, in microseconds.
    pub min_rto_us: u32,
    /// Largest timeout, backed off or not, in microseconds.
    pub max_rto_us: u32,
    /// How long a minimum RTT is believed, in microseconds.
    pub min_rtt_window_us: u64,
}

impl Default for RttConfig {
    fn default() -> RttConfig {
        RttConfig { min_rto_us: MIN_RTO_US, max_rto_us: MAX_RTO_US, min_rtt_window_us: MIN_RTT_WINDOW_US }
    }
}

/// The ways in which one ACK can tell a round-trip time, best first.
#[derive(Clone, Copy, Debug, Default)]
pub struct RttEvidence {
    /// From the oldest segment that this ACK acknowledged cumulatively, if none of those was ever retransmitted.
    pub acked_us: Option<u32>,
    /// From the oldest never retransmitted segment that this ACK acknowledged selectively.
    pub sacked_us: Option<u32>,
    /// From the echoed timestamp, if the ACK acknowledged new data.
    pub timestamp_us: Option<u32>,
}

impl RttEvidence {
    /// The sample to believe.
    pub fn sample_us(self) -> Option<u32> {
        // RFC 6298 3 (Karn): a retransmitted segment tells nothing, unless (RFC 7323 4.3) the echoed timestamp
        // says which transmission arrived.
        self.acked_us.or(self.sacked_us).or(self.timestamp_us)
    }
}

/// The estimator of one connection.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    config: RttConfig,
    /// Smoothed RTT in eighths of a microsecond; 0 before the first sample.
    srtt_x8: u32,
    /// Mean deviation, times 4.
    mdev_x4: u32,
    /// Largest `mdev_x4` in the current round trip.
    mdev_max_x4: u32,
    /// The variance term of the timeout: falls at most once a round trip.
    rttvar_x4: u32,
    /// The round trip in which `mdev_max_x4` is collected ends when this offset is acknowledged.
    round_end: u64,
    rto_us: u32,
    min_rtt: MinFilter,
    latest_us: u32,
}

impl RttEstimator {
    pub fn new(config: RttConfig) -> RttEstimator {
        RttEstimator {
            config,
            srtt_x8: 0,
            mdev_x4: INITIAL_RTO_US,
            mdev_max_x4: 0,
            rttvar_x4: 0,
            round_end: 0,
            rto_us: INITIAL_RTO_US.min(config.max_rto_us),
            min_rtt: MinFilter::default(),
            latest_us: 0,
        }
    }

    /// Takes in a sample from an ACK that moved the left edge of the window to `una` while `nxt` was next to send.
    /// Also ends any backing off (RFC 6298 5.7's note: a fresh sample collapses the timeout).
    pub fn on_sample(&mut self, rtt_us: u32, una: u64, nxt: u64) {
        let rtt_us = rtt_us.clamp(1, 1 << 27);
        self.latest_us = rtt_us;
        if self.srtt_x8 == 0 {
            self.first_sample(rtt_us, nxt);
        } else {
            self.next_sample(rtt_us, una, nxt);
        }
        self.rto_us = self.base_rto_us();
    }

    /// Takes in a value for the windowed minimum. Left out: a value above the minimum from an ACK that the peer
    /// may have held back, for it says nothing of the path.
    pub fn on_min_rtt(&mut self, now: Instant, rtt_us: u32, maybe_delayed: bool) {
        if maybe_delayed && rtt_us > self.min_rtt.get() {
            return;
        }
        self.min_rtt.update(now, self.config.min_rtt_window_us, rtt_us.max(1));
    }

    /// RFC 6298 5.5: the timer expired, the next one waits twice as long.
    pub fn back_off(&mut self) {
        self.rto_us = self.rto_us.saturating_mul(2).min(self.config.max_rto_us);
    }

    /// An ACK of new data arrived: the timeout is again what the samples say.
    pub fn end_back_off(&mut self) {
        if self.srtt_x8 != 0 {
            self.rto_us = self.base_rto_us();
        }
    }

    /// RFC 6298 5.7: the SYN was retransmitted and its ACK gave no sample.
    pub fn on_retransmitted_handshake(&mut self) {
        if self.srtt_x8 == 0 {
            self.rto_us = FALLBACK_RTO_US.min(self.config.max_rto_us);
        }
    }

    /// Changes the bounds (`TCP_RTO_MIN_US`, `TCP_RTO_MAX_MS`); the timeout follows with the next sample.
    pub fn set_config(&mut self, config: RttConfig) {
        self.config = config;
        self.rto_us = self.rto_us.min(config.max_rto_us);
    }

    pub fn config(&self) -> RttConfig {
        self.config
    }

    /// The current timeout, backed off if need be.
    pub fn rto_us(&self) -> u32 {
        self.rto_us
    }

    /// Smoothed RTT; `None` before the first sample.
    pub fn srtt_us(&self) -> Option<u32> {
        (self.srtt_x8 != 0).then_some(self.srtt_x8 >> 3)
    }

    /// Mean deviation in microseconds, as `tcpi_rttvar` shows it.
    pub fn mdev_us(&self) -> u32 {
        self.mdev_x4 >> 2
    }

    /// Windowed minimum; `None` before the first value.
    pub fn min_rtt_us(&self) -> Option<u32> {
        Some(self.min_rtt.get()).filter(|us| *us != u32::MAX)
    }

    /// The newest sample; 0 before the first.
    pub fn latest_us(&self) -> u32 {
        self.latest_us
    }

    fn first_sample(&mut self, rtt_us: u32, nxt: u64) {
        // RFC 6298 2.2: SRTT = R, RTTVAR = R/2, RTO = SRTT + 4 RTTVAR.
        self.srtt_x8 = rtt_us << 3;
        self.mdev_x4 = rtt_us << 1;
        self.rttvar_x4 = self.mdev_x4.max(self.config.min_rto_us);
        self.mdev_max_x4 = self.rttvar_x4;
        self.round_end = nxt;
    }

    fn next_sample(&mut self, rtt_us: u32, una: u64, nxt: u64) {
        // RFC 6298 2.3: alpha = 1/8, beta = 1/4, in fixed point.
        let error = rtt_us as i32 - (self.srtt_x8 >> 3) as i32;
        self.srtt_x8 = self.srtt_x8.saturating_add_signed(error).max(1);
        let mut change = error.abs() - (self.mdev_x4 >> 2) as i32;
        if error < 0 && change > 0 {
            // A sudden fall of the RTT is not variance that the timeout should guard against: count an eighth of it.
            change >>= 3;
        }
        self.mdev_x4 = self.mdev_x4.saturating_add_signed(change);
        if self.mdev_x4 > self.mdev_max_x4 {
            self.mdev_max_x4 = self.mdev_x4;
            self.rttvar_x4 = self.rttvar_x4.max(self.mdev_max_x4);
        }
        // Many samples a round trip would let the variance decay too fast (RFC 6298 3, second paragraph), so it
        // rises at once and falls once a round trip.
        if una > self.round_end {
            if self.mdev_max_x4 < self.rttvar_x4 {
                self.rttvar_x4 -= (self.rttvar_x4 - self.mdev_max_x4) >> 2;
            }
            self.round_end = nxt;
            self.mdev_max_x4 = self.config.min_rto_us;
        }
    }

    fn base_rto_us(&self) -> u32 {
        (self.srtt_x8 >> 3).saturating_add(self.rttvar_x4).min(self.config.max_rto_us)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn estimator() -> RttEstimator {
        RttEstimator::new(RttConfig::default())
    }

    #[test]
    fn before_the_first_sample_one_second() {
        let mut rtt = estimator();
        assert_eq!((rtt.rto_us(), rtt.srtt_us(), rtt.min_rtt_us()), (1_000_000, None, None));
        rtt.back_off();
        rtt.end_back_off();
        assert_eq!(rtt.rto_us(), 2_000_000);
        rtt.on_retransmitted_handshake();
        assert_eq!(rtt.rto_us(), 3_000_000);
    }

    #[test]
    fn a_steady_path_ends_at_rtt_plus_the_minimum() {
        let mut rtt = estimator();
        for round in 0..100 {
            rtt.on_sample(50_000, round * 10, round * 10 + 9);
        }
        assert_eq!(rtt.srtt_us(), Some(50_000));
        assert_eq!(rtt.rto_us(), 50_000 + MIN_RTO_US);
    }

    #[test]
    fn the_first_sample_sets_four_deviations() {
        let mut rtt = estimator();
        rtt.on_sample(400_000, 0, 1);
        assert_eq!(rtt.rto_us(), 1_200_000);
        assert_eq!(rtt.mdev_us(), 200_000);
    }

    #[test]
    fn backing_off_doubles_up_to_the_bound() {
        let mut rtt = estimator();
        rtt.on_sample(100_000, 0, 1);
        for expected_ms in [600, 1200, 2400, 4800, 9600, 19_200, 38_400, 76_800, 120_000, 120_000] {
            rtt.back_off();
            assert_eq!(rtt.rto_us(), expected_ms * 1000);
        }
        rtt.end_back_off();
        assert_eq!(rtt.rto_us(), 300_000);
    }

    #[test]
    fn variance_rises_at_once_and_falls_once_a_round() {
        let mut rtt = estimator();
        rtt.on_sample(100_000, 0, 10);
        rtt.on_sample(500_000, 1, 10);
        let risen = rtt.rto_us();
        assert!(risen > 500_000);
        for _ in 0..5 {
            rtt.on_sample(150_000, 5, 10);
        }
        assert!(rtt.rto_us() + 50_000 > risen, "the variance may not fall within the round");
        for round in 2..60 {
            rtt.on_sample(150_000, round * 10 + 1, round * 10 + 10);
        }
        assert!(rtt.rto_us() < 370_000);
    }

    #[test]
    fn retransmitted_segments_give_no_sample_but_their_timestamp_does() {
        let none = RttEvidence::default();
        assert_eq!(none.sample_us(), None);
        let echo = RttEvidence { timestamp_us: Some(30), ..none };
        assert_eq!(echo.sample_us(), Some(30));
        assert_eq!(RttEvidence { acked_us: Some(20), ..echo }.sample_us(), Some(20));
    }

    #[test]
    fn an_ack_held_back_does_not_raise_the_minimum() {
        let mut rtt = estimator();
        rtt.on_min_rtt(Instant::from_ms(1), 500, false);
        rtt.on_min_rtt(Instant::from_ms(2) + MIN_RTT_WINDOW_US, 40_000, true);
        assert_eq!(rtt.min_rtt_us(), Some(500));
    }

    proptest! {
        #[test]
        fn the_timeout_stays_within_its_bounds(samples in prop::collection::vec((0u32..=u32::MAX, any::<bool>()), 1..300)) {
            let mut rtt = estimator();
            for (index, (us, backs_off)) in samples.into_iter().enumerate() {
                rtt.on_sample(us, index as u64, index as u64 + 3);
                if backs_off {
                    rtt.back_off();
                }
                prop_assert!(rtt.rto_us() >= MIN_RTO_US && rtt.rto_us() <= MAX_RTO_US);
                prop_assert!(rtt.srtt_us().is_some());
            }
        }
    }
}
