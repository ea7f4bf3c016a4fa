//! HyStart++ (RFC 9406): leave slow start when the round-trip time rises, before the queue overflows.
//!
//! Slow start is counted in rounds. When a round's least RTT is clearly above the last round's, growth slows to a
//! quarter (conservative slow start, CSS). If the RTT falls again, it was noise and slow start resumes; if not, after
//! five rounds congestion avoidance begins.

// RFC 9406 4.3: the constants that it recommends.
const MIN_RTT_THRESH_US: u32 = 4_000;
const MAX_RTT_THRESH_US: u32 = 16_000;
const MIN_RTT_DIVISOR: u32 = 8;
const RTT_SAMPLES_MIN: u32 = 8;
const CSS_GROWTH_DIVISOR: u32 = 4;
const CSS_ROUNDS: u8 = 5;

const NONE_YET: u32 = u32::MAX;

/// What to do with an ACK in slow start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HyStartVerdict {
    /// Grow by this many segments.
    Grow(u32),
    /// Slow start is over: set `ssthresh` to the window.
    Leave,
}

/// The state of one connection's slow start.
#[derive(Clone, Debug)]
pub struct HyStart {
    /// The round ends when this offset is acknowledged.
    round_end: u64,
    round_min_us: u32,
    last_min_us: u32,
    samples: u32,
    /// In CSS: the RTT below which it was noise, and rounds left.
    css: Option<Css>,
}

#[derive(Clone, Copy, Debug)]
struct Css {
    baseline_us: u32,
    rounds_left: u8,
    /// Acknowledged segments that did not add up to one of growth yet.
    remainder: u32,
}

impl Default for HyStart {
    fn default() -> HyStart {
        HyStart { round_end: 0, round_min_us: NONE_YET, last_min_us: NONE_YET, samples: 0, css: None }
    }
}

impl HyStart {
    /// An ACK of `acked` segments in slow start, with `una` and `nxt` after it.
    pub fn on_ack(&mut self, acked: u32, rtt_us: Option<u32>, una: u64, nxt: u64) -> HyStartVerdict {
        // RFC 9406 4.2: "At the start of each round..."; a round ends when what was sent at its start is acknowledged.
        if una >= self.round_end && self.begin_round(nxt) {
            return HyStartVerdict::Leave;
        }
        if let Some(rtt_us) = rtt_us {
            self.round_min_us = self.round_min_us.min(rtt_us);
            self.samples += 1;
        }
        if self.samples >= RTT_SAMPLES_MIN && self.round_min_us != NONE_YET {
            self.judge();
        }
        HyStartVerdict::Grow(self.growth(acked))
    }

    /// Answers whether conservative slow start has lasted long enough.
    fn begin_round(&mut self, nxt: u64) -> bool {
        self.round_end = nxt;
        (self.last_min_us, self.round_min_us, self.samples) = (self.round_min_us, NONE_YET, 0);
        let Some(css) = &mut self.css else { return false };
        // RFC 9406 4.2: "CSS lasts at most CSS_ROUNDS rounds", the partial first one counted.
        // A window that is not the limit does not leave slow start yet; it is told again each round.
        css.rounds_left = css.rounds_left.saturating_sub(1);
        css.rounds_left == 0
    }

    fn judge(&mut self) {
        match self.css {
            None if self.last_min_us != NONE_YET => {
                let threshold_us = (self.last_min_us / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH_US, MAX_RTT_THRESH_US);
                if self.round_min_us >= self.last_min_us.saturating_add(threshold_us) {
                    self.css = Some(Css { baseline_us: self.round_min_us, rounds_left: CSS_ROUNDS, remainder: 0 });
                }
            }
            // RFC 9406 4.2: the RTT fell below the baseline: leaving slow start was premature, resume it.
            Some(css) if self.round_min_us < css.baseline_us => self.css = None,
            _ => {}
        }
    }

    fn growth(&mut self, acked: u32) -> u32 {
        let Some(css) = &mut self.css else { return acked };
        css.remainder += acked;
        let grow = css.remainder / CSS_GROWTH_DIVISOR;
        css.remainder %= CSS_GROWTH_DIVISOR;
        grow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One round of ten ACKs; answers the growth, or `None` if slow start ended.
    fn round(hystart: &mut HyStart, number: u64, rtt_us: u32) -> Option<u32> {
        let mut grown = 0;
        for ack in 0..10 {
            match hystart.on_ack(1, Some(rtt_us), number * 10 + ack, number * 10 + 10) {
                HyStartVerdict::Grow(segments) => grown += segments,
                HyStartVerdict::Leave => return None,
            }
        }
        Some(grown)
    }

    #[test]
    fn leaving_is_said_again_until_it_is_done() {
        let mut hystart =
            HyStart { css: Some(Css { baseline_us: 1, rounds_left: 1, remainder: 0 }), ..HyStart::default() };
        for una in [10, 20, 30] {
            assert!(matches!(hystart.on_ack(1, Some(50_000), una, una + 10), HyStartVerdict::Leave));
        }
    }

    #[test]
    fn a_rising_rtt_slows_then_ends_slow_start() {
        let mut hystart = HyStart::default();
        assert_eq!(round(&mut hystart, 0, 40_000), Some(10));
        assert_eq!(round(&mut hystart, 1, 44_900), Some(10), "an eighth is tolerated");
        let slowed = round(&mut hystart, 2, 51_000).unwrap();
        assert!(slowed < 10);
        for number in 3..7 {
            assert!(round(&mut hystart, number, 60_000).is_some_and(|grown| (2..=3).contains(&grown)));
        }
        assert_eq!(round(&mut hystart, 7, 60_000), None);
    }

    #[test]
    fn noise_resumes_slow_start() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 0, 40_000);
        round(&mut hystart, 1, 60_000);
        let resumed = round(&mut hystart, 2, 40_000).unwrap();
        assert!(resumed > 3, "{resumed}");
        assert_eq!(round(&mut hystart, 3, 40_000), Some(10));
    }

    #[test]
    fn small_rises_on_short_paths_are_noise() {
        let mut hystart = HyStart::default();
        for number in 0..20 {
            assert_eq!(round(&mut hystart, number, 100 + number as u32 * 100), Some(10));
        }
    }
}
