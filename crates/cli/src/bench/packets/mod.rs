//! `ringway bench packets`: ports, the switch and routing beside what memory allows and what the kernel does, interleaved
//! in one run.
//!
//! | module | what it does |
//! |---|---|
//! | `case` | what is measured, and by whom |
//! | `drive` | frames into ports and out of them, on two CPUs |
//! | `rings`, `vale`, `tools`, `devices`, `routes` | the contestants: pipes and raw limits, the switch, the tools as processes, network devices, DXR |
//! | `report`, `targets` | medians, ratios by round, promises kept |
//! | `table`, `page` | for the terminal, for the browser |

mod case;
mod devices;
mod drive;
mod page;
mod report;
mod rings;
mod routes;
mod table;
mod targets;
mod tools;
mod vale;

use std::time::Duration;

use anyhow::{Result, bail};

use super::machine::{self, Load, Machine};
use super::{Plan, worker::Sample};
use case::Case;
pub(crate) use {page::page, report::Report, table::table};

/// Where and how long one measurement runs.
#[derive(Clone, Copy, Debug)]
struct Setting {
    duration: Duration,
    /// CPUs of senders and of receivers; none = wherever the kernel puts them.
    cpus: Option<[usize; 2]>,
}

/// The names and titles of the cases.
pub(crate) fn list() -> Vec<(&'static str, String)> {
    Case::all().into_iter().map(|case| (case.name, case.title)).collect()
}

/// The cases that promises are made about.
pub(crate) fn promised() -> Vec<String> {
    targets::cases().map(str::to_owned).collect()
}

/// Measures the cases whose names begin like one of `names`, all for none; `progress` hears what is going on.
pub(crate) fn run(names: &[String], plan: Plan, mut progress: impl FnMut(&str)) -> Result<Report> {
    let cpus = if plan.pinned { machine::two_cpus() } else { None };
    let setting = Setting { duration: plan.duration, cpus };
    let load_before = Load::now();
    let mut results = Vec::new();
    for case in select(names)? {
        let mut rounds: Vec<Vec<Result<Sample, String>>> = case.contestants.iter().map(|_| vec![]).collect();
        for round in 0..plan.rounds as usize {
            // The contestants take turns, and each round begins with another one.
            for turn in 0..case.contestants.len() {
                let at = (round + turn) % case.contestants.len();
                let contestant = &case.contestants[at];
                if contestant.obstacle.is_some() {
                    continue;
                }
                progress(&format!("{}: round {} of {}, {}", case.name, round + 1, plan.rounds, contestant.name));
                rounds[at].push((contestant.measure)(&setting).map_err(|e| format!("{e:#}")));
            }
        }
        results.push(report::CaseResult::new(&case, &rounds));
    }
    Ok(Report {
        schema: report::SCHEMA,
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

fn select(names: &[String]) -> Result<Vec<Case>> {
    let all = Case::all();
    if let Some(name) = names.iter().find(|name| !all.iter().any(|case| case.name.starts_with(name.as_str()))) {
        let known: Vec<_> = all.iter().map(|case| case.name).collect();
        bail!("no case is called {name:?}; there are {}", known.join(", "));
    }
    let is_wanted = |case: &Case| names.is_empty() || names.iter().any(|name| case.name.starts_with(name.as_str()));
    Ok(all.into_iter().filter(is_wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_selected_by_the_beginning_of_their_names() {
        let names = |wanted: &str| {
            select(&[wanted.to_owned()]).map(|cases| cases.into_iter().map(|c| c.name).collect::<Vec<_>>())
        };
        assert_eq!(names("switch-1500").unwrap(), ["switch-1500"]);
        assert!(names("switch").unwrap().len() > 3);
        assert!(names("swich").unwrap_err().to_string().contains("switch-60"));
        assert_eq!(select(&[]).unwrap().len(), Case::all().len());
    }

    /// Everything that needs neither devices nor other processes gives figures.
    #[test]
    fn contestants_give_the_figure_that_their_case_compares() {
        const ALONE: [&str; 6] = ["pipe", "slot ring", "switch", "switch, isolated", "copy limit", "copy alone"];
        let setting = Setting { duration: Duration::from_millis(300), cpus: None };
        for case in
            Case::all().iter().filter(|case| ["pipe", "switch-60", "switch-65535", "broadcast"].contains(&case.name))
        {
            for contestant in case.contestants.iter().filter(|contestant| ALONE.contains(&contestant.name)) {
                let sample = (contestant.measure)(&setting)
                    .unwrap_or_else(|e| panic!("{}: {}: {e:#}", case.name, contestant.name));
                assert!(sample.contains_key(case.metric), "{}: {}", case.name, contestant.name);
            }
        }
    }
}
