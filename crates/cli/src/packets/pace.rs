//! How many packets may go now, for a rate that is to be held over time.

use std::time::{Duration, Instant};

/// Credit is not saved for longer than this: a tool that was held up does not make it good by a burst.
const SAVED: Duration = Duration::from_millis(10);

pub(crate) struct Pace {
    /// Time for one packet; none means as fast as the port takes them.
    gap: Option<Duration>,
    due: Instant,
}

impl Pace {
    pub(crate) fn new(packets_per_s: Option<f64>) -> Pace {
        Pace { gap: packets_per_s.map(|rate| Duration::from_secs_f64(1.0 / rate)), due: Instant::now() }
    }

    /// Of `wanted` packets, how many may go now.
    pub(crate) fn allow(&mut self, now: Instant, wanted: u64) -> u64 {
        let Some(gap) = self.gap else { return wanted };
        self.due = self.due.max(now.checked_sub(SAVED).unwrap_or(now));
        let Some(late) = now.checked_duration_since(self.due) else { return 0 };
        (1 + (late.as_nanos() / gap.as_nanos().max(1)) as u64).min(wanted)
    }

    /// That many have gone.
    pub(crate) fn took(&mut self, packets: u64) {
        if let Some(gap) = self.gap {
            self.due += gap.mul_f64(packets as f64);
        }
    }

    /// How long until the next one may go, at most `longest`.
    pub(crate) fn nap(&self, now: Instant, longest: Duration) -> Duration {
        self.due.saturating_duration_since(now).min(longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_held_and_a_pause_is_not_made_good() {
        let mut pace = Pace::new(Some(1000.0));
        let start = pace.due;
        let at = |ms| start + Duration::from_millis(ms);
        let mut sent = 0;
        for ms in 0..1000 {
            let n = pace.allow(at(ms), 64);
            pace.took(n);
            sent += n;
        }
        assert!((999..=1001).contains(&sent), "{sent}");
        let burst = pace.allow(at(60_000), 1000);
        assert!(burst <= 11, "{burst}");
        assert_eq!(Pace::new(None).allow(start, 7), 7);
    }
}
