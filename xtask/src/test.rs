//! `cargo xtask test`: set-up, every suite, one line of counts for each, and the sum at the end.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::counts::{Counts, skipped_lines};
use crate::suites::{self, Run, Suite};
use crate::workspace::Workspace;
use crate::{packages, process, results, tidy};

/// How much of a failing suite's output is shown; all of it stays in the log.
const SHOWN_LINES: usize = 200;

#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Also run the long matrices, instead of their short forms, and write the results to docs/results/tests.md.
    #[arg(long)]
    full: bool,
    /// Only suites whose name contains this, or one of these.
    #[arg(long, value_name = "S")]
    filter: Vec<String>,
    /// Only say which suites there are.
    #[arg(long)]
    list: bool,
}

/// What one suite came to.
pub(crate) struct SuiteResult {
    pub(crate) name: String,
    pub(crate) counts: Counts,
    pub(crate) elapsed: Duration,
    /// Why it failed as a whole or was skipped; names of what it skipped.
    pub(crate) remarks: Vec<String>,
}

/// Runs the suites; `true` if nothing failed.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    let all = suites::all(workspace)?;
    let names: Vec<String> = all.iter().map(|s| s.name.clone()).collect();
    let selected = select(all, options);
    if options.list {
        for suite in &selected {
            println!("{:<24} {}", suite.name, if suite.only_full { "full" } else { "" });
        }
        return Ok(true);
    }
    anyhow::ensure!(!selected.is_empty(), "no suite matches; `cargo xtask test --list` shows them");
    let logs = workspace.target.join("test-logs");
    std::fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
    let wanted: Vec<&str> = selected.iter().flat_map(|s| s.needs.iter().chain(&s.wants)).map(String::as_str).collect();
    let missing = packages::ensure(&wanted)?;

    let runner = Runner { workspace, logs, missing };
    let mut table = options.full.then(|| results::Table::open(workspace, &names)).transpose()?;
    let mut results: Vec<SuiteResult> = Vec::new();
    for suite in &selected {
        let built = results.iter().all(|r| r.name != "build" || r.counts.failed == 0);
        let result = runner.run(suite, built)?;
        print_result(&result);
        if let Some(table) = &mut table {
            table.put(&result)?;
        }
        results.push(result);
    }
    let mut sum = Counts::default();
    results.iter().for_each(|r| sum += r.counts);
    if options.full {
        println!("results: {}", results::PATH);
    }
    println!("logs: {}", workspace.relative(&runner.logs));
    println!("{sum}");
    Ok(sum.failed == 0)
}

/// The suites that the options ask for; programs bring the build with them. A long form stands for the short one.
fn select(mut suites: Vec<Suite>, options: &Options) -> Vec<Suite> {
    suites.retain(|s| options.full || options.list || !s.only_full);
    if options.full && !options.list {
        let names: Vec<String> = suites.iter().map(|s| s.name.clone()).collect();
        suites.retain(|s| !names.contains(&format!("{}-full", s.name)));
    }
    if options.filter.is_empty() {
        return suites;
    }
    let wanted = |s: &Suite| options.filter.iter().any(|filter| s.name.contains(filter));
    let programs = suites.iter().any(|s| wanted(s) && matches!(s.run, Run::Program(_)));
    suites.retain(|s| wanted(s) || (programs && s.name == "build"));
    suites
}

fn print_result(result: &SuiteResult) {
    let mark = match result.counts {
        Counts { failed: 1.., .. } => "FAIL",
        Counts { passed: 0, .. } => "skip",
        _ => "ok",
    };
    println!("{mark:<5} {:<24} {}  ({:.1} s)", result.name, result.counts, result.elapsed.as_secs_f64());
    for remark in &result.remarks {
        println!("      {remark}");
    }
}

struct Runner<'w> {
    workspace: &'w Workspace,
    logs: PathBuf,
    missing: Vec<String>,
}

impl Runner<'_> {
    fn run(&self, suite: &Suite, built: bool) -> Result<SuiteResult> {
        let started = Instant::now();
        let (counts, remarks) = self.counts(suite, built)?;
        Ok(SuiteResult { name: suite.name.clone(), counts, elapsed: started.elapsed(), remarks })
    }

    fn counts(&self, suite: &Suite, built: bool) -> Result<(Counts, Vec<String>)> {
        let missing: Vec<&str> = suite.needs.iter().filter(|n| self.missing.contains(n)).map(String::as_str).collect();
        if !missing.is_empty() {
            return Ok((Counts::one_skipped(), vec![format!("SKIP {}: needs {}", suite.name, missing.join(" "))]));
        }
        match &suite.run {
            Run::Tidy => tidy::check_all(self.workspace),
            Run::Program(_) if !built => Ok((Counts::one_failed(), vec!["not run: the build failed".into()])),
            Run::Check(words) | Run::Program(words) => self.child(suite, &words[0], &words[1..]),
            Run::CargoTest(words) => self.child(suite, "cargo", words),
        }
    }

    fn child(&self, suite: &Suite, program: &str, arguments: &[String]) -> Result<(Counts, Vec<String>)> {
        let mut command = Command::new(program);
        // Backtraces of failed assertions would bury the assertions.
        command.args(arguments).current_dir(&self.workspace.root).env("RUST_BACKTRACE", "0");
        command.envs(suite.environment.iter().map(|(k, v)| (*k, v)));
        if matches!(suite.run, Run::Program(_)) {
            command.env("RINGWAY_BIN", self.workspace.ringway()).env("RINGWAY_LIBRARY", self.workspace.library());
        }
        let log = self.logs.join(format!("{}.log", suite.name));
        let outcome = process::run(&mut command, Duration::from_secs(suite.limit_s), &log)?;
        let left = process::end_orphans();
        let (counts, mut remarks) = judge(&suite.run, &outcome.output, outcome.succeeded());
        if !outcome.succeeded() {
            remarks.insert(0, outcome.ending());
        }
        if !left.is_empty() {
            remarks.push(format!("ended what it left running: {}", left.join(", ")));
        }
        if counts.failed > 0 {
            let lines: Vec<&str> = outcome.output.lines().collect();
            println!("--- {} ({}) ---", suite.name, self.workspace.relative(&log));
            lines[lines.len().saturating_sub(SHOWN_LINES)..].iter().for_each(|line| println!("{line}"));
        }
        Ok((counts, remarks))
    }
}

/// Counts from a child's output. A bad end is a failure even if no test says so, and so is a suite
/// that ran nothing.
fn judge(run: &Run, output: &str, succeeded: bool) -> (Counts, Vec<String>) {
    let mut remarks: Vec<String> = skipped_lines(output).into_iter().map(str::to_owned).collect();
    let mut counts = match run {
        Run::CargoTest(_) => Counts::from_cargo(output),
        Run::Program(_) => Counts::from_program(output).unwrap_or_default(),
        Run::Check(_) | Run::Tidy if succeeded => Counts::one_passed(),
        Run::Check(_) | Run::Tidy => Counts::one_failed(),
    };
    if counts.total() == 0 {
        remarks.push("it reported no test at all".into());
        counts.failed = 1;
    } else if !succeeded && counts.failed == 0 {
        counts.failed = 1;
    }
    (counts, remarks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Run {
        Run::Program(vec!["x".into()])
    }

    #[test]
    fn a_bad_end_is_a_failure_even_if_all_tests_passed() {
        let (counts, _) = judge(&program(), "3 passed, 0 failed, 0 skipped\n", false);
        assert_eq!(counts, Counts { passed: 3, failed: 1, skipped: 0 });
    }

    #[test]
    fn a_suite_that_ran_nothing_fails() {
        assert_eq!(judge(&program(), "hello\n", true).0, Counts::one_failed());
        assert_eq!(judge(&Run::CargoTest(vec![]), "", true).0, Counts::one_failed());
    }

    #[test]
    fn skipped_tests_are_named() {
        let (counts, remarks) = judge(&program(), "SKIP wrk: not installed\n1 passed, 0 failed, 1 skipped\n", true);
        assert_eq!(counts, Counts { passed: 1, failed: 0, skipped: 1 });
        assert_eq!(remarks, ["SKIP wrk: not installed"]);
    }
}
