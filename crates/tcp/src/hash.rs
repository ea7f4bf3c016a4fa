//! A keyed hash (SipHash-1-3): strangers choose addresses, so they must not choose buckets or guess numbers.

/// The secret half of every hash and number of an engine, drawn from its seed.
#[derive(Clone, Copy)]
pub(crate) struct Key(u64, u64);

impl Key {
    /// A key of its own for each `purpose` of one seed.
    pub(crate) fn new(seed: u64, purpose: u64) -> Key {
        let source = Key(seed, 0x0f0e_0d0c_0b0a_0908);
        Key(source.hash(&[purpose, 0]), source.hash(&[purpose, 1]))
    }

    /// SipHash-1-3 of 64-bit words (Aumasson and Bernstein 2012), their number included.
    #[inline]
    pub(crate) fn hash<const N: usize>(self, words: &[u64; N]) -> u64 {
        siphash::<1, 3>(self, words)
    }

    /// SipHash-2-4, under a key that is not ours to choose.
    pub(crate) fn hash_2_4(low: u64, high: u64, words: &[u64]) -> u64 {
        siphash::<2, 4>(Key(low, high), words)
    }
}

#[inline]
fn siphash<const ABSORBING: usize, const CLOSING: usize>(key: Key, words: &[u64]) -> u64 {
    let mut v = [
        key.0 ^ 0x736f_6d65_7073_6575,
        key.1 ^ 0x646f_7261_6e64_6f6d,
        key.0 ^ 0x6c79_6765_6e65_7261,
        key.1 ^ 0x7465_6462_7974_6573,
    ];
    for &word in words {
        absorb::<ABSORBING>(&mut v, word);
    }
    absorb::<ABSORBING>(&mut v, (words.len() as u64 * 8) << 56);
    v[2] ^= 0xff;
    (0..CLOSING).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

#[inline(always)]
fn absorb<const ROUNDS: usize>(v: &mut [u64; 4], word: u64) {
    v[3] ^= word;
    (0..ROUNDS).for_each(|_| round(v));
    v[0] ^= word;
}

#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::hash::Hasher;

    #[test]
    fn hashes_differ_by_key_purpose_and_word() {
        let key = Key::new(7, 1);
        assert_eq!(key.hash(&[1, 2]), Key::new(7, 1).hash(&[1, 2]));
        assert_ne!(key.hash(&[1, 2]), key.hash(&[2, 1]));
        assert_ne!(key.hash(&[0]), key.hash(&[0, 0]));
        assert_ne!(key.hash(&[1]), Key::new(7, 2).hash(&[1]));
        assert_ne!(key.hash(&[1]), Key::new(8, 1).hash(&[1]));
    }

    /// The standard library's default hasher is SipHash-1-3 under the key zero.
    #[test]
    fn it_is_siphash_1_3() {
        let mut oracle = std::collections::hash_map::DefaultHasher::new();
        oracle.write(&0x0123_4567_89ab_cdefu64.to_le_bytes());
        oracle.write(&42u64.to_le_bytes());
        assert_eq!(Key(0, 0).hash(&[0x0123_4567_89ab_cdef, 42]), oracle.finish());
    }
}
