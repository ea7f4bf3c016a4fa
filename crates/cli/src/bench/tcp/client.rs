//! What asks, and what is counted.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use ringway_stack::{Endpoint, Error, Event, Ready, Sockets};

use super::duel::Ends;
use crate::bench::case::Kind;
use crate::bench::worker::Sample;
use crate::load::{Ending, Generator, Plan, Target};

const REQUEST_BYTES: usize = 64;
/// Written at a time in the bulk case.
const WRITE_BYTES: usize = 64 << 10;
/// What is not connected or answered by then has failed.
const LIMIT: Duration = Duration::from_secs(60);
/// Of a measurement's length, what is run before it.
const WARM_UP: u32 = 4;

/// One client against the servers at `at`.
pub(super) fn run(
    sockets: &mut impl Sockets,
    at: &[Endpoint],
    kind: Kind,
    duration: Duration,
    ends: &Ends,
) -> Result<Sample> {
    match kind {
        Kind::Requests(connections) => requests(sockets, at, (connections, Ending::Keep), duration),
        Kind::Connect(connections) => requests(sockets, at, (connections, Ending::Peer), duration),
        Kind::Bulk => bulk(sockets, at[0], duration, ends),
        _ => bail!("no case of `bench tcp`"),
    }
}

fn requests(
    sockets: &mut impl Sockets,
    at: &[Endpoint],
    (connections, ending): (usize, Ending),
    duration: Duration,
) -> Result<Sample> {
    let targets = at.iter().map(|at| Target::raw(*at, REQUEST_BYTES, REQUEST_BYTES as u64)).collect();
    let connections = connections as u32;
    let plan = Plan { connections, ending, rate: None, timeout: LIMIT, requests_max: u64::MAX };
    let mut generator = Generator::new(targets, plan);
    let mut events = Vec::new();
    let begun = Instant::now();
    while !generator.is_connected() {
        generator.turn(sockets, &mut events)?;
        ensure!(generator.tally().failures() == 0, "a connection failed: {}", generator.tally().first_failure());
        ensure!(begun.elapsed() < LIMIT, "{connections} connections are not there after {} s", LIMIT.as_secs());
    }
    generator.start();
    run_for(sockets, &mut generator, &mut events, duration / WARM_UP)?;
    generator.start_tally();
    let elapsed = run_for(sockets, &mut generator, &mut events, duration)?;
    let tally = generator.tally();
    ensure!(tally.failures() == 0, "{} requests failed: {}", tally.failures(), tally.first_failure());
    ensure!(tally.answers() > 0, "no answer came");
    let latencies = tally.latencies_us().into_iter().map(|(name, us)| (format!("latency_{name}_us"), us));
    let metric = if ending == Ending::Keep { "requests_per_s" } else { "connections_per_s" };
    Ok(latencies.chain([(metric.to_owned(), tally.answers() as f64 / elapsed.as_secs_f64())]).collect())
}

fn run_for(
    sockets: &mut impl Sockets,
    generator: &mut Generator,
    events: &mut Vec<Event>,
    duration: Duration,
) -> Result<Duration> {
    let started = Instant::now();
    while started.elapsed() < duration {
        generator.turn(sockets, events)?;
    }
    Ok(started.elapsed())
}

/// One connection, as fast as it takes data; what the server has received counts.
fn bulk(sockets: &mut impl Sockets, at: Endpoint, duration: Duration, ends: &Ends) -> Result<Sample> {
    let conn = sockets.connect(at)?;
    let data = vec![b'b'; WRITE_BYTES];
    let mut events = Vec::new();
    let mut begun: Option<(Instant, u64)> = None;
    let warm_at = Instant::now() + duration / WARM_UP;
    loop {
        sockets.poll(&mut events, Some(Duration::from_millis(1)))?;
        ensure!(!events.iter().any(|event| event.ready.contains(Ready::ERROR)), "the connection failed");
        loop {
            match sockets.send(conn, &data) {
                Ok(bytes) if bytes == data.len() => {}
                Ok(_) | Err(Error::WouldBlock) => break,
                Err(error) => bail!("cannot send: {error}"),
            }
        }
        let (now, received) = (Instant::now(), ends.received_bytes.load(Ordering::Relaxed));
        match begun {
            None if now >= warm_at => begun = Some((now, received)),
            Some((since, before)) if now - since >= duration => {
                ensure!(received > before, "nothing arrived");
                let bytes_per_s = (received - before) as f64 / (now - since).as_secs_f64();
                return Ok([("bytes_per_s".to_owned(), bytes_per_s)].into());
            }
            _ => {}
        }
    }
}
