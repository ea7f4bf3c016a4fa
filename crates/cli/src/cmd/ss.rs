//! `ringway ss`: sockets as ss shows them, with the path that each takes and why.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use ringway_daemon::control::Offers;

use crate::monitor;
use crate::output::{print_json, print_text, table, talk};
use crate::sockets::kernel::{self, Services};
use crate::sockets::merge::{self, MonitorView};
use crate::sockets::state::States;
use crate::sockets::{Socket, State, filter, owners, reasons};

/// List TCP sockets, the path that each takes (Via) and why
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway ss -tn                                established connections
  ringway ss -tlnp                              listening sockets with their programs
  ringway ss -i via ring                        upgraded connections with their counters
  ringway ss dport = :6379 and reason = no-partner
  ringway ss state time-wait src 127.0.0.0/8
  ringway ss -j | jq '.sockets[] | select(.via == \"tcp\")'

FILTER is the useful part of ss's: state and exclude; src, dst, sport, dport with = != > >= < <=; and, \
or, not, brackets (quoted for the shell); and ours: via ring|tcp|unknown, reason NAME.")]
pub(super) struct Arguments {
    /// TCP sockets (there are no others; accepted for ss's sake)
    #[arg(short, long)]
    tcp: bool,
    /// Listening sockets only
    #[arg(short, long)]
    listening: bool,
    /// Ports as numbers, not names
    #[arg(short, long)]
    numeric: bool,
    /// Programs that hold each socket
    #[arg(short, long)]
    processes: bool,
    /// Counters of upgraded connections, and what mends the others, in a second line
    #[arg(short, long)]
    info: bool,
    /// Listening sockets too, and those in short-lived states
    #[arg(short, long)]
    all: bool,
    /// No header line
    #[arg(short = 'H', long)]
    no_header: bool,
    /// One JSON document
    #[arg(short, long)]
    json: bool,
    /// Folder of the monitor's sockets [default: the monitor that serves this user]
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<PathBuf>,
    /// Which sockets
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
}

#[derive(serde::Serialize)]
struct Document<'a> {
    schema: u32,
    sockets: &'a [Socket],
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    let filter = filter::parse(&arguments.filter.join(" "))?;
    let states = filter.states.unwrap_or(match (arguments.all, arguments.listening) {
        (true, _) => States::ALL,
        (false, true) => States::of(State::Listening),
        (false, false) => States::shown_by_default(),
    });
    let mut sockets = kernel::sockets().context("reading /proc/self/net/tcp")?;
    let view = ask_monitor(arguments.socket_dir.clone())?;
    merge::annotate(&mut sockets, &view);
    let all = sockets.clone();
    sockets.retain(|socket| states.contains(socket.state));
    reasons::complete(&mut sockets, &all, view.reached);
    sockets.retain(|socket| filter.matches(socket));
    if arguments.processes {
        let mut owners = owners::by_inode();
        for socket in &mut sockets {
            socket.processes = owners.remove(&socket.inode).unwrap_or_default();
        }
    }
    match arguments.json {
        true => print_json(&Document { schema: 1, sockets: &sockets })?,
        false => print_text(&render(&sockets, &arguments))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Without a monitor all that the kernel shows is the truth: everything is on TCP.
fn ask_monitor(socket_dir: Option<PathBuf>) -> Result<MonitorView> {
    let mut control = match monitor::connect(socket_dir) {
        Ok(control) => control,
        Err(e) if monitor::is_absent(&e) => {
            talk(format_args!("{e}; upgraded connections cannot be told apart"));
            return Ok(MonitorView::default());
        }
        Err(e) => return Err(e),
    };
    let connections = control.connections()?;
    let Offers { offers, verdicts, .. } = control.offers()?;
    Ok(MonitorView { connections, offers, verdicts, reached: true })
}

fn render(sockets: &[Socket], options: &Arguments) -> String {
    let services = if options.numeric { Services::default() } else { Services::load() };
    let mut header = vec!["State", "Recv-Q", "Send-Q", "Local Address:Port", "Peer Address:Port", "Via", "Reason"];
    if options.processes {
        header.push("Process");
    }
    let row = |socket: &Socket| {
        let mut row = vec![
            socket.state.column().to_string(),
            socket.recv_queue_bytes.to_string(),
            socket.send_queue_bytes.to_string(),
            endpoint(socket.local, &services),
            endpoint(socket.peer, &services),
            socket.via.name().to_string(),
            socket.reason.unwrap_or("").to_string(),
        ];
        if options.processes {
            row.push(users(socket));
        }
        row
    };
    let text = table(&header, &sockets.iter().map(row).collect::<Vec<_>>(), &[1, 2]);
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default();
    let mut out = if options.no_header { String::new() } else { format!("{header}\n") };
    for (line, socket) in lines.zip(sockets) {
        out += line;
        out.push('\n');
        if let Some(info) = options.info.then(|| info(socket)).flatten() {
            out += &format!("\t {info}\n");
        }
    }
    out
}

/// `127.0.0.1:http`, `[::1]:80`; port 0 is `*`.
fn endpoint(address: std::net::SocketAddr, services: &Services) -> String {
    let port = match address.port() {
        0 => "*".into(),
        port => services.name(port).map_or_else(|| port.to_string(), str::to_string),
    };
    match address.ip() {
        std::net::IpAddr::V4(ip) => format!("{ip}:{port}"),
        std::net::IpAddr::V6(ip) => format!("[{ip}]:{port}"),
    }
}

/// `users:(("redis-server",pid=7,fd=6))`, as ss writes it.
fn users(socket: &Socket) -> String {
    let holders: Vec<_> =
        socket.processes.iter().map(|o| format!("(\"{}\",pid={},fd={})", o.name, o.pid, o.fd)).collect();
    if holders.is_empty() { String::new() } else { format!("users:({})", holders.join(",")) }
}

fn info(socket: &Socket) -> Option<String> {
    let counters = socket.ring.as_ref().map(|r| {
        format!(
            "ring:{}{} bytes_sent:{} bytes_received:{} tx:{} rx:{} tx_capacity:{} rx_capacity:{} memory:{}",
            r.connection,
            r.role,
            r.tx_bytes,
            r.rx_bytes,
            r.tx_path,
            r.rx_path,
            r.tx_capacity_bytes,
            r.rx_capacity_bytes,
            r.memory_bytes
        )
    });
    match (counters, socket.remedy) {
        (Some(counters), Some(remedy)) => Some(format!("{counters} remedy: {remedy}")),
        (counters, remedy) => counters.or(remedy.map(|remedy| format!("remedy: {remedy}"))),
    }
}
