//! `cargo xtask`: everything that people and continuous integration do with this repository.
//!
//! One file or folder for each sub-command; `process` runs children under time limits, `packages`
//! installs what the tests exercise, `suites` is the list of what `cargo xtask test` runs.
#![forbid(unsafe_code)]

mod bench;
mod counts;
mod demo;
mod dist;
mod fuzz;
mod packages;
mod process;
mod results;
mod suites;
mod test;
mod tidy;
mod workspace;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Automation of the Ringway repository.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Set everything up and run the tests; the last line is `N passed, N failed, N skipped`.
    Test(test::Options),
    /// What continuous integration runs: the tests, without the long matrices.
    Ci,
    /// Real programs before and after: a table, an HTML page, a JSON document.
    Demo(demo::Options),
    /// Run `ringway bench sockets`, or another bench that is named, in a release build.
    Bench(bench::Options),
    /// Build the release: a tar archive and a Debian package in target/dist.
    Dist,
    /// Fuzz one target or all of them.
    Fuzz(fuzz::Options),
    /// Check the repository's own rules (layers, lengths, words, unsafe code, links).
    Tidy,
}

fn main() -> std::process::ExitCode {
    let task = Arguments::parse().task;
    match run(task) {
        Ok(true) => std::process::ExitCode::SUCCESS,
        Ok(false) => std::process::ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            std::process::ExitCode::from(2)
        }
    }
}

/// Runs one task; `false` means that it ran and the answer is "not good".
fn run(task: Task) -> Result<bool> {
    let workspace = workspace::Workspace::find()?;
    process::watch_for_interrupts()?;
    match task {
        Task::Test(options) => test::run(&workspace, &options),
        Task::Ci => test::run(&workspace, &test::Options::default()),
        Task::Demo(options) => demo::run(&workspace, &options),
        Task::Bench(options) => bench::run(&workspace, &options),
        Task::Dist => dist::run(&workspace),
        Task::Fuzz(options) => fuzz::run(&workspace, &options),
        Task::Tidy => tidy::run(&workspace),
    }
}
