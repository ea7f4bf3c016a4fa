//! `ringway bench`. Sockets: the same workloads over the kernel's TCP, Unix sockets, Ringway in each
//! profile and the shared memory itself, interleaved in one run.
//!
//! | module | what it does |
//! |---|---|
//! | `case`, `path` | what is measured, and over what |
//! | `worker` | the programs that are measured: ordinary users of sockets |
//! | `bed`, `process` | private monitor, starting and ending programs, proof of what was upgraded |
//! | `pairs`, `programs`, `outputs` | one measurement with our workers, or with Redis and the like |
//! | `tcp` | `ringway bench tcp`: TCPs side by side |
//! | `memory`, `machine` | what connections weigh; the machine and its load |
//! | `report`, `targets` | medians, ratios by round, promises kept |
//! | `table`, `page`, `plot` | for the terminal, for the browser |
//! | `packets` | the other bench: ports, switch, routing |

mod bed;
mod case;
mod machine;
mod memory;
mod outputs;
pub(crate) mod packets;
mod page;
mod pairs;
mod path;
mod plot;
mod process;
mod programs;
mod report;
mod table;
mod targets;
pub(crate) mod tcp;
pub(crate) mod worker;

use std::time::Duration;

use anyhow::{Result, bail};
use rustix::process::{Resource, getrlimit, setrlimit};

use bed::Bed;
pub(crate) use case::Case;
use case::Kind;
use machine::{Load, Machine};
use path::Path;
pub(crate) use report::Report;
use report::{CaseResult, Rounds};
pub(crate) use {page::page, table::comparison, table::table};

/// Descriptors that a worker needs beside its connections.
const DESCRIPTORS_SPARE: u64 = 64;

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: u32,
    pub(crate) duration: Duration,
    /// Keep the two ends on CPUs of their own.
    pub(crate) pinned: bool,
}

/// Of `all`, the cases with these names, or whose names begin like these; all for none.
pub(crate) fn select(all: Vec<Case>, names: &[String]) -> Result<Vec<Case>> {
    let means = |name: &String, case: &Case| {
        let is_exact = all.iter().any(|case| case.name == *name);
        if is_exact { case.name == *name } else { case.name.starts_with(name.as_str()) }
    };
    if let Some(name) = names.iter().find(|name| !all.iter().any(|case| means(name, case))) {
        let known: Vec<_> = all.iter().map(|case| case.name.as_str()).collect();
        bail!("no case is called {name:?}; there are {}", known.join(", "));
    }
    let wanted = |case: &&Case| names.is_empty() || names.iter().any(|name| means(name, case));
    Ok(all.iter().filter(wanted).cloned().collect())
}

/// Those of `all` that promises are made about.
pub(crate) fn promised(all: &[Case]) -> Vec<String> {
    targets::cases().filter(|name| all.iter().any(|case| case.name == *name)).map(str::to_owned).collect()
}

/// Runs `cases`; `progress` hears what is going on.
pub(crate) fn run(cases: &[Case], plan: Plan, mut progress: impl FnMut(&str)) -> Result<Report> {
    let descriptors = raise_descriptor_limit();
    let cpus = if plan.pinned { machine::two_cpus() } else { None };
    let bed = Bed::new(cpus)?;
    let load_before = Load::now();
    let mut results = Vec::new();
    for case in cases {
        results.push(match obstacle(case, descriptors) {
            Some(why) => CaseResult::skipped(case, why),
            None => turns(case, plan, &mut progress, |kind, path| measure(&bed, kind, path, plan)),
        });
    }
    Ok(Report {
        schema: report::SCHEMA,
        bench: "sockets".into(),
        machine: Machine::this(),
        rounds: plan.rounds,
        duration_s: plan.duration.as_secs_f64(),
        cpus,
        load_before,
        load_after: Load::now(),
        targets: targets::judge(&results),
        cases: results,
    })
}

fn measure(bed: &Bed, kind: Kind, path: Path, plan: Plan) -> Result<worker::Sample> {
    match kind {
        Kind::Redis { .. } | Kind::Memcached { .. } | Kind::Nginx { .. } | Kind::Haproxy { .. } => {
            programs::measure(bed, kind, path, plan.duration)
        }
        _ => pairs::measure(bed, kind, path, plan.duration),
    }
}

/// All rounds of a case, each measurement taken by `sample`. The paths take turns, each round begins with another one.
fn turns(
    case: &Case,
    plan: Plan,
    progress: &mut impl FnMut(&str),
    mut sample: impl FnMut(Kind, Path) -> Result<worker::Sample>,
) -> CaseResult {
    let mut all: Vec<(Path, Rounds)> = case.paths().into_iter().map(|path| (path, Vec::new())).collect();
    for round in 0..plan.rounds as usize {
        for turn in 0..all.len() {
            let at = (round + turn) % all.len();
            let (path, rounds) = &mut all[at];
            progress(&format!("{}: round {} of {}, {}", case.name, round + 1, plan.rounds, path.name()));
            rounds.push(sample(case.kind, *path).map_err(|e| format!("{e:#}")));
        }
    }
    CaseResult::new(case, &all)
}

/// Why a case cannot be run here.
fn obstacle(case: &Case, descriptors: u64) -> Option<String> {
    if let Some(program) = case.programs_needed().iter().find(|name| bed::find_program(name).is_none()) {
        return Some(format!("program {program} is missing"));
    }
    match case.kind {
        Kind::Connections(n) if n as u64 + DESCRIPTORS_SPARE > descriptors => {
            Some(format!("the limit of descriptors is {descriptors}; raise it with `ulimit -Hn`"))
        }
        _ => None,
    }
}

/// Raises the limit of descriptors, for the workers to inherit, as far as it goes; says how far.
fn raise_descriptor_limit() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If refused, the old limit counts.
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_selected_by_the_beginning_of_their_names() {
        let names = |wanted: &[&str]| {
            let wanted: Vec<_> = wanted.iter().map(|w| w.to_string()).collect();
            select(Case::all(), &wanted).map(|cases| cases.into_iter().map(|c| c.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["stream", "short"]).unwrap(), ["stream-64k", "short"]);
        assert_eq!(names(&["connections-10", "nginx"]).unwrap(), ["connections-10", "nginx-small", "nginx-large"]);
        assert_eq!(names(&[]).unwrap().len(), Case::all().len());
        assert!(names(&["strm"]).unwrap_err().to_string().contains("stream-64k"));
    }
}
