//! `ringway http`: a web server on our TCP or on the kernel's.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{ArgGroup, Args};
use ringway_stack::{Endpoint, Sockets, Stack};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::network::{Network, Opened};
use crate::output::{print_json, print_text, talk};
use crate::packets::stop::{NAP, Stop};
use crate::web::{Content, Done, Limits, Server};

/// Serve files or replies of a fixed size over HTTP, on our TCP or the kernel's
#[derive(Args)]
#[command(group(ArgGroup::new("content").required(true).args(["folder", "size", "echo"])), after_help = "\
Examples:
  ringway http -i tap:web0 --address 10.0.0.2/24 --folder /usr/share/doc
  ringway http -i tap:web0 --address 10.0.0.2/24 --size 64 --listen :8080
  ringway http --kernel --size 64 --listen 127.0.0.1:8080      the same program on the kernel's TCP

For the first, give the host the other end: ip address add 10.0.0.1/24 dev web0; then curl http://10.0.0.2/.
GET and HEAD, HTTP/1.1 and 1.0. A request's head has at most 16 KiB and 64 fields.")]
pub(super) struct Arguments {
    #[command(flatten)]
    network: Network,
    /// Where to listen; :PORT is [::]:PORT, at all our addresses, IPv4 and IPv6; 0.0.0.0:PORT is IPv4 only
    #[arg(long, value_name = "[ADDRESS]:PORT", default_value = ":80", value_parser = parse_listen)]
    listen: SocketAddr,
    /// Serve the files below this folder
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Answer every request with so many bytes
    #[arg(long, value_name = "BYTES")]
    size: Option<u64>,
    /// No HTTP: send back what comes
    #[arg(long)]
    echo: bool,
    /// Clients at a time; those beyond are reset
    #[arg(long, value_name = "COUNT", default_value_t = 1 << 20)]
    clients: usize,
    /// Let go of clients that are silent for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 75, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    idle: u64,
    /// End after this many seconds
    #[arg(long, value_name = "SECONDS")]
    duration: Option<f64>,
    /// The summary as JSON
    #[arg(short, long)]
    json: bool,
}

fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    // Both families: an IPv6 listener for any address serves IPv4, too.
    let any = IpAddr::from([0; 16]);
    let parsed = match text.strip_prefix(':') {
        Some(port) => port.parse().ok().map(|port| SocketAddr::new(any, port)),
        None => text.parse().ok(),
    };
    parsed.filter(|at| at.port() > 0).ok_or_else(|| "expected :PORT, ADDRESS:PORT or [ADDRESS]:PORT".into())
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    let content = match (&arguments.folder, arguments.size) {
        (Some(folder), _) => Content::folder(folder)?,
        (None, Some(size)) => Content::Fixed(size),
        (None, None) => Content::Echo,
    };
    let duration = arguments.duration.map(Duration::try_from_secs_f64).transpose().context("--duration")?;
    let stop = Stop::new(duration)?;
    let (done, counters) = match arguments.network.open()? {
        Opened::Engine(mut stack) => (serve(&mut *stack, &arguments, content, stop)?, counters(&mut stack)),
        Opened::Kernel(mut sockets) => (serve(&mut sockets, &arguments, content, stop)?, Map::new()),
    };
    let summary = Summary {
        schema: 1,
        accepted: done.accepted,
        turned_away: done.turned_away,
        requests: done.requests,
        refused: done.refused,
        counters,
    };
    if arguments.json {
        print_json(&summary)?
    } else {
        print_text(&summary.text())?
    }
    Ok(ExitCode::SUCCESS)
}

fn serve(sockets: &mut impl Sockets, arguments: &Arguments, content: Content, mut stop: Stop) -> Result<Done> {
    let limits = Limits { clients_max: arguments.clients, idle: Duration::from_secs(arguments.idle) };
    let mut server = Server::new(sockets, Endpoint::from(arguments.listen), content, limits)
        .with_context(|| format!("cannot listen at {}", arguments.listen))?;
    talk(format_args!("listening at {}", arguments.listen));
    let mut events = Vec::new();
    while !stop.reached(Instant::now()) {
        sockets.poll(&mut events, Some(NAP))?;
        server.serve(sockets, &events);
    }
    Ok(server.done())
}

/// What our TCP has counted, by name; zeros are left out.
fn counters(stack: &mut Stack) -> Map<String, Value> {
    let drops = stack.counters().drops().map(|(why, n)| (format!("dropped: {}", why.text()), n.into()));
    let mut counters: Map<String, Value> = drops.collect();
    let tcp = stack.engine().stats().iter().filter(|(_, n)| *n > 0);
    counters.extend(tcp.map(|(counter, n)| (format!("tcp: {}", counter.text()), n.into())));
    counters
}

#[derive(Serialize)]
struct Summary {
    schema: u32,
    accepted: u64,
    turned_away: u64,
    requests: u64,
    refused: u64,
    /// Packets dropped by reason and what TCP counted; empty on the kernel's.
    counters: Map<String, Value>,
}

impl Summary {
    fn text(&self) -> String {
        let Summary { accepted, turned_away, requests, refused, .. } = self;
        let head = format!("{requests} requests answered, {refused} of them refused, on {accepted} connections\n");
        let away = if *turned_away > 0 { format!("{turned_away} connections turned away\n") } else { String::new() };
        self.counters.iter().fold(head + &away, |text, (name, n)| text + &format!("{n:>12}  {name}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_listen() {
        assert_eq!(parse_listen(":80"), Ok("[::]:80".parse().unwrap()));
        assert_eq!(parse_listen("0.0.0.0:80"), Ok("0.0.0.0:80".parse().unwrap()));
        assert_eq!(parse_listen("[fd00::1]:8080"), Ok("[fd00::1]:8080".parse().unwrap()));
        assert!(parse_listen("80").is_err() && parse_listen(":0").is_err());
    }
}
