//! `ringway ping`: round trips through ports, as a histogram.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use hdrhistogram::Histogram;
use ringway_port::clock::monotonic_ns;
use ringway_port::{Port, Ready};
use ringway_wire::MacAddress;
use serde::Serialize;

use super::EXIT_NEGATIVE;
use crate::output::{print_json, print_text};
use crate::packets::frame::{self, Addresses, Tag, Template};
use crate::packets::meter::{Count, Meter};
use crate::packets::stop::{NAP, Stop};
use crate::packets::{Common, open_port, transfer};

/// Longest round trip that the histogram tells apart, in nanoseconds; longer ones count as this.
const LONGEST_NS: u64 = 60_000_000_000;

/// Measure round trips through a port, or send packets back
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway ping --reply -i vale0:b                 send back what comes, with addresses exchanged
  ringway ping -i vale0:a -n 10000 --poll         one packet under way at a time, without sleeping

A packet that does not come back within --timeout counts as lost.")]
pub(super) struct Arguments {
    /// Port to send and receive on
    #[arg(short = 'i', long = "port", value_name = "PORT")]
    port: String,
    /// Send back what comes instead
    #[arg(long, conflicts_with_all = ["count", "gap", "length"])]
    reply: bool,
    /// Round trips
    #[arg(short = 'n', long, value_name = "COUNT")]
    count: Option<u64>,
    /// Time between two packets, in microseconds
    #[arg(short, long, value_name = "US", default_value_t = 0)]
    gap: u64,
    /// Bytes of a packet
    #[arg(short, long, value_name = "BYTES", default_value_t = frame::LEN_MIN)]
    length: usize,
    /// How long to wait for each answer, in milliseconds
    #[arg(short, long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    timeout: u64,
    /// Poll for packets instead of sleeping until they come
    #[arg(long)]
    poll: bool,
    #[command(flatten)]
    common: Common,
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    let mut port = open_port(&arguments.port)?;
    ensure!(port.tx_rings() > 0 && port.rx_rings() > 0, "{} cannot both send and receive", arguments.port);
    let mut stop = Stop::new(arguments.common.duration)?;
    if arguments.reply {
        reply(&mut port, &arguments, &mut stop)?;
        return Ok(ExitCode::SUCCESS);
    }
    let end = ([10, 0, 0, 1].into(), 7);
    let addresses = Addresses {
        source_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        destination_mac: MacAddress::BROADCAST,
        source: end,
        destination: ([10, 1, 0, 1].into(), 7),
    };
    let mut ping = Ping {
        template: Template::new(&addresses, arguments.length, 1)?,
        times: Histogram::new_with_bounds(1, LONGEST_NS, 3)?,
        sent: 0,
        poll: arguments.poll,
    };
    let outcome = ping.run(&mut port, &arguments, &mut stop);
    let heard = !ping.times.is_empty();
    ping.report(arguments.common.json)?;
    outcome?;
    Ok(if heard { ExitCode::SUCCESS } else { ExitCode::from(EXIT_NEGATIVE) })
}

/// Sleeps for so long, or until it is time to end.
fn pause(gap: Duration, stop: &mut Stop) {
    /// Longest sleep without a look at signals.
    const SLICE: Duration = Duration::from_millis(20);
    let began = Instant::now();
    let left = || gap.saturating_sub(began.elapsed());
    while !left().is_zero() && !stop.reached(Instant::now()) {
        std::thread::sleep(left().min(SLICE));
    }
}

struct Ping {
    template: Template,
    times: Histogram<u64>,
    sent: u64,
    poll: bool,
}

impl Ping {
    fn run(&mut self, port: &mut Port, arguments: &Arguments, stop: &mut Stop) -> Result<()> {
        let timeout = Duration::from_millis(arguments.timeout);
        while self.sent < arguments.count.unwrap_or(u64::MAX) && !stop.reached(Instant::now()) {
            let number = self.sent;
            let mut batch = port.tx(0)?;
            let Some(slots) = batch.put(0, self.template.number(Tag { number, sent_ns: monotonic_ns() })) else {
                port.wait(Ready::TX, Some(NAP))?;
                continue;
            };
            batch.send(slots);
            port.sync_tx(0)?;
            self.sent += 1;
            if let Some(took_ns) = self.answer(port, number, timeout, stop)? {
                self.times.saturating_record(took_ns.max(1));
            }
            pause(Duration::from_micros(arguments.gap), stop);
        }
        Ok(())
    }

    /// Waits for the packet with this number; others, late ones among them, are passed over.
    fn answer(&self, port: &mut Port, number: u64, timeout: Duration, stop: &mut Stop) -> Result<Option<u64>> {
        let deadline = Instant::now() + timeout;
        loop {
            for ring in 0..port.rx_rings() {
                port.sync_rx(ring)?;
                let batch = port.rx(ring)?;
                let now_ns = monotonic_ns();
                let ours = (0..batch.len()).find_map(|i| frame::tag(batch.bytes(i)).filter(|tag| tag.number == number));
                let all = batch.len();
                batch.release(all);
                if let Some(tag) = ours {
                    return Ok(Some(now_ns.saturating_sub(tag.sent_ns)));
                }
            }
            let now = Instant::now();
            if now >= deadline || stop.reached(now) {
                return Ok(None);
            }
            if !self.poll {
                port.wait(Ready::RX, Some(NAP.min(deadline - now)))?;
            }
        }
    }

    fn report(&self, json: bool) -> Result<()> {
        let at = |quantile| self.times.value_at_quantile(quantile) as f64 / 1000.0;
        let report = Report {
            schema: 1,
            sent: self.sent,
            received: self.times.len(),
            min_us: self.times.min() as f64 / 1000.0,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: self.times.max() as f64 / 1000.0,
        };
        if json { print_json(&report) } else { print_text(&report.text()) }
    }
}

#[derive(Serialize)]
struct Report {
    schema: u32,
    sent: u64,
    received: u64,
    min_us: f64,
    p50_us: f64,
    p90_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
}

impl Report {
    fn text(&self) -> String {
        let lost = self.sent - self.received;
        let head = format!("{} sent, {} came back, {lost} lost\n", self.sent, self.received);
        if self.received == 0 {
            return head;
        }
        head + &format!(
            "round trip in us: min {:.2}  p50 {:.2}  p90 {:.2}  p99 {:.2}  p99.9 {:.2}  max {:.2}\n",
            self.min_us, self.p50_us, self.p90_us, self.p99_us, self.p999_us, self.max_us
        )
    }
}

/// Sends every packet back on the ring that it came on.
fn reply(port: &mut Port, arguments: &Arguments, stop: &mut Stop) -> Result<()> {
    let mut meter = Meter::new("answered", arguments.common.interval, arguments.common.json);
    let mut count = Count::default();
    loop {
        let now = Instant::now();
        if stop.reached(now) {
            return meter.finish(count);
        }
        meter.tick(now, count)?;
        let mut moved = false;
        for ring in 0..port.rx_rings() {
            port.sync_rx(ring)?;
            moved |= transfer::turn_round(port, ring, ring % port.tx_rings(), &mut count)? > 0;
            port.sync_tx(ring % port.tx_rings())?;
        }
        if !moved && !arguments.poll {
            port.wait(Ready::RX, Some(NAP))?;
        }
    }
}
