//! The seed's numbers: SplitMix64, which is small, fast and good enough for dice.

/// A stream of numbers that follows from a seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A stream of its own for the part `number`, so that parts do not disturb each other.
    pub fn part(&self, number: u64) -> Random {
        Random(Random(self.0 ^ number.wrapping_mul(0xd134_2543_de82_ef95)).number())
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(bound)) >> 64) as u64
    }

    /// True once in `1 / probability` times.
    pub fn chance(&mut self, probability: f64) -> bool {
        // 53 bits, as many as the mantissa has.
        probability > 0.0 && (self.number() >> 11) as f64 / ((1u64 << 53) as f64) < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_parts_differ() {
        let draw = |mut random: Random| (0..5).map(|_| random.number()).collect::<Vec<_>>();
        assert_eq!(draw(Random::new(7)), draw(Random::new(7)));
        assert_ne!(draw(Random::new(7).part(1)), draw(Random::new(7).part(2)));
    }

    #[test]
    fn chances_come_true_as_often_as_they_should() {
        let mut random = Random::new(1);
        let hits = (0..100_000).filter(|_| random.chance(0.03)).count();
        assert!((2800..3200).contains(&hits), "{hits}");
        assert!(!random.chance(0.0) && random.chance(1.0));
        assert!((0..1000).all(|_| random.below(3) < 3));
    }
}
