//! The raw limits of shared memory, for benches to compare with: how long a cache line takes to
//! another CPU and back, and how fast bytes go through memory that two CPUs copy in and out of.
//!
//! ```text
//!  Turns     line 0   word that the pinger writes       line 1   word that the ponger writes
//!  Slots     line 0   slots filled                      line 1   slots emptied       then SLOTS blocks
//! ```
//! Two threads take the two ends. Cache lines do not know address spaces, so this is as quick as two
//! processes can be.

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::Arc;

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

#[cfg(test)]
mod tests {
    use super::*;

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
