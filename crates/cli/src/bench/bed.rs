//! The test bed: a private folder, a private monitor, and proof of what was upgraded.

use std::cell::Cell;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ringway_daemon::control::Run;
use ringway_daemon::paths;

use super::path::Path;
use super::process::Process;
use super::worker::Job;
use crate::launch::{library, outcome, program};

/// Longest wait for a process to begin, or to be ready for the next step.
pub(super) const STEP_LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct Bed {
    exe: PathBuf,
    library: PathBuf,
    /// Which CPUs the two ends stay on.
    pub(super) cpus: Option<[usize; 2]>,
    numbers: Cell<u64>,
    // Fields are dropped in this order: first the monitor, then the folder with its sockets.
    pub(super) monitor: Process,
    folder: tempfile::TempDir,
}

/// A process that is measured, with the number under which the monitor counts what it does.
pub(super) struct Member {
    pub(super) process: Process,
    run_id: u64,
    path: Path,
}

impl Member {
    pub(super) fn is_under_ringway(&self) -> bool {
        self.path.profile().is_some()
    }
}

impl Bed {
    /// Starts the monitor.
    pub(crate) fn new(cpus: Option<[usize; 2]>) -> Result<Bed> {
        let (exe, library) = (std::env::current_exe()?, library::find()?);
        let folder = tempfile::Builder::new().prefix("ringway-bench-").tempdir()?;
        let monitor = start_monitor(folder.path())?;
        Ok(Bed { exe, library, cpus, numbers: Cell::new(0), monitor, folder })
    }

    /// A number that nothing else in this bed has.
    pub(super) fn number(&self) -> u64 {
        self.numbers.set(self.numbers.get() + 1);
        self.numbers.get()
    }

    /// A name in the private folder that nothing has yet.
    pub(super) fn new_path(&self, kind: &str) -> PathBuf {
        self.folder.path().join(format!("{kind}-{}", self.number()))
    }

    /// Starts one of our own programs on the path.
    pub(super) fn worker(&self, path: Path, job: &Job) -> Result<Member> {
        let arguments = ["bench-worker".to_owned(), serde_json::to_string(job)?];
        self.start(path, Command::new(&self.exe), &arguments)
    }

    /// Starts somebody else's program on the path.
    pub(super) fn program(&self, path: Path, name: &str, arguments: &[String]) -> Result<Member> {
        let program = find_program(name).with_context(|| format!("program {name} is missing"))?;
        self.start(path, Command::new(program), arguments)
    }

    fn start(&self, path: Path, mut command: Command, arguments: &[String]) -> Result<Member> {
        let run_id = self.number();
        command.args(arguments).env_remove("LD_PRELOAD");
        if let Some(profile) = path.profile() {
            // As `ringway run` sets it; the number tells this process' count from all others.
            command.env("LD_PRELOAD", &self.library).env("RINGWAY_PROFILE", profile);
            command.env(paths::SOCKET_VARIABLE, paths::monitor_socket(self.folder.path()));
            command.env("RINGWAY_RUN_ID", run_id.to_string());
        }
        let process = Process::start(command, &self.new_path("log"))?;
        Ok(Member { process, run_id, path })
    }

    /// A counter of the member's processes, ended ones included; 0 if it is not under Ringway.
    pub(super) fn counter(&self, member: &Member, name: &str) -> Result<u64> {
        Ok(self.run(member)?.and_then(|run| run.counters.get(name).copied()).unwrap_or(0))
    }

    fn run(&self, member: &Member) -> Result<Option<Run>> {
        Ok(if member.is_under_ringway() { Some(outcome::ask(self.folder.path(), member.run_id)?) } else { None })
    }

    /// Whether at least `connections` of the member were upgraded; always, if it is not under Ringway.
    pub(super) fn has_upgraded(&self, member: &Member, connections: u64) -> Result<bool> {
        Ok(self.run(member)?.is_none_or(|run| outcome::upgraded(&run) >= connections))
    }

    /// Fails unless at least `connections` of the member were upgraded.
    pub(super) fn expect_upgraded(&self, member: &Member, connections: u64) -> Result<()> {
        if let Some(run) = self.run(member)? {
            let upgraded = outcome::upgraded(&run);
            ensure!(
                upgraded >= connections,
                "{upgraded} of {connections} connections were upgraded: {}",
                outcome::summary(&run)
            );
        }
        Ok(())
    }
}

/// A monitor whose sockets are in `folder`, once it answers.
pub(super) fn start_monitor(folder: &std::path::Path) -> Result<Process> {
    let policy = folder.join("policy.toml");
    // The bench must not depend on what the host's administrator allows.
    std::fs::write(&policy, "default = \"same-uid\"\n")?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["daemon", "--socket-dir"]).arg(folder).arg("--config").arg(policy).env_remove("LD_PRELOAD");
    let mut monitor = Process::start(command, &folder.join("monitor.log"))?;
    monitor.wait_until(STEP_LIMIT, || paths::answers(folder)).context("the monitor")?;
    Ok(monitor)
}

/// Where a program is; the folders of administrators' programs count, too.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let search = [std::env::var("PATH").unwrap_or_default(), "/usr/sbin:/usr/local/sbin:/sbin".into()].join(":");
    program::resolve(OsStr::new(name), Some(OsStr::new(&search))).ok()
}

/// Calls `done` until it says so or `limit` is over; whether it did.
pub(super) fn patiently(limit: Duration, mut done: impl FnMut() -> Result<bool>) -> Result<bool> {
    let deadline = Instant::now() + limit;
    while !done()? {
        if Instant::now() > deadline {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(true)
}
