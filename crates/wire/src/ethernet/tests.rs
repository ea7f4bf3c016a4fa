use super::*;

const FRAME: [u8; 16] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00, 0xaa, 0xbb];

#[test]
fn a_plain_frame_is_read_and_written() {
    let frame = Frame::new_checked(&FRAME).unwrap();
    let repr = Repr::parse(&frame).unwrap();
    assert_eq!(repr.destination, MacAddress([2, 0, 0, 0, 0, 1]));
    assert_eq!((repr.vlan, repr.ether_type), (None, EtherType::IPV4));
    assert_eq!(frame.payload(), [0xaa, 0xbb]);
    let mut again = [0; 16];
    repr.emit(&mut again).unwrap().copy_from_slice(frame.payload());
    assert_eq!(again, FRAME);
}

#[test]
fn a_tag_moves_the_type() {
    let repr = Repr {
        destination: MacAddress::BROADCAST,
        source: MacAddress([2, 0, 0, 0, 0, 9]),
        vlan: Some(VlanTag(0xa00c)),
        ether_type: EtherType::ARP,
    };
    let mut bytes = [0; 20];
    assert_eq!(repr.emit(&mut bytes).unwrap().len(), 2);
    assert_eq!(bytes[12..18], [0x81, 0x00, 0xa0, 0x0c, 0x08, 0x06]);
    let frame = Frame::new_checked(&bytes).unwrap();
    assert_eq!(Repr::parse(&frame), Ok(repr));
    assert_eq!((frame.vlan().unwrap().id(), frame.vlan().unwrap().priority()), (12, 5));
}

#[test]
fn what_is_too_short_is_refused() {
    assert_eq!(Frame::new_checked(&FRAME[..13]).unwrap_err(), Error::EthernetTruncated);
    let mut tagged = FRAME;
    tagged[12..14].copy_from_slice(&[0x81, 0x00]);
    assert_eq!(Frame::new_checked(&tagged).unwrap_err(), Error::VlanTruncated);
    let repr = Repr::parse(&Frame::new_checked(&FRAME).unwrap()).unwrap();
    assert_eq!(repr.emit(&mut [0; 13]).unwrap_err(), Error::BufferTooShort);
}

#[test]
fn an_802_3_length_is_no_type() {
    let mut frame = FRAME;
    frame[12..14].copy_from_slice(&[0x00, 0x2e]);
    assert_eq!(Repr::parse(&Frame::new_checked(&frame).unwrap()), Err(Error::EthernetLength));
}

#[test]
fn station_addresses() {
    assert!(MacAddress([2, 0, 0, 0, 0, 1]).is_unicast());
    assert!(!MacAddress::default().is_unicast());
    assert!(MacAddress::BROADCAST.is_group() && MacAddress([0x33, 0x33, 0, 0, 0, 1]).is_group());
    let multicast = |address: &str| MacAddress::for_multicast(address.parse().unwrap()).map(|m| m.to_string());
    assert_eq!(multicast("224.129.2.3").as_deref(), Some("01:00:5e:01:02:03"));
    assert_eq!(multicast("ff02::1:ff12:3456").as_deref(), Some("33:33:ff:12:34:56"));
    assert_eq!((multicast("10.0.0.1"), multicast("fe80::1")), (None, None));
    assert_eq!(MacAddress([0, 0x1a, 2, 3, 4, 0xff]).to_string(), "00:1a:02:03:04:ff");
}
