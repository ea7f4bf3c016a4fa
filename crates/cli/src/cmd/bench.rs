//! `ringway bench`: measurements, side by side with the kernel.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use super::EXIT_NEGATIVE;
use crate::bench::{self, Case, Plan, Report};
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
    Packets(Packets),
    Tcp(Tcp),
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
    #[command(flatten)]
    common: Common,
}

/// Pipes, the switch, network devices and routing beside the kernel and the memory limits, interleaved
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway bench packets --quick                     a first look, a minute
  ringway bench packets --case switch-60            only cases whose names begin like this
  ringway bench packets --check                     compare with what the project promises
  ringway bench packets --json b.json --html b.html

As root it also measures veth pairs and the Linux bridge, in network namespaces of its own. \
Exit codes: 0 fine, 1 something failed or a promise was missed, 2 usage or failure.")]
struct Packets {
    #[command(flatten)]
    common: Common,
}

/// TCPs side by side: ours and smoltcp over a shared-memory pipe, the kernel's over loopback and veth, interleaved
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway bench tcp --quick                     a first look
  ringway bench tcp --case requests-1000 bulk
  ringway bench tcp --check                     compare with what the project promises
  ringway bench tcp --json b.json --html b.html

The client is the load generator of `ringway load`, on the same TCP as its server (on ours against smoltcp's). Client and server \
have a CPU each. smoltcp is there if built with `--features comparators`, veth for root.
Exit codes: 0 fine, 1 something failed or a promise was missed, 2 usage or failure.")]
struct Tcp {
    #[command(flatten)]
    common: Common,
}

/// What all benches are told.
#[derive(Args)]
struct Common {
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

impl Common {
    fn plan(&self) -> Plan {
        let (rounds, duration_s) = if self.quick { QUICK } else { THOROUGH };
        Plan {
            rounds: self.rounds.unwrap_or(rounds),
            duration: Duration::from_secs_f64(self.seconds.unwrap_or(duration_s)),
            pinned: !self.unpinned,
        }
    }

    /// Which cases to measure, by the beginning of their names.
    fn names(&self, promised: impl FnOnce() -> Vec<String>) -> Vec<String> {
        if self.check && self.case.is_empty() { promised() } else { self.case.clone() }
    }

    /// Says how it goes, prints the table and writes what was asked for.
    fn conclude(&self, table: &str, report: &impl serde::Serialize, page: &str, is_good: bool) -> Result<ExitCode> {
        print_text(table)?;
        let json = serde_json::to_string_pretty(report)? + "\n";
        for (file, text) in [(&self.json, json.as_str()), (&self.html, page)] {
            if let Some(file) = file {
                std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
            }
        }
        Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(EXIT_NEGATIVE) })
    }
}

/// One line that is written over by the next, where somebody sees it; empty at the end.
fn show_progress(what: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{what}");
    }
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
        What::Sockets(Sockets { common }) => connections(&common, Case::all(), bench::run),
        What::Tcp(Tcp { common }) => connections(&common, Case::tcp(), bench::tcp::run),
        What::Packets(Packets { common }) if !common.list => packets(&common),
        What::Packets(_) => list(bench::packets::list().into_iter().map(|(name, title)| (name.to_owned(), title))),
        What::List => list(titles(Case::all())),
        What::Compare { old, new } => {
            print_text(&bench::comparison(&read(&old)?, &read(&new)?))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn list(cases: impl Iterator<Item = (String, String)>) -> Result<ExitCode> {
    print_text(&cases.map(|(name, title)| format!("{name:<18}{title}\n")).collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

fn titles(cases: Vec<Case>) -> impl Iterator<Item = (String, String)> {
    cases.into_iter().map(|case| (case.name, case.title))
}

/// `bench sockets` and `bench tcp`, which differ in their cases.
fn connections(
    options: &Common,
    all: Vec<Case>,
    run: impl FnOnce(&[Case], Plan, fn(&str)) -> Result<Report>,
) -> Result<ExitCode> {
    if options.list {
        return list(titles(all));
    }
    let names = options.names(|| bench::promised(&all));
    let mut report = run(&bench::select(all, &names)?, options.plan(), show_progress)?;
    show_progress("");
    if !options.check {
        report.targets.clear();
    }
    let failures = report.cases.iter().flat_map(|c| &c.paths).filter(|p| p.failed.is_some()).count();
    if failures > 0 {
        talk(format_args!("{failures} measurements failed"));
    }
    let is_good = failures == 0 && report.targets.iter().all(|verdict| verdict.kept);
    options.conclude(&bench::table(&report), &report, &bench::page(&report), is_good)
}

fn packets(options: &Common) -> Result<ExitCode> {
    let mut report = bench::packets::run(&options.names(bench::packets::promised), options.plan(), show_progress)?;
    show_progress("");
    if !options.check {
        report.targets.clear();
    }
    let failures = report.cases.iter().flat_map(|c| &c.contestants).filter(|c| c.failed.is_some()).count();
    if failures > 0 {
        talk(format_args!("{failures} measurements failed"));
    }
    let is_good = failures == 0 && report.targets.iter().all(|verdict| verdict.kept);
    options.conclude(&bench::packets::table(&report), &report, &bench::packets::page(&report), is_good)
}

fn read(file: &PathBuf) -> Result<Report> {
    let context = || format!("{} is no report of `ringway bench ... --json`", file.display());
    let text = std::fs::read_to_string(file).with_context(context)?;
    serde_json::from_str(&text).with_context(context)
}
