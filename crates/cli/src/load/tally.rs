//! What a run has brought: latencies in an HDR histogram with three digits, and counts.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

/// Longer latencies count as this.
const HIGHEST_NS: u64 = 600_000_000_000;
const DIGITS: u8 = 3;

/// Percentiles that are told, as in the JSON document.
pub(crate) const PERCENTILES: [(&str, f64); 7] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99_9", 0.999), ("p99_99", 0.9999), ("max", 1.0)];

pub(crate) struct Tally {
    latencies: Histogram<u64>,
    /// Complete answers by HTTP's status; none for other answers.
    pub(super) statuses: BTreeMap<u16, u64>,
    /// Requests and connections that came to nothing, by reason.
    pub(super) failures: BTreeMap<String, u64>,
    /// Connections that were established to be kept.
    pub(super) opened: u64,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
}

impl Tally {
    pub(super) fn new() -> Tally {
        Tally {
            latencies: Histogram::new_with_max(HIGHEST_NS, DIGITS).expect("constants in range"),
            statuses: BTreeMap::new(),
            failures: BTreeMap::new(),
            opened: 0,
            sent_bytes: 0,
            received_bytes: 0,
        }
    }

    /// A complete answer.
    #[inline]
    pub(super) fn answered(&mut self, latency_ns: u64, status: u16) {
        self.latencies.saturating_record(latency_ns.max(1));
        if status > 0 {
            *self.statuses.entry(status).or_default() += 1;
        }
    }

    #[cold]
    pub(super) fn failed(&mut self, why: &str) {
        match self.failures.get_mut(why) {
            Some(count) => *count += 1,
            None => drop(self.failures.insert(why.to_owned(), 1)),
        }
    }

    pub(crate) fn answers(&self) -> u64 {
        self.latencies.len()
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures.values().sum()
    }

    /// The reason of one failure, if there was one.
    pub(crate) fn first_failure(&self) -> &str {
        self.failures.keys().next().map_or("", String::as_str)
    }

    /// Percentiles in microseconds, by name.
    pub(crate) fn latencies_us(&self) -> BTreeMap<String, f64> {
        let value = |quantile| self.latencies.value_at_quantile(quantile) as f64 / 1e3;
        let percentiles = PERCENTILES.iter().map(|(name, quantile)| ((*name).to_owned(), value(*quantile)));
        percentiles.chain([("mean".to_owned(), self.latencies.mean() / 1e3)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_told() {
        let mut tally = Tally::new();
        (1..=1000).for_each(|us| tally.answered(us * 1000, if us % 2 == 0 { 200 } else { 0 }));
        tally.failed("reset");
        tally.failed("reset");
        let latencies = tally.latencies_us();
        assert!((latencies["p50"] - 500.0).abs() < 1.0 && (latencies["max"] - 1000.0).abs() < 2.0, "{latencies:?}");
        assert_eq!((tally.answers(), tally.failures(), tally.statuses[&200]), (1000, 2, 500));
    }
}
