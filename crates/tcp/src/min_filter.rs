//! The least value of the last so many microseconds, in constant space: Kathleen Nichols' windowed minimum,
//! which keeps the best three candidates (Linux: `lib/win_minmax.c`).

use crate::time::Instant;

#[derive(Clone, Copy, Debug)]
struct Candidate {
    at: Instant,
    value: u32,
}

/// A windowed minimum of `u32` values; [`u32::MAX`] while it has seen none.
#[derive(Clone, Copy, Debug)]
pub struct MinFilter {
    /// The least of the window, then the least since that one, then the least since the second.
    best: [Candidate; 3],
}

impl Default for MinFilter {
    fn default() -> MinFilter {
        MinFilter { best: [Candidate { at: Instant::ZERO, value: u32::MAX }; 3] }
    }
}

impl MinFilter {
    pub fn get(&self) -> u32 {
        self.best[0].value
    }

    /// Forgets everything but `value`.
    pub fn reset(&mut self, now: Instant, value: u32) {
        self.best = [Candidate { at: now, value }; 3];
    }

    /// Takes a value in; answers the minimum of the last `window_us`.
    pub fn update(&mut self, now: Instant, window_us: u64, value: u32) -> u32 {
        let new = Candidate { at: now, value };
        if value <= self.best[0].value || now.since_us(self.best[2].at) > window_us {
            self.reset(now, value);
            return value;
        }
        if value <= self.best[1].value {
            self.best[1] = new;
            self.best[2] = new;
        } else if value <= self.best[2].value {
            self.best[2] = new;
        }
        self.expire(new, window_us);
        self.get()
    }

    /// Candidates that left the window make room for the next best; while the window passes without a new
    /// minimum, younger candidates are taken from its second and last part, so that one is ready.
    fn expire(&mut self, new: Candidate, window_us: u64) {
        let age_us = new.at.since_us(self.best[0].at);
        if age_us > window_us {
            self.best = [self.best[1], self.best[2], new];
            if new.at.since_us(self.best[0].at) > window_us {
                self.best = [self.best[1], self.best[2], new];
            }
        } else if self.best[1].at == self.best[0].at && age_us > window_us / 4 {
            self.best[1] = new;
            self.best[2] = new;
        } else if self.best[2].at == self.best[1].at && age_us > window_us / 2 {
            self.best[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_minimum_is_forgotten_after_the_window() {
        let mut filter = MinFilter::default();
        assert_eq!(filter.get(), u32::MAX);
        let at = Instant::from_us;
        filter.update(at(0), 100, 10);
        for us in 1..=100 {
            assert_eq!(filter.update(at(us), 100, 50), 10);
        }
        assert_eq!(filter.update(at(101), 100, 50), 50);
    }

    proptest! {
        /// Never below the true minimum of the window, and never above the newest value.
        #[test]
        fn stays_between_the_true_minimum_and_the_newest(
            steps in prop::collection::vec((0u64..40, 1u32..1000), 1..200)
        ) {
            let (mut filter, mut now, mut seen) = (MinFilter::default(), Instant::ZERO, Vec::new());
            for (pause_us, value) in steps {
                now = now + pause_us;
                seen.push((now, value));
                let got = filter.update(now, 100, value);
                let window = seen.iter().filter(|(at, _)| now.since_us(*at) <= 100);
                prop_assert!(got >= window.map(|(_, v)| *v).min().unwrap());
                prop_assert!(got <= value);
            }
        }
    }
}
