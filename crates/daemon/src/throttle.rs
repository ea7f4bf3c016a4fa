//! Keeps a hostile or unlucky client from filling the log.

use std::time::{Duration, Instant};

/// Lines in one period.
const LINES_MAX: u32 = 20;
const PERIOD: Duration = Duration::from_secs(10);

/// At most [`LINES_MAX`] lines in [`PERIOD`]; what is left out is counted.
#[derive(Debug)]
pub(crate) struct Throttle {
    began: Instant,
    lines: u32,
    left_out: u64,
}

impl Throttle {
    pub(crate) fn new(now: Instant) -> Throttle {
        Throttle { began: now, lines: 0, left_out: 0 }
    }

    pub(crate) fn warn(&mut self, now: Instant, line: std::fmt::Arguments<'_>) {
        let (admitted, left_out) = self.admit(now);
        if left_out > 0 {
            tracing::warn!("{left_out} more lines like these were left out");
        }
        if admitted {
            tracing::warn!("{line}");
        }
    }

    /// Whether this line may be written, and how many were left out in the period that it ends.
    fn admit(&mut self, now: Instant) -> (bool, u64) {
        let mut left_out = 0;
        if now.saturating_duration_since(self.began) >= PERIOD {
            left_out = std::mem::take(&mut self.left_out);
            (self.began, self.lines) = (now, 0);
        }
        self.lines = self.lines.saturating_add(1);
        if self.lines > LINES_MAX {
            self.left_out += 1;
        }
        (self.lines <= LINES_MAX, left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_lines_is_cut_and_counted() {
        let start = Instant::now();
        let mut throttle = Throttle::new(start);
        assert_eq!((0..100).filter(|_| throttle.admit(start).0).count(), LINES_MAX as usize);
        assert_eq!(throttle.admit(start + PERIOD), (true, 100 - u64::from(LINES_MAX)));
        assert_eq!(throttle.admit(start + PERIOD), (true, 0));
    }
}
