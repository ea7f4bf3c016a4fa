//! `ringway replay`: the packets of a file into a port, with their own timing or another, over a line that may be bad.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use ringway_port::Port;
use ringway_port::clock::monotonic_ns;
use ringway_port::impair::Line;
use ringway_port::pcap::{Packet, Reader};

use crate::output::talk;
use crate::packets::line::LineOptions;
use crate::packets::meter::{Count, Meter};
use crate::packets::schedule::{Schedule, Timing};
use crate::packets::stop::{NAP, Stop};
use crate::packets::transfer::drain;
use crate::packets::{Common, open_port, parse_rate};

/// Shorter waits are spent looking, not sleeping: a sleep takes longer than it says.
const SPIN_NS: u64 = 100_000;

/// Send the packets of a capture into a port
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway replay -i vale0:a trace.pcap                         as it was captured
  ringway replay -i tap:t0 trace.pcapng --speed 10 --loop 3
  ringway replay -i shm:x trace.pcap --top                     as fast as the port takes them
  ringway replay -i vale0:a trace.pcap --delay 20ms --loss 0.01 --bandwidth 100M

Reads pcap and pcapng. What a capture cut off is not sent. Lost packets, and those that do not fit into the \
port, are counted as dropped.")]
pub(super) struct Arguments {
    /// Port to send to
    #[arg(short = 'i', long = "port", value_name = "PORT")]
    port: String,
    /// The capture
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// So many times as fast as captured
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = parse_factor, conflicts_with_all = ["rate", "top"])]
    speed: f64,
    /// Packets per second, whatever the capture's times
    #[arg(short, long, value_name = "RATE", value_parser = parse_rate, conflicts_with = "top")]
    rate: Option<f64>,
    /// As fast as the port takes them
    #[arg(long)]
    top: bool,
    /// Play it this many times
    #[arg(long = "loop", value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    times: u32,
    #[command(flatten)]
    line: LineOptions,
    #[command(flatten)]
    common: Common,
}

fn parse_factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if (1e-6..=1e6).contains(&factor) => Ok(factor),
        _ => Err("expected 0.000001 to 1000000".into()),
    }
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    let timing = match (arguments.top, arguments.rate) {
        (true, _) => Timing::AtOnce,
        (false, Some(packets_per_s)) => Timing::Rate { packets_per_s },
        (false, None) => Timing::AsCaptured { speed: arguments.speed },
    };
    let capture = Capture::open(&arguments.file, arguments.times)?;
    let mut port = open_port(&arguments.port)?;
    ensure!(port.tx_rings() > 0, "{} has no tx ring to send on", arguments.port);
    let mut stop = Stop::new(arguments.common.duration)?;
    let mut meter = Meter::new("sent", arguments.common.interval, arguments.common.json);
    let schedule = Schedule::new(timing, monotonic_ns());
    let line = Line::new(arguments.line.impairment(), 0);
    let mut replay =
        Replay { capture, schedule, line, next: None, count: Count::default(), ended: false, broken: None };
    let outcome = replay.run(&mut port, &mut stop, &mut meter);
    meter.finish(replay.count)?;
    outcome?;
    Ok(ExitCode::SUCCESS)
}

/// The file, as often as it is to be played.
struct Capture {
    path: PathBuf,
    reader: Reader<BufReader<File>>,
    times_left: u32,
    is_empty: bool,
}

impl Capture {
    fn open(path: &Path, times: u32) -> Result<Capture> {
        Ok(Capture { path: path.to_owned(), reader: reader(path)?, times_left: times - 1, is_empty: true })
    }

    /// The next packet, and whether it is the first of the file; None at the last end.
    fn next(&mut self) -> Result<Option<(Packet, bool)>> {
        loop {
            let packet = self.reader.next_packet().with_context(|| self.path.display().to_string())?;
            if let Some(packet) = packet {
                return Ok(Some((packet, std::mem::replace(&mut self.is_empty, false))));
            }
            if self.times_left == 0 || self.is_empty {
                return Ok(None);
            }
            self.times_left -= 1;
            self.reader = reader(&self.path)?;
            self.is_empty = true;
        }
    }
}

fn reader(path: &Path) -> Result<Reader<BufReader<File>>> {
    let context = || format!("cannot read {}", path.display());
    Reader::new(BufReader::new(File::open(path).with_context(context)?)).with_context(context)
}

struct Replay {
    capture: Capture,
    schedule: Schedule,
    line: Line,
    /// Read, and not due yet: when it is, and its bytes.
    next: Option<(u64, Vec<u8>)>,
    count: Count,
    /// All of the file is read, or all that can be.
    ended: bool,
    /// Why the rest cannot be read; told once what comes before it is sent.
    broken: Option<anyhow::Error>,
}

impl Replay {
    fn run(&mut self, port: &mut Port, stop: &mut Stop, meter: &mut Meter) -> Result<()> {
        let fits = longest(port);
        loop {
            let now = Instant::now();
            if stop.reached(now) {
                break;
            }
            meter.tick(now, self.count)?;
            let now_ns = monotonic_ns();
            self.feed(now_ns, fits);
            let (moved, is_full) = self.hand_over(port, now_ns)?;
            if self.ended && self.next.is_none() && self.line.due_ns().is_none() {
                break;
            }
            if is_full {
                port.wait(ringway_port::Ready::TX, Some(NAP))?;
            } else if moved == 0 {
                self.nap(now_ns);
            }
        }
        drain(port, stop)?;
        self.broken.take().map_or(Ok(()), Err)
    }

    /// Puts all packets that are due on the line, as long as it takes them.
    fn feed(&mut self, now_ns: u64, fits: usize) {
        while !self.line.is_full() {
            if self.next.is_none() && !self.ended {
                match self.capture.next() {
                    Ok(Some((packet, is_first))) => {
                        let at_ns = self.schedule.next(packet.time_ns, is_first);
                        self.next = Some((at_ns, packet.bytes));
                    }
                    Ok(None) => self.ended = true,
                    Err(error) => (self.ended, self.broken) = (true, Some(error)),
                }
            }
            let Some((_, bytes)) = self.next.take_if(|(at_ns, _)| *at_ns <= now_ns) else { break };
            if bytes.is_empty() || bytes.len() > fits {
                if self.count.dropped == 0 {
                    talk(format_args!("a packet of {} bytes: the port takes 1 to {fits}; left out", bytes.len()));
                }
                self.count.dropped += 1;
            } else if self.line.take(bytes, now_ns) == 0 {
                self.count.dropped += 1;
            }
        }
    }

    /// Moves what has come through the line into the port; how many packets, and whether there was no room for more.
    fn hand_over(&mut self, port: &mut Port, now_ns: u64) -> Result<(u64, bool)> {
        let mut batch = port.tx(0)?;
        let (before, mut slots, mut is_full) = (self.count.packets, 0, false);
        let count = &mut self.count;
        self.line.give(now_ns, |packet| {
            let used = batch.put(slots, packet);
            is_full = used.is_none();
            slots += used.unwrap_or(0);
            used.inspect(|_| count.add(packet.len())).is_some()
        });
        batch.send(slots);
        port.sync_tx(0)?;
        Ok((self.count.packets - before, is_full))
    }

    /// Until something is due.
    fn nap(&self, now_ns: u64) {
        let waiting = self.next.as_ref().map(|(at_ns, _)| *at_ns);
        let due_ns = [waiting, self.line.due_ns()].into_iter().flatten().min();
        let left_ns = due_ns.map_or(0, |due_ns| due_ns.saturating_sub(now_ns)).saturating_sub(SPIN_NS);
        if left_ns > 0 {
            std::thread::sleep(Duration::from_nanos(left_ns).min(NAP));
        }
    }
}

/// The longest packet that the port's first ring can take, in bytes.
fn longest(port: &Port) -> usize {
    let info = port.info();
    let slots = port.tx_ring(0).map_or(0, |ring| ring.num_slots() - 1).min(ringway_mem::slot::NETMAP_MAX_FRAGS as u32);
    (info.packet_bytes_max as usize).min((slots * info.buffer_bytes) as usize)
}
