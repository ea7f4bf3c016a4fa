//! What the packet tools share: ports opened with their limits said aloud, generated frames, rates, an end.

pub(crate) mod expression;
pub(crate) mod flow;
pub(crate) mod frame;
pub(crate) mod inventory;
pub(crate) mod line;
pub(crate) mod meeting;
pub(crate) mod meter;
pub(crate) mod order;
pub(crate) mod pace;
pub(crate) mod recorder;
pub(crate) mod schedule;
pub(crate) mod stop;
pub(crate) mod transfer;

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use ringway_port::{Port, PortName};

use crate::output::talk;

/// Options of every tool that runs until it is told to end.
#[derive(Args)]
pub(crate) struct Common {
    /// Seconds between two lines of rates; 0 prints the summary only
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    pub(crate) interval: Duration,
    /// End after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// JSON lines on stdout instead of text
    #[arg(short, long)]
    pub(crate) json: bool,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds == 0.0 || (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected 0, or 0.1 to 3600 seconds".into()),
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=1e8).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected 0.001 to 100000000 seconds".into()),
    }
}

/// A rate in packets per second.
pub(crate) fn parse_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.001..=1e9).contains(&rate) => Ok(rate),
        _ => Err("expected 0.001 to 1000000000 packets per second".into()),
    }
}

/// A hardware address as six bytes in hexadecimal.
pub(crate) fn parse_mac(text: &str) -> Result<[u8; 6], String> {
    let parts: Vec<&str> = text.split(':').collect();
    let byte = |part: &&str| (part.len() <= 2).then(|| u8::from_str_radix(part, 16).ok()).flatten();
    let bytes: Option<Vec<u8>> = parts.iter().map(byte).collect();
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| "expected six bytes, as in 02:00:00:00:00:01".into())
}

/// Whether a word is meant as the name of a port, be it right or not: what comes before its first colon says so.
pub(crate) fn is_port_name(word: &str) -> bool {
    const SCHEMES: [&str; 7] = ["netmap", "shm", "xdp", "packet", "tap", "pcap", "null"];
    word.split_once(':').is_some_and(|(scheme, _)| SCHEMES.contains(&scheme) || scheme.starts_with("vale"))
}

/// Opens a port and says on stderr what it is and what it cannot do.
pub(crate) fn open_port(name: &str) -> Result<Port> {
    let name: PortName = name.parse()?;
    meeting::prepare(&name);
    let port = ringway_switch::open_any(&name)?;
    say_limits(&port);
    Ok(port)
}

/// What a port is and what it cannot do.
pub(crate) fn say_limits(port: &Port) {
    let info = port.info();
    let rings = format!("{} tx and {} rx rings", port.tx_rings(), port.rx_rings());
    talk(format_args!("{}: {}, {rings}, buffers of {} bytes", info.name, info.transport, info.buffer_bytes));
    info.limits.iter().for_each(|limit| talk(format_args!("{}: {limit}", info.name)));
}
