//! Children under a time limit, in a process group of their own, with nothing left behind.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, WaitOptions};

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// How often a waiting loop looks at its child.
const POLL: Duration = Duration::from_millis(20);
/// What a child gets between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(3);

/// How a child ended.
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) timed_out: bool,
    pub(crate) elapsed: Duration,
    /// What it wrote, both streams together.
    pub(crate) output: String,
}

impl Outcome {
    /// Ended by itself, with exit code 0.
    pub(crate) fn succeeded(&self) -> bool {
        self.status.success() && !self.timed_out
    }

    /// The ending in words.
    pub(crate) fn ending(&self) -> String {
        match (self.timed_out, self.status.code(), self.status.signal()) {
            (true, ..) => format!("killed after its time limit ({} s)", self.elapsed.as_secs()),
            (_, Some(code), _) => format!("exit code {code}"),
            (_, _, signal) => format!("signal {}", signal.unwrap_or(0)),
        }
    }
}

/// From now on SIGINT and SIGTERM make waiting loops end their children and return an error; and
/// processes whose parent died become our children, so that [`end_orphans`] can find them.
pub(crate) fn watch_for_interrupts() -> Result<()> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, INTERRUPTED.clone())?;
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// An error once somebody has asked us to stop.
pub(crate) fn check_interrupt() -> Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}

/// Runs `command` to its end, or to `limit`; what it writes goes to `log`. It gets no standard input.
pub(crate) fn run(command: &mut Command, limit: Duration, log: &Path) -> Result<Outcome> {
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
    let started = Instant::now();
    let mut child = command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    let (status, timed_out) = wait(&mut child, limit)?;
    let output = String::from_utf8_lossy(&std::fs::read(log)?).into_owned();
    Ok(Outcome { status, timed_out, elapsed: started.elapsed(), output })
}

/// Runs `command` with our own output streams; an error unless it succeeds.
pub(crate) fn run_visibly(command: &mut Command, limit: Duration) -> Result<()> {
    let program = command.get_program().to_owned();
    let mut child = command
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let (status, timed_out) = wait(&mut child, limit)?;
    if timed_out {
        bail!("{} took longer than {} s", program.display(), limit.as_secs());
    }
    if !status.success() {
        bail!("{} failed ({status})", program.display());
    }
    Ok(())
}

fn wait(child: &mut Child, limit: Duration) -> Result<(ExitStatus, bool)> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, false));
        }
        if INTERRUPTED.load(Ordering::Relaxed) {
            end_group(child)?;
            bail!("interrupted");
        }
        if started.elapsed() > limit {
            return Ok((end_group(child)?, true));
        }
        std::thread::sleep(POLL);
    }
}

/// Ends a child that leads a process group, and its whole group: SIGTERM, then SIGKILL.
pub(crate) fn end_group(child: &mut Child) -> Result<ExitStatus> {
    let group = Pid::from_child(child);
    // An error means that the group is gone already.
    let _ = rustix::process::kill_process_group(group, Signal::TERM);
    let asked = Instant::now();
    while asked.elapsed() < GRACE {
        if let Some(status) = child.try_wait()? {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
            return Ok(status);
        }
        std::thread::sleep(POLL);
    }
    let _ = rustix::process::kill_process_group(group, Signal::KILL);
    Ok(child.wait()?)
}

/// Ends every process that a finished child left behind; returns their names. Call it only while no
/// child of ours is meant to live.
pub(crate) fn end_orphans() -> Vec<String> {
    let mut names = Vec::new();
    let started = Instant::now();
    while started.elapsed() < GRACE {
        let orphans = children();
        if orphans.is_empty() {
            break;
        }
        for (pid, name) in orphans {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
            if rustix::process::waitpid(Some(pid), WaitOptions::empty()).is_ok() && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// Our live children: id and name. Zombies are reaped on the way.
fn children() -> Vec<(Pid, String)> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()).and_then(Pid::from_raw) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((name, state, parent)) = parse_stat(&stat) else { continue };
        if parent != own {
            continue;
        }
        if state == 'Z' {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        } else {
            found.push((pid, name.to_owned()));
        }
    }
    found
}

/// Name, state and parent from `/proc/PID/stat`; the name may hold blanks and brackets.
fn parse_stat(stat: &str) -> Option<(&str, char, i32)> {
    let (open, close) = (stat.find('(')?, stat.rfind(')')?);
    let mut rest = stat[close + 1..].split_ascii_whitespace();
    Some((&stat[open + 1..close], rest.next()?.chars().next()?, rest.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_and_exit_code_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let outcome =
            run(&mut shell("echo out; echo err >&2; exit 3"), Duration::from_secs(60), &folder.path().join("log"));
        let outcome = outcome.unwrap();
        assert_eq!(outcome.output, "out\nerr\n");
        assert!(!outcome.succeeded());
        assert_eq!(outcome.ending(), "exit code 3");
    }

    #[test]
    fn a_child_that_exceeds_its_limit_is_ended_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let script = "sleep 1000 & echo $!; wait";
        let outcome = run(&mut shell(script), Duration::from_secs(2), &folder.path().join("log")).unwrap();
        assert!(outcome.timed_out && !outcome.succeeded());
        let grandchild = outcome.output.trim();
        let stat = std::fs::read_to_string(format!("/proc/{grandchild}/stat"));
        assert!(stat.is_err() || parse_stat(&stat.unwrap()).unwrap().1 == 'Z');
    }

    #[test]
    fn names_with_brackets_are_parsed() {
        assert_eq!(parse_stat("12 (a) b) S 7 12 12"), Some(("a) b", 'S', 7)));
        assert_eq!(parse_stat("nonsense"), None);
    }
}
