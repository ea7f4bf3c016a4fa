//! One measurement with our own workers: a server and a client on one path.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::bed::{Bed, Member, STEP_LIMIT, patiently};
use super::case::Kind;
use super::memory;
use super::path::Path;
use super::worker::{Address, Job, Outcome, Sample, Task};
use crate::launch::library::LIBRARY_NAME;

/// Bytes of an epoll request, and of its answer.
const REQUEST_BYTES: usize = 64;
/// Requests under way at a time when there are many connections.
pub(super) const WINDOW: usize = 64;
/// Connections from which on their memory stands out from the rest of the process.
const MEMORY_FROM: usize = 100;
/// Longest wait until all connections are upgraded, with traffic on them meanwhile.
const UPGRADE_LIMIT: Duration = Duration::from_secs(60);

/// A client that has said it is warm, and its server.
pub(super) struct Pair {
    server: Option<Member>,
    client: Member,
    connections: u64,
    ring_bytes_before: u64,
}

/// Both tasks of a case, and the connections between them.
fn tasks(kind: Kind) -> (Task, Task, u64) {
    match kind {
        Kind::RoundTrip { bytes, think_us } => (Task::Echo { bytes }, Task::RoundTrip { bytes, think_us }, 1),
        Kind::OneCore { .. } => {
            (Task::Echo { bytes: REQUEST_BYTES }, Task::RoundTrip { bytes: REQUEST_BYTES, think_us: 0 }, 1)
        }
        Kind::Messages { bytes } | Kind::Stream { bytes } => (Task::Sink, Task::Send { bytes }, 1),
        Kind::Short => (Task::ShortServer, Task::Short, 0),
        Kind::Connections(connections) => {
            let request = "x".repeat(REQUEST_BYTES);
            let load = Task::Load { connections, window: WINDOW, request, response_bytes: REQUEST_BYTES };
            (Task::EpollEcho, load, connections as u64)
        }
        _ => unreachable!("programs have a module of their own"),
    }
}

/// Measures once.
pub(super) fn measure(bed: &Bed, kind: Kind, path: Path, duration: Duration) -> Result<Sample> {
    if let Kind::OneCore { pairs } = kind {
        return one_core(bed, kind, pairs, path, duration);
    }
    if path == Path::Limit {
        return limit(bed, kind, duration);
    }
    let (server_task, client_task, connections) = tasks(kind);
    let (server_cpu, client_cpu) = (bed.cpus.map(|c| c[1]), bed.cpus.map(|c| c[0]));
    let (server, address) = listen(bed, path, server_task, server_cpu)?;
    // The client is the same program, so before its connections it weighs as much.
    let empty = memory::resident(bed, &[&server, &server])?;
    let client = connect(bed, path, &address, client_task, client_cpu, duration, connections)?;
    let mut pair = Pair { server: Some(server), client, connections, ring_bytes_before: 0 };
    pair.warm_up(bed)?;
    let idle = match (kind, &pair.server) {
        (Kind::Connections(MEMORY_FROM..), Some(server)) => Some(memory::resident(bed, &[server, &pair.client])?),
        _ => None,
    };
    pair.go(bed)?;
    let mut sample = pair.outcome(bed, duration)?;
    if let Some(idle) = idle {
        sample.extend(idle.since(&empty).metrics(connections));
    }
    if kind == Kind::Short {
        pair.expect_library()?;
    }
    Ok(sample)
}

fn job(task: Task, address: Address, cpu: Option<usize>, duration: Duration) -> Job {
    Job { task, address, cpu, duration_ms: duration.as_millis() as u64 }
}

fn listen(bed: &Bed, path: Path, task: Task, cpu: Option<usize>) -> Result<(Member, Address)> {
    let wanted = match path {
        Path::Unix => Address::Unix(bed.new_path("socket")),
        _ => Address::Tcp(([127, 0, 0, 1], 0).into()),
    };
    let mut server = bed.worker(path, &job(task, wanted, cpu, Duration::ZERO))?;
    let line = server.process.hear(STEP_LIMIT).context("the server")?;
    Ok((server, serde_json::from_str(&line)?))
}

/// Starts a client and waits until it is warm for the first time.
fn connect(
    bed: &Bed,
    path: Path,
    address: &Address,
    task: Task,
    cpu: Option<usize>,
    duration: Duration,
    connections: u64,
) -> Result<Member> {
    let mut client = bed.worker(path, &job(task, address.clone(), cpu, duration))?;
    client.process.hear(patience(connections)).context("the client, warming up")?;
    Ok(client)
}

/// How long connecting, or a bout of warming up, may take.
fn patience(connections: u64) -> Duration {
    STEP_LIMIT + Duration::from_millis(5 * connections)
}

/// Loads a server that is not ours.
pub(super) fn load(
    bed: &Bed,
    path: Path,
    address: &Address,
    task: Task,
    connections: u64,
    duration: Duration,
) -> Result<Sample> {
    let client = connect(bed, path, address, task, None, duration, connections)?;
    let mut pair = Pair { server: None, client, connections, ring_bytes_before: 0 };
    pair.warm_up(bed)?;
    pair.go(bed)?;
    pair.outcome(bed, duration)
}

impl Pair {
    /// More traffic until all connections are upgraded at both ends.
    fn warm_up(&mut self, bed: &Bed) -> Result<()> {
        let done = patiently(UPGRADE_LIMIT, || {
            let members = self.server.iter().chain([&self.client]);
            let upgraded: Vec<bool> = members.map(|m| bed.has_upgraded(m, self.connections)).collect::<Result<_>>()?;
            if upgraded.iter().all(|u| *u) {
                return Ok(true);
            }
            self.again().map(|()| false)
        })?;
        if !done {
            let members = self.server.iter().chain([&self.client]);
            members.into_iter().try_for_each(|m| bed.expect_upgraded(m, self.connections))?;
        }
        // The first bytes after an upgrade may still go by TCP.
        if self.client.is_under_ringway() { self.again() } else { Ok(()) }
    }

    fn again(&mut self) -> Result<()> {
        self.client.process.say("again")?;
        self.client.process.hear(patience(self.connections)).context("the client, warming up").map(|_| ())
    }

    fn go(&mut self, bed: &Bed) -> Result<()> {
        self.ring_bytes_before = bed.counter(&self.client, "ring_tx_bytes")?;
        self.client.process.say("go")
    }

    /// What the client has measured, if its bytes really went by the ring.
    fn outcome(&mut self, bed: &Bed, duration: Duration) -> Result<Sample> {
        let line = self.client.process.hear(STEP_LIMIT + duration * 4).context("the client, measuring")?;
        let outcome: Outcome = serde_json::from_str(&line)?;
        if self.client.is_under_ringway() && self.connections > 0 {
            let by_ring = bed.counter(&self.client, "ring_tx_bytes")? - self.ring_bytes_before;
            ensure!(by_ring >= outcome.sent_bytes, "only {by_ring} of {} bytes went by the ring", outcome.sent_bytes);
        }
        Ok(outcome.metrics)
    }

    /// For connections that are too short to be upgraded: the library must have been there.
    fn expect_library(&self) -> Result<()> {
        let members = self.server.iter().chain([&self.client]);
        members.filter(|m| m.is_under_ringway()).try_for_each(|member| {
            let maps = std::fs::read_to_string(format!("/proc/{}/maps", member.process.pid()))?;
            ensure!(maps.contains(LIBRARY_NAME), "the library is not in process {}", member.process.pid());
            Ok(())
        })
    }
}

fn limit(bed: &Bed, kind: Kind, duration: Duration) -> Result<Sample> {
    let (cpu, other) = (bed.cpus.map(|c| c[0]), bed.cpus.map(|c| c[1]));
    let task = match kind {
        Kind::RoundTrip { bytes, .. } => Task::RoundTripLimit { bytes, cpu: other },
        Kind::Stream { bytes } => Task::CopyLimit { bytes, cpu: other },
        _ => unreachable!("no other case has a limit"),
    };
    let nowhere = Address::Tcp(([127, 0, 0, 1], 0).into());
    let client = connect(bed, Path::Limit, &nowhere, task, cpu, duration, 0)?;
    let mut pair = Pair { server: None, client, connections: 0, ring_bytes_before: 0 };
    pair.go(bed)?;
    pair.outcome(bed, duration)
}

/// All processes on one CPU, all measuring at the same time.
fn one_core(bed: &Bed, kind: Kind, pairs: usize, path: Path, duration: Duration) -> Result<Sample> {
    let cpu = Some(bed.cpus.map_or(0, |c| c[0]));
    let mut all = Vec::new();
    for _ in 0..pairs {
        let (server_task, client_task, connections) = tasks(kind);
        let (server, address) = listen(bed, path, server_task, cpu)?;
        let client = connect(bed, path, &address, client_task, cpu, duration, 1)?;
        let mut pair = Pair { server: Some(server), client, connections, ring_bytes_before: 0 };
        pair.warm_up(bed)?;
        all.push(pair);
    }
    all.iter_mut().try_for_each(|pair| pair.go(bed))?;
    let samples: Vec<Sample> = all.iter_mut().map(|pair| pair.outcome(bed, duration)).collect::<Result<_>>()?;
    let mut total = Sample::new();
    for name in samples.iter().flat_map(|s| s.keys()) {
        let values = samples.iter().filter_map(|s| s.get(name));
        // Rates add up; of latencies the worst pair's is told.
        let value = if name.ends_with("_per_s") { values.sum() } else { values.copied().fold(0.0, f64::max) };
        total.insert(name.clone(), value);
    }
    Ok(total)
}
