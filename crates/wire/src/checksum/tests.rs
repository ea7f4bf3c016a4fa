use super::*;
use proptest::prelude::*;

/// RFC 1071, section 4.1, word by word.
fn by_the_book(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[test]
fn the_example_of_rfc_1071() {
    assert_eq!(Sum::of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]).checksum(), !0xddf2);
}

#[test]
fn an_ipv4_header_that_was_seen() {
    let header = [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
    assert!(Sum::of(&header).is_valid());
}

#[test]
fn ones_only_carry_to_the_end() {
    for len in [0, 1, 2, 7, 8, 31, 32, 33, 1500, 65_535, 65_536] {
        let bytes = vec![0xff; len];
        assert_eq!(Sum::of(&bytes).checksum(), by_the_book(&bytes), "{len} bytes");
    }
}

#[test]
fn beside_ipv6_an_ipv4_address_counts_as_mapped() {
    let (v4, v6) = ("10.0.0.1".parse().unwrap(), "fe80::1".parse().unwrap());
    let mapped = "::ffff:10.0.0.1".parse().unwrap();
    let sums = [v4, mapped].map(|source| Pseudo::new(source, v6, Protocol::TCP).sum(20).checksum());
    assert_eq!(sums[0], sums[1]);
}

proptest! {
    #[test]
    fn sums_agree_with_the_book(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        prop_assert_eq!(Sum::of(&bytes).checksum(), by_the_book(&bytes));
    }

    #[test]
    fn parts_add_up(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..100) {
        let cut = (2 * cut).min(bytes.len() & !1);
        let parts = Sum::of(&bytes[..cut]) + Sum::of(&bytes[cut..]);
        prop_assert_eq!(parts.checksum(), by_the_book(&bytes));
    }

    #[test]
    fn copying_sums_what_it_copies(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut copy = vec![0xee; bytes.len() + 3];
        prop_assert_eq!(Sum::copying(&mut copy, &bytes).checksum(), by_the_book(&bytes));
        prop_assert_eq!(&copy[..bytes.len()], &bytes[..]);
        prop_assert_eq!(&copy[bytes.len()..], [0xee; 3]);
    }

    #[test]
    fn a_checksum_makes_bytes_add_up(mut bytes in prop::collection::vec(any::<u8>(), 2..200)) {
        bytes[..2].fill(0);
        let checksum = Sum::of(&bytes).checksum();
        bytes[..2].copy_from_slice(&checksum.to_be_bytes());
        prop_assert!(Sum::of(&bytes).is_valid());
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        prop_assert!(!Sum::of(&bytes).is_valid());
    }

    #[test]
    fn updates_are_as_good_as_sums(words in prop::array::uniform16(1u16..), new: u16, new32: u32) {
        // Words that are not all zero: RFC 1624 tells the two zeros apart as a sum does.
        let sum = |words: &[u16; 16]| words.iter().fold(Sum::ZERO, |s, w| s + Sum::of_u16(*w)).checksum();
        let mut changed = words;
        changed[3] = new;
        prop_assert_eq!(update(sum(&words), words[3], new), sum(&changed));
        changed[4..6].copy_from_slice(&[(new32 >> 16) as u16, new32 as u16]);
        let old32 = u32::from(words[4]) << 16 | u32::from(words[5]);
        let both = update_u32(update(sum(&words), words[3], new), old32, new32);
        prop_assert_eq!(both, sum(&changed));
    }

    #[test]
    fn pseudo_headers_are_what_the_rfcs_draw(
        v4: ([u8; 4], [u8; 4]), v6: ([u8; 16], [u8; 16]), protocol: u8, len: u16,
    ) {
        let mut drawn = [&v4.0[..], &v4.1[..], &[0, protocol]].concat();
        drawn.extend(len.to_be_bytes());
        let pseudo = Pseudo::new(v4.0.into(), v4.1.into(), Protocol(protocol));
        prop_assert_eq!(pseudo.sum(len.into()).checksum(), by_the_book(&drawn));

        let mut drawn = [&v6.0[..], &v6.1[..]].concat();
        drawn.extend(u32::from(len).to_be_bytes());
        drawn.extend([0, 0, 0, protocol]);
        let pseudo = Pseudo::new(v6.0.into(), v6.1.into(), Protocol(protocol));
        prop_assert_eq!(pseudo.sum(len.into()).checksum(), by_the_book(&drawn));
    }
}
