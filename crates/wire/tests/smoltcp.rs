//! smoltcp as the oracle: what either writes the other reads alike, and both refuse the same lengths.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use ringway_wire::icmp::Message;
use ringway_wire::tcp::{Flags, Options, SackBlock, SeqNumber, Timestamps};
use ringway_wire::{Fill, MacAddress, Protocol, Pseudo, Verify};
use ringway_wire::{arp, icmpv4, icmpv6, ipv4, ipv6, nd, tcp, udp};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire as oracle;

fn checksums() -> ChecksumCapabilities {
    ChecksumCapabilities::default()
}

fn bytes(len: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), len)
}

/// Two addresses of one family.
fn addresses(v6: bool, seed: [u8; 32]) -> [std::net::IpAddr; 2] {
    let (from, to) = seed.split_at(16);
    match v6 {
        true => [from, to].map(|b| Ipv6Addr::from(<[u8; 16]>::try_from(b).unwrap()).into()),
        false => [from, to].map(|b| Ipv4Addr::from([b[0], b[1], b[2], b[3]]).into()),
    }
}

/// Lengths that are nearly right, so that the boundaries are met.
fn nearly_tcp() -> impl Strategy<Value = Vec<u8>> {
    (bytes(0..80), 0u8..16).prop_map(|(mut bytes, offset)| {
        if let Some(byte) = bytes.get_mut(12) {
            *byte = offset << 4;
        }
        bytes
    })
}

fn control(flags: Flags) -> Option<oracle::TcpControl> {
    let has = |flag: Flags| flags.contains(flag);
    Some(match (has(Flags::SYN), has(Flags::FIN), has(Flags::RST), has(Flags::PSH)) {
        (false, false, false, false) => oracle::TcpControl::None,
        (false, false, false, true) => oracle::TcpControl::Psh,
        (true, false, false, _) => oracle::TcpControl::Syn,
        (false, true, false, _) => oracle::TcpControl::Fin,
        (false, false, true, _) => oracle::TcpControl::Rst,
        _ => return None,
    })
}

/// Both must say the same of a segment.
fn assert_same_segment(ours: &tcp::Repr, theirs: &oracle::TcpRepr) {
    assert_eq!((ours.source_port, ours.destination_port), (theirs.src_port, theirs.dst_port));
    assert_eq!(ours.seq.0, theirs.seq_number.0 as u32);
    let ack = ours.flags.contains(Flags::ACK).then_some(ours.ack.0);
    assert_eq!(ack, theirs.ack_number.map(|n| n.0 as u32));
    assert_eq!((ours.window, control(ours.flags)), (theirs.window_len, Some(theirs.control)));
    let options = &ours.options;
    // smoltcp takes a maximum segment size of zero at its word.
    assert_eq!(options.mss, theirs.max_seg_size.filter(|mss| *mss != 0));
    assert_eq!((options.window_scale, options.sack_permitted), (theirs.window_scale, theirs.sack_permitted));
    assert_eq!(options.timestamps.map(|t| (t.value, t.echo)), theirs.timestamp.map(|t| (t.tsval, t.tsecr)));
    let blocks: Vec<_> = options.sack.as_slice().iter().take(3).map(|b| (b.left.0, b.right.0)).collect();
    assert_eq!(blocks, theirs.sack_ranges.iter().flatten().copied().collect::<Vec<_>>());
}

fn our_segment() -> impl Strategy<Value = tcp::Repr> {
    let flags = prop::sample::select(vec![Flags::NONE, Flags::PSH, Flags::SYN, Flags::FIN, Flags::RST]);
    let options =
        (prop::option::of(1u16..), prop::option::of(0u8..=14), any::<bool>(), prop::option::of(any::<[u32; 2]>()));
    let sack = prop::collection::vec(any::<[u32; 2]>(), 0..=3);
    (1u16.., 1u16.., any::<[u32; 2]>(), (flags, any::<bool>()), any::<u16>(), options, sack).prop_filter_map(
        "options of at most 40 bytes",
        |(source_port, destination_port, [seq, ack], (flags, acks), window, options, sack)| {
            let (mss, window_scale, sack_permitted, timestamps) = options;
            let timestamps = timestamps.map(|[value, echo]| Timestamps { value, echo });
            let mut options = Options { mss, window_scale, sack_permitted, timestamps, ..Options::NONE };
            sack.iter().for_each(|[l, r]| {
                options.sack.push(SackBlock { left: SeqNumber(*l), right: SeqNumber(*r) });
            });
            let (flags, ack) = if acks { (flags | Flags::ACK, ack) } else { (flags, 0) };
            let (seq, ack) = (SeqNumber(seq), SeqNumber(ack));
            let repr = tcp::Repr { source_port, destination_port, seq, ack, flags, window, urgent: 0, options };
            (options.wire_len() <= tcp::OPTIONS_LEN_MAX).then_some(repr)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn our_segments_are_read_alike(repr in our_segment(), payload in bytes(0..50), v6: bool, seed: [u8; 32]) {
        let [from, to] = addresses(v6, seed);
        let mut bytes = vec![0; repr.header_len()];
        bytes.extend(&payload);
        repr.emit(&mut bytes, Pseudo::new(from, to, Protocol::TCP), Fill::Complete).unwrap();
        let packet = oracle::TcpPacket::new_checked(&bytes[..]).unwrap();
        let theirs = oracle::TcpRepr::parse(&packet, &from.into(), &to.into(), &checksums()).unwrap();
        assert_same_segment(&repr, &theirs);
        prop_assert_eq!(theirs.payload, &payload[..]);
    }

    #[test]
    fn their_segments_are_read_alike(repr in our_segment(), payload in bytes(0..50), v6: bool, seed: [u8; 32]) {
        let [from, to] = addresses(v6, seed);
        let ranges = repr.options.sack.as_slice();
        // smoltcp leaves them out otherwise.
        let writes_ranges = repr.flags.contains(Flags::ACK) && !repr.options.sack_permitted;
        let theirs = oracle::TcpRepr {
            src_port: repr.source_port,
            dst_port: repr.destination_port,
            control: control(repr.flags).unwrap(),
            seq_number: oracle::TcpSeqNumber(repr.seq.0 as i32),
            ack_number: repr.flags.contains(Flags::ACK).then_some(oracle::TcpSeqNumber(repr.ack.0 as i32)),
            window_len: repr.window,
            window_scale: repr.options.window_scale,
            max_seg_size: repr.options.mss,
            sack_permitted: repr.options.sack_permitted,
            sack_ranges: std::array::from_fn(|n| {
                ranges.get(n).filter(|_| writes_ranges).map(|b| (b.left.0, b.right.0))
            }),
            timestamp: repr.options.timestamps.map(|t| oracle::TcpTimestampRepr::new(t.value, t.echo)),
            payload: &payload,
        };
        prop_assume!(theirs.header_len() <= tcp::HEADER_LEN_MAX);
        let mut bytes = vec![0; theirs.buffer_len()];
        theirs.emit(&mut oracle::TcpPacket::new_unchecked(&mut bytes[..]), &from.into(), &to.into(), &checksums());
        let segment = tcp::Segment::new_checked(&bytes).unwrap();
        let ours = tcp::Repr::parse(&segment, Pseudo::new(from, to, Protocol::TCP), Verify::Compute).unwrap();
        assert_same_segment(&ours, &theirs);
        prop_assert_eq!(segment.payload(), &payload[..]);
    }

    #[test]
    fn any_segment_is_judged_alike(bytes in nearly_tcp()) {
        let theirs = oracle::TcpPacket::new_checked(&bytes[..]).ok();
        let ours = tcp::Segment::new_checked(&bytes).ok();
        prop_assert_eq!(ours.is_some(), theirs.is_some());
        let (Some(ours), Some(theirs)) = (ours, theirs) else { return Ok(()) };
        prop_assert_eq!(ours.payload(), theirs.payload());
        let address = Ipv4Addr::LOCALHOST.into();
        let Ok(theirs) = oracle::TcpRepr::parse(&theirs, &address, &address, &ChecksumCapabilities::ignored()) else {
            return Ok(());
        };
        let pseudo = Pseudo::v4(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, Protocol::TCP);
        assert_same_segment(&tcp::Repr::parse(&ours, pseudo, Verify::Trust).unwrap(), &theirs);
    }

    #[test]
    fn any_ipv4_packet_is_judged_alike(mut bytes in bytes(20..120), ihl in 0u8..16, total_len in 0u8..120, fix: bool) {
        bytes[0] = 0x40 | ihl;
        bytes[2..4].copy_from_slice(&[0, total_len]);
        let header_len = usize::from(ihl) * 4;
        if fix && (20..=bytes.len()).contains(&header_len) {
            oracle::Ipv4Packet::new_unchecked(&mut bytes[..]).fill_checksum();
        }
        let (ours, theirs) = (ipv4::Packet::new_checked(&bytes), oracle::Ipv4Packet::new_checked(&bytes[..]));
        prop_assert_eq!(ours.is_ok(), theirs.is_ok());
        let (Ok(ours), Ok(theirs)) = (ours, theirs) else { return Ok(()) };
        prop_assert_eq!(ours.verify_checksum(), theirs.verify_checksum());
        prop_assert_eq!((ours.source(), ours.destination()), (theirs.src_addr(), theirs.dst_addr()));
        prop_assert_eq!((ours.ttl(), ours.protocol().0), (theirs.hop_limit(), theirs.next_header().into()));
        prop_assert_eq!((ours.payload(), ours.header_len()), (theirs.payload(), theirs.header_len().into()));
        prop_assert_eq!((ours.dont_fragment(), ours.more_fragments()), (theirs.dont_frag(), theirs.more_frags()));
        prop_assert_eq!((ours.fragment_offset(), ours.identification()), (theirs.frag_offset(), theirs.ident()));
        prop_assert_eq!(ours.traffic_class(), theirs.dscp() << 2 | theirs.ecn());
    }

    #[test]
    fn any_ipv6_packet_is_judged_alike(mut bytes in bytes(40..120), payload_len in 0u8..90) {
        bytes[0] = 0x60 | bytes[0] & 0xf;
        bytes[4..6].copy_from_slice(&[0, payload_len]);
        let (ours, theirs) = (ipv6::Packet::new_checked(&bytes), oracle::Ipv6Packet::new_checked(&bytes[..]));
        prop_assert_eq!(ours.is_ok(), theirs.is_ok());
        let (Ok(ours), Ok(theirs)) = (ours, theirs) else { return Ok(()) };
        prop_assert_eq!((ours.source(), ours.destination()), (theirs.src_addr(), theirs.dst_addr()));
        prop_assert_eq!((ours.hop_limit(), ours.next_header().0), (theirs.hop_limit(), theirs.next_header().into()));
        prop_assert_eq!((ours.traffic_class(), ours.flow_label()), (theirs.traffic_class(), theirs.flow_label()));
        prop_assert_eq!(ours.payload(), theirs.payload());
    }

    #[test]
    fn datagrams_are_read_alike(
        ports in (any::<u16>(), 1u16..), payload in bytes(0..50), v6: bool, seed: [u8; 32], damage: Option<u8>,
    ) {
        let [from, to] = addresses(v6, seed);
        let pseudo = Pseudo::new(from, to, Protocol::UDP);
        let repr = udp::Repr { source_port: ports.0, destination_port: ports.1, payload_len: payload.len() };
        let mut bytes = [&[0; 8][..], &payload].concat();
        repr.emit(&mut bytes, pseudo, Fill::Complete).unwrap();
        if let Some(at) = damage {
            let len = bytes.len();
            bytes[usize::from(at) % len] ^= 0x41;
        }
        let ours = udp::Datagram::new_checked(&bytes).and_then(|d| udp::Repr::parse(&d, pseudo, Verify::Compute)).ok();
        let theirs = oracle::UdpPacket::new_checked(&bytes[..]).ok().and_then(|packet| {
            let repr = oracle::UdpRepr::parse(&packet, &from.into(), &to.into(), &checksums()).ok()?;
            let (source_port, destination_port) = (repr.src_port, repr.dst_port);
            Some(udp::Repr { source_port, destination_port, payload_len: packet.payload().len() })
        });
        prop_assert_eq!(ours, theirs);
        prop_assert!(damage.is_some() || ours == Some(repr));
    }

    #[test]
    fn echoes_are_written_alike(reply: bool, numbers: (u16, u16), data in bytes(0..50), seed: [u8; 32]) {
        let (identification, sequence) = numbers;
        let mut ours = vec![0; 8 + data.len()];
        let mut theirs = ours.clone();
        let (ours_v4, theirs_v4) = match reply {
            false => (
                icmpv4::Repr::EchoRequest { identification, sequence, data: &data },
                oracle::Icmpv4Repr::EchoRequest { ident: identification, seq_no: sequence, data: &data },
            ),
            true => (
                icmpv4::Repr::EchoReply { identification, sequence, data: &data },
                oracle::Icmpv4Repr::EchoReply { ident: identification, seq_no: sequence, data: &data },
            ),
        };
        ours_v4.emit(&mut ours).unwrap();
        theirs_v4.emit(&mut oracle::Icmpv4Packet::new_unchecked(&mut theirs[..]), &checksums());
        prop_assert_eq!(&ours, &theirs);

        let (from, to) = (Ipv6Addr::from(<[u8; 16]>::try_from(&seed[..16]).unwrap()), Ipv6Addr::LOCALHOST);
        let ours_v6 = icmpv6::Repr::EchoRequest { identification, sequence, data: &data };
        ours_v6.emit(&mut ours, Pseudo::v6(from, to, Protocol::ICMPV6), Fill::Complete).unwrap();
        let theirs_v6 = oracle::Icmpv6Repr::EchoRequest { ident: identification, seq_no: sequence, data: &data };
        theirs_v6.emit(&from, &to, &mut oracle::Icmpv6Packet::new_unchecked(&mut theirs[..]), &checksums());
        prop_assert_eq!(&ours, &theirs);
    }

    #[test]
    fn neighbors_are_written_and_read_alike(
        solicit: bool, target: Ipv6Addr, mac: [u8; 6], bits: [bool; 3], from: Ipv6Addr,
    ) {
        prop_assume!(!target.is_multicast());
        let (to, [router, solicited, overrides]) = (Ipv6Addr::LOCALHOST, bits);
        let lladdr = Some(oracle::EthernetAddress(mac).into());
        let mut flags = oracle::NdiscNeighborFlags::empty();
        flags.set(oracle::NdiscNeighborFlags::ROUTER, router);
        flags.set(oracle::NdiscNeighborFlags::SOLICITED, solicited);
        flags.set(oracle::NdiscNeighborFlags::OVERRIDE, overrides);
        let theirs = oracle::Icmpv6Repr::Ndisc(match solicit {
            true => oracle::NdiscRepr::NeighborSolicit { target_addr: target, lladdr },
            false => oracle::NdiscRepr::NeighborAdvert { flags, target_addr: target, lladdr },
        });
        let mut bytes = vec![0; theirs.buffer_len()];
        theirs.emit(&from, &to, &mut oracle::Icmpv6Packet::new_unchecked(&mut bytes[..]), &checksums());

        let mut option = [0; 8];
        let link_layer = if solicit { nd::NdOption::SourceLinkLayer } else { nd::NdOption::TargetLinkLayer };
        link_layer(MacAddress(mac)).emit(&mut option).unwrap();
        let options = nd::Options::new_checked(&option).unwrap();
        let ours = icmpv6::Repr::Nd(match solicit {
            true => nd::Repr::NeighborSolicit { target, options },
            false => nd::Repr::NeighborAdvert { router, solicited, overrides, target, options },
        });
        let pseudo = Pseudo::v6(from, to, Protocol::ICMPV6);
        let message = Message::new_checked(&bytes).unwrap();
        prop_assert_eq!(icmpv6::Repr::parse(&message, nd::HOP_LIMIT, pseudo, Verify::Compute), Ok(ours));
        let mut written = vec![0; ours.message_len()];
        ours.emit(&mut written, pseudo, Fill::Complete).unwrap();
        prop_assert_eq!(written, bytes);
    }

    #[test]
    fn arp_is_written_and_read_alike(reply: bool, macs: [[u8; 6]; 2], ips: [[u8; 4]; 2]) {
        let mac = |n: usize| [&[2], &macs[n][1..]].concat().try_into().unwrap();
        let theirs = oracle::ArpRepr::EthernetIpv4 {
            operation: if reply { oracle::ArpOperation::Reply } else { oracle::ArpOperation::Request },
            source_hardware_addr: oracle::EthernetAddress(mac(0)),
            source_protocol_addr: ips[0].into(),
            target_hardware_addr: oracle::EthernetAddress(mac(1)),
            target_protocol_addr: ips[1].into(),
        };
        let mut bytes = [0; arp::PACKET_LEN];
        theirs.emit(&mut oracle::ArpPacket::new_unchecked(&mut bytes[..]));
        let ours = arp::Repr {
            operation: if reply { arp::Operation::Reply } else { arp::Operation::Request },
            sender_mac: MacAddress(mac(0)),
            sender_ip: ips[0].into(),
            target_mac: MacAddress(mac(1)),
            target_ip: ips[1].into(),
        };
        prop_assert_eq!(arp::Packet::new_checked(&bytes).and_then(|p| arp::Repr::parse(&p)), Ok(ours));
        let mut written = [0; arp::PACKET_LEN];
        ours.emit(&mut written).unwrap();
        prop_assert_eq!(written, bytes);
    }
}
