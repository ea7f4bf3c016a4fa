//! What other people's load generators print, as numbers.

use super::worker::Sample;

/// `redis-benchmark --csv`: a heading, then one line for the one command that was asked for.
pub(super) fn redis_benchmark(output: &str) -> Option<Sample> {
    let fields = |line: &str| line.split(',').map(|f| f.trim_matches('"').to_owned()).collect::<Vec<_>>();
    let mut lines = output.lines().skip_while(|l| !l.starts_with("\"test\""));
    let (heading, values) = (fields(lines.next()?), fields(lines.next()?));
    let value = |name: &str| values.get(heading.iter().position(|h| h == name)?)?.parse::<f64>().ok();
    let mut sample: Sample = [("requests_per_s".to_owned(), value("rps")?)].into();
    for (column, metric) in [
        ("p50_latency_ms", "latency_p50_us"),
        ("p99_latency_ms", "latency_p99_us"),
        ("max_latency_ms", "latency_max_us"),
    ] {
        sample.extend(value(column).map(|ms| (metric.to_owned(), ms * 1e3)));
    }
    Some(sample)
}

/// `wrk --latency`; a run with failed requests is no sample.
pub(super) fn wrk(output: &str) -> Option<Sample> {
    let bad = ["Socket errors:", "Non-2xx"];
    if output.lines().any(|l| bad.iter().any(|b| l.trim_start().starts_with(b))) {
        return None;
    }
    let after = |label: &str| output.lines().find_map(|l| l.trim_start().strip_prefix(label)).map(str::trim);
    let mut sample: Sample = [("requests_per_s".to_owned(), after("Requests/sec:")?.parse().ok()?)].into();
    for (label, metric) in [("50%", "latency_p50_us"), ("90%", "latency_p90_us"), ("99%", "latency_p99_us")] {
        sample.extend(after(label).and_then(microseconds).map(|us| (metric.to_owned(), us)));
    }
    Some(sample)
}

/// "612.00us", "1.20ms", "2.00s".
fn microseconds(text: &str) -> Option<f64> {
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    let (number, factor) = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_benchmark_is_read() {
        let output =
            "\"test\",\"rps\",\"p50_latency_ms\",\"p99_latency_ms\"\n\"GET\",\"19960.08\",\"0.047\",\"0.071\"\n";
        let sample = redis_benchmark(output).unwrap();
        assert_eq!((sample["requests_per_s"], sample["latency_p50_us"]), (19960.08, 47.0));
        assert_eq!(redis_benchmark("Could not connect"), None);
    }

    #[test]
    fn wrk_is_read_and_failed_requests_are_no_result() {
        let output = "  Latency Distribution\n     50%  612.00us\n     99%    1.50ms\nRequests/sec:  25011.10\n";
        let sample = wrk(output).unwrap();
        assert_eq!((sample["requests_per_s"], sample["latency_p99_us"]), (25011.1, 1500.0));
        assert_eq!(wrk(&format!("{output}  Non-2xx or 3xx responses: 4\n")), None);
    }
}
