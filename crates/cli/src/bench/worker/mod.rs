//! The programs that are measured: `ringway bench-worker TASK`, ordinary users of libc's socket calls
//! that know nothing about Ringway. Whether the library is in them is the bench's business.
//!
//! A worker talks with the bench over its standard streams, one line at a time:
//!
//! ```text
//!  server   -> address that it listens at              ends with its standard input
//!  client   -> "warm" after some traffic     <- "again" (more of it), or "go"
//!           -> outcome, as JSON                        keeps its connections until its input ends
//! ```

mod client;
mod limit;
mod load;
mod net;
mod server;
mod tally;

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

pub(crate) use net::Address;

/// Value of each metric; the name ends with the unit.
pub(crate) type Sample = BTreeMap<String, f64>;

/// What one worker does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) task: Task,
    /// Where to listen or to connect to.
    pub(crate) address: Address,
    /// CPU to stay on.
    pub(crate) cpu: Option<usize>,
    /// How long to measure.
    pub(crate) duration_ms: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Task {
    /// Serves one connection with blocking calls: sends messages of this length back.
    Echo { bytes: usize },
    /// Serves one connection: sends 8-byte greetings back, then takes everything and says how much it was.
    Sink,
    /// Serves any number of connections over epoll: sends back what comes.
    EpollEcho,
    /// Serves short connections one after the other.
    ShortServer,
    /// Messages there and back with blocking calls, after a pause for thought.
    RoundTrip { bytes: usize, think_us: u64 },
    /// Messages of this length in one direction.
    Send { bytes: usize },
    /// Requests on many connections over epoll, `window` of them under way at a time.
    Load { connections: usize, window: usize, request: String, response_bytes: usize },
    /// Connections that carry one request each.
    Short,
    /// The shared memory itself, without sockets: messages there and back.
    RoundTripLimit { bytes: usize, cpu: Option<usize> },
    /// The shared memory itself: copied in and out.
    CopyLimit { bytes: usize, cpu: Option<usize> },
}

/// What a client has measured.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) metrics: Sample,
    /// Payload sent while measuring; that much must have gone by the ring.
    pub(crate) sent_bytes: u64,
}

/// Entry of the hidden sub-command.
pub(crate) fn main(job: &str) -> Result<()> {
    let job: Job = serde_json::from_str(job).context("the task is not understood")?;
    if let Some(cpu) = job.cpu {
        pin(cpu)?;
    }
    let duration = Duration::from_millis(job.duration_ms);
    match &job.task {
        Task::Echo { bytes } => server::serve(&job.address, |l| server::echo(l, *bytes)),
        Task::Sink => server::serve(&job.address, server::sink),
        Task::EpollEcho => server::serve(&job.address, load::echo),
        Task::ShortServer => server::serve(&job.address, server::short),
        Task::RoundTrip { bytes, think_us } => client::round_trips(&job.address, *bytes, *think_us, duration),
        Task::Send { bytes } => client::send(&job.address, *bytes, duration),
        Task::Load { .. } => load::run(&job.address, &job.task, duration),
        Task::Short => client::short(&job.address, duration),
        Task::RoundTripLimit { bytes, cpu } => limit::round_trips(*bytes, *cpu, duration),
        Task::CopyLimit { bytes, cpu } => limit::copies(*bytes, *cpu, duration),
    }
}

/// Keeps this thread on a CPU.
pub(crate) fn pin(cpu: usize) -> Result<()> {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(cpu);
    rustix::thread::sched_setaffinity(None, &cpus).with_context(|| format!("cannot stay on CPU {cpu}"))
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Traffic in bouts until the bench has seen enough.
fn warm_up(mut bout: impl FnMut() -> Result<()>) -> Result<()> {
    for line in std::iter::once(Ok("again".into())).chain(std::io::stdin().lock().lines()) {
        match line?.as_str() {
            "again" => bout()?,
            "go" => return Ok(()),
            other => bail!("the bench said {other:?}"),
        }
        say("warm")?;
    }
    bail!("the bench has gone")
}

/// Tells the outcome, then waits until nobody needs the connections any more.
fn conclude(metrics: Sample, sent_bytes: u64) -> Result<()> {
    say(&serde_json::to_string(&Outcome { metrics, sent_bytes })?)?;
    std::io::stdin().lock().lines().for_each(drop);
    Ok(())
}
