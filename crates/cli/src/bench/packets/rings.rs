//! Pipes, and the raw limits: a ring of slots that does nothing else, and one whose writer copies a frame for each slot.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Result;
use ringway_mem::limits::{SlotReader, SlotWriter, slot_ring};
use ringway_mem::pool::{LINE_BYTES, Pool, PoolConfig, RESERVED_BUFFERS};

use super::super::worker::Sample;
use super::Setting;
use super::drive::{self, BATCH, Frames, Received, WARM_UP, stay_on};

/// Slots of a ring, as ports have by default.
const SLOTS: u32 = 1024;
/// Bytes of a buffer, as ports have by default: short frames lie so far apart.
const BUFFER_BYTES: u32 = 2048;

pub(super) fn pipe(setting: &Setting) -> Result<Sample> {
    let (a, b) = (ringway_port::open("netmap:bench{0")?, ringway_port::open("netmap:bench}0")?);
    let frames = Frames { len: 60, destination: [0xff; 6], are_looked_at: false, yield_cpu: false };
    drive::run(&mut [a], &mut [b], frames, setting)
}

/// What a pipe can at best reach: slots from one CPU to another.
pub(super) fn slots(setting: &Setting) -> Result<Sample> {
    let write = |writer: &mut SlotWriter| {
        writer.write(BATCH as usize);
    };
    let (packets, time) = hand_over(setting, write, |reader| reader.read().0 as u64);
    Ok(Received { packets, bytes: 0 }.sample(time))
}

/// What a switch can at best reach between two users: the sender's thread copies each frame from a buffer of its own into
/// one of the receiver's, 2 KiB apart as pools have them, and hands over its slot; the receiver looks at the slot and at
/// the frame's first byte.
pub(super) fn copying(len: u16, setting: &Setting) -> Result<Sample> {
    let copier = Copier::new(len)?;
    let write = |writer: &mut SlotWriter| {
        // Never more frames on the way than buffers for them.
        let room = writer.room().saturating_sub((SLOTS - SLOTS / copier.slots) as usize);
        let frames = room.min((BATCH / copier.slots).max(1) as usize);
        let first = writer.written();
        (first..first + frames as u64).for_each(|number| copier.copy(number));
        writer.write(frames);
    };
    let read = |reader: &mut SlotReader| reader.read_each(|slot| copier.look(slot.buf_idx.into())) as u64;
    let (packets, time) = hand_over(setting, write, read);
    Ok(Received { packets, bytes: packets * u64::from(len) }.sample(time))
}

/// The same copies and nothing else, on one CPU.
pub(super) fn copying_alone(len: u16, setting: &Setting) -> Result<Sample> {
    let copier = Copier::new(len)?;
    let copied = std::thread::scope(|scope| {
        let copying = scope.spawn(|| {
            stay_on(setting.cpus.map(|cpus| cpus[0]));
            let (start, mut packets) = (Instant::now(), 0);
            while start.elapsed() < setting.duration {
                (packets..packets + u64::from(BATCH)).for_each(|number| copier.copy(number));
                packets += u64::from(BATCH);
            }
            Received { packets, bytes: packets * u64::from(len) }.sample(start.elapsed())
        });
        copying.join().expect("copying does not panic")
    });
    Ok(copied)
}

/// Buffers of a sender and of a receiver, and frames that go round in them.
struct Copier {
    from: Arc<Pool>,
    to: Arc<Pool>,
    len: usize,
    /// Buffers that a frame fills.
    slots: u32,
}

impl Copier {
    fn new(len: u16) -> Result<Copier> {
        let config = PoolConfig { buffers: SLOTS + RESERVED_BUFFERS, buffer_bytes: BUFFER_BYTES, object_pages: 16 };
        let (from, to) = (Pool::create(config)?, Pool::create(config)?);
        for n in 0..SLOTS {
            from.copy_in(RESERVED_BUFFERS + n, 0, &[1; BUFFER_BYTES as usize]);
        }
        Ok(Copier { from, to, len: len.into(), slots: u32::from(len).div_ceil(BUFFER_BYTES) })
    }

    /// First buffer of a frame.
    #[inline]
    fn first(&self, number: u64) -> u32 {
        let frames = SLOTS / self.slots;
        RESERVED_BUFFERS + (number % u64::from(frames)) as u32 * self.slots
    }

    #[inline]
    fn copy(&self, number: u64) {
        let first = self.first(number);
        if self.len <= LINE_BYTES {
            let mut line = [0; LINE_BYTES];
            self.from.copy_out_line(first, &mut line);
            self.to.copy_in_line(first, &line);
            return;
        }
        for n in 0..self.slots {
            let len = (self.len - (n * BUFFER_BYTES) as usize).min(BUFFER_BYTES as usize);
            self.to.copy_from((first + n, 0), &self.from, (first + n, 0), len);
        }
    }

    #[inline]
    fn look(&self, number: u64) {
        for n in 0..self.slots {
            let mut byte = [0];
            self.to.copy_out(self.first(number) + n, 0, &mut byte);
            black_box(byte);
        }
    }
}

/// Has `write` fill a ring of slots on one CPU and `read` empty it on another; how many slots were read in what time.
fn hand_over(
    setting: &Setting,
    mut write: impl FnMut(&mut SlotWriter) + Send,
    mut read: impl FnMut(&mut SlotReader) -> u64 + Send,
) -> (u64, Duration) {
    let (mut writer, mut reader) = slot_ring(SLOTS as usize);
    let running = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            stay_on(setting.cpus.map(|cpus| cpus[0]));
            while running.load(Relaxed) {
                write(&mut writer);
            }
        });
        let reading = scope.spawn(|| {
            stay_on(setting.cpus.map(|cpus| cpus[1]));
            let mut read_for = |time| {
                let (start, mut packets) = (Instant::now(), 0);
                while start.elapsed() < time {
                    packets += (0..16).map(|_| read(&mut reader)).sum::<u64>();
                }
                (packets, start.elapsed())
            };
            read_for(WARM_UP);
            let outcome = read_for(setting.duration);
            running.store(false, Relaxed);
            outcome
        });
        reading.join().expect("the reader does not panic")
    })
}
