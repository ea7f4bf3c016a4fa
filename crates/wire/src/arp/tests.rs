use super::*;
use proptest::prelude::*;

const REQUEST: [u8; 28] = [
    0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2, //
];

#[test]
fn a_request_is_read_and_written() {
    let repr = Repr::parse(&Packet::new_checked(&REQUEST).unwrap()).unwrap();
    assert_eq!((repr.operation, repr.target_ip), (Operation::Request, Ipv4Addr::new(10, 0, 0, 2)));
    let mut bytes = [0; 28];
    repr.emit(&mut bytes).unwrap();
    assert_eq!(bytes, REQUEST);
    assert_eq!(repr.emit(&mut [0; 27]), Err(Error::BufferTooShort));
}

#[test]
fn what_is_not_ours_is_refused_by_name() {
    let refused = |at: usize, value: u8| {
        let mut bytes = REQUEST;
        bytes[at] = value;
        Packet::new_checked(&bytes).and_then(|p| Repr::parse(&p)).unwrap_err()
    };
    assert_eq!(Packet::new_checked(&REQUEST[..27]).unwrap_err(), Error::ArpTruncated);
    assert_eq!([refused(1, 6), refused(2, 9), refused(4, 8), refused(5, 16)], [Error::ArpFormat; 4]);
    assert_eq!([refused(7, 0), refused(7, 3), refused(6, 1)], [Error::ArpOperation; 3]);
    assert_eq!(refused(8, 3), Error::ArpAddress);
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        reply: bool, mut sender_mac: [u8; 6], sender_ip: Ipv4Addr, target_mac: [u8; 6], target_ip: Ipv4Addr,
    ) {
        sender_mac[0] = sender_mac[0] & !1 | 2;
        let operation = if reply { Operation::Reply } else { Operation::Request };
        let (sender_mac, target_mac) = (MacAddress(sender_mac), MacAddress(target_mac));
        let repr = Repr { operation, sender_mac, sender_ip, target_mac, target_ip };
        let mut bytes = [0; PACKET_LEN];
        repr.emit(&mut bytes).unwrap();
        prop_assert_eq!(Repr::parse(&Packet::new_checked(&bytes).unwrap()), Ok(repr));
    }
}
