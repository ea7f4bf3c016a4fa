//! Frames into ports and out of them: senders in one thread, receivers in another, each on a CPU of its own.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ringway_mem::slot::NS_MOREFRAG;
use ringway_port::Port;

use super::super::worker::Sample;
use super::Setting;

/// Slots that are handed over at a time.
pub(super) const BATCH: u32 = 256;
/// What runs before the measurement: caches are filled, the bridge has learnt.
pub(super) const WARM_UP: Duration = Duration::from_millis(20);
/// Turns of a loop between two looks at the clock.
const TURNS: usize = 16;

/// The frames of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frames {
    pub(super) len: u16,
    pub(super) destination: [u8; 6],
    /// Receivers look at the first bytes of each, as every receiver would.
    pub(super) are_looked_at: bool,
    /// Who has nothing to do leaves the CPU to somebody else: there is a third thread.
    pub(super) yield_cpu: bool,
}

/// What came in a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Received {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

impl Received {
    pub(super) fn sample(self, time: Duration) -> Sample {
        let seconds = time.as_secs_f64();
        [
            ("packets_per_s".to_owned(), self.packets as f64 / seconds),
            ("bits_per_s".to_owned(), self.bytes as f64 * 8.0 / seconds),
        ]
        .into()
    }
}

/// Keeps the calling thread on a CPU; where it may not be there, it stays where it is.
pub(super) fn stay_on(cpu: Option<usize>) {
    if let Some(cpu) = cpu {
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
}

/// Sends from all of `senders` while receiving at all of `receivers`; what came.
pub(super) fn run(senders: &mut [Port], receivers: &mut [Port], frames: Frames, setting: &Setting) -> Result<Sample> {
    let running = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            stay_on(setting.cpus.map(|cpus| cpus[0]));
            senders.iter_mut().try_for_each(|port| fill(port, frames))?;
            while running.load(Relaxed) {
                senders.iter_mut().try_for_each(|port| send(port, frames))?;
            }
            anyhow::Ok(())
        });
        let receiving = scope.spawn(|| {
            stay_on(setting.cpus.map(|cpus| cpus[1]));
            let outcome =
                receive_for(WARM_UP, receivers, frames).and_then(|_| receive_for(setting.duration, receivers, frames));
            running.store(false, Relaxed);
            outcome
        });
        let received = receiving.join().expect("receivers do not panic");
        sending.join().expect("senders do not panic")?;
        let (received, time) = received?;
        ensure!(received.packets > 0, "nothing came");
        Ok(received.sample(time))
    })
}

/// Writes the header into every buffer, so that any slot can begin a frame.
fn fill(port: &mut Port, frames: Frames) -> Result<()> {
    // An EtherType for experiments (IEEE 802): what looks like IP, bridges look into.
    let header = [&frames.destination[..], &[2, 0, 0, 0, 0, 1, 0x88, 0xb5]].concat();
    for _ in 0..2 {
        let mut batch = port.tx(0)?;
        for n in 0..batch.len() {
            batch.bytes_mut(n)[..header.len()].copy_from_slice(&header);
        }
        send(port, frames)?;
    }
    Ok(())
}

/// One batch of whole frames.
pub(super) fn send(port: &mut Port, frames: Frames) -> Result<()> {
    let buffer_bytes = port.info().buffer_bytes;
    let mut batch = port.tx(0)?;
    let slots = u32::from(frames.len).div_ceil(buffer_bytes);
    let count = batch.len().min(BATCH.max(slots)) / slots * slots;
    if slots == 1 {
        (0..count).for_each(|n| batch.set(n, frames.len, 0));
    } else {
        for n in 0..count {
            let at = n % slots;
            let len = (u32::from(frames.len) - at * buffer_bytes).min(buffer_bytes);
            batch.set(n, len as u16, if at + 1 < slots { NS_MOREFRAG } else { 0 });
        }
    }
    batch.send(count);
    port.sync_tx(0)?;
    if count == 0 && frames.yield_cpu {
        std::thread::yield_now();
    }
    Ok(())
}

fn receive_for(time: Duration, receivers: &mut [Port], frames: Frames) -> Result<(Received, Duration)> {
    let (start, mut received) = (Instant::now(), Received::default());
    loop {
        for _ in 0..TURNS {
            receivers.iter_mut().try_for_each(|port| receive(port, frames, &mut received))?;
        }
        let elapsed = start.elapsed();
        if elapsed >= time {
            return Ok((received, elapsed));
        }
    }
}

/// Takes what there is.
pub(super) fn receive(port: &mut Port, frames: Frames, received: &mut Received) -> Result<()> {
    port.sync_rx(0)?;
    let batch = port.rx(0)?;
    let count = batch.len();
    for n in 0..count {
        let slot = batch.slot(n);
        received.packets += u64::from(!slot.more_fragments());
        received.bytes += u64::from(slot.len);
        if frames.are_looked_at {
            black_box(batch.bytes(n).first());
        }
    }
    batch.release(count);
    if count == 0 && frames.yield_cpu {
        std::thread::yield_now();
    }
    Ok(())
}
