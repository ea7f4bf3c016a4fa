//! Options for a bad line: delay, loss and the like.

use std::time::Duration;

use clap::Args;
use ringway_port::impair::Impairment;

/// What the packets suffer on their way.
#[derive(Args)]
pub(crate) struct LineOptions {
    /// Each packet comes so much later, as 20ms, 500us, 1s
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_time)]
    delay: Duration,
    /// Up to so much more, at random
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_time)]
    jitter: Duration,
    /// Probability that a packet is lost, 0 to 1
    #[arg(long, value_name = "P", default_value = "0", value_parser = parse_probability)]
    loss: f64,
    /// Probability that it comes twice
    #[arg(long, value_name = "P", default_value = "0", value_parser = parse_probability)]
    duplicate: f64,
    /// Probability that a bit of it is inverted
    #[arg(long, value_name = "P", default_value = "0", value_parser = parse_probability)]
    corrupt: f64,
    /// Probability that it does not wait for the delay, and overtakes others
    #[arg(long, value_name = "P", default_value = "0", value_parser = parse_probability)]
    reorder: f64,
    /// Bits per second that the line carries, as 100M [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = parse_bandwidth)]
    bandwidth: Option<u64>,
    /// The same seed gives the same losses
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl LineOptions {
    /// Whether anything was asked for.
    pub(crate) fn is_bad(&self) -> bool {
        Impairment { seed: 0, ..self.impairment() } != Impairment::default()
    }

    /// As the port's wrapper wants it.
    pub(crate) fn impairment(&self) -> Impairment {
        Impairment {
            seed: self.seed,
            loss: self.loss,
            duplication: self.duplicate,
            corruption: self.corrupt,
            reordering: self.reorder,
            delay_ns: self.delay.as_nanos() as u64,
            jitter_ns: self.jitter.as_nanos() as u64,
            rate_bytes_per_s: self.bandwidth.unwrap_or(0) / 8,
        }
    }
}

fn parse_probability(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(p) if (0.0..=1.0).contains(&p) => Ok(p),
        _ => Err("expected a probability from 0 to 1".into()),
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let found = units.iter().find_map(|(unit, s)| Some((text.strip_suffix(unit)?, s)));
    let seconds = found.and_then(|(number, s)| Some(number.parse::<f64>().ok()? * s));
    let seconds = seconds.filter(|seconds| (0.0..=60.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "expected 0s to 60s, with its unit (us, ms, s)".into())
}

fn parse_bandwidth(text: &str) -> Result<u64, String> {
    let units = [("k", 1e3), ("M", 1e6), ("G", 1e9)];
    let found = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    let (number, factor) = found.unwrap_or((text, &1.0));
    let bits = number.parse::<f64>().ok().map(|number| number * factor).filter(|bits| (8.0..=1e12).contains(bits));
    bits.map(|bits| bits as u64).ok_or_else(|| "expected 8 to 1000G bits per second, as 100M".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_units_and_bounds() {
        assert_eq!(parse_time("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(parse_time("1.5s"), Ok(Duration::from_millis(1500)));
        assert!(["20", "-1s", "61s", "ms", "1h"].iter().all(|text| parse_time(text).is_err()));
        assert_eq!(
            (parse_bandwidth("100M"), parse_bandwidth("64k"), parse_bandwidth("8")),
            (Ok(100_000_000), Ok(64_000), Ok(8))
        );
        assert!(["0", "7", "1T", "M"].iter().all(|text| parse_bandwidth(text).is_err()));
        assert!(
            parse_probability("0.5").is_ok() && parse_probability("1.1").is_err() && parse_probability("NaN").is_err()
        );
    }
}
