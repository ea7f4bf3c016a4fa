use super::*;
use proptest::prelude::*;

const PACKET: [u8; 24] = [
    0x45, 0x02, 0, 22, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, //
    0xaa, 0xbb, 0, 0, // two bytes of payload, two of padding
];

fn with_checksum(mut packet: Vec<u8>) -> Vec<u8> {
    let header_len = usize::from(packet[0] & 0xf) * 4;
    packet[10..12].fill(0);
    let checksum = Sum::of(&packet[..header_len]).checksum();
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet
}

fn with_options(options: &[u8]) -> Vec<u8> {
    let mut bytes = PACKET[..20].to_vec();
    bytes.extend(options);
    bytes[0] = 0x40 | (bytes.len() / 4) as u8;
    bytes[3] = bytes.len() as u8;
    with_checksum(bytes)
}

#[test]
fn padding_is_not_payload() {
    let bytes = with_checksum(PACKET.to_vec());
    let packet = Packet::new_checked(&bytes).unwrap();
    assert_eq!((packet.payload(), packet.total_len()), (&[0xaa, 0xbb][..], 22));
    assert_eq!((packet.ecn(), packet.identification(), packet.is_fragment()), (Ecn::Ect0, 0x1234, false));
    let repr = Repr::parse(&packet, Verify::Compute).unwrap();
    let mut again = [0; 22];
    repr.emit(&mut again).unwrap().copy_from_slice(packet.payload());
    assert_eq!(again, bytes[..22]);
}

#[test]
fn impossible_lengths_are_refused_by_name() {
    let refused = |change: &[(usize, u8)], len: usize| {
        let mut bytes = PACKET;
        change.iter().for_each(|(at, value)| bytes[*at] = *value);
        Packet::new_checked(&bytes[..len]).unwrap_err()
    };
    assert_eq!(refused(&[], 19), Error::Ipv4Truncated);
    assert_eq!(refused(&[(0, 0x65)], 24), Error::Ipv4Version);
    assert_eq!(refused(&[(0, 0x44)], 24), Error::Ipv4HeaderLength);
    assert_eq!(refused(&[(0, 0x46)], 24), Error::Ipv4TotalLength);
    assert_eq!(refused(&[(3, 19)], 24), Error::Ipv4TotalLength);
    assert_eq!(refused(&[(3, 25)], 24), Error::Ipv4TotalLength);
    assert_eq!(refused(&[], 21), Error::Ipv4TotalLength);
}

#[test]
fn a_wrong_checksum_is_refused_unless_trusted() {
    let mut bytes = with_checksum(PACKET.to_vec());
    bytes[8] = 63;
    let packet = Packet::new_checked(&bytes).unwrap();
    assert_eq!(Repr::parse(&packet, Verify::Compute), Err(Error::Ipv4Checksum));
    assert_eq!(Repr::parse(&packet, Verify::Trust).unwrap().ttl, 63);
}

#[test]
fn options_are_judged() {
    let judge = |options: &[u8]| {
        let bytes = with_options(options);
        Repr::parse(&Packet::new_checked(&bytes).unwrap(), Verify::Compute).map(|r| r.payload_len)
    };
    assert_eq!(judge(&[7, 7, 4, 0, 0, 0, 0, 0]), Ok(0));
    assert_eq!(judge(&[1, 148, 4, 0, 0, 0, 131, 7]), Ok(0));
    assert_eq!(judge(&[1, 131, 7, 4, 10, 0, 0, 9]), Err(Error::Ipv4SourceRoute));
    assert_eq!(judge(&[137, 3, 4, 0]), Err(Error::Ipv4SourceRoute));
    assert_eq!(judge(&[7, 1, 0, 0]), Err(Error::Ipv4Option));
    assert_eq!(judge(&[7, 5, 0, 0]), Err(Error::Ipv4Option));
    assert_eq!(judge(&[1, 1, 1, 7]), Err(Error::Ipv4Option));
}

#[test]
fn options_are_listed_by_kind() {
    let found: Vec<_> = options::iter(&[1, 68, 3, 9, 200, 2, 148, 4, 0, 0, 7]).collect();
    let expected = [
        Ok((options::Kind::Timestamp, &[9][..])),
        Ok((options::Kind::Unknown(200), &[])),
        Ok((options::Kind::RouterAlert, &[0, 0])),
        Err(Error::Ipv4Option),
    ];
    assert_eq!(found, expected);
}

#[test]
fn what_does_not_fit_is_not_written() {
    let repr = Repr::new(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, Protocol::TCP, 10);
    assert_eq!(repr.emit(&mut [0; 19]).unwrap_err(), Error::BufferTooShort);
    assert_eq!(repr.emit(&mut [0; 29]).unwrap_err(), Error::BufferTooShort);
    assert_eq!(repr.emit(&mut [0; 40]).unwrap().len(), 10);
    let long = Repr { payload_len: PAYLOAD_LEN_MAX + 1, ..repr };
    assert_eq!(long.emit(&mut vec![0; 70_000]).unwrap_err(), Error::PayloadTooLong);
}

pub(crate) fn any_repr() -> impl Strategy<Value = Repr> {
    let addresses = (any::<Ipv4Addr>(), any::<Ipv4Addr>());
    let rest = (any::<u8>(), any::<u8>(), any::<u8>(), any::<u16>(), any::<[bool; 2]>(), 0u16..0x2000, 0usize..100);
    (addresses, rest).prop_map(
        |((source, destination), (protocol, ttl, traffic_class, identification, [df, mf], offset, len))| Repr {
            source,
            destination,
            protocol: Protocol(protocol),
            ttl,
            traffic_class,
            identification,
            dont_fragment: df,
            more_fragments: mf,
            fragment_offset: offset * 8,
            payload_len: len,
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(repr in any_repr(), spare in 0usize..10) {
        let mut bytes = vec![0; HEADER_LEN + repr.payload_len + spare];
        repr.emit(&mut bytes).unwrap();
        let packet = Packet::new_checked(&bytes).unwrap();
        prop_assert_eq!(Repr::parse(&packet, Verify::Compute), Ok(repr));
    }
}
