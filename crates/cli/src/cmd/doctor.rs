//! `ringway doctor`: what this host lacks, with the command that mends it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::EXIT_NEGATIVE;
use crate::diagnosis::{self, Check, Verdict};
use crate::monitor;
use crate::output::{Paint, paint, print_json, print_text};

/// Check this host; each line says ok, warn or fail and what mends it
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway doctor
  ringway doctor -j | jq '.checks[] | select(.verdict != \"ok\")'

Exit codes: 0 nothing failed (warnings allowed), 1 something failed.")]
pub(super) struct Arguments {
    /// One JSON document
    #[arg(short, long)]
    json: bool,
    /// Folder of the monitor's sockets [default: the monitor that serves this user]
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    schema: u32,
    failures: usize,
    warnings: usize,
    checks: Vec<Check>,
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    let checks = diagnosis::run(&monitor::socket_dir(arguments.socket_dir)?);
    let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count();
    let (failures, warnings) = (count(Verdict::Fail), count(Verdict::Warn));
    match arguments.json {
        true => print_json(&Report { schema: 1, failures, warnings, checks })?,
        false => print_text(&checks.iter().map(line).collect::<String>())?,
    }
    Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::from(EXIT_NEGATIVE) })
}

fn line(check: &Check) -> String {
    let (word, colour) = match check.verdict {
        Verdict::Ok => ("ok  ", Paint::Good),
        Verdict::Warn => ("warn", Paint::Warning),
        Verdict::Fail => ("fail", Paint::Bad),
    };
    let remedy = check.remedy.as_ref().map_or(String::new(), |remedy| format!("{:26}mend: {remedy}\n", ""));
    format!("{}  {:<20}{}\n{remedy}", paint(colour, word), check.name, check.finding)
}
