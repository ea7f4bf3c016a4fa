//! Pacing: sending a window spread over its round trip instead of in a burst. Off unless the connection asks for it
//! (`SO_MAX_PACING_RATE`, or an algorithm that sets a rate).

use crate::congestion::window::Window;
use crate::time::Instant;

/// Linux's `tcp_pacing_ss_ratio`: twice the rate of the window, so that slow start can double.
const SLOW_START_PERCENT: u64 = 200;
/// Linux's `tcp_pacing_ca_ratio`: a fifth above, so that pacing itself does not hold the window back.
const AVOIDANCE_PERCENT: u64 = 120;
/// The initial window leaves unpaced.
const UNPACED_SEGMENTS: u64 = 10;
/// How far behind time a sender may be and still catch up by sending closer.
const CREDIT_MAX_NS: u64 = 1_000_000;

/// The rate that window and round-trip time ask for, in octets a second; `None` before the first RTT sample.
pub fn rate_bytes_per_s(window: &Window, segments_out: u32, mss: u32, srtt_us: Option<u32>) -> Option<u64> {
    let percent = if window.cwnd() < window.ssthresh() / 2 { SLOW_START_PERCENT } else { AVOIDANCE_PERCENT };
    let segments = u64::from(window.cwnd().max(segments_out));
    let per_round = segments.saturating_mul(u64::from(mss)).saturating_mul(percent) / 100;
    Some(per_round.saturating_mul(1_000_000) / u64::from(srtt_us?.max(1)))
}

/// When the next segment may leave.
#[derive(Clone, Debug, Default)]
pub struct Pacer {
    /// Upper bound that the application set, in octets a second.
    max_bytes_per_s: Option<u64>,
    next_ns: u64,
    segments: u64,
}

impl Pacer {
    /// Sets or lifts the application's bound (`SO_MAX_PACING_RATE`).
    pub fn set_max(&mut self, bytes_per_s: Option<u64>) {
        self.max_bytes_per_s = bytes_per_s.map(|rate| rate.max(1));
    }

    /// When the next segment may leave; at `now` or before if at once.
    pub fn next(&self) -> Instant {
        // Rounded up: leaving within the microsecond before would be early.
        Instant::from_us(self.next_ns.div_ceil(1000))
    }

    /// Whether a segment may leave at `now`.
    pub fn is_due(&self, now: Instant) -> bool {
        self.next() <= now
    }

    /// `segments` with `bytes` in all leave at `now`, while the rate is `rate` octets a second.
    pub fn on_sent(&mut self, now: Instant, bytes: u64, segments: u64, rate: Option<u64>) {
        self.segments = self.segments.saturating_add(segments);
        let rate = [rate, self.max_bytes_per_s].into_iter().flatten().min();
        let Some(rate) = rate.filter(|_| self.segments > UNPACED_SEGMENTS) else { return };
        let now_ns = now.us().saturating_mul(1000);
        // A timer that went off late must not slow the flow: half of the pause may be made up for.
        let late_ns = if self.next_ns == 0 { 0 } else { now_ns.saturating_sub(self.next_ns).min(CREDIT_MAX_NS) };
        let pause_ns = (u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1))) as u64;
        let pause_ns = pause_ns - late_ns.min(pause_ns / 2);
        self.next_ns = self.next_ns.max(now_ns).saturating_add(pause_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_the_window_in_slow_start_and_a_fifth_more_after() {
        let mut window = Window::new(10);
        assert_eq!(rate_bytes_per_s(&window, 0, 1000, Some(100_000)), Some(200_000));
        window.set_ssthresh(15);
        assert_eq!(rate_bytes_per_s(&window, 0, 1000, Some(100_000)), Some(120_000));
        assert_eq!(rate_bytes_per_s(&window, 20, 1000, Some(100_000)), Some(240_000));
        assert_eq!(rate_bytes_per_s(&window, 20, 1000, None), None);
    }

    #[test]
    fn the_rate_is_kept_whatever_the_timer_does() {
        let mut pacer = Pacer::default();
        let mut now = Instant::from_ms(1);
        pacer.on_sent(now, 10_000, 10, Some(1_000_000));
        assert!(pacer.is_due(now), "the initial window leaves at once");
        let begin = now;
        for index in 0..1000 {
            pacer.on_sent(now, 1000, 1, Some(1_000_000));
            assert!(!pacer.is_due(now));
            // The timer is up to 0.3 ms late.
            now = pacer.next() + index % 300;
        }
        let took_us = now.since_us(begin);
        assert!((1_000_000..1_001_500).contains(&took_us), "{took_us}");
    }

    #[test]
    fn the_applications_bound_holds_without_a_rate() {
        let mut pacer = Pacer::default();
        pacer.set_max(Some(1000));
        pacer.on_sent(Instant::from_ms(1), 500, 11, None);
        assert_eq!(pacer.next(), Instant::from_ms(501));
        pacer.set_max(None);
        pacer.on_sent(Instant::from_ms(600), 500, 1, None);
        assert!(pacer.is_due(Instant::from_ms(600)));
    }
}
