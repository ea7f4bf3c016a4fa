//! `cargo xtask demo`: real programs before (loopback TCP) and after (`ringway run`).
//!
//! Each program has two servers, a plain one and one under Ringway; the loads visit them in turns,
//! so that both sides see the same machine. Medians of the rounds are shown, and the connections
//! that were upgraded are counted: a side that was not accelerated makes the demo fail.

mod bed;
mod loads;
mod report;
mod samples;

use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
use crate::{packages, process, results};
use bed::{Bed, Side};
use loads::{LOADS, Load};
use report::{Report, Row};
use samples::{Sample, median};

/// Below this, beyond what rounds differ by, the accelerated side counts as slower.
const RATIO_MIN: f64 = 0.95;
const BUILD_LIMIT: Duration = Duration::from_secs(1200);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each load visits each side; the medians are shown.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Waiting profile of the accelerated side.
    #[arg(long, default_value = "balanced", value_parser = ["latency", "balanced", "efficient"])]
    profile: String,
    /// Only loads whose name contains this.
    #[arg(long, value_name = "S", default_value = "")]
    filter: String,
}

/// Runs the demo; `false` if something could not be measured or was not accelerated.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    let selected: Vec<&Load> = LOADS.iter().filter(|l| l.name.contains(&options.filter)).collect();
    anyhow::ensure!(!selected.is_empty(), "no load's name contains `{}`", options.filter);
    eprintln!("building the release");
    process::run_visibly(&mut workspace.build_release(), BUILD_LIMIT)?;
    let wanted: Vec<&str> = selected.iter().flat_map(|l| l.packages).copied().collect();
    let missing = packages::ensure(&wanted)?;

    let bed = Bed::new(workspace, &options.profile)?;
    let mut report = Report::new(results::machine(), &options.profile, options.rounds, load_average());
    for load in selected {
        report.rows.push(match load.packages.iter().find(|p| missing.iter().any(|m| m == *p)) {
            Some(package) => Row::problem(load, format!("skipped: package {package} is missing")),
            None => measure(&bed, load, options.rounds)?,
        });
    }
    report.load_average_after = load_average();
    print!("{}", report.table());
    let path = report.write(&workspace.target.join("demo"))?;
    println!("report: {}, {}", workspace.relative(&path), workspace.relative(&path.with_extension("json")));
    Ok(report.rows.iter().all(|row| row.problem.is_none()))
}

/// One row of the table; only an interruption is an error.
fn measure(bed: &Bed, load: &Load, rounds: u32) -> Result<Row> {
    let row = visit_both(bed, load, rounds);
    process::check_interrupt()?;
    Ok(row.unwrap_or_else(|error| Row::problem(load, format!("failed: {error:#}"))))
}

fn visit_both(bed: &Bed, load: &Load, rounds: u32) -> Result<Row> {
    let servers = [bed.serve(load, Side::Tcp)?, bed.serve(load, Side::Ringway)?];
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let mut upgraded = 0;
    for round in 0..rounds {
        eprintln!("{}: round {} of {rounds}", load.name, round + 1);
        // Who goes first changes, so that neither side always finds the machine warmed up.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for which in order {
            let server = &servers[which];
            let counted = bed.upgraded(server)?;
            let sample = visit(bed, load, server)?;
            if server.side == Side::Tcp {
                before.push(sample);
                continue;
            }
            after.push(sample);
            upgraded += bed.upgraded(server)? - counted;
        }
    }
    let loaded = u64::from(load.connections) * u64::from(rounds);
    let mut row = Row::new(load, median(&before), median(&after), upgraded, loaded);
    if upgraded < loaded {
        row.problem = Some(format!("only {upgraded} of {loaded} connections were upgraded"));
    } else if row.ratio < RATIO_MIN {
        row.problem = Some("slower than plain TCP".to_owned());
    }
    Ok(row)
}

/// One run of the load generator.
fn visit(bed: &Bed, load: &Load, server: &bed::Server) -> Result<Sample> {
    let mut command = bed.command(server.side, load.client, &(load.arguments)(server.port));
    let outcome = process::run(&mut command, Duration::from_secs(120), &bed.path("client.log"))?;
    if !outcome.succeeded() {
        bail!("{}: {}: {}", load.client, outcome.ending(), outcome.output.trim());
    }
    (load.parse)(&outcome.output)
        .with_context(|| format!("cannot read what {} printed: {}", load.client, outcome.output))
}

/// Load average of the last minute.
fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(f64::NAN)
}
