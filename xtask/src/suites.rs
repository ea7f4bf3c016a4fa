//! What `cargo xtask test` runs: one entry for each suite.
//!
//! A suite is `cargo test`, a check that exits with 0, or a program that prints a line
//! `N passed, N failed, N skipped`. Every program `tests/programs/*.py` is a suite of its own (unless
//! its name begins with `_`) and says what it needs in the comment lines at its top:
//!
//! ```text
//! # needs: redis-server redis-tools     Debian packages; the suite is skipped by name without them
//! # wants: haproxy                      also installed if possible; the program copes without
//! # limit: 240                          seconds, 300 unless said otherwise
//! # run: full                           only with `--full`
//! # full: 3600                          also a suite NAME-full, with `--full`: the program gets that word, and
//!                                       these seconds
//! ```
//!
//! The environment tells programs where the release build is: `RINGWAY_BIN` (the `ringway` command) and
//! `RINGWAY_LIBRARY`. `SKIP NAME: REASON` lines name what a program left out.

use std::path::Path;

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// How a suite is run and how its results are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    /// The repository's own rules, in this process.
    Tidy,
    /// A command that counts as one test: passed if it exits with 0.
    Check(Vec<String>),
    /// `cargo` with these arguments; its `test result:` lines are summed.
    CargoTest(Vec<String>),
    /// A program, relative to the root, that prints the counts line. Needs the release build.
    Program(Vec<String>),
}

/// One entry of the list.
#[derive(Clone, Debug)]
pub(crate) struct Suite {
    pub(crate) name: String,
    pub(crate) run: Run,
    /// Packages without which the suite is skipped.
    pub(crate) needs: Vec<String>,
    /// Packages that the suite uses when they are there.
    pub(crate) wants: Vec<String>,
    pub(crate) environment: Vec<(&'static str, String)>,
    pub(crate) limit_s: u64,
    pub(crate) only_full: bool,
}

impl Suite {
    fn new(name: impl Into<String>, run: Run, limit_s: u64) -> Suite {
        let name = name.into();
        Suite { name, run, needs: vec![], wants: vec![], environment: vec![], limit_s, only_full: false }
    }

    fn only_full(mut self) -> Suite {
        self.only_full = true;
        self
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_ascii_whitespace().map(str::to_owned).collect()
}

/// The suites in the order in which they run: cheap and telling first.
pub(crate) fn all(workspace: &Workspace) -> Result<Vec<Suite>> {
    let check = |line| Run::Check(words(line));
    let mut suites = vec![
        Suite::new("format", check("cargo fmt --all --check"), 60),
        Suite::new("tidy", Run::Tidy, 60),
        Suite::new("build", check("cargo build --release --workspace --exclude xtask"), 900),
        Suite::new("clippy", check("cargo clippy --workspace --all-targets -- -D warnings"), 900),
        Suite::new("unit", Run::CargoTest(words("test --workspace --no-fail-fast")), 900),
    ];
    suites.extend(loom(workspace)?);
    suites.extend(parity());
    suites.extend(programs(workspace)?);
    suites.push(swarm());
    suites.push(two_ways());
    suites.extend(hostile());
    suites.push(killed_ports());
    suites.push(killed_senders());
    suites.extend(fuzz(workspace)?);
    Ok(suites)
}

/// Crates with loom models, each tested in a build of its own in which the atomics are loom's.
fn loom(workspace: &Workspace) -> Result<Vec<Suite>> {
    let mut suites = Vec::new();
    for folder in workspace.crates()? {
        if !mentions(&folder, "loom::model")? {
            continue;
        }
        let name = folder.file_name().context("a crate without a name")?.to_string_lossy().into_owned();
        let line = format!("test --release --target-dir target/loom -p ringway-{name} --lib");
        let mut suite = Suite::new(format!("loom-{name}"), Run::CargoTest(words(&line)), 600);
        suite.environment = vec![("RUSTFLAGS", "--cfg loom".to_owned()), ("LOOM_MAX_PREEMPTIONS", "3".to_owned())];
        suites.push(suite);
    }
    Ok(suites)
}

/// Does any Rust file below `folder` hold `text`?
fn mentions(folder: &Path, text: &str) -> Result<bool> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let found = if path.is_dir() {
            mentions(&path, text)?
        } else {
            path.extension().is_some_and(|e| e == "rs") && std::fs::read_to_string(&path)?.contains(text)
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The same test programs on the kernel alone, under Ringway at both ends or one, and with the
/// monitor dead.
fn parity() -> Vec<Suite> {
    let suite = |mode: &str| {
        let line = format!("python3 tests/parity/run.py --mode {mode}");
        let mut suite = Suite::new(format!("parity-{mode}"), Run::Program(words(&line)), 600);
        suite.needs = words("python3 gcc");
        suite.wants = words("iproute2");
        suite
    };
    ["native", "both", "server", "client", "dead"].map(suite).into()
}

/// TCP over many more random paths than every day.
fn swarm() -> Suite {
    let line = "test --release -p ringway-sim --test swarm";
    let mut suite = Suite::new("swarm-full", Run::CargoTest(words(line)), 900).only_full();
    suite.environment = vec![("RINGWAY_SWARM", "0..40000".to_owned())];
    suite
}

/// TCP's short way against its full one, for many more exchanges than every day.
fn two_ways() -> Suite {
    let line = "test --release -p ringway-tcp --test engine two_ways";
    let mut suite = Suite::new("two-ways-full", Run::CargoTest(words(line)), 900).only_full();
    suite.environment = vec![("RINGWAY_TCP_CASES", "50000".to_owned())];
    suite
}

/// The programs in `tests/programs`.
fn programs(workspace: &Workspace) -> Result<Vec<Suite>> {
    let folder = workspace.root.join("tests/programs");
    let mut files: Vec<_> = match std::fs::read_dir(&folder) {
        Ok(entries) => entries.flatten().map(|e| e.path()).collect(),
        Err(_) => return Ok(vec![]),
    };
    files.sort();
    let mut suites = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if file.extension().is_none_or(|e| e != "py") || name.starts_with('_') {
            continue;
        }
        let text = std::fs::read_to_string(&file)?;
        let path = workspace.relative(&file).to_string();
        let mut suite = Suite::new(name, Run::Program(vec!["python3".into(), path.clone()]), 300);
        read_header(&mut suite, &text).with_context(|| path.clone())?;
        let whole = whole(&suite, &text).with_context(|| path)?;
        suites.push(suite);
        suites.extend(whole);
    }
    Ok(suites)
}

/// Takes over what the comment lines at a program's top say.
fn read_header(suite: &mut Suite, text: &str) -> Result<()> {
    for line in text.lines().take_while(|l| l.starts_with('#')) {
        let Some((key, value)) = line.trim_start_matches(['#', ' ']).split_once(':') else { continue };
        match (key, value.trim()) {
            ("needs", value) => suite.needs = words(value),
            ("wants", value) => suite.wants = words(value),
            ("limit", value) => suite.limit_s = value.parse().context("`# limit:` wants a number of seconds")?,
            ("run", "full") => suite.only_full = true,
            ("run", other) => anyhow::bail!("`# run: {other}`: the only value is `full`"),
            _ => {}
        }
    }
    Ok(())
}

/// The long form of a program that has one: a suite of its own.
fn whole(suite: &Suite, text: &str) -> Result<Option<Suite>> {
    let mut header = text.lines().take_while(|l| l.starts_with('#'));
    let Some(limit) = header.find_map(|l| l.strip_prefix("# full:")) else { return Ok(None) };
    let mut whole = suite.clone().only_full();
    whole.name.push_str("-full");
    whole.limit_s = limit.trim().parse().context("`# full:` wants a number of seconds")?;
    if let Run::Program(words) = &mut whole.run {
        words.push("--full".to_owned());
    }
    Ok(Some(whole))
}

/// Users of pipes killed at a thousand points each.
fn killed_ports() -> Suite {
    let run = Run::CargoTest(words("test --release -p ringway-port --test kill"));
    let mut suite = Suite::new("killed-ports", run, 1800).only_full();
    suite.environment = vec![("RINGWAY_KILL_POINTS", "1000".to_owned())];
    suite
}

/// Senders at a switch that are killed at many more points than every day.
fn killed_senders() -> Suite {
    let run = Run::CargoTest(words("test --release -p ringway-switch --test killed_senders"));
    let mut suite = Suite::new("killed-senders", run, 900).only_full();
    suite.environment = vec![("RINGWAY_SWITCH_KILLS", "1000".to_owned())];
    suite
}

/// The hostile peer for ten million steps, against the state machine and against the library's hooks.
fn hostile() -> Vec<Suite> {
    let suite = |name: &str| {
        let line = format!("test --release -p ringway-{name} a_hostile_peer_only_ever_causes_resets -- --nocapture");
        let mut suite = Suite::new(format!("hostile-{name}"), Run::CargoTest(words(&line)), 3600).only_full();
        suite.environment = vec![("RINGWAY_HOSTILE_STEPS", "10000000".to_owned())];
        suite
    };
    ["channel", "preload"].map(suite).into()
}

/// A minute of each fuzz target, in the full run.
fn fuzz(workspace: &Workspace) -> Result<Vec<Suite>> {
    if !workspace.root.join("fuzz/Cargo.toml").is_file() {
        return Ok(vec![]);
    }
    let line = "cargo xtask fuzz --seconds 60";
    Ok(vec![Suite::new("fuzz", Run::Check(words(line)), 3600).only_full()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_what_the_suite_needs() {
        let mut suite = Suite::new("x", Run::Tidy, 300);
        let text =
            "#!/usr/bin/env python3\n# needs: redis-server wrk\n# limit: 42\n# run: full\nimport os\n# limit: 7\n";
        read_header(&mut suite, text).unwrap();
        assert_eq!(suite.needs, ["redis-server", "wrk"]);
        assert_eq!((suite.limit_s, suite.only_full), (42, true));
    }

    #[test]
    fn a_long_form_is_a_suite_of_its_own() {
        let short = Suite::new("x", Run::Program(vec!["x.py".to_owned()]), 300);
        let long = whole(&short, "# limit: 42\n# full: 99\n").unwrap().unwrap();
        assert_eq!((long.name.as_str(), long.limit_s, long.only_full), ("x-full", 99, true));
        assert_eq!(long.run, Run::Program(vec!["x.py".to_owned(), "--full".to_owned()]));
        assert!(whole(&short, "# limit: 42\n").unwrap().is_none());
        assert!(whole(&short, "# full: soon\n").is_err());
    }

    /// A package that is not known would be taken for missing everywhere, and its suite be skipped.
    #[test]
    fn all_packages_of_suites_are_known() {
        let suites = all(&Workspace::find().unwrap()).unwrap();
        let packages = suites.iter().flat_map(|suite| suite.needs.iter().chain(&suite.wants));
        let unknown: Vec<_> = packages.filter(|package| crate::packages::evidence(package).is_none()).collect();
        assert!(unknown.is_empty(), "not in packages.rs: {unknown:?}");
    }

    #[test]
    fn a_wrong_header_is_an_error() {
        let mut suite = Suite::new("x", Run::Tidy, 300);
        assert!(read_header(&mut suite, "# limit: soon\n").is_err());
        assert!(read_header(&mut suite, "# run: sometimes\n").is_err());
    }

    #[test]
    fn names_are_unique() {
        let workspace = Workspace::find().unwrap();
        let mut names: Vec<_> = all(&workspace).unwrap().into_iter().map(|s| s.name).collect();
        names.sort();
        assert!(names.windows(2).all(|w| w[0] != w[1]), "{names:?}");
    }
}
