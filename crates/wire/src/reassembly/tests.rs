use super::*;
use core::net::Ipv4Addr;
use proptest::prelude::*;

const LIMITS: Limits = Limits { datagrams: 3, bytes: 10_000, fragments: 8, ..Limits::IPV4 };

fn key(source: u8) -> Key {
    let addresses = [source, 99].map(|last| IpAddress::V4(Ipv4Addr::new(10, 0, 0, last)));
    Key { source: addresses[0], destination: addresses[1], protocol: Protocol::UDP }
}

fn part(identification: u32, offset: usize, more: bool, payload: &[u8]) -> Part<'_> {
    let fragment = Fragment { identification, offset: offset as u16, more };
    Part { key: key(1), fragment, protocol: Protocol::UDP, ecn: Ecn::NotEct, payload }
}

/// What comes out, without its borrow.
fn push(reassembler: &mut Reassembler, part: &Part) -> Result<Option<Vec<u8>>, Error> {
    reassembler.push(0, part).map(|d| d.map(|d| d.payload.to_vec()))
}

fn data(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + n / 256) as u8).collect()
}

#[test]
fn any_order_gives_the_datagram() {
    let data = data(2000);
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut reassembler = Reassembler::new(LIMITS);
        let results = order.map(|n| {
            let (from, to) = (n * 800, (n * 800 + 800).min(2000));
            push(&mut reassembler, &part(1, from, n < 2, &data[from..to]))
        });
        assert_eq!(results, [Ok(None), Ok(None), Ok(Some(data.clone()))], "{order:?}");
        assert_eq!((reassembler.bytes(), reassembler.datagrams()), (0, 0));
    }
}

#[test]
fn the_first_fragment_says_what_the_datagram_is() {
    let mut reassembler = Reassembler::new(Limits::IPV6);
    let key = Key { protocol: Protocol::FRAGMENT, ..key(1) };
    reassembler.push(0, &Part { key, protocol: Protocol::ICMPV6, ..part(1, 8, false, b"tail") }).unwrap();
    let first = Part { key, protocol: Protocol::TCP, ..part(1, 0, true, b"01234567") };
    let datagram = reassembler.push(0, &first).unwrap().unwrap();
    assert_eq!((datagram.protocol, datagram.payload), (Protocol::TCP, &b"01234567tail"[..]));
}

#[test]
fn datagrams_are_told_apart() {
    let mut reassembler = Reassembler::new(LIMITS);
    let other = Part { key: key(2), ..part(1, 8, false, b"other") };
    for part in [part(1, 0, true, b"01234567"), part(2, 8, false, b"second"), other] {
        assert_eq!(push(&mut reassembler, &part), Ok(None));
    }
    assert_eq!(reassembler.datagrams(), 3);
    assert_eq!(push(&mut reassembler, &part(1, 8, false, b"one")), Ok(Some(b"01234567one".to_vec())));
}

#[test]
fn a_duplicate_changes_nothing() {
    let mut reassembler = Reassembler::new(LIMITS);
    let (first, last) = (part(1, 0, true, b"01234567"), part(1, 16, false, b"end"));
    for part in [first, last] {
        assert_eq!(push(&mut reassembler, &part), Ok(None));
        assert_eq!(push(&mut reassembler, &part), Err(Error::FragmentDuplicate));
    }
    assert_eq!(push(&mut reassembler, &part(1, 8, true, b"89abcdef")), Ok(Some(b"0123456789abcdefend".to_vec())));
}

#[test]
fn an_overlap_gives_the_datagram_up_for_good() {
    let overlapping = [
        part(1, 0, true, b"0123456X"),         // the same place, other bytes
        part(1, 0, false, b"01234567"),        // the same place, but the last
        part(1, 8, true, b"89abcdef89abcdef"), // into the next one
        part(1, 16, true, b"01234567"),        // behind the end
        part(1, 24, false, b"end"),            // another end
    ];
    for bad in overlapping {
        let mut reassembler = Reassembler::new(LIMITS);
        assert_eq!(push(&mut reassembler, &part(1, 0, true, b"01234567")), Ok(None));
        assert_eq!(push(&mut reassembler, &part(1, 16, false, b"end")), Ok(None));
        assert_eq!(push(&mut reassembler, &bad), Err(Error::FragmentOverlap), "{bad:?}");
        assert_eq!((reassembler.bytes(), reassembler.datagrams()), (0, 1));
        assert_eq!(push(&mut reassembler, &part(1, 8, true, b"89abcdef")), Err(Error::FragmentOverlap));
        let expired = reassembler.expire(LIMITS.timeout_us).unwrap();
        assert_eq!((expired.identification, expired.first), (1, None));
    }
    let mut reassembler = Reassembler::new(LIMITS);
    assert_eq!(push(&mut reassembler, &part(1, 16, true, b"01234567")), Ok(None));
    assert_eq!(push(&mut reassembler, &part(1, 8, false, b"end")), Err(Error::FragmentOverlap));
}

#[test]
fn impossible_lengths_are_refused_by_name() {
    let mut reassembler = Reassembler::new(LIMITS);
    assert_eq!(push(&mut reassembler, &part(1, 8, true, b"")), Err(Error::FragmentLength));
    assert_eq!(push(&mut reassembler, &part(1, 8, true, b"1234567")), Err(Error::FragmentLength));
    assert_eq!(push(&mut reassembler, &part(1, 65_512, false, b"1234")), Err(Error::FragmentTooLong));
    assert_eq!(reassembler.datagrams(), 0);
    assert_eq!(push(&mut reassembler, &part(1, 65_512, false, b"123")), Ok(None));
}

#[test]
fn every_bound_is_refused_by_name() {
    let mut reassembler = Reassembler::new(LIMITS);
    for n in 0..8 {
        assert_eq!(push(&mut reassembler, &part(1, 16 * n, true, b"01234567")), Ok(None));
    }
    assert_eq!(push(&mut reassembler, &part(1, 16 * 8, true, b"01234567")), Err(Error::FragmentsTooMany));
    assert_eq!(reassembler.bytes(), 0);
    let data = data(9992);
    assert_eq!(push(&mut reassembler, &part(2, 0, true, &data)), Ok(None));
    assert_eq!(push(&mut reassembler, &part(3, 0, true, b"0123456789abcdef")), Err(Error::ReassemblyBytes));
    assert_eq!(push(&mut reassembler, &part(3, 0, true, b"01234567")), Ok(None));
    assert_eq!(push(&mut reassembler, &part(2, 9992, false, b"x")), Err(Error::ReassemblyBytes));
    assert!(reassembler.expire(LIMITS.timeout_us).is_some());
    let mut full = Reassembler::new(LIMITS);
    (0..3).for_each(|n| assert_eq!(push(&mut full, &part(n, 0, true, b"01234567")), Ok(None)));
    assert_eq!(push(&mut full, &part(9, 0, true, b"01234567")), Err(Error::ReassemblyDatagrams));
}

#[test]
fn time_passes_by_argument() {
    let mut reassembler = Reassembler::new(LIMITS);
    reassembler.push(1000, &part(1, 0, true, b"01234567")).unwrap();
    reassembler.push(2000, &part(2, 8, true, b"01234567")).unwrap();
    assert_eq!(reassembler.next_deadline_us(), Some(1000 + LIMITS.timeout_us));
    assert_eq!(reassembler.expire(999 + LIMITS.timeout_us), None);
    let expired = reassembler.expire(1000 + LIMITS.timeout_us).unwrap();
    assert_eq!((expired.identification, expired.first), (1, Some(&b"01234567"[..])));
    assert_eq!(reassembler.expire(1000 + LIMITS.timeout_us), None);
    let expired = reassembler.expire(u64::MAX).unwrap();
    assert_eq!((expired.identification, expired.first), (2, None));
    assert_eq!((reassembler.next_deadline_us(), reassembler.bytes()), (None, 0));
}

#[test]
fn congestion_marks_are_merged() {
    let merged = |ecns: [Ecn; 2]| {
        let mut reassembler = Reassembler::new(LIMITS);
        reassembler.push(0, &Part { ecn: ecns[0], ..part(1, 0, true, b"01234567") }).unwrap();
        let last = Part { ecn: ecns[1], ..part(1, 8, false, b"x") };
        reassembler.push(0, &last).map(|d| d.unwrap().ecn)
    };
    assert_eq!(merged([Ecn::NotEct, Ecn::NotEct]), Ok(Ecn::NotEct));
    assert_eq!(merged([Ecn::Ect0, Ecn::Ce]), Ok(Ecn::Ce));
    assert_eq!(merged([Ecn::Ect1, Ecn::Ect1]), Ok(Ecn::Ect1));
    assert_eq!(merged([Ecn::NotEct, Ecn::Ce]), Err(Error::FragmentEcn));
    assert_eq!(merged([Ecn::Ect0, Ecn::NotEct]), Err(Error::FragmentEcn));
}

#[test]
fn packets_of_both_versions_are_taken() {
    let mut bytes = vec![0; 28];
    let repr = ipv4::Repr {
        identification: 7,
        fragment_offset: 16,
        ..ipv4::Repr::new(Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST, Protocol::UDP, 8)
    };
    repr.emit(&mut bytes).unwrap();
    let packet = ipv4::Packet::new_checked(&bytes).unwrap();
    let taken = Part::v4(&packet).unwrap();
    assert_eq!(taken.fragment, Fragment { identification: 7, offset: 16, more: false });
    assert_eq!((taken.key.protocol, taken.payload.len()), (Protocol::UDP, 8));
    let whole = ipv4::Repr { fragment_offset: 0, ..repr };
    whole.emit(&mut bytes).unwrap();
    assert!(Part::v4(&ipv4::Packet::new_checked(&bytes).unwrap()).is_none());

    let address = core::net::Ipv6Addr::LOCALHOST;
    let mut bytes = vec![0; 56];
    let payload = ipv6::Repr::new(address, address, Protocol::FRAGMENT, 16).emit(&mut bytes).unwrap();
    let fragment = Fragment { identification: 1 << 20, offset: 8, more: true };
    ipv6::extensions::emit_fragment(fragment, Protocol::TCP, payload).unwrap();
    let packet = ipv6::Packet::new_checked(&bytes).unwrap();
    let upper = packet.upper().unwrap();
    let taken = Part::v6(&packet, &upper).unwrap();
    assert_eq!((taken.fragment, taken.key.protocol, taken.protocol), (fragment, Protocol::FRAGMENT, Protocol::TCP));
}

proptest! {
    #[test]
    fn shuffled_and_doubled_fragments_give_the_datagram(
        len in 1usize..3000, cuts in prop::collection::btree_set(1usize..375, 0..7), seed: u64,
    ) {
        let data = data(len);
        let mut ends: Vec<usize> = cuts.iter().map(|c| 8 * c).filter(|c| *c < len).collect();
        ends.push(len);
        let starts: Vec<usize> = std::iter::once(0).chain(ends.iter().copied()).take(ends.len()).collect();
        let mut parts: Vec<Part> =
            starts.iter().zip(&ends).map(|(from, to)| part(1, *from, *to < len, &data[*from..*to])).collect();
        parts.extend(parts.clone());
        let mut random = seed | 1;
        for n in (1..parts.len()).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            parts.swap(n, (random >> 33) as usize % (n + 1));
        }
        let mut reassembler = Reassembler::new(LIMITS);
        let mut distinct = std::collections::BTreeSet::new();
        for (n, part) in parts.iter().enumerate() {
            let is_new = distinct.insert(part.fragment.offset);
            let result = push(&mut reassembler, part);
            if distinct.len() == ends.len() && is_new {
                prop_assert_eq!(result, Ok(Some(data)));
                prop_assert_eq!((reassembler.bytes(), reassembler.datagrams()), (0, 0));
                return Ok(());
            }
            prop_assert_eq!(result, if is_new { Ok(None) } else { Err(Error::FragmentDuplicate) }, "{}", n);
        }
        prop_assert!(false, "never complete");
    }
}
