//! The switch beside what memory allows: one thread sends from port to port, another receives;
//! `cargo bench -p ringway-switch --bench vale`.
//!
//! Contestants take turns within one run; medians of the rounds are shown, with the best in brackets.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use ringway_mem::fabric::Fabric;
use ringway_mem::pool::{Pool, PoolConfig, RingCounts};
use ringway_port::Port;
use ringway_switch::modules::bridge::Bridge;
use ringway_switch::{Switch, vale};

const ROUNDS: usize = 9;
const SLOTS: u32 = 1024;
const BUFFER_BYTES: u32 = 2048;

fn main() {
    for (len, batch) in [(60, 256), (1500, 256)] {
        let rates = (0..ROUNDS).map(|_| Pair::new(1, len).two_threads(batch, 4_000_000)).collect();
        let (median, best) = summary(rates);
        println!("1 to 1, {len} B, batch {batch}, a CPU each: {:.1} ({:.1}) Mpps", median / 1e6, best / 1e6);
    }
    for (len, batch) in [(60, 1023), (60, 256), (60, 64), (60, 8), (1500, 1023), (1500, 256)] {
        let (mut switched, mut copied) = (vec![], vec![]);
        let mut pair = Pair::new(1, len);
        let mut copy = Copying::new(len as usize);
        for _ in 0..ROUNDS {
            switched.push(pair.frames_per_s(batch, 2_000_000));
            copied.push(copy.frames_per_s(2_000_000));
        }
        let ((median, best), (limit, limit_best)) = (summary(switched), summary(copied));
        println!(
            "1 to 1, {len} B, batch {batch}: {:.1} ({:.1}) Mpps, {:.1} Gbit/s; copy limit {:.1} ({:.1}) Mpps; ratio {:.2} ({:.2})",
            median / 1e6,
            best / 1e6,
            median * f64::from(len) * 8.0 / 1e9,
            limit / 1e6,
            limit_best / 1e6,
            median / limit,
            best / limit_best
        );
    }
    let mut pair = Pair::new(7, 60);
    let (median, best) = summary((0..ROUNDS).map(|_| pair.frames_per_s(1023, 500_000)).collect());
    println!("1 to 7 broadcast, 60 B: {:.1} ({:.1}) Mpps in, times 7 out", median / 1e6, best / 1e6);
}

fn summary(mut rounds: Vec<f64>) -> (f64, f64) {
    rounds.sort_by(f64::total_cmp);
    (rounds[rounds.len() / 2], rounds[rounds.len() - 1])
}

/// A sender and its receivers, driven by one thread: the cost of both sides on one core.
struct Pair {
    sender: Port,
    receivers: Vec<Port>,
    len: u16,
}

impl Pair {
    fn new(receivers: usize, len: u16) -> Pair {
        let pool = Pool::create(PoolConfig { buffers: 32_768, buffer_bytes: BUFFER_BYTES, object_pages: 512 });
        let pool = pool.expect("memory for a pool");
        let switch = Switch::new(Fabric::create().expect("memory for a switch"), Arc::new(Bridge::new(1024)));
        let open = |n: usize| vale::open(&switch, &pool, &format!("vale:{n}"), RingCounts::pairs(1, SLOTS));
        let mut sender = open(0).expect("room for a port");
        let mut others: Vec<Port> = (1..=receivers).map(|n| open(n).expect("room for a port")).collect();
        if receivers == 1 {
            // The bridge learns where the receiver is, and the sender where nobody else is.
            send(&mut others[0], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 2, 8, 0], 60, 1);
        }
        let to = if receivers == 1 { [2, 0, 0, 0, 0, 2] } else { [0xff; 6] };
        let header = [&to[..], &[2, 0, 0, 0, 0, 1, 8, 0]].concat();
        for _ in 0..4 {
            send(&mut sender, &header, len, SLOTS - 1);
            for port in &mut others {
                receive(port);
            }
        }
        Pair { sender, receivers: others, len }
    }

    /// The same with the two ends in threads of their own.
    fn two_threads(&mut self, batch: u32, frames: u32) -> f64 {
        let (sender, receiver, len) = (&mut self.sender, &mut self.receivers[0], self.len);
        let running = AtomicBool::new(true);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while running.load(Relaxed) {
                    resend(sender, len, batch);
                }
            });
            let (mut start, mut received) = (Instant::now(), 0);
            for turn in 0.. {
                received += look(receiver);
                if turn == 1000 {
                    (start, received) = (Instant::now(), 0);
                }
                if turn > 1000 && received >= frames {
                    break;
                }
            }
            running.store(false, Relaxed);
            f64::from(received) / start.elapsed().as_secs_f64()
        })
    }

    /// Slots are sent again and again as they are; receivers look at each slot and give it back.
    fn frames_per_s(&mut self, batch: u32, frames: u32) -> f64 {
        let start = Instant::now();
        let mut received = 0;
        while received < frames {
            resend(&mut self.sender, self.len, batch);
            received += self.receivers.iter_mut().map(receive).min().unwrap_or(0);
        }
        f64::from(received) / start.elapsed().as_secs_f64()
    }
}

fn send(port: &mut Port, header: &[u8], len: u16, count: u32) {
    let mut batch = port.tx(0).expect("a ring");
    let count = count.min(batch.len());
    for n in 0..count {
        batch.bytes_mut(n)[..header.len()].copy_from_slice(header);
        batch.set(n, len, 0);
    }
    batch.send(count);
    port.sync_tx(0).expect("a sound ring");
}

fn resend(port: &mut Port, len: u16, count: u32) {
    let mut batch = port.tx(0).expect("a ring");
    let count = count.min(batch.len());
    (0..count).for_each(|n| batch.set(n, len, 0));
    batch.send(count);
    port.sync_tx(0).expect("a sound ring");
}

/// Takes what there is, and looks at the first byte of each frame.
fn look(port: &mut Port) -> u32 {
    port.sync_rx(0).expect("a sound ring");
    let batch = port.rx(0).expect("a ring");
    let count = batch.len();
    for n in 0..count {
        black_box(batch.bytes(n).first());
    }
    batch.release(count);
    count
}

fn receive(port: &mut Port) -> u32 {
    port.sync_rx(0).expect("a sound ring");
    let batch = port.rx(0).expect("a ring");
    let count = batch.len();
    for n in 0..count {
        black_box(batch.slot(n).len);
    }
    batch.release(count);
    // Only now does the sender see the room.
    port.sync_rx(0).expect("a sound ring");
    count
}

/// Copies between as many buffers as the rings of two ports have, and nothing else.
struct Copying {
    from: Vec<u8>,
    to: Vec<u8>,
    len: usize,
}

impl Copying {
    fn new(len: usize) -> Copying {
        let bytes = (SLOTS * BUFFER_BYTES) as usize;
        Copying { from: vec![1; bytes], to: vec![0; bytes], len }
    }

    fn frames_per_s(&mut self, frames: u32) -> f64 {
        let start = Instant::now();
        let stride = BUFFER_BYTES as usize;
        for _ in 0..frames / SLOTS {
            for (to, from) in self.to.chunks_exact_mut(stride).zip(self.from.chunks_exact(stride)) {
                to[..black_box(self.len)].copy_from_slice(&from[..black_box(self.len)]);
            }
            black_box(&mut self.to);
        }
        f64::from(frames / SLOTS * SLOTS) / start.elapsed().as_secs_f64()
    }
}
