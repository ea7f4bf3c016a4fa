//! `ringway bench`: measurements, side by side with the kernel.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use super::EXIT_NEGATIVE;
use crate::bench::{self, Plan, Report};
use crate::output::{print_text, talk};

/// Rounds and seconds of a quick look.
const QUICK: (u32, f64) = (3, 0.1);
/// Those of a measurement.
const THOROUGH: (u32, f64) = (7, 0.5);

/// Measure this machine, side by side with the kernel
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Sockets(Sockets),
    /// List the cases of `bench sockets`
    List,
    /// Compare two JSON reports
    Compare {
        old: PathBuf,
        new: PathBuf,
    },
}

/// Kernel TCP, Unix sockets, Ringway in each profile and the shared memory itself, interleaved
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway bench sockets --quick                     a first look, a few minutes
  ringway bench sockets --case round-trip stream    only cases whose names begin like this
  ringway bench sockets --check                     compare with what the project promises
  ringway bench sockets --json b.json --html b.html

Every connection over Ringway is checked to be upgraded; one that was not makes its figure FAILED. \
Exit codes: 0 fine, 1 something failed or a promise was missed, 2 usage or failure.")]
struct Sockets {
    /// Only cases whose names begin like this
    #[arg(long, value_name = "NAME", num_args = 1..)]
    case: Vec<String>,
    /// List the cases
    #[arg(long)]
    list: bool,
    /// Fewer and shorter rounds
    #[arg(long)]
    quick: bool,
    /// How often each case is measured on each path [default: 7, quick: 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Length of one measurement [default: 0.5, quick: 0.1]
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// Let the kernel place the two ends, instead of keeping them on CPUs of their own
    #[arg(long)]
    unpinned: bool,
    /// Compare with what the project promises; without --case, measure what that needs
    #[arg(long)]
    check: bool,
    /// Write everything as one JSON document
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.01..=600.0).contains(&s) => Ok(s),
        _ => Err("allowed are 0.01 to 600 seconds".into()),
    }
}

/// One of the programs that `ringway bench` measures
#[derive(Args)]
pub(super) struct WorkerArguments {
    job: String,
}

pub(super) fn worker(arguments: WorkerArguments) -> Result<ExitCode> {
    bench::worker::main(&arguments.job)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    match arguments.what {
        What::Sockets(options) if !options.list => sockets(options),
        What::Sockets(_) | What::List => {
            let lines = bench::select(&[])?.into_iter().map(|case| format!("{:<18}{}\n", case.name, case.title));
            print_text(&lines.collect::<String>())?;
            Ok(ExitCode::SUCCESS)
        }
        What::Compare { old, new } => {
            print_text(&bench::comparison(&read(&old)?, &read(&new)?))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn sockets(options: Sockets) -> Result<ExitCode> {
    let names = if options.check && options.case.is_empty() { bench::promised() } else { options.case.clone() };
    let cases = bench::select(&names)?;
    let (rounds, duration_s) = if options.quick { QUICK } else { THOROUGH };
    let plan = Plan {
        rounds: options.rounds.unwrap_or(rounds),
        duration: Duration::from_secs_f64(options.seconds.unwrap_or(duration_s)),
        pinned: !options.unpinned,
    };
    let shows_progress = std::io::stderr().is_terminal();
    let mut report = bench::run(&cases, plan, |what| {
        if shows_progress {
            eprint!("\r\x1b[K{what}");
        }
    })?;
    if shows_progress {
        eprint!("\r\x1b[K");
    }
    if !options.check {
        report.targets.clear();
    }
    print_text(&bench::table(&report))?;
    for (file, text) in
        [(&options.json, serde_json::to_string_pretty(&report)? + "\n"), (&options.html, bench::page(&report))]
    {
        if let Some(file) = file {
            std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
        }
    }
    let failures = report.cases.iter().flat_map(|c| &c.paths).filter(|p| p.failed.is_some()).count();
    if failures > 0 {
        talk(format_args!("{failures} measurements failed"));
    }
    let missed = report.targets.iter().any(|verdict| !verdict.kept);
    Ok(if failures > 0 || missed { ExitCode::from(EXIT_NEGATIVE) } else { ExitCode::SUCCESS })
}

fn read(file: &PathBuf) -> Result<Report> {
    let context = || format!("{} is no report of `ringway bench sockets --json`", file.display());
    let text = std::fs::read_to_string(file).with_context(context)?;
    serde_json::from_str(&text).with_context(context)
}
