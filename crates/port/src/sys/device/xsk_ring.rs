//! The four rings of an XDP socket: fill and tx produced by us, completion and rx by the kernel.
//!
//! ```text
//!   producer  u32   how many entries were ever put in      (wraps)
//!   consumer  u32   how many were ever taken out           (wraps)
//!   flags     u32   bit 0: the kernel wants a kick
//!   entries   2^k   at index & (2^k - 1)
//! ```
//! Each side keeps its own word and reads the other's; what lies between them is bounded by the ring's size
//! (Documentation/networking/af_xdp.rst).

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::*};

const NEED_WAKEUP: u32 = 1;

/// A frame, or a part of one, in an rx or tx ring (`struct xdp_desc`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Descriptor {
    /// Offset in the umem; with unaligned chunks the upper 16 bits are to be added to the lower 48.
    pub(crate) address: u64,
    pub(crate) len: u32,
    pub(crate) options: u32,
}

const _: () = assert!(size_of::<Descriptor>() == 16);

/// Where a ring lies, and what keeps it mapped.
pub(super) struct Place {
    pub(super) producer: NonNull<AtomicU32>,
    pub(super) consumer: NonNull<AtomicU32>,
    pub(super) flags: NonNull<AtomicU32>,
    pub(super) entries: NonNull<u8>,
    /// A power of two.
    pub(super) size: u32,
    pub(super) mapping: Arc<Mapping>,
}

/// Memory that is unmapped when its last user drops it.
pub(super) type Mapping = dyn Send + Sync;

struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    _mapping: Arc<Mapping>,
}

// SAFETY: the words are atomics, the mapping is kept, and entries are only touched through the one producer or
// consumer that owns the ring's end.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> Ring<T> {
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: `Place` points into the mapping, which lives as long as the ring.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.consumer.as_ref() }
    }

    /// The entry's place.
    fn at(&self, index: u32) -> *mut T {
        // SAFETY: below `size`, of which there are so many.
        unsafe { self.entries.as_ptr().add((index & (self.size - 1)) as usize) }
    }
}

/// Our end of a ring that the kernel takes from.
pub(crate) struct Producer<T> {
    ring: Ring<T>,
    next: u32,
}

/// Our end of a ring that the kernel puts into.
pub(crate) struct Consumer<T> {
    ring: Ring<T>,
    next: u32,
}

impl<T: Copy> Producer<T> {
    /// # Safety
    /// The place must be a ring of `T` that nobody else produces for.
    pub(super) unsafe fn new(place: Place) -> Producer<T> {
        // SAFETY: the caller's promise.
        let ring = unsafe { ring(place) };
        let next = ring.producer().load(Relaxed);
        Producer { ring, next }
    }

    /// Entries that can be put in.
    pub(crate) fn free(&self) -> u32 {
        self.ring.size - self.untaken()
    }

    /// Entries that the kernel has not taken yet.
    pub(crate) fn untaken(&self) -> u32 {
        self.next.wrapping_sub(self.ring.consumer().load(Acquire)).min(self.ring.size)
    }

    /// Writes the entry that is `i` after the last one shown, `i` below [`Producer::free`].
    pub(crate) fn put(&mut self, i: u32, entry: T) {
        assert!(i < self.ring.size);
        // SAFETY: inside the ring; the kernel does not read it before it is shown.
        unsafe { self.ring.at(self.next.wrapping_add(i)).write(entry) };
    }

    /// Shows the first `n` entries to the kernel.
    pub(crate) fn show(&mut self, n: u32) {
        self.next = self.next.wrapping_add(n);
        self.ring.producer().store(self.next, Release);
    }

    /// Whether the kernel waits to be told.
    pub(crate) fn wants_kick(&self) -> bool {
        // SAFETY: points into the mapping.
        unsafe { self.ring.flags.as_ref() }.load(Acquire) & NEED_WAKEUP != 0
    }
}

impl<T: Copy> Consumer<T> {
    /// # Safety
    /// The place must be a ring of `T`, any bytes of which are valid, that nobody else consumes.
    pub(super) unsafe fn new(place: Place) -> Consumer<T> {
        // SAFETY: the caller's promise.
        let ring = unsafe { ring(place) };
        let next = ring.consumer().load(Relaxed);
        Consumer { ring, next }
    }

    /// Entries that are there.
    pub(crate) fn available(&self) -> u32 {
        self.ring.producer().load(Acquire).wrapping_sub(self.next).min(self.ring.size)
    }

    /// The i-th of them.
    pub(crate) fn get(&self, i: u32) -> T {
        assert!(i < self.ring.size);
        // SAFETY: inside the ring; the kernel wrote it before it showed it, and leaves it until it is released.
        unsafe { self.ring.at(self.next.wrapping_add(i)).read() }
    }

    /// Gives the first `n` back.
    pub(crate) fn release(&mut self, n: u32) {
        self.next = self.next.wrapping_add(n);
        self.ring.consumer().store(self.next, Release);
    }
}

/// # Safety
/// As for `Producer::new` and `Consumer::new`.
unsafe fn ring<T>(place: Place) -> Ring<T> {
    let Place { producer, consumer, flags, entries, size, mapping } = place;
    assert!(size.is_power_of_two());
    Ring { producer, consumer, flags, entries: entries.cast(), size, _mapping: mapping }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// Both ends over one piece of memory; `start` is what both counters begin with.
    fn pair(size: u32, start: u32) -> (Producer<u64>, Consumer<u64>) {
        let memory: Arc<Vec<AtomicU32>> = Arc::new((0..4 + 2 * size).map(|_| AtomicU32::new(0)).collect());
        memory[0].store(start, Relaxed);
        memory[1].store(start, Relaxed);
        let at = |i: usize| NonNull::from(&memory[i]);
        let place = || Place {
            producer: at(0),
            consumer: at(1),
            flags: at(2),
            entries: at(4).cast(),
            size,
            mapping: memory.clone(),
        };
        assert!((at(4).as_ptr() as usize).is_multiple_of(8));
        // SAFETY: one producer, one consumer; the vector is large enough for `size` words of 64 bits, and
        // aligned for them.
        unsafe { (Producer::new(place()), Consumer::new(place())) }
    }

    proptest! {
        #[test]
        fn entries_come_out_as_they_went_in(
            steps in proptest::collection::vec((any::<bool>(), 0..20_u32), 1..200),
            start in prop_oneof![Just(0), Just(u32::MAX - 5), any::<u32>()],
        ) {
            let (mut producer, mut consumer) = pair(8, start);
            let (mut oracle, mut next) = (VecDeque::new(), 0_u64);
            for (puts, n) in steps {
                if puts {
                    let n = n.min(producer.free());
                    for i in 0..n {
                        producer.put(i, next);
                        oracle.push_back(next);
                        next += 1;
                    }
                    producer.show(n);
                } else {
                    let n = n.min(consumer.available());
                    for i in 0..n {
                        prop_assert_eq!(Some(consumer.get(i)), oracle.pop_front());
                    }
                    consumer.release(n);
                }
                prop_assert_eq!(producer.untaken() as usize, oracle.len());
                prop_assert_eq!(consumer.available() as usize, oracle.len());
            }
        }
    }

    #[test]
    fn a_lying_peer_cannot_show_more_than_the_ring_holds() {
        let (producer, consumer) = pair(8, 0);
        producer.ring.producer().store(1000, Relaxed);
        assert_eq!(consumer.available(), 8);
        producer.ring.consumer().store(1000, Relaxed);
        assert_eq!(producer.untaken(), 8);
    }
}
