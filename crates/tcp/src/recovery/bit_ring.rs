//! A bit for each record of a ring, searched 64 at a time: where the next segment with some property is.

/// Bits at the positions of a ring whose capacity is a power of two.
///
/// Records are named by a number that only grows (and wraps); a number's position is its low bits.
#[derive(Clone, Debug, Default)]
pub struct BitRing {
    words: Box<[u64]>,
}

impl BitRing {
    /// All bits clear. `capacity` is a power of two.
    pub fn new(capacity: u32) -> BitRing {
        debug_assert!(capacity.is_power_of_two());
        BitRing { words: vec![0; capacity.div_ceil(64) as usize].into_boxed_slice() }
    }

    pub fn set(&mut self, number: u32) {
        let (word, bit) = self.place(number);
        self.words[word] |= bit;
    }

    pub fn clear(&mut self, number: u32) {
        let (word, bit) = self.place(number);
        self.words[word] &= !bit;
    }

    pub fn get(&self, number: u32) -> bool {
        let (word, bit) = self.place(number);
        self.words[word] & bit != 0
    }

    pub fn clear_all(&mut self) {
        self.words.fill(0);
    }

    /// The first number with a set bit among `count` numbers from `from` on. Looks at each word at most twice.
    pub fn first_set(&self, from: u32, count: u32) -> Option<u32> {
        let mut done = 0;
        while done < count {
            let number = from.wrapping_add(done);
            let (word, bit) = self.place(number);
            let found = self.words[word] & !(bit - 1);
            let skip = bit.trailing_zeros();
            if found != 0 {
                let at = done + (found.trailing_zeros() - skip);
                return (at < count).then(|| from.wrapping_add(at));
            }
            done += 64 - skip;
        }
        None
    }

    fn place(&self, number: u32) -> (usize, u64) {
        let word = (number / 64) as usize & (self.words.len() - 1);
        (word, 1 << (number % 64))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn finds_what_a_plain_search_finds(
            start in prop_oneof![0u32..500, (u32::MAX - 500)..=u32::MAX],
            set in prop::collection::vec(0u32..256, 0..20),
            skip in 0u32..256,
            count in 0u32..256,
        ) {
            let count = count.min(256 - skip);
            let mut ring = BitRing::new(256);
            set.iter().for_each(|n| ring.set(start.wrapping_add(*n)));
            let plain = (skip..skip + count).find(|n| set.contains(n)).map(|n| start.wrapping_add(n));
            prop_assert_eq!(ring.first_set(start.wrapping_add(skip), count), plain);
            for n in 0..256 {
                prop_assert_eq!(ring.get(start.wrapping_add(n)), set.contains(&n));
            }
        }
    }
}
