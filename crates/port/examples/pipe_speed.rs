//! How many slots go through a pipe, beside a raw ring of slots: batches of 256, from one thread to another and
//! within one, interleaved runs.
//!
//! `cargo run --release -p ringway-port --example pipe_speed [SECONDS]`

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use ringway_mem::limits::slot_ring;
use ringway_port::{Port, open};
use rustix::thread::{CpuSet, sched_setaffinity};

const BATCH: u32 = 256;
const RUNS: usize = 5;

fn main() -> Result<(), ringway_port::PortError> {
    run_on(1);
    let seconds = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1.0);
    let time = Duration::from_secs_f64(seconds);
    let mut cases: [(&str, Vec<f64>); 5] = [
        ("raw slot ring, two threads", vec![]),
        ("pipe, two threads", vec![]),
        ("pipe, two threads, slots read and written", vec![]),
        ("raw slot ring, one thread", vec![]),
        ("pipe, one thread", vec![]),
    ];
    for _ in 0..RUNS {
        let rates = [raw(time), pipe(time, false)?, pipe(time, true)?, raw_alone(time), pipe_alone(time)?];
        cases.iter_mut().zip(rates).for_each(|((_, all), rate)| all.push(rate));
    }
    for (name, rates) in &mut cases {
        rates.sort_by(f64::total_cmp);
        println!("{name}: median {:.1} M slots/s, best {:.1}", rates[RUNS / 2], rates[RUNS - 1]);
    }
    let (raw, pipe) = (&cases[0].1, &cases[1].1);
    println!("pipe / raw: median {:.2}, best {:.2}", pipe[RUNS / 2] / raw[RUNS / 2], pipe[RUNS - 1] / raw[RUNS - 1]);
    Ok(())
}

/// Keeps the calling thread on one CPU; where it may not be there, anywhere.
fn run_on(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    let _ = sched_setaffinity(None, &set);
}

/// Millions of slots a second.
fn rate(slots: u64, since: Instant) -> f64 {
    slots as f64 / since.elapsed().as_secs_f64() / 1e6
}

fn raw(time: Duration) -> f64 {
    let (mut writer, mut reader) = slot_ring(1024);
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            run_on(0);
            while !stop.load(Relaxed) {
                if writer.write(BATCH as usize) == 0 {
                    std::hint::spin_loop();
                }
            }
        });
        let (start, mut slots, mut bytes) = (Instant::now(), 0, 0);
        while start.elapsed() < time {
            for _ in 0..64 {
                let (n, sum) = reader.read();
                (slots, bytes) = (slots + n as u64, bytes + sum);
            }
        }
        stop.store(true, Relaxed);
        assert_eq!(bytes, slots * 60);
        rate(slots, start)
    })
}

fn raw_alone(time: Duration) -> f64 {
    let (mut writer, mut reader) = slot_ring(1024);
    let (start, mut slots) = (Instant::now(), 0);
    while start.elapsed() < time {
        for _ in 0..64 {
            writer.write(BATCH as usize);
            slots += reader.read().0 as u64;
        }
    }
    rate(slots, start)
}

fn pipe_alone(time: Duration) -> Result<f64, ringway_port::PortError> {
    let (mut a, mut b) = (open("shm:speed")?, open("shm:speed")?);
    let (start, mut slots) = (Instant::now(), 0);
    while start.elapsed() < time {
        for _ in 0..64 {
            send(&mut a, false)?;
            slots += u64::from(b.sync_rx_at(0, 0)?);
            let batch = b.rx(0)?;
            let n = batch.len();
            batch.release(n);
        }
    }
    Ok(rate(slots, start))
}

fn pipe(time: Duration, touch_slots: bool) -> Result<f64, ringway_port::PortError> {
    let (mut a, mut b) = (open("shm:speed")?, open("shm:speed")?);
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let sender = s.spawn(|| {
            run_on(0);
            while !stop.load(Relaxed) {
                send(&mut a, touch_slots)?;
            }
            Ok::<(), ringway_port::PortError>(())
        });
        let (start, mut slots, mut bytes) = (Instant::now(), 0, 0);
        while start.elapsed() < time {
            for _ in 0..64 {
                b.sync_rx_at(0, 0)?;
                let batch = b.rx(0)?;
                slots += u64::from(batch.len());
                if touch_slots {
                    bytes += (0..batch.len()).map(|i| u64::from(batch.slot(i).len)).sum::<u64>();
                }
                let n = batch.len();
                batch.release(n);
            }
        }
        stop.store(true, Relaxed);
        sender.join().expect("the sender does not panic")?;
        assert!(!touch_slots || bytes == slots * 60);
        Ok(rate(slots, start))
    })
}

fn send(port: &mut Port, touch_slots: bool) -> Result<(), ringway_port::PortError> {
    let mut batch = port.tx(0)?;
    let n = batch.len().min(BATCH);
    if touch_slots {
        (0..n).for_each(|i| batch.set(i, 60, 0));
    }
    batch.send(n);
    port.sync_tx_at(0, 0)?;
    Ok(())
}
