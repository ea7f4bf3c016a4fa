//! `cargo xtask fuzz`: cargo-fuzz, target after target.
//!
//! Sanitizers and coverage are unstable options of the compiler. The pinned toolchain takes them when told to
//! (`RUSTC_BOOTSTRAP`), so that no second toolchain is needed. What a target starts from lies in `fuzz/seeds`; what
//! it finds grows in `fuzz/corpus`, which stays on the machine.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::workspace::Workspace;
use crate::{packages, process};

const CARGO_FUZZ_VERSION: &str = "0.13.2";

/// What building and a slow end may take on top of the fuzzing itself.
const MARGIN: Duration = Duration::from_secs(1200);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The target; all of them, one after the other, if none is named.
    target: Option<String>,
    /// How long each target is fuzzed.
    #[arg(long, default_value_t = 60, value_name = "N")]
    seconds: u64,
}

/// `false` if a target failed; what it failed on lies in `fuzz/artifacts`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    ensure!(workspace.root.join("fuzz/Cargo.toml").is_file(), "there are no fuzz targets in fuzz/");
    let missing = packages::ensure(&["g++"])?;
    ensure!(missing.is_empty(), "libFuzzer is built with g++, which is missing");
    let tools = install_cargo_fuzz(workspace)?;
    let targets = match &options.target {
        Some(name) => vec![name.clone()],
        None => list(workspace, &tools)?,
    };
    ensure!(!targets.is_empty(), "fuzz/ has no targets");
    let mut all_good = true;
    for target in targets {
        eprintln!("fuzzing {target} for {} s", options.seconds);
        let mut command = cargo_fuzz(workspace, &tools);
        let corpus = workspace.root.join("fuzz/corpus").join(&target);
        std::fs::create_dir_all(&corpus).with_context(|| format!("cannot make {}", corpus.display()))?;
        let seeds = workspace.root.join("fuzz/seeds").join(&target);
        command.args(["run", &target]).arg(corpus).args(seeds.is_dir().then_some(seeds));
        command.args(["--", &format!("-max_total_time={}", options.seconds), "-timeout=20"]);
        if let Err(error) = process::run_visibly(&mut command, Duration::from_secs(options.seconds) + MARGIN) {
            process::check_interrupt()?;
            eprintln!("{target}: {error:#}");
            all_good = false;
        }
    }
    Ok(all_good)
}

fn cargo_fuzz(workspace: &Workspace, tools: &std::ffi::OsStr) -> Command {
    let mut command = workspace.cargo(&["fuzz"]);
    command.env("PATH", tools).env("RUSTC_BOOTSTRAP", "1");
    command
}

fn list(workspace: &Workspace, tools: &std::ffi::OsStr) -> Result<Vec<String>> {
    let output = cargo_fuzz(workspace, tools).arg("list").output()?;
    ensure!(output.status.success(), "cargo fuzz list: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
}

/// The search path on which cargo finds `cargo-fuzz`; builds it into `target/tools` if need be.
fn install_cargo_fuzz(workspace: &Workspace) -> Result<std::ffi::OsString> {
    let tools = workspace.target.join("tools");
    if packages::find_program("cargo-fuzz").is_none() && !tools.join("bin/cargo-fuzz").is_file() {
        eprintln!("building cargo-fuzz");
        let version = format!("cargo-fuzz@{CARGO_FUZZ_VERSION}");
        let mut command = workspace.cargo(&["install", "--quiet", "--locked", &version, "--root"]);
        process::run_visibly(command.arg(&tools), MARGIN).context("cannot build cargo-fuzz")?;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(tools.join("bin")).chain(std::env::split_paths(&path));
    Ok(std::env::join_paths(folders.collect::<Vec<PathBuf>>())?)
}
