//! A bit for each record of a ring, searched 64 at a time: where the next segment with some property is.

/// Bits at the positions of a ring whose capacity is a power of two.
///
/// Records are named by a number that only grows (and wraps); a number's position is its low bits.
#[derive(Clone, Debug)]
pub struct BitRing(Words);

#[derive(Clone, Debug)]
enum Words {
    /// Of up to 64 positions, which most stay for ever: no storage elsewhere.
    One(u64),
    /// Of more.
    Many(Box<Many>),
}

#[derive(Clone, Debug)]
struct Many {
    words: Box<[u64]>,
}

impl Default for BitRing {
    fn default() -> BitRing {
        BitRing(Words::One(0))
    }
}

impl BitRing {
    /// All bits clear. `capacity` is a power of two.
    pub fn new(capacity: u32) -> BitRing {
        debug_assert!(capacity.is_power_of_two());
        match capacity / 64 {
            0 | 1 => BitRing::default(),
            words => BitRing(Words::Many(Box::new(Many { words: vec![0; words as usize].into_boxed_slice() }))),
        }
    }

    #[inline]
    pub fn set(&mut self, number: u32) {
        *self.word_mut(number) |= bit(number);
    }

    #[inline]
    pub fn clear(&mut self, number: u32) {
        *self.word_mut(number) &= !bit(number);
    }

    #[inline]
    pub fn get(&self, number: u32) -> bool {
        self.word(number) & bit(number) != 0
    }

    pub fn clear_all(&mut self) {
        match &mut self.0 {
            Words::One(word) => *word = 0,
            Words::Many(many) => many.words.fill(0),
        }
    }

    /// Octets of memory held beside the ring itself.
    pub fn memory_bytes(&self) -> usize {
        match &self.0 {
            Words::One(_) => 0,
            Words::Many(many) => size_of::<Many>() + size_of_val(&*many.words),
        }
    }

    /// The first number with a set bit among `count` numbers from `from` on. Looks at each word at most twice.
    pub fn first_set(&self, from: u32, count: u32) -> Option<u32> {
        let mut done = 0;
        while done < count {
            let number = from.wrapping_add(done);
            let skip = number % 64;
            let found = self.word(number) & !(bit(number) - 1);
            if found != 0 {
                let at = done + (found.trailing_zeros() - skip);
                return (at < count).then(|| from.wrapping_add(at));
            }
            done += 64 - skip;
        }
        None
    }

    #[inline]
    fn word(&self, number: u32) -> u64 {
        match &self.0 {
            Words::One(word) => *word,
            Words::Many(many) => many.words[many.index(number)],
        }
    }

    #[inline]
    fn word_mut(&mut self, number: u32) -> &mut u64 {
        match &mut self.0 {
            Words::One(word) => word,
            Words::Many(many) => {
                let index = many.index(number);
                &mut many.words[index]
            }
        }
    }
}

impl Many {
    #[inline]
    fn index(&self, number: u32) -> usize {
        (number / 64) as usize & (self.words.len() - 1)
    }
}

#[inline]
fn bit(number: u32) -> u64 {
    1 << (number % 64)
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
            capacity in prop_oneof![Just(256u32), Just(64), Just(4)],
        ) {
            let set: Vec<u32> = set.into_iter().map(|n| n % capacity).collect();
            let skip = skip % capacity;
            let count = count.min(capacity - skip);
            let mut ring = BitRing::new(capacity);
            set.iter().for_each(|n| ring.set(start.wrapping_add(*n)));
            let plain = (skip..skip + count).find(|n| set.contains(n)).map(|n| start.wrapping_add(n));
            prop_assert_eq!(ring.first_set(start.wrapping_add(skip), count), plain);
            for n in 0..capacity {
                prop_assert_eq!(ring.get(start.wrapping_add(n)), set.contains(&n));
            }
        }
    }
}
