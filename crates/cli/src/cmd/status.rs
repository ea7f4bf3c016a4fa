//! `ringway status`: the monitor, its tables and their bounds.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use ringway_daemon::control::Status;

use super::EXIT_NEGATIVE;
use crate::monitor;
use crate::output::{human_bytes, human_seconds, print_json, print_text, talk};

/// Show the monitor, its tables and their bounds
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway status
  ringway status -j | jq .connections

Exit codes: 0 a monitor answers, 1 none does (with the remedy), 2 the question failed.")]
pub(super) struct Arguments {
    /// One JSON document
    #[arg(short, long)]
    json: bool,
    /// Folder of the monitor's sockets [default: the monitor that serves this user]
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<PathBuf>,
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    let mut control = match monitor::connect(arguments.socket_dir) {
        Ok(control) => control,
        Err(e) if monitor::is_absent(&e) => {
            talk(format_args!("{e}"));
            return Ok(ExitCode::from(EXIT_NEGATIVE));
        }
        Err(e) => return Err(e),
    };
    let status = control.status()?;
    match arguments.json {
        true => print_json(&status)?,
        false => print_text(&render(&status))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn render(status: &Status) -> String {
    let policy = status.policy_file.as_ref().map_or("built in".into(), |file| file.display().to_string());
    let table = |used: u64, max: u64| format!("{used} of {max}");
    let mut lines = vec![
        ("monitor", format!("{}, pid {}, uid {}", status.version, status.pid, status.uid)),
        ("socket", status.socket.display().to_string()),
        ("uptime", human_seconds(status.uptime_s)),
        ("policy", policy),
        ("programs", table(status.clients, status.clients_max)),
        ("connections", table(status.connections, status.connections_max)),
        ("waiting", table(status.offers, status.offers_max)),
        (
            "memory",
            format!("{} of {} per user", human_bytes(status.memory_bytes), human_bytes(status.memory_per_uid_bytes)),
        ),
        (
            "since start",
            format!(
                "{} offered, {} paired, {} attached again, {} programs dropped",
                status.offers_total, status.pairs_total, status.attaches_total, status.clients_dropped_total
            ),
        ),
    ];
    if status.short_of_open_files {
        let limit = status.open_files_max;
        lines.push((
            "open files",
            format!("limit {limit}: raise it (ulimit -Hn) and restart for all that the policy allows"),
        ));
    }
    let refused: Vec<_> = status.refusals_total.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
    if !refused.is_empty() {
        lines.push(("refused", refused.join(", ")));
    }
    lines.iter().map(|(name, value)| format!("{name:<12} {value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_tables_bounds_and_refusals() {
        let status = Status {
            schema: 1,
            version: "0.1.0".into(),
            protocol_version: 1,
            pid: 42,
            uid: 1000,
            uptime_s: 61,
            socket: "/run/user/1000/ringway/monitor.sock".into(),
            policy_file: None,
            clients: 2,
            clients_max: 4096,
            offers: 0,
            offers_max: 65536,
            connections: 50,
            connections_max: 65536,
            memory_bytes: 3 << 20,
            memory_per_uid_bytes: 4 << 30,
            open_files_max: 1024,
            short_of_open_files: true,
            offers_total: 104,
            pairs_total: 52,
            attaches_total: 0,
            clients_dropped_total: 0,
            refusals_total: [("foreign-uid".to_string(), 4)].into(),
        };
        let expected = "\
monitor      0.1.0, pid 42, uid 1000
socket       /run/user/1000/ringway/monitor.sock
uptime       1m 1s
policy       built in
programs     2 of 4096
connections  50 of 65536
waiting      0 of 65536
memory       3.0 MiB of 4.0 GiB per user
since start  104 offered, 52 paired, 0 attached again, 0 programs dropped
open files   limit 1024: raise it (ulimit -Hn) and restart for all that the policy allows
refused      foreign-uid 4
";
        assert_eq!(render(&status), expected);
    }
}
