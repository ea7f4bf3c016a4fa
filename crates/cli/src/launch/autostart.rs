//! A monitor of the user's own, started in the background when none answers.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use ringway_daemon::paths;

/// A monitor that was started for a program ends after this many seconds without one.
const IDLE_EXIT_SECONDS: u64 = 60;

/// Starts a monitor in `socket_dir`; returns when it answers, or why it does not (after 2 s at most).
///
/// The monitor is started by a short-lived process, so that the program that we become never finds
/// a child that it does not know. Two that start at once are told apart by the monitor's own lock.
pub(crate) fn start(socket_dir: &Path) -> Result<()> {
    let starter = Command::new(std::env::current_exe()?)
        .args(["daemon", "--background", "--idle-exit", &IDLE_EXIT_SECONDS.to_string()])
        .arg("--socket-dir")
        .arg(socket_dir)
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()
        .context("starting `ringway daemon --background`")?;
    // Somebody else may have been quicker.
    if !starter.status.success() && !paths::answers(socket_dir) {
        let said = String::from_utf8_lossy(&starter.stderr);
        bail!("{}", said.trim().trim_start_matches("ringway: "));
    }
    Ok(())
}
