//! Questions to the keeper, which is started if need be.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use ringway_daemon::paths::{SOCKET_VARIABLE, monitor_socket};

use super::message::{Answer, LINE_BYTES_MAX, Request};
use crate::output::talk;

/// How long an answer may take: opening a device can wait for the kernel.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// How long a keeper may take to begin, and how often it is looked for.
const START_LIMIT: Duration = Duration::from_secs(5);
const START_LOOK: Duration = Duration::from_millis(5);

/// The keeper's socket beside the monitor's. Each network namespace has a keeper of its own: devices are there.
pub(super) fn socket(folder: &Path) -> PathBuf {
    let namespace = std::fs::metadata("/proc/self/ns/net").map_or(0, |namespace| namespace.ino());
    folder.join(format!("keeper-{namespace}.sock"))
}

/// Asks the keeper of this folder; none if there is none, so that nothing is held.
///
/// # Errors
/// What it says, or that it says nothing.
pub(crate) fn ask(folder: &Path, request: &Request) -> Result<Option<Answer>> {
    let Ok(stream) = UnixStream::connect(socket(folder)) else { return Ok(None) };
    let line = match exchange(stream, request) {
        Ok(line) if !line.is_empty() => line,
        // It was ending, or was killed, and what it held has ended with it.
        Ok(_) => return Ok(None),
        Err(e) if matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => return Ok(None),
        Err(e) => return Err(e).context("the keeper"),
    };
    let answer: Answer =
        serde_json::from_slice(&line).context("the keeper says nothing that is understood; is it of this release?")?;
    answer.limits.iter().for_each(|limit| talk(format_args!("{limit}")));
    match &answer.error {
        Some(why) => bail!("the keeper: {why}"),
        None => Ok(Some(answer)),
    }
}

/// Like [`ask`]; a keeper is started if there is none.
///
/// # Errors
/// As for [`ask`]; a keeper that does not begin.
pub(crate) fn ask_or_start(folder: &Path, request: &Request) -> Result<Answer> {
    if let Some(answer) = ask(folder, request)? {
        return Ok(answer);
    }
    let mut keeper = Command::new(std::env::current_exe()?)
        .args(["keeper", "--socket-dir"])
        .arg(folder)
        .env_remove("LD_PRELOAD")
        .env(SOCKET_VARIABLE, monitor_socket(folder))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("starting the keeper")?;
    let deadline = Instant::now() + START_LIMIT;
    loop {
        // Also if another command's keeper was quicker, and ours has ended.
        if let Some(answer) = ask(folder, request)? {
            return Ok(answer);
        }
        let ended = keeper.try_wait()?.is_some();
        if Instant::now() >= deadline {
            let how = if ended { "ended" } else { "did not answer" };
            bail!("the keeper {how}; run `ringway keeper --socket-dir {}` to see why", folder.display());
        }
        std::thread::sleep(START_LOOK);
    }
}

/// The line that answers a request; empty if the connection ends before.
fn exchange(mut stream: UnixStream, request: &Request) -> std::io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.set_write_timeout(Some(ANSWER_LIMIT))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = Vec::new();
    BufReader::new(stream).take(LINE_BYTES_MAX).read_until(b'\n', &mut answer)?;
    Ok(answer)
}
