//! Processes of the bench: they end with it, and what they say comes within a time limit.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// Time to end in good order.
const GRACE: Duration = Duration::from_secs(2);
/// How often waiting looks.
const LOOK: Duration = Duration::from_millis(2);
/// Lines that a process may be ahead of us.
const LINES_AHEAD: usize = 16;

/// A running process. Dropping it ends it.
pub(super) struct Process {
    child: Child,
    lines: Receiver<String>,
    log: PathBuf,
}

impl Process {
    /// Starts `command`; what it says on stderr goes to `log`.
    pub(super) fn start(mut command: Command, log: &Path) -> Result<Process> {
        let file = std::fs::File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))?;
        let output = child.stdout.take().context("stdout is a pipe")?;
        let (sender, lines) = sync_channel(LINES_AHEAD);
        std::thread::spawn(move || {
            // Reads on when nobody listens any more, so that the process never blocks on its output.
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Ok(Process { child, lines, log: log.to_path_buf() })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes one line to its standard input.
    pub(super) fn say(&mut self, line: &str) -> Result<()> {
        let input = self.child.stdin.as_mut().context("its input is closed")?;
        writeln!(input, "{line}").map_err(|_| self.ended("does not listen"))
    }

    /// Its next line.
    pub(super) fn hear(&mut self, limit: Duration) -> Result<String> {
        self.lines.recv_timeout(limit).map_err(|e| match e {
            RecvTimeoutError::Timeout => self.ended(&format!("said nothing for {} s (it hangs)", limit.as_secs())),
            RecvTimeoutError::Disconnected => self.ended("ended early"),
        })
    }

    /// All that it says until it ends by itself.
    pub(super) fn finish(&mut self, limit: Duration) -> Result<String> {
        let (deadline, mut text) = (Instant::now() + limit, String::new());
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => text.extend([line.as_str(), "\n"]),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(self.ended(&format!("did not end within {} s (it hangs)", limit.as_secs())));
                }
            }
        }
        let status = self.child.wait()?;
        if !status.success() {
            bail!("{}: {}", status, self.complaint());
        }
        Ok(text)
    }

    /// Waits until `ready`, while it runs.
    pub(super) fn wait_until(&mut self, limit: Duration, ready: impl Fn() -> bool) -> Result<()> {
        let deadline = Instant::now() + limit;
        while !ready() {
            if self.child.try_wait()?.is_some() {
                return Err(self.ended("ended early"));
            }
            if Instant::now() > deadline {
                return Err(self.ended(&format!("was not ready within {} s", limit.as_secs())));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn ended(&mut self, what: &str) -> anyhow::Error {
        std::thread::sleep(LOOK);
        let status = self.child.try_wait().ok().flatten().map_or(String::new(), |s| format!(" ({s})"));
        anyhow::anyhow!("process {} {what}{status} {}", self.pid(), self.complaint())
    }

    /// The end of what it wrote to stderr.
    fn complaint(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().rev().take(3).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("; ")
    }

    fn end(&mut self) -> std::io::Result<ExitStatus> {
        drop(self.child.stdin.take());
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(LOOK);
        }
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing can be done about a process that cannot be waited for.
        let _ = self.end();
    }
}
