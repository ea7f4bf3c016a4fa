//! The keeper's process: one thread takes requests, one after the other.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::fs::{FlockOperation, flock};

use super::client::socket;
use super::held::Holdings;
use super::message::{Answer, LINE_BYTES_MAX, Request, SCHEMA};
use crate::packets::stop::Stop;

/// Without anything to hold, it ends after this time: somebody may just have started it to ask.
const EMPTY_FOR: Duration = Duration::from_secs(2);
/// How long it waits for its predecessor to end.
const SUCCESSION: Duration = Duration::from_secs(1);
/// How often it looks for signals.
const NAP: Duration = Duration::from_millis(20);
/// How long one command may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(2);

/// Serves until it holds nothing, or a signal.
///
/// # Errors
/// Another keeper serves in `folder`, or the socket cannot be made.
pub(crate) fn run(folder: &Path) -> Result<()> {
    // Two that start at once: the lock goes with the process, so whoever has it may replace the socket.
    let socket = socket(folder);
    let lock = std::fs::File::create(socket.with_extension("lock")).context("the keeper's lock")?;
    let deadline = Instant::now() + SUCCESSION;
    // One that holds nothing any more may be about to end.
    while let Err(e) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        ensure!(Instant::now() < deadline, "another keeper serves here: {e}");
        std::thread::sleep(NAP);
    }
    match std::fs::remove_file(&socket) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e).context("an old keeper's socket"),
        _ => {}
    }
    let mut stop = Stop::new(None)?;
    let listener = UnixListener::bind(&socket).with_context(|| format!("listening at {}", socket.display()))?;
    listener.set_nonblocking(true)?;
    let mut holdings = Holdings::default();
    let mut empty_since = Some(Instant::now());
    while !stop.reached(Instant::now()) && empty_since.is_none_or(|since| since.elapsed() < EMPTY_FOR) {
        match listener.accept() {
            // A command that breaks off has its own reasons.
            Ok((stream, _)) => drop(serve(stream, folder, &mut holdings)),
            Err(e) if e.kind() == ErrorKind::WouldBlock => std::thread::sleep(NAP),
            Err(e) => return Err(e).context("accepting"),
        }
        empty_since = if holdings.is_empty() { empty_since.or(Some(Instant::now())) } else { None };
    }
    let _ = std::fs::remove_file(&socket);
    Ok(())
}

fn serve(mut stream: UnixStream, folder: &Path, holdings: &mut Holdings) -> Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = Vec::new();
    BufReader::new(&stream).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    let outcome = serde_json::from_slice::<Request>(&line)
        .map_err(|e| anyhow::anyhow!("request not understood: {e}"))
        .and_then(|request| holdings.fulfil(folder, &request));
    let (error, limits) = match outcome {
        Ok(limits) => (None, limits),
        Err(e) => (Some(format!("{e:#}")), vec![]),
    };
    let answer = Answer { schema: SCHEMA, error, held: holdings.describe(), limits };
    let mut answer = serde_json::to_vec(&answer)?;
    answer.push(b'\n');
    Ok(stream.write_all(&answer)?)
}
