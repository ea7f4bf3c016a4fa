//! A ring of bytes that begins without storage, grows by doubling, and gives it back when it is empty.

use super::Pool;

/// Bytes by their distance from the oldest. The first [`Ring::len`] are there; beyond, a receiver may place what
/// came early, and [`Ring::extend`] makes it part of the rest once the gap is filled.
#[derive(Default)]
pub(crate) struct Ring {
    storage: Box<[u8]>,
    start: usize,
    len: usize,
}

impl Ring {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn capacity(&self) -> usize {
        self.storage.len()
    }

    /// Makes room for `bytes` in all; `false` if the pool has none left.
    #[inline]
    pub(crate) fn reserve(&mut self, bytes: usize, pool: &mut Pool) -> bool {
        bytes <= self.capacity() || self.grow(bytes, pool)
    }

    fn grow(&mut self, bytes: usize, pool: &mut Pool) -> bool {
        if self.capacity() == 0 {
            let Some(storage) = pool.take(bytes) else { return false };
            (self.storage, self.start) = (storage, 0);
            return true;
        }
        let Some(mut larger) = pool.take(bytes) else { return false };
        let kept = self.storage.len();
        let (front, back) = self.storage.split_at(self.start);
        larger[..back.len()].copy_from_slice(back);
        larger[back.len()..kept].copy_from_slice(front);
        pool.give_back(core::mem::replace(&mut self.storage, larger));
        self.start = 0;
        true
    }

    /// Writes `bytes` at `offset`; there must be room.
    #[inline]
    pub(crate) fn write_at(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.capacity(), "ring of {} bytes", self.capacity());
        if bytes.is_empty() {
            return;
        }
        let at = self.position(offset);
        let (first, rest) = bytes.split_at(bytes.len().min(self.capacity() - at));
        self.storage[at..at + first.len()].copy_from_slice(first);
        if !rest.is_empty() {
            self.storage[..rest.len()].copy_from_slice(rest);
        }
    }

    /// The next `bytes` beyond [`Ring::len`], written before, are there.
    pub(crate) fn extend(&mut self, bytes: usize) {
        self.len += bytes;
        assert!(self.len <= self.capacity(), "ring of {} bytes", self.capacity());
    }

    /// Appends `bytes`; there must be room.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.write_at(self.len, bytes);
        self.len += bytes.len();
    }

    /// The bytes from `offset` on, in up to two pieces; both end at [`Ring::len`] or after `max` bytes.
    #[inline]
    pub(crate) fn pieces(&self, offset: usize, max: usize) -> (&[u8], &[u8]) {
        let bytes = max.min(self.len.saturating_sub(offset));
        if bytes == 0 {
            return (&[], &[]);
        }
        let at = self.position(offset);
        let first = bytes.min(self.capacity() - at);
        (&self.storage[at..at + first], &self.storage[..bytes - first])
    }

    /// Copies from `offset` on as much as is there and fits; returns how much.
    pub(crate) fn copy_to(&self, offset: usize, out: &mut [u8]) -> usize {
        let (first, second) = self.pieces(offset, out.len());
        out[..first.len()].copy_from_slice(first);
        if !second.is_empty() {
            out[first.len()..first.len() + second.len()].copy_from_slice(second);
        }
        first.len() + second.len()
    }

    /// Drops the oldest `bytes`.
    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.len, "{bytes} bytes of {}", self.len);
        self.len -= bytes;
        self.start = if self.capacity() == 0 { 0 } else { self.position(bytes) };
    }

    /// Gives the storage back; what was in it is gone.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        if self.capacity() > 0 {
            pool.give_back(core::mem::take(&mut self.storage));
            (self.start, self.len) = (0, 0);
        }
    }

    fn position(&self, offset: usize) -> usize {
        (self.start + offset) & (self.storage.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn early_bytes_join_once_the_gap_is_filled() {
        let mut pool = Pool::new(1 << 20);
        let mut ring = Ring::default();
        assert!(ring.reserve(10, &mut pool));
        ring.write_at(3, b"def");
        assert_eq!(ring.len(), 0);
        ring.push(b"abc");
        ring.extend(3);
        let mut out = [0; 8];
        assert_eq!(ring.copy_to(1, &mut out), 5);
        assert_eq!(&out[..5], b"bcdef");
    }

    proptest! {
        #[test]
        fn a_ring_is_a_queue(steps in proptest::collection::vec((0usize..6000, 0usize..6000), 0..60)) {
            let mut pool = Pool::new(1 << 24);
            let (mut ring, mut oracle, mut next) = (Ring::default(), VecDeque::new(), 0u8);
            for (push, pop) in steps {
                let bytes: Vec<u8> = (0..push).map(|_| { next = next.wrapping_add(7); next }).collect();
                prop_assert!(ring.reserve(ring.len() + push, &mut pool));
                ring.push(&bytes);
                oracle.extend(&bytes);
                let mut out = vec![0; pop];
                let copied = ring.copy_to(0, &mut out);
                ring.consume(copied);
                let expected: Vec<u8> = oracle.drain(..pop.min(oracle.len())).collect();
                prop_assert_eq!(&out[..copied], &expected[..]);
                prop_assert_eq!(ring.len(), oracle.len());
                if ring.len() == 0 {
                    ring.release(&mut pool);
                    prop_assert_eq!(pool.bytes_in_use(), 0);
                }
            }
        }
    }
}
