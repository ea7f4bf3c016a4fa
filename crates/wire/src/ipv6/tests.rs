use super::*;
use proptest::prelude::*;

fn packet() -> Vec<u8> {
    let mut bytes = vec![0x60, 0x30, 0x00, 0x07, 0, 3, 6, 64];
    bytes.extend(Ipv6Addr::LOCALHOST.octets());
    bytes.extend("2001:db8::7".parse::<Ipv6Addr>().unwrap().octets());
    bytes.extend([1, 2, 3, 0]);
    bytes
}

#[test]
fn a_header_is_read() {
    let bytes = packet();
    let packet = Packet::new_checked(&bytes).unwrap();
    assert_eq!((packet.traffic_class(), packet.ecn(), packet.flow_label()), (3, Ecn::Ce, 7));
    assert_eq!((packet.next_header(), packet.hop_limit()), (Protocol::TCP, 64));
    assert_eq!((packet.source(), packet.payload()), (Ipv6Addr::LOCALHOST, &[1, 2, 3][..]));
    assert_eq!(packet.destination().to_string(), "2001:db8::7");
}

#[test]
fn impossible_lengths_are_refused_by_name() {
    let bytes = packet();
    assert_eq!(Packet::new_checked(&bytes[..39]).unwrap_err(), Error::Ipv6Truncated);
    assert_eq!(Packet::new_checked(&bytes[..42]).unwrap_err(), Error::Ipv6PayloadLength);
    let mut version = bytes.clone();
    version[0] = 0x40;
    assert_eq!(Packet::new_checked(&version).unwrap_err(), Error::Ipv6Version);
}

#[test]
fn what_does_not_fit_is_not_written() {
    let repr = Repr::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, Protocol::TCP, 10);
    assert_eq!(repr.emit(&mut [0; 39]).unwrap_err(), Error::BufferTooShort);
    assert_eq!(repr.emit(&mut [0; 49]).unwrap_err(), Error::BufferTooShort);
    let long = Repr { payload_len: PAYLOAD_LEN_MAX + 1, ..repr };
    assert_eq!(long.emit(&mut vec![0; 70_000]).unwrap_err(), Error::PayloadTooLong);
}

pub(crate) fn any_repr() -> impl Strategy<Value = Repr> {
    let addresses = (any::<Ipv6Addr>(), any::<Ipv6Addr>());
    let rest = (any::<u8>(), any::<u8>(), any::<u8>(), 0u32..1 << 20, 0usize..100);
    (addresses, rest).prop_map(
        |((source, destination), (next_header, hop_limit, traffic_class, flow_label, payload_len))| {
            let next_header = Protocol(next_header);
            Repr { source, destination, next_header, hop_limit, traffic_class, flow_label, payload_len }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(repr in any_repr(), spare in 0usize..10) {
        let mut bytes = vec![0; HEADER_LEN + repr.payload_len + spare];
        repr.emit(&mut bytes).unwrap();
        let packet = Packet::new_checked(&bytes).unwrap();
        prop_assert_eq!(Repr::parse(&packet), repr);
    }
}
