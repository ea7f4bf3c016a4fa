//! The raw limits of shared memory, for benches to compare with: how long a cache line takes to
//! another CPU and back, and how fast bytes, or a packet ring's slots, go from one CPU to another.
//!
//! ```text
//!  Turns     line 0   word that the pinger writes       line 1   word that the ponger writes
//!  Slots     line 0   slots filled                      line 1   slots emptied       then SLOTS blocks
//!  SlotRing  line 0   slots written                     line 1   slots read          then packet slots
//! ```
//! Two threads take the two ends. Cache lines do not know address spaces, so this is as quick as two
//! processes can be.

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::Arc;

use crate::slot::{Slot, SlotCell};
use crate::sync::{AtomicU64, Ordering};

/// Blocks between the two ends of [`slots`]: few enough to stay in a second-level cache.
const SLOTS: u64 = 4;

/// A word on cache lines of its own; neighbouring lines are fetched in pairs.
#[repr(align(128))]
struct Line(AtomicU64);

/// One end of a pair of cache lines; see [`turns`].
pub struct Turn {
    lines: Arc<[Line; 2]>,
    own: usize,
}

/// Two ends that pass a word back and forth, each polling the other's line.
pub fn turns() -> (Turn, Turn) {
    let lines = Arc::new([Line(AtomicU64::new(0)), Line(AtomicU64::new(0))]);
    (Turn { lines: lines.clone(), own: 0 }, Turn { lines, own: 1 })
}

impl Turn {
    /// Shows `word` to the other end.
    #[inline]
    pub fn pass(&self, word: u64) {
        self.lines[self.own].0.store(word, Ordering::Release);
    }

    /// Polls until the other end shows something else than `before`.
    #[inline]
    pub fn wait(&self, before: u64) -> u64 {
        loop {
            let word = self.lines[1 - self.own].0.load(Ordering::Acquire);
            if word != before {
                return word;
            }
            spin_loop();
        }
    }
}

struct Shared {
    filled: Line,
    emptied: Line,
    block_bytes: usize,
    blocks: Box<[UnsafeCell<u8>]>,
}

// SAFETY: the blocks are reached through the one Filler and the one Emptier only; `filled` and
// `emptied` say which of the two may touch a block, and hand it over with release and acquire.
unsafe impl Sync for Shared {}

/// The end that copies in; see [`slots`].
pub struct Filler(Arc<Shared>);

/// The end that copies out; see [`slots`].
pub struct Emptier(Arc<Shared>);

/// Two ends of a few blocks of `block_bytes` bytes each, handed over one by one, each end polling.
pub fn slots(block_bytes: usize) -> (Filler, Emptier) {
    let bytes = block_bytes * SLOTS as usize;
    let shared = Arc::new(Shared {
        filled: Line(AtomicU64::new(0)),
        emptied: Line(AtomicU64::new(0)),
        block_bytes,
        blocks: (0..bytes).map(|_| UnsafeCell::new(0)).collect(),
    });
    (Filler(shared.clone()), Emptier(shared))
}

impl Shared {
    fn block(&self, number: u64) -> *mut u8 {
        self.blocks[(number % SLOTS) as usize * self.block_bytes..].as_ptr().cast_mut().cast()
    }
}

impl Filler {
    /// Copies one block in. Polls while all are full.
    ///
    /// # Panics
    /// If `block` has not the agreed length.
    #[inline]
    pub fn fill(&mut self, block: &[u8]) {
        let shared = &*self.0;
        assert_eq!(block.len(), shared.block_bytes);
        let number = shared.filled.0.load(Ordering::Relaxed);
        while number - shared.emptied.0.load(Ordering::Acquire) == SLOTS {
            spin_loop();
        }
        // SAFETY: the block lies within `blocks`; it is empty, so the Emptier does not touch it until
        // `filled` says otherwise, and `&mut self` makes this the only Filler.
        unsafe { std::ptr::copy_nonoverlapping(block.as_ptr(), shared.block(number), block.len()) };
        shared.filled.0.store(number + 1, Ordering::Release);
    }
}

impl Emptier {
    /// Copies one block out. Polls while all are empty.
    ///
    /// # Panics
    /// If `block` has not the agreed length.
    #[inline]
    pub fn empty(&mut self, block: &mut [u8]) {
        let shared = &*self.0;
        assert_eq!(block.len(), shared.block_bytes);
        let number = shared.emptied.0.load(Ordering::Relaxed);
        while shared.filled.0.load(Ordering::Acquire) == number {
            spin_loop();
        }
        // SAFETY: the block lies within `blocks`; it is full, so the Filler does not touch it until
        // `emptied` says otherwise, and `&mut self` makes this the only Emptier.
        unsafe { std::ptr::copy_nonoverlapping(shared.block(number), block.as_mut_ptr(), block.len()) };
        shared.emptied.0.store(number + 1, Ordering::Release);
    }
}

struct SlotRing {
    written: Line,
    read: Line,
    slots: Box<[SlotCell]>,
}

/// The end that writes packet slots; see [`slot_ring`].
pub struct SlotWriter {
    ring: Arc<SlotRing>,
    written: u64,
    read: u64,
}

/// The end that reads packet slots; see [`slot_ring`].
pub struct SlotReader {
    ring: Arc<SlotRing>,
    read: u64,
}

/// A ring of packet slots that does nothing else: what a pipe can at best reach. `slots` is a power of two.
///
/// # Panics
/// If it is not.
pub fn slot_ring(slots: usize) -> (SlotWriter, SlotReader) {
    assert!(slots.is_power_of_two());
    let slots = (0..slots).map(|_| SlotCell::default()).collect();
    let ring = Arc::new(SlotRing { written: Line(AtomicU64::new(0)), read: Line(AtomicU64::new(0)), slots });
    (SlotWriter { ring: ring.clone(), written: 0, read: 0 }, SlotReader { ring, read: 0 })
}

impl SlotWriter {
    /// How many slots fit right now.
    #[inline]
    pub fn room(&mut self) -> usize {
        self.read = self.ring.read.0.load(Ordering::Acquire);
        self.ring.slots.len() - (self.written - self.read) as usize
    }

    /// How many were written since the beginning: the next slot's number.
    #[inline]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Writes `n` slots, or as many as fit, and shows them at once. Returns how many.
    #[inline]
    pub fn write(&mut self, n: usize) -> usize {
        let capacity = self.ring.slots.len() as u64;
        if self.written + n as u64 - self.read > capacity {
            self.read = self.ring.read.0.load(Ordering::Acquire);
        }
        let n = (n as u64).min(capacity - (self.written - self.read));
        for number in self.written..self.written + n {
            let slot = Slot { buf_idx: number as u32, len: 60, flags: 0, ptr: 0 };
            self.ring.slots[(number & (capacity - 1)) as usize].store(slot);
        }
        self.written += n;
        self.ring.written.0.store(self.written, Ordering::Release);
        n as usize
    }
}

impl SlotReader {
    /// Reads all slots that are there and gives them back at once. Returns how many, and the sum of their lengths.
    #[inline]
    pub fn read(&mut self) -> (usize, u64) {
        let mut bytes = 0;
        let n = self.read_each(|slot| bytes += u64::from(slot.len));
        (n, bytes)
    }

    /// Shows each slot that is there to `look` before all are given back at once. Returns how many. A slot's `buf_idx` is
    /// its number since the beginning, cut to 32 bits.
    #[inline]
    pub fn read_each(&mut self, mut look: impl FnMut(Slot)) -> usize {
        let written = self.ring.written.0.load(Ordering::Acquire);
        let mask = self.ring.slots.len() as u64 - 1;
        (self.read..written).for_each(|number| look(self.ring.slots[(number & mask) as usize].load()));
        let n = written - self.read;
        self.read = written;
        self.ring.read.0.store(written, Ordering::Release);
        n as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_written_once_and_read_once() {
        let (mut writer, mut reader) = slot_ring(64);
        assert_eq!(writer.write(100), 64);
        assert_eq!(writer.write(1), 0);
        assert_eq!(reader.read(), (64, 64 * 60));
        assert_eq!((writer.room(), writer.written()), (64, 64));
        assert_eq!((writer.write(10), writer.room()), (10, 54));
        let mut numbers = vec![];
        assert_eq!(reader.read_each(|slot| numbers.push(slot.buf_idx)), 10);
        assert_eq!(numbers, (64..74).collect::<Vec<_>>());
    }

    #[test]
    fn turns_alternate() {
        let (ping, pong) = turns();
        let other = std::thread::spawn(move || {
            (0..100).fold(0, |before, _| {
                let word = pong.wait(before);
                pong.pass(word * 2);
                word
            })
        });
        let mut answer = 0;
        for word in 1..=100 {
            ping.pass(word);
            answer = ping.wait(answer);
            assert_eq!(answer, word * 2);
        }
        assert_eq!(other.join().unwrap(), 100);
    }

    #[test]
    fn blocks_arrive_in_order_and_whole() {
        let (mut filler, mut emptier) = slots(100);
        let other = std::thread::spawn(move || (0..1000u32).for_each(|n| filler.fill(&[n as u8; 100])));
        let mut block = [0; 100];
        for n in 0..1000u32 {
            emptier.empty(&mut block);
            assert_eq!(block, [n as u8; 100]);
        }
        other.join().unwrap();
    }
}
