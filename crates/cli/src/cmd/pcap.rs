//! `ringway pcap`: the bytes of upgraded connections, or the packets of a port, for tcpdump and Wireshark.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use ringway_channel::observe::{FINAL_LOOKS, RingObserver, SETTLE};
use ringway_daemon::control::{Connection, Control, ControlError};

use crate::capture::follow::{Followed, LookError, Tally};
use crate::capture::pcapng::Writer;
use crate::monitor;
use crate::output::talk;
use crate::packets::meter::{Count, Meter};
use crate::packets::{Common, is_port_name, recorder};
use crate::sockets::Socket;
use crate::sockets::filter::{self, Filter};
use crate::sockets::merge::{self, MonitorView};

/// How often new connections are asked for.
const REFRESH: Duration = Duration::from_millis(250);

/// Pause after a look that found nothing; longer pauses lose more, shorter ones cost more.
const PAUSE: Duration = Duration::from_micros(100);

/// Connections followed at once; each costs a mapping of 2.6 MiB address space.
const FOLLOWED_MAX: usize = 4096;

/// Capture the bytes of upgraded connections, or the packets of a port, as pcapng
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway pcap | tcpdump -r - -A                  what local programs say to each other
  ringway pcap -w redis.pcapng dport = :6379 or sport = :6379
  ringway pcap --connection 12 -c 100 -w ring12.pcapng
  ringway pcap vale0:watch -w all.pcapng          what reaches a new port of the switch
  ringway pcap packet:veth0 'udp and dst port 53' | tcpdump -r -

Of connections: the headers are made up: addresses, ports and sequence numbers are the connection's, there is no \
handshake, and each packet is what was new in the ring at a look. Reading takes nothing away and slows \
nobody; what was overwritten before it could be read is counted, and marked in the packet that follows. \
Bytes that went by TCP (before the upgrade) are for tcpdump -i lo.

Of a port: it is opened as any program opens it, and what comes in is taken out of it; packet:IF only looks. \
EXPR is tcpdump's (pcap-filter(7)), translated by tcpdump.

With -w FILE, lines of rates go to stdout.")]
pub(super) struct Arguments {
    /// File to write, - for stdout [default: stdout if that is no terminal]
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Only the connection with this number (`ringway ss -i` shows it)
    #[arg(long, value_name = "N")]
    connection: Option<u64>,
    /// Bytes kept of each packet, headers included
    #[arg(short, long, value_name = "BYTES", default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(64..=262_144))]
    snaplen: u32,
    /// End after this many packets
    #[arg(short, long, value_name = "COUNT")]
    count: Option<u64>,
    #[command(flatten)]
    common: Common,
    /// Folder of the monitor's sockets [default: the monitor that serves this user]
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<PathBuf>,
    /// A port and an expression; or which connections, in the language of `ringway ss` (either end may match)
    #[arg(value_name = "PORT [EXPR] | FILTER", conflicts_with = "connection")]
    filter: Vec<String>,
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    match &arguments.filter[..] {
        [port, expression @ ..] if is_port_name(port) => port_packets(&arguments, port, &expression.join(" ")),
        _ => connection_bytes(&arguments),
    }
}

impl Arguments {
    /// Lines of rates go to stdout where the capture does not.
    fn shows_rates(&self) -> bool {
        self.write.as_deref().is_some_and(|file| file != Path::new("-"))
    }

    fn meter(&self) -> Meter {
        let interval = if self.shows_rates() { self.common.interval } else { Duration::ZERO };
        Meter::new("captured", interval, self.common.json)
    }
}

fn port_packets(arguments: &Arguments, port: &str, expression: &str) -> Result<ExitCode> {
    let limits = recorder::Limits {
        snap_bytes: arguments.snaplen as usize,
        packets: arguments.count.unwrap_or(u64::MAX),
        duration: arguments.common.duration,
    };
    let out = BufWriter::new(open_output(arguments.write.as_deref())?);
    let mut meter = arguments.meter();
    let recorder::Recorded { seen, kept } = recorder::record(port, expression, out, &limits, &mut meter)?;
    if arguments.shows_rates() {
        meter.finish(kept)?;
    }
    let Count { packets, bytes, dropped } = kept;
    talk(format_args!(
        "{packets} packets, {bytes} bytes captured of {seen} packets seen, {dropped} dropped by the port"
    ));
    Ok(ExitCode::SUCCESS)
}

fn connection_bytes(arguments: &Arguments) -> Result<ExitCode> {
    let filter = filter::parse(&arguments.filter.join(" "))?;
    let mut control = monitor::connect(arguments.socket_dir.clone())?;
    let out = open_output(arguments.write.as_deref())?;
    // From here on Ctrl-C ends the capture with a complete file.
    let mut ends = SigSet::empty();
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().for_each(|signal| ends.add(signal));
    ends.thread_block()?;
    let signals = SignalFd::with_flags(&ends, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let writer = Writer::new(BufWriter::new(out), arguments.snaplen)?;
    let mut capture = Capture { writer, followed: Vec::new(), refused: HashSet::new(), tally: Tally::default() };
    let outcome = capture.run(&mut control, arguments, &filter, &signals);
    let flushed = capture.writer.flush();
    let Tally { packets, payload_bytes, lost_bytes } = capture.tally;
    talk(format_args!("{packets} packets, {payload_bytes} bytes captured, {lost_bytes} bytes lost"));
    outcome?;
    flushed?;
    Ok(ExitCode::SUCCESS)
}

fn open_output(path: Option<&Path>) -> Result<Box<dyn Write>> {
    match path {
        Some(path) if path != Path::new("-") => {
            Ok(Box::new(File::create(path).with_context(|| format!("writing {}", path.display()))?))
        }
        _ if std::io::stdout().is_terminal() => {
            bail!("a capture is nothing to look at in a terminal; use -w FILE, or pipe it: ringway pcap | tcpdump -r -")
        }
        _ => Ok(Box::new(std::io::stdout())),
    }
}

struct Capture {
    writer: Writer<BufWriter<Box<dyn Write>>>,
    followed: Vec<Followed>,
    /// Connections that cannot be followed; not tried again.
    refused: HashSet<u64>,
    tally: Tally,
}

impl Capture {
    fn run(&mut self, control: &mut Control, options: &Arguments, filter: &Filter, signals: &SignalFd) -> Result<()> {
        let started = Instant::now();
        let packets_max = options.count.unwrap_or(u64::MAX);
        let mut meter = options.meter();
        let mut refresh_at = started;
        if let Some(number) = options.connection {
            self.follow(control, number)?;
        }
        while self.tally.packets < packets_max
            && options.common.duration.is_none_or(|duration| started.elapsed() < duration)
            && matches!(signals.read_signal(), Ok(None))
        {
            let Tally { packets, payload_bytes, .. } = self.tally;
            meter.tick(Instant::now(), Count { packets, bytes: payload_bytes, dropped: 0 })?;
            if Instant::now() >= refresh_at {
                if !self.refresh(control, options.connection, filter)? {
                    break;
                }
                refresh_at = Instant::now() + REFRESH;
            }
            if !self.look_at_all(started.elapsed(), packets_max)? {
                self.writer.flush()?;
                std::thread::sleep(PAUSE);
            }
        }
        // What was held back until the sender's next write, and what came since the last look.
        for late in 1..=FINAL_LOOKS {
            self.look_at_all(started.elapsed() + SETTLE * late, packets_max)?;
        }
        Ok(())
    }

    /// Whether anything was new anywhere.
    fn look_at_all(&mut self, now: Duration, packets_max: u64) -> Result<bool> {
        let (mut moved, mut index) = (false, 0);
        while let Some(followed) = self.followed.get_mut(index) {
            match followed.look(now, &mut self.writer, packets_max, &mut self.tally) {
                Ok(news) => {
                    moved |= news;
                    index += 1;
                }
                Err(LookError::Write(e)) => return Err(e).context("writing the capture"),
                Err(LookError::Violation(e)) => {
                    let number = followed.number();
                    talk(format_args!("connection {number}: {e}; not followed further"));
                    self.refused.insert(number);
                    self.followed.remove(index);
                }
            }
        }
        Ok(moved)
    }

    /// Follows new connections, forgets ended ones; `false` if the only one wanted has ended.
    fn refresh(&mut self, control: &mut Control, only: Option<u64>, filter: &Filter) -> Result<bool> {
        let connections = match control.connections() {
            Ok(connections) => connections,
            // The monitor may end; what is followed stays readable.
            Err(ControlError::Io(_) | ControlError::Unexpected(_)) if !self.followed.is_empty() => return Ok(true),
            Err(e) => return Err(e.into()),
        };
        let ended = |f: &Followed| !connections.iter().any(|c| c.connection == f.number());
        // Ended ones are kept until the next time, for their last bytes.
        self.followed.retain_mut(|f| !ended(f) || f.outlive());
        self.refused.retain(|number| connections.iter().any(|c| c.connection == *number));
        if only.is_some() {
            return Ok(!self.followed.iter().all(ended));
        }
        for connection in connections.iter().filter(|c| wanted(c, filter)) {
            let number = connection.connection;
            let known = self.refused.contains(&number) || self.followed.iter().any(|f| f.number() == number);
            if known || self.followed.len() >= FOLLOWED_MAX {
                continue;
            }
            if let Err(e) = self.follow(control, number) {
                talk(format_args!("connection {number}: {e:#}; not followed"));
                self.refused.insert(number);
            }
        }
        Ok(true)
    }

    fn follow(&mut self, control: &mut Control, number: u64) -> Result<()> {
        let (tap, ring) = control.tap(number)?;
        let observer = RingObserver::open(&ring)?;
        self.followed.push(Followed::begin(observer, &tap.connection));
        Ok(())
    }
}

/// Whether either end of the connection passes the filter.
fn wanted(connection: &Connection, filter: &Filter) -> bool {
    let mut ends =
        connection.ends.each_ref().map(|end| Socket { uid: end.uid, ..Socket::between(end.local, end.remote) });
    let view = MonitorView { connections: vec![connection.clone()], ..MonitorView::default() };
    merge::annotate(&mut ends, &view);
    ends.iter().any(|end| filter.matches(end))
}
