//! Storage for rings, in sizes that are powers of two, within one budget for the whole engine.

/// The smallest piece of storage. A short request fits, and 100,000 of them are 25 MB.
const SMALLEST_SHIFT: u32 = 8;
const SMALLEST: usize = 1 << SMALLEST_SHIFT;
const CLASSES: usize = 23;
/// Free pieces of the smallest size that are kept for the next rings; of each larger size half as many, but two.
const KEPT_MAX: usize = 1024;
const KEPT_MIN: usize = 2;

/// Hands out zeroed or used storage; the last piece given back is the next handed out, as it is still in the cache.
pub(crate) struct Pool {
    free: [Vec<Box<[u8]>>; CLASSES],
    bytes_in_use: usize,
    bytes_max: usize,
}

impl Pool {
    pub(crate) fn new(bytes_max: usize) -> Pool {
        Pool { free: Default::default(), bytes_in_use: 0, bytes_max }
    }

    /// Storage of at least `bytes`, or `None` if that would exceed the budget or the largest size.
    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) -> Option<Box<[u8]>> {
        if bytes <= SMALLEST
            && self.bytes_in_use + SMALLEST <= self.bytes_max
            && let Some(storage) = self.free[0].pop()
        {
            self.bytes_in_use += SMALLEST;
            return Some(storage);
        }
        self.take_any(bytes)
    }

    #[inline(never)]
    fn take_any(&mut self, bytes: usize) -> Option<Box<[u8]>> {
        let class = class_of(bytes)?;
        let size = 1 << (class as u32 + SMALLEST_SHIFT);
        if self.bytes_in_use + size > self.bytes_max {
            return None;
        }
        self.bytes_in_use += size;
        Some(self.free[class].pop().unwrap_or_else(|| vec![0; size].into_boxed_slice()))
    }

    #[inline]
    pub(crate) fn give_back(&mut self, storage: Box<[u8]>) {
        if storage.len() == SMALLEST && self.free[0].len() < KEPT_MAX {
            self.bytes_in_use -= SMALLEST;
            return self.free[0].push(storage);
        }
        self.give_back_any(storage);
    }

    #[inline(never)]
    fn give_back_any(&mut self, storage: Box<[u8]>) {
        let Some(class) = class_of(storage.len()).filter(|_| !storage.is_empty()) else { return };
        self.bytes_in_use -= storage.len();
        if self.free[class].len() < (KEPT_MAX >> class).max(KEPT_MIN) {
            self.free[class].push(storage);
        }
    }

    /// What all rings hold.
    pub(crate) fn bytes_in_use(&self) -> usize {
        self.bytes_in_use
    }

    /// More than three quarters of the budget are in use: rings grow no more, and gaps are not kept.
    pub(crate) fn is_under_pressure(&self) -> bool {
        self.bytes_in_use / 3 >= self.bytes_max / 4
    }
}

fn class_of(bytes: usize) -> Option<usize> {
    let shift = bytes.checked_next_power_of_two()?.trailing_zeros().max(SMALLEST_SHIFT);
    let class = (shift - SMALLEST_SHIFT) as usize;
    (class < CLASSES).then_some(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_holds_and_storage_comes_back() {
        let mut pool = Pool::new(3 * SMALLEST);
        let first = pool.take(1).unwrap();
        let second = pool.take(SMALLEST + 1).unwrap();
        assert_eq!((first.len(), second.len()), (SMALLEST, 2 * SMALLEST));
        assert!(pool.take(1).is_none() && pool.is_under_pressure());
        pool.give_back(second);
        assert_eq!(pool.bytes_in_use(), SMALLEST);
        assert!(pool.take(2 * SMALLEST).is_some());
        assert!(pool.take(usize::MAX).is_none());
    }

    #[test]
    fn an_empty_piece_is_nobodys() {
        let mut pool = Pool::new(4096);
        pool.give_back(Box::default());
        assert_eq!(pool.bytes_in_use(), 0);
    }
}
