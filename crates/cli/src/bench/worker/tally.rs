//! Latencies as percentiles, from an HDR histogram with three digits.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::Sample;

const HIGHEST_NS: u64 = 60_000_000_000;
const DIGITS: u8 = 3;

/// Percentiles that are told, as in metric names.
pub(crate) const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999), ("max", 1.0)];

pub(super) struct Tally {
    histogram: Histogram<u64>,
    /// What a look at the clock adds to a span between two looks.
    clock: Duration,
}

impl Tally {
    pub(super) fn new() -> Tally {
        let histogram = Histogram::new_with_max(HIGHEST_NS, DIGITS).expect("constants in range");
        let mut spans: Vec<_> = (0..1001).map(|_| Instant::now()).collect::<Vec<_>>();
        let mut gaps: Vec<_> = spans.windows(2).map(|pair| pair[1] - pair[0]).collect();
        spans.clear();
        gaps.sort_unstable();
        Tally { histogram, clock: gaps[gaps.len() / 2] }
    }

    #[inline]
    pub(super) fn record(&mut self, span: Duration) {
        let ns = span.saturating_sub(self.clock).as_nanos() as u64;
        self.histogram.saturating_record(ns.max(1));
    }

    pub(super) fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// `PREFIX_p50_us` and so on.
    pub(super) fn metrics(&self, prefix: &str) -> Sample {
        let value = |quantile| self.histogram.value_at_quantile(quantile) as f64 / 1e3;
        PERCENTILES.iter().map(|(name, quantile)| (format!("{prefix}_{name}_us"), value(*quantile))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_was_recorded_without_the_clock() {
        let mut tally = Tally::new();
        for us in 1..=1000 {
            tally.record(Duration::from_micros(us) + tally.clock);
        }
        let metrics = tally.metrics("x");
        assert_eq!(tally.count(), 1000);
        assert!((metrics["x_p50_us"] - 500.0).abs() < 1.0 && (metrics["x_max_us"] - 1000.0).abs() < 2.0, "{metrics:?}");
        assert_eq!(metrics.len(), PERCENTILES.len());
    }
}
