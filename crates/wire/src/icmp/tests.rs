use super::*;
use crate::ip::Fragment;
use core::net::{Ipv4Addr, Ipv6Addr};

const TRANSPORT: [u8; 8] = [0x1f, 0x90, 0x9c, 0x40, 1, 2, 3, 4];
const FROM: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

fn packet_v4(change: impl FnOnce(&mut ipv4::Repr)) -> Vec<u8> {
    let mut repr = ipv4::Repr::new(FROM, Ipv4Addr::new(10, 0, 0, 2), Protocol::TCP, 1000);
    change(&mut repr);
    let mut bytes = vec![0; 1020];
    repr.emit(&mut bytes).unwrap()[..8].copy_from_slice(&TRANSPORT);
    bytes
}

#[test]
fn eight_bytes_of_transport_find_the_socket() {
    let packet = packet_v4(|_| {});
    for len in [28, 29, 548] {
        let quoted = Quoted::v4(&packet[..len]).unwrap();
        assert_eq!((quoted.source, quoted.protocol), (IpAddress::V4(FROM), Protocol::TCP));
        assert_eq!((quoted.source_port(), quoted.destination_port()), (8080, 40_000));
        assert_eq!(quoted.tcp_seq(), SeqNumber(0x0102_0304));
    }
    for len in [0, 19, 20, 27] {
        assert_eq!(Quoted::v4(&packet[..len]), Err(Error::IcmpQuoteTruncated));
    }
}

#[test]
fn a_later_fragment_has_no_ports() {
    assert_eq!(Quoted::v4(&packet_v4(|r| r.fragment_offset = 8)[..28]), Err(Error::IcmpQuoteTruncated));
    assert!(Quoted::v4(&packet_v4(|r| r.more_fragments = true)[..28]).is_ok());
}

#[test]
fn an_ipv6_quote_is_walked_to_the_transport() {
    let quote = |offset: u16| {
        let repr = ipv6::Repr::new(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED, Protocol::FRAGMENT, 16);
        let fragment = Fragment { identification: 7, offset, more: true };
        let mut bytes = vec![0; 56];
        let payload = repr.emit(&mut bytes).unwrap();
        ipv6::extensions::emit_fragment(fragment, Protocol::UDP, payload).unwrap().copy_from_slice(&TRANSPORT);
        bytes
    };
    let packet = quote(0);
    let quoted = Quoted::v6(&packet).unwrap();
    assert_eq!((quoted.source, quoted.protocol), (IpAddress::V6(Ipv6Addr::LOCALHOST), Protocol::UDP));
    assert_eq!(quoted.source_port(), 8080);
    assert_eq!(Quoted::v6(&quote(8)), Err(Error::IcmpQuoteTruncated));
    for len in [39, 47, 55] {
        assert_eq!(Quoted::v6(&packet[..len]), Err(Error::IcmpQuoteTruncated));
    }
}

#[test]
fn a_header_has_eight_bytes() {
    assert_eq!(Message::new_checked(&[0; 7]).unwrap_err(), Error::IcmpTruncated);
    let message = Message::new_checked(&[3, 4, 0xab, 0xcd, 1, 2, 3, 4, 9]).unwrap();
    assert_eq!((message.kind(), message.code(), message.checksum()), (3, 4, 0xabcd));
    assert_eq!((message.rest_of_header(), message.body()), ([1, 2, 3, 4], &[9][..]));
}
