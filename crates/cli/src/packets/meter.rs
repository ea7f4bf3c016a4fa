//! Live rates: a line for each interval, and a summary.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use crate::output::{print_json, print_text};

/// What has been counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Thrown away for want of room, or impossible.
    pub(crate) dropped: u64,
}

impl Count {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// A line of the output.
#[derive(Debug, Serialize)]
struct Line<'a> {
    schema: u32,
    what: &'a str,
    /// True for the last line, whose rates are means over all the time.
    summary: bool,
    elapsed_s: f64,
    packets_per_s: f64,
    bits_per_s: f64,
    packets: u64,
    bytes: u64,
    dropped: u64,
}

pub(crate) struct Meter {
    what: &'static str,
    json: bool,
    interval: Duration,
    started: Instant,
    last: (Instant, Count),
}

impl Meter {
    /// `what` is the verb of the tool's lines, as "sent"; an interval of zero leaves only the summary.
    pub(crate) fn new(what: &'static str, interval: Duration, json: bool) -> Meter {
        let now = Instant::now();
        Meter { what, json, interval, started: now, last: (now, Count::default()) }
    }

    /// Prints a line if the interval is over.
    pub(crate) fn tick(&mut self, now: Instant, count: Count) -> Result<()> {
        if self.interval.is_zero() || now < self.last.0 + self.interval {
            return Ok(());
        }
        let (since, before) = std::mem::replace(&mut self.last, (now, count));
        self.print(now, now - since, before, count, false)
    }

    /// Prints the summary.
    pub(crate) fn finish(&self, count: Count) -> Result<()> {
        let now = Instant::now();
        self.print(now, now - self.started, Count::default(), count, true)
    }

    fn print(&self, now: Instant, span: Duration, before: Count, count: Count, summary: bool) -> Result<()> {
        let seconds = span.as_secs_f64().max(1e-9);
        let line = Line {
            schema: 1,
            what: self.what,
            summary,
            elapsed_s: (now - self.started).as_secs_f64(),
            packets_per_s: (count.packets - before.packets) as f64 / seconds,
            bits_per_s: (count.bytes - before.bytes) as f64 * 8.0 / seconds,
            packets: count.packets,
            bytes: count.bytes,
            dropped: count.dropped,
        };
        if self.json { print_json(&line) } else { print_text(&text(&line)) }
    }
}

fn text(line: &Line<'_>) -> String {
    let title = if line.summary { "in all" } else { "" };
    format!(
        "{title:7}{:>9}pps {:>9}bit/s  {} {} packets, {} dropped, {:.1} s\n",
        human(line.packets_per_s),
        human(line.bits_per_s),
        line.what,
        line.packets,
        line.dropped,
        line.elapsed_s
    )
}

/// A rate with a decimal unit, as `14.88 M`.
pub(crate) fn human(rate: f64) -> String {
    const UNITS: [&str; 5] = ["", "k", "M", "G", "T"];
    let (mut value, mut unit) = (rate, 0);
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.2} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_decimal_units() {
        assert_eq!(human(0.0), "0.00 ");
        assert_eq!(human(14_880_952.0), "14.88 M");
        assert_eq!(human(1e18), "1000000.00 T");
    }

    #[test]
    fn a_line_is_printed_once_for_each_interval() {
        let mut meter = Meter::new("sent", Duration::from_secs(1), true);
        let start = meter.last.0;
        meter.tick(start + Duration::from_millis(999), Count::default()).unwrap();
        assert_eq!(meter.last.0, start);
        let count = Count { packets: 5, bytes: 300, dropped: 1 };
        meter.tick(start + Duration::from_secs(1), count).unwrap();
        assert_eq!(meter.last, (start + Duration::from_secs(1), count));
    }
}
