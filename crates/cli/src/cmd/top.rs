//! `ringway top`: who moves how much over rings.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use ringway_daemon::control::ControlError;

use super::EXIT_NEGATIVE;
use crate::live::{Order, Rates, Snapshot, screen};
use crate::monitor;
use crate::output::{print_json, print_text, talk};

/// Watch programs and connections, with rates
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway top                    live; q quits, 1 2 3 sort
  ringway top --once -d 5        rates over five seconds, as text
  ringway top -j -d 10           one JSON document in a line, every ten seconds")]
pub(super) struct Arguments {
    /// Measure once, print text and end
    #[arg(long)]
    once: bool,
    /// Time between two looks, in seconds
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = parse_delay)]
    delay: Duration,
    /// JSON lines instead of a screen
    #[arg(short, long)]
    json: bool,
    /// Folder of the monitor's sockets [default: the monitor that serves this user]
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<PathBuf>,
}

fn parse_delay(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected 0.1 to 3600 seconds".into()),
    }
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    let socket_dir = monitor::socket_dir(arguments.socket_dir)?;
    let mut before = match Snapshot::take(&socket_dir) {
        Ok(snapshot) => snapshot,
        Err(e @ ControlError::NotRunning { .. }) => {
            talk(format_args!("{e}"));
            return Ok(ExitCode::from(EXIT_NEGATIVE));
        }
        Err(e) => return Err(e.into()),
    };
    if !arguments.once && !arguments.json {
        if !std::io::stdout().is_terminal() {
            bail!("the live view needs a terminal; use --once or -j");
        }
        screen::run(&socket_dir, arguments.delay)?;
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        std::thread::sleep(arguments.delay);
        let after = Snapshot::take(&socket_dir)?;
        let mut rates = Rates::between(&before, &after);
        rates.sort(Order::Traffic);
        match arguments.json {
            true => print_json(&rates)?,
            false => print_text(&rates.render())?,
        }
        if arguments.once {
            return Ok(ExitCode::SUCCESS);
        }
        before = after;
    }
}
