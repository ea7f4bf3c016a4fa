//! The integer cube root, exactly.

/// The largest number whose cube is at most `value`. One step for each of its 22 bits.
pub fn cube_root(value: u64) -> u32 {
    // With the bits of the root found so far in `root`, the next bit `b` fits if (2 root + 1)^3 at that place does.
    let (mut rest, mut root) = (value, 0u64);
    for shift in (0..=63).rev().step_by(3) {
        root *= 2;
        // (root + 1)^3 - root^3
        let step = 3 * root * (root + 1) + 1;
        if rest >> shift >= step {
            rest -= step << shift;
            root += 1;
        }
    }
    root as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_ends() {
        assert_eq!((cube_root(0), cube_root(1), cube_root(7), cube_root(8)), (0, 1, 1, 2));
        assert_eq!(cube_root(u64::MAX), 2_642_245);
    }

    proptest! {
        #[test]
        fn is_the_largest_that_fits(value in prop_oneof![any::<u64>(), 0u64..100_000]) {
            let root = u128::from(cube_root(value));
            prop_assert!(root.pow(3) <= u128::from(value) && (root + 1).pow(3) > u128::from(value));
        }
    }
}
