//! Clients with blocking calls.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::net::Address;
use super::server::{HELLO, TAKE};
use super::tally::Tally;
use super::{Sample, conclude, warm_up};

/// Messages in one bout of warming up.
const BOUT: usize = 200;
/// Messages sent between two looks at the clock.
const BATCH: usize = 64;
/// Payload of a short connection's request, in bytes.
const SHORT_BYTES: usize = 64;

pub(super) fn round_trips(address: &Address, bytes: usize, think_us: u64, duration: Duration) -> Result<()> {
    let mut stream = address.connect()?;
    let message: Vec<u8> = (0..bytes).map(|i| i as u8).collect();
    let mut answer = vec![0; bytes];
    let mut exchange = |answer: &mut [u8]| -> Result<()> {
        stream.write_all(&message)?;
        Ok(stream.read_exact(answer)?)
    };
    warm_up(|| (0..BOUT).try_for_each(|_| exchange(&mut answer)))?;
    let mut tally = Tally::new();
    let started = Instant::now();
    let mut now = started;
    while now - started < duration {
        if think_us > 0 {
            std::thread::sleep(Duration::from_micros(think_us));
            now = Instant::now();
        }
        exchange(&mut answer)?;
        let then = std::mem::replace(&mut now, Instant::now());
        tally.record(now - then);
    }
    ensure!(answer == message, "the answer differs from the message");
    let mut metrics = tally.metrics("round_trip");
    metrics.insert("round_trips_per_s".into(), per_second(tally.count(), now - started));
    conclude(metrics, tally.count() * bytes as u64)
}

pub(super) fn send(address: &Address, bytes: usize, duration: Duration) -> Result<()> {
    let mut stream = address.connect()?;
    let message = vec![b'x'; bytes];
    warm_up(|| (0..BOUT).try_for_each(|_| greet(&mut stream, HELLO)))?;
    greet(&mut stream, TAKE)?;
    let batch = BATCH.min((1 << 20) / bytes);
    let mut sent = 0;
    let started = Instant::now();
    while started.elapsed() < duration {
        for _ in 0..batch {
            stream.write_all(&message)?;
        }
        sent += batch as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    let mut taken = [0; 8];
    stream.read_exact(&mut taken)?;
    let elapsed = started.elapsed();
    let (taken, sent_bytes) = (u64::from_le_bytes(taken), sent * bytes as u64);
    ensure!(taken == sent_bytes, "{sent_bytes} bytes were sent, {taken} arrived");
    let metrics = [
        ("messages_per_s".to_owned(), per_second(sent, elapsed)),
        ("bytes_per_s".to_owned(), per_second(sent_bytes, elapsed)),
    ];
    conclude(metrics.into(), sent_bytes)
}

fn greet(stream: &mut TcpStream, greeting: [u8; 8]) -> Result<()> {
    stream.write_all(&greeting)?;
    let mut answer = [0; 8];
    stream.read_exact(&mut answer)?;
    ensure!(answer == greeting, "greeted with {greeting:?}, answered {answer:?}");
    Ok(())
}

pub(super) fn short(address: &Address, duration: Duration) -> Result<()> {
    warm_up(|| (0..BOUT / 10).try_for_each(|_| one_request(address)))?;
    let mut tally = Tally::new();
    let started = Instant::now();
    let mut now = started;
    while now - started < duration {
        one_request(address)?;
        let then = std::mem::replace(&mut now, Instant::now());
        tally.record(now - then);
    }
    let mut metrics: Sample = tally.metrics("connection");
    metrics.insert("connections_per_s".into(), per_second(tally.count(), now - started));
    conclude(metrics, 0)
}

fn one_request(address: &Address) -> Result<()> {
    let mut stream = address.connect()?;
    let mut buffer = [7; SHORT_BYTES];
    stream.write_all(&buffer)?;
    Ok(stream.read_exact(&mut buffer)?)
}

pub(super) fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}
