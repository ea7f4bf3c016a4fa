use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use proptest::prelude::*;

use super::*;
use crate::ethernet::Frame;
use crate::{tcp, udp};

const ETHERNET: ([u8; 6], [u8; 6]) = ([1; 6], [2; 6]);

fn tcp_frame(v6: bool, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(ETHERNET.0, ETHERNET.1);
    let builder = if v6 { builder.ipv6([3; 16], [4; 16], 64) } else { builder.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64) };
    let builder = builder.tcp(5, 6, u32::MAX - 1000, 8192).fin().psh().cwr().ack(7);
    let mut frame = Vec::new();
    builder.write(&mut frame, payload).unwrap();
    frame
}

fn udp_frame(payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(ETHERNET.0, ETHERNET.1).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(5, 6);
    let mut frame = Vec::new();
    builder.write(&mut frame, payload).unwrap();
    frame
}

/// All checksums of a frame, as our own views judge them.
fn is_sound(frame: &[u8]) -> bool {
    let frame = Frame::new_checked(frame).unwrap();
    let (pseudo, protocol, payload) = match frame.ether_type() {
        EtherType::IPV4 => {
            let packet = ipv4::Packet::new_checked(frame.payload()).unwrap();
            assert!(packet.verify_checksum());
            (packet.pseudo(), packet.protocol(), packet.payload())
        }
        _ => {
            let packet = ipv6::Packet::new_checked(frame.payload()).unwrap();
            (
                Pseudo::v6(packet.source(), packet.destination(), packet.next_header()),
                packet.next_header(),
                packet.payload(),
            )
        }
    };
    match protocol {
        Protocol::TCP => tcp::Segment::new_checked(payload).is_ok() && pseudo.matches(payload),
        _ => udp::Datagram::new_checked(payload).is_ok() && pseudo.matches(payload),
    }
}

proptest! {
    #[test]
    fn a_partial_checksum_is_found_and_completed(v6: bool, payload in proptest::collection::vec(any::<u8>(), 0..300)) {
        let whole = tcp_frame(v6, &payload);
        let transport = Transport::of(&whole).unwrap();
        prop_assert!(!transport.is_partial(&whole));
        let mut frame = whole.clone();
        let at = transport.start + transport.offset;
        frame[at..at + 2].copy_from_slice(&transport.partial().to_be_bytes());
        prop_assert!(transport.is_partial(&frame));
        transport.complete(&mut frame).unwrap();
        prop_assert_eq!(frame, whole);
    }

    #[test]
    fn segments_put_together_are_the_frame(v6: bool, size in 1_u16..600, len in 1_usize..4000) {
        let payload: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        let frame = tcp_frame(v6, &payload);
        let kind = if v6 { GsoKind::TcpV6 } else { GsoKind::TcpV4 };
        let mut segments = Vec::new();
        split(&frame, Gso { kind, ecn: false, header_len: 0, size }, |s| segments.push(s.to_vec())).unwrap();
        prop_assert_eq!(segments.len(), len.div_ceil(size.into()));
        let mut read = Vec::new();
        for (n, segment) in segments.iter().enumerate() {
            prop_assert!(is_sound(segment));
            let sliced = SlicedPacket::from_ethernet(segment).unwrap();
            let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("no TCP") };
            prop_assert_eq!(tcp.sequence_number(), (u32::MAX - 1000).wrapping_add(read.len() as u32));
            let last = n + 1 == segments.len();
            prop_assert_eq!((tcp.cwr(), tcp.fin(), tcp.psh(), tcp.ack()), (n == 0, last, last, true));
            read.extend_from_slice(tcp.payload());
        }
        prop_assert_eq!(read, payload);
    }

    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200), size: u16, kind in 0..4) {
        let kind = [GsoKind::TcpV4, GsoKind::TcpV6, GsoKind::UdpFragments, GsoKind::UdpSegments][kind as usize];
        let mut frame = tcp_frame(false, &bytes);
        for (i, byte) in bytes.iter().take(60).enumerate() {
            frame[12 + i % 50] ^= byte >> 4;
        }
        let _ = split(&frame, Gso { kind, ecn: false, header_len: 0, size }, |_| {});
        let _ = split(&bytes, Gso { kind, ecn: false, header_len: 0, size }, |_| {});
    }
}

#[test]
fn datagrams_are_split_into_datagrams() {
    let payload: Vec<u8> = (0..1000).map(|i| i as u8).collect();
    let frame = udp_frame(&payload);
    let gso = Gso { kind: GsoKind::UdpSegments, ecn: false, header_len: 0, size: 300 };
    let mut read = Vec::new();
    split(&frame, gso, |segment| {
        assert!(is_sound(segment));
        read.extend_from_slice(&segment[42..]);
    })
    .unwrap();
    assert_eq!(read, payload);
    let fragments = Gso { kind: GsoKind::UdpFragments, ..gso };
    assert_eq!(split(&frame, fragments, |_| {}), Err(Error::VirtioGso));
}

#[test]
fn what_has_no_transport_checksum_has_none() {
    let mut fragment = udp_frame(&[0; 100]);
    fragment[20] = 0x20;
    assert!(Transport::of(&fragment).is_none());
    assert!(Transport::of(&[0; 60]).is_none());
    assert!(Transport::of(&[]).is_none());
}
