//! `ringway load`: requests on many connections, on our TCP or on the kernel's.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use ringway_stack::{Error, Sockets};

use super::EXIT_NEGATIVE;
use crate::load::{Ending, Generator, Plan, Report, Sizes, Target};
use crate::network::{Network, Opened};
use crate::output::{print_json, print_text, talk};
use crate::packets::stop::Stop;

/// How long to wait, at the start, for one more connection to open.
const CONNECT_STALL_MAX: Duration = Duration::from_secs(10);

/// Make requests on many connections and measure the answers, on our TCP or the kernel's
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway load --kernel http://127.0.0.1:8080/ -c 64 --duration 10
  ringway load --kernel http://127.0.0.1:8080/ -c 64 --rate 20000      latencies count from when a request was due
  ringway load --kernel http://127.0.0.1:8080/ -c 16 --close           a new connection for each request
  ringway load -i tap:load0 --address 10.0.0.3/24 10.0.0.1:7000 --request-bytes 64 --response-bytes 1024

A target is http://ADDRESS[:PORT]/PATH, or ADDRESS:PORT for requests that mean nothing, as `ringway http --echo` answers them. \
Exit codes: 0 every request was answered, 1 some were not or were refused, 2 usage or failure.")]
pub(super) struct Arguments {
    #[command(flatten)]
    network: Network,
    /// Where to; connections are spread over several
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    /// Connections at a time
    #[arg(short, long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    connections: u32,
    /// End after this many seconds
    #[arg(short, long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    duration: f64,
    /// End after this many requests
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Leave the first seconds out of the figures
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = seconds)]
    warmup: f64,
    /// Requests in a second, whatever becomes of those before [default: each connection asks again when it is answered]
    #[arg(short, long, value_name = "PER_SECOND", value_parser = rate)]
    rate: Option<f64>,
    /// A new connection for each request; who ends it
    #[arg(long, value_name = "WHO", num_args = 0..=1, require_equals = true, default_missing_value = "peer")]
    close: Option<Close>,
    /// Bytes of a request that means nothing
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    request_bytes: u64,
    /// Bytes of its answer [default: as many]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    response_bytes: Option<u64>,
    /// A request that takes longer has failed
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    timeout: f64,
    /// The summary as JSON
    #[arg(short, long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Close {
    /// The server, after its answer
    Peer,
    /// We; our port is taken for a minute then
    Own,
    /// We, by a reset
    Reset,
}

impl From<Option<Close>> for Ending {
    fn from(close: Option<Close>) -> Ending {
        match close {
            None => Ending::Keep,
            Some(Close::Peer) => Ending::Peer,
            Some(Close::Own) => Ending::Own,
            Some(Close::Reset) => Ending::Reset,
        }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.0..=86_400.0).contains(&s) => Ok(s),
        _ => Err("expected 0 to 86400 seconds".into()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.001..=1e9).contains(&rate) => Ok(rate),
        _ => Err("expected 0.001 to 1000000000 requests per second".into()),
    }
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    let Arguments { request_bytes, close, .. } = arguments;
    let sizes = Sizes { request_bytes, response_bytes: arguments.response_bytes.unwrap_or(request_bytes) };
    let parse = |text: &String| Target::parse(text, sizes, close.is_some());
    let targets: Vec<Target> = arguments.targets.iter().map(parse).collect::<Result<_>>()?;
    let plan = Plan {
        connections: arguments.connections,
        ending: close.into(),
        rate: arguments.rate,
        timeout: Duration::from_secs_f64(arguments.timeout),
        requests_max: arguments.requests.unwrap_or(u64::MAX),
    };
    let generator = Generator::new(targets, plan);
    let report = match arguments.network.open()? {
        Opened::Engine(mut stack) => run(&mut *stack, generator, &arguments),
        Opened::Kernel(mut sockets) => {
            allow_descriptors(arguments.connections)?;
            run(&mut sockets, generator, &arguments)
        }
    }?;
    if arguments.json {
        print_json(&report)?
    } else {
        print_text(&report.text())?
    }
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_NEGATIVE) })
}

/// Connects, warms up, measures.
fn run(sockets: &mut impl Sockets, mut generator: Generator, arguments: &Arguments) -> Result<Report> {
    let mut events = Vec::new();
    let mut stop = Stop::new(None)?;
    let mut has_ended = |at: Instant| stop.reached(at);
    let (mut open, mut since) = (0, Instant::now());
    while !generator.is_connected() && !has_ended(Instant::now()) {
        generator.turn(sockets, &mut events)?;
        refuse_hopeless(&generator, arguments)?;
        if generator.open_now() != open {
            (open, since) = (generator.open_now(), Instant::now());
        }
        if since.elapsed() >= CONNECT_STALL_MAX {
            refuse_stalled(&generator, arguments)?;
        }
    }
    generator.start();
    if arguments.warmup > 0.0 {
        let until = Instant::now() + Duration::from_secs_f64(arguments.warmup);
        while Instant::now() < until && !has_ended(Instant::now()) {
            generator.turn(sockets, &mut events)?;
        }
    }
    generator.start_tally();
    let started = Instant::now();
    let until = started + Duration::from_secs_f64(arguments.duration);
    let mut now = started;
    while now < until && !generator.is_done() && !has_ended(now) {
        generator.turn(sockets, &mut events)?;
        refuse_hopeless(&generator, arguments)?;
        now = Instant::now();
    }
    if generator.tally().answers() == 0 && generator.awaits() {
        talk(format_args!("no answer came; does the server answer with as many bytes as --response-bytes says?"));
    }
    Ok(Report::new(&generator, now - started))
}

/// Some connections are there, and no more come.
fn refuse_stalled(generator: &Generator, arguments: &Arguments) -> Result<()> {
    let (open, all, seconds) = (generator.open_now(), arguments.connections, CONNECT_STALL_MAX.as_secs());
    let cause = generator.refusal().map_or(String::new(), |error| format!(" (refused: {error})"));
    bail!(
        "{open} of {all} connections are open, and none has come in {seconds} s{cause}; do all of {} answer?",
        arguments.targets.join(" ")
    );
}

/// A first connection that is refused is not worth waiting for.
fn refuse_hopeless(generator: &Generator, arguments: &Arguments) -> Result<()> {
    let Some(error) = generator.hopeless() else { return Ok(()) };
    let remedy = match error {
        Error::ConnectionRefused => "; start a server there, as `ringway http --kernel --size 64 --listen :8080`",
        Error::NetworkUnreachable => "; give an --address in the target's network, or a --gateway",
        Error::TimedOut | Error::HostUnreachable => "; is the target's host up, and the address right?",
        Error::AddressNotAvailable => "; give fewer --connections, more targets, or --set ip_local_port_first=1024",
        _ => "",
    };
    bail!("cannot connect to {}: {error}{remedy}", arguments.targets.join(" "));
}

/// Each of the kernel's connections takes a descriptor.
fn allow_descriptors(connections: u32) -> Result<()> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    /// Beside the connections.
    const SPARE: u64 = 64;
    let needed = u64::from(connections) + SPARE;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let most = limit.maximum.unwrap_or(u64::MAX);
    ensure!(
        most >= needed,
        "{connections} connections need {needed} descriptors, and {most} are allowed; raise it with `ulimit -Hn {needed}`"
    );
    limit.current = Some(needed);
    setrlimit(Resource::Nofile, limit).context("cannot raise the limit of descriptors")
}
