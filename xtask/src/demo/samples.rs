//! What load generators print, as numbers.

use serde::Serialize;

/// One run's result, or the median of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Sample {
    /// Requests or operations per second.
    pub(crate) rate_per_s: f64,
    /// Latency that half of the requests stay below, where the generator says so.
    pub(crate) p50_us: Option<f64>,
    /// Latency that 99 of 100 requests stay below.
    pub(crate) p99_us: Option<f64>,
}

/// Field by field; zeros for no samples.
pub(crate) fn median(samples: &[Sample]) -> Sample {
    let of = |field: &dyn Fn(&Sample) -> Option<f64>| {
        let mut values: Vec<f64> = samples.iter().filter_map(field).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (values.get(values.len().saturating_sub(1) / 2)?, values.get(values.len() / 2)?);
        Some((low + high) / 2.0)
    };
    Sample {
        rate_per_s: of(&|s| Some(s.rate_per_s)).unwrap_or(0.0),
        p50_us: of(&|s| s.p50_us),
        p99_us: of(&|s| s.p99_us),
    }
}

/// `redis-benchmark --csv`: a heading, then one line for the one command that was asked for.
pub(crate) fn redis_benchmark(output: &str) -> Option<Sample> {
    let fields = |line: &str| line.split(',').map(|f| f.trim_matches('"').to_owned()).collect::<Vec<_>>();
    let mut lines = output.lines().skip_while(|l| !l.starts_with("\"test\""));
    let (heading, values) = (fields(lines.next()?), fields(lines.next()?));
    let value = |name: &str| values.get(heading.iter().position(|h| h == name)?)?.parse::<f64>().ok();
    Some(Sample {
        rate_per_s: value("rps")?,
        p50_us: value("p50_latency_ms").map(|ms| ms * 1000.0),
        p99_us: value("p99_latency_ms").map(|ms| ms * 1000.0),
    })
}

/// `wrk --latency`; a run with failed requests is no sample.
pub(crate) fn wrk(output: &str) -> Option<Sample> {
    let bad = ["Socket errors:", "Non-2xx"];
    if output.lines().any(|l| bad.iter().any(|b| l.trim_start().starts_with(b))) {
        return None;
    }
    let after = |label: &str| output.lines().find_map(|l| l.trim_start().strip_prefix(label)).map(str::trim);
    Some(Sample {
        rate_per_s: after("Requests/sec:")?.parse().ok()?,
        p50_us: after("50%").and_then(microseconds),
        p99_us: after("99%").and_then(microseconds),
    })
}

/// `memcaslap`: its last line says TPS; it gives no percentiles.
pub(crate) fn memcaslap(output: &str) -> Option<Sample> {
    let rate = output.lines().find_map(|l| l.split_once("TPS:"))?.1.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Sample { rate_per_s: rate, ..Sample::default() })
}

/// "612.00us", "1.20ms", "2.00s".
fn microseconds(text: &str) -> Option<f64> {
    let (number, factor) = if let Some(n) = text.strip_suffix("us") {
        (n, 1.0)
    } else if let Some(n) = text.strip_suffix("ms") {
        (n, 1e3)
    } else {
        (text.strip_suffix('s')?, 1e6)
    };
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rate_per_s: f64, p50_us: Option<f64>, p99_us: Option<f64>) -> Sample {
        Sample { rate_per_s, p50_us, p99_us }
    }

    #[test]
    fn redis_benchmark_is_read() {
        let output =
            "\"test\",\"rps\",\"p50_latency_ms\",\"p99_latency_ms\"\n\"GET\",\"19960.08\",\"0.047\",\"0.071\"\n";
        assert_eq!(redis_benchmark(output), Some(of(19960.08, Some(47.0), Some(71.0))));
        assert_eq!(redis_benchmark("Could not connect"), None);
    }

    #[test]
    fn wrk_is_read_and_failed_requests_are_not_a_result() {
        let output = "  Latency Distribution\n     50%  612.00us\n     99%    1.50ms\nRequests/sec:  25011.10\n";
        assert_eq!(wrk(output), Some(of(25011.1, Some(612.0), Some(1500.0))));
        assert_eq!(wrk(&format!("{output}  Socket errors: connect 0, read 3, write 0, timeout 0\n")), None);
    }

    #[test]
    fn memcaslap_is_read() {
        let output = "get_misses: 0\n\nRun time: 2.0s Ops: 289898 TPS: 144814 Net_rate: 162.0M/s\n";
        assert_eq!(memcaslap(output), Some(of(144814.0, None, None)));
    }

    #[test]
    fn medians_are_taken_field_by_field() {
        let samples = [of(1.0, Some(9.0), None), of(5.0, Some(7.0), None), of(2.0, None, None)];
        assert_eq!(median(&samples), of(2.0, Some(8.0), None));
        assert_eq!(median(&[]), Sample::default());
    }
}
