//! The shared memory itself, as a floor below everything that is built on it.

use std::time::{Duration, Instant};

use anyhow::Result;
use ringway_mem::limits;

use super::client::per_second;
use super::tally::Tally;
use super::{Sample, conclude, pin, warm_up};

/// A message up to this length travels in the cache line that announces it, in bytes.
const LINE_BYTES: usize = 64;
/// Word that ends the other thread.
const STOP: u64 = u64::MAX;
/// Round trips, or blocks, in one bout of warming up.
const BOUT: u64 = 10_000;

pub(super) fn round_trips(bytes: usize, other_cpu: Option<usize>, duration: Duration) -> Result<()> {
    if bytes > LINE_BYTES { copied_round_trips(bytes, other_cpu, duration) } else { turns(other_cpu, duration) }
}

fn turns(other_cpu: Option<usize>, duration: Duration) -> Result<()> {
    let (ping, pong) = limits::turns();
    let other = std::thread::spawn(move || -> Result<()> {
        other_cpu.map_or(Ok(()), pin)?;
        let mut word = 0;
        while word != STOP {
            word = pong.wait(word);
            pong.pass(word);
        }
        Ok(())
    });
    let mut word = 0;
    let mut turn = || {
        ping.pass(word + 1);
        word = ping.wait(word);
    };
    let metrics = measured(&mut turn, duration)?;
    ping.pass(STOP);
    other.join().expect("the ponger does not panic")?;
    conclude(metrics, 0)
}

fn copied_round_trips(bytes: usize, other_cpu: Option<usize>, duration: Duration) -> Result<()> {
    let (mut filler, mut emptier) = limits::slots(bytes);
    let (mut back_filler, mut back_emptier) = limits::slots(bytes);
    let other = std::thread::spawn(move || -> Result<()> {
        other_cpu.map_or(Ok(()), pin)?;
        let mut block = vec![0; bytes];
        while block[0] == 0 {
            emptier.empty(&mut block);
            back_filler.fill(&block);
        }
        Ok(())
    });
    let (mut message, mut answer) = (vec![0; bytes], vec![0; bytes]);
    let mut turn = || {
        filler.fill(&message);
        back_emptier.empty(&mut answer);
    };
    let metrics = measured(&mut turn, duration)?;
    message[0] = 1;
    filler.fill(&message);
    other.join().expect("the echo does not panic")?;
    conclude(metrics, 0)
}

fn measured(turn: &mut impl FnMut(), duration: Duration) -> Result<Sample> {
    warm_up(|| {
        (0..BOUT).for_each(|_| turn());
        Ok(())
    })?;
    let mut tally = Tally::new();
    let started = Instant::now();
    let mut now = started;
    while now - started < duration {
        turn();
        let then = std::mem::replace(&mut now, Instant::now());
        tally.record(now - then);
    }
    let mut metrics = tally.metrics("round_trip");
    metrics.insert("round_trips_per_s".into(), per_second(tally.count(), now - started));
    Ok(metrics)
}

pub(super) fn copies(bytes: usize, other_cpu: Option<usize>, duration: Duration) -> Result<()> {
    let (mut filler, mut emptier) = limits::slots(bytes);
    let other = std::thread::spawn(move || -> Result<()> {
        other_cpu.map_or(Ok(()), pin)?;
        let mut block = vec![0; bytes];
        while block[0] == 0 {
            emptier.empty(&mut block);
        }
        Ok(())
    });
    let mut block = vec![0; bytes];
    warm_up(|| {
        (0..BOUT).for_each(|_| filler.fill(&block));
        Ok(())
    })?;
    let (started, mut sent) = (Instant::now(), 0);
    while started.elapsed() < duration {
        (0..16).for_each(|_| filler.fill(&block));
        sent += 16;
    }
    block[0] = 1;
    filler.fill(&block);
    other.join().expect("the reader does not panic")?;
    let elapsed = started.elapsed();
    let metrics = [
        ("messages_per_s".to_owned(), per_second(sent, elapsed)),
        ("bytes_per_s".to_owned(), per_second(sent * bytes as u64, elapsed)),
    ];
    conclude(metrics.into(), 0)
}
