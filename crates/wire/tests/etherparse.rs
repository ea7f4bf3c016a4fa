//! etherparse as the oracle: whole frames that it builds are read alike, and it reads what we write.

use etherparse::{
    IpNumber, Ipv6ExtensionsSlice, NetSlice, PacketBuilder, SlicedPacket, TcpOptionElement, TransportSlice,
};
use proptest::prelude::*;
use ringway_wire::ethernet::{self, EtherType, Frame, MacAddress, VlanTag};
use ringway_wire::ipv6::extensions;
use ringway_wire::tcp::{Flags, Options, SackBlock, SeqNumber, Timestamps};
use ringway_wire::{Fill, Protocol, Verify};
use ringway_wire::{ipv4, ipv6, tcp, udp};

const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

fn segment() -> impl Strategy<Value = tcp::Repr> {
    let options =
        (prop::option::of(1u16..), prop::option::of(0u8..=14), any::<bool>(), prop::option::of(any::<[u32; 2]>()));
    (1u16.., 1u16.., any::<[u32; 2]>(), any::<[bool; 8]>(), any::<u16>(), options, prop::option::of(any::<[u32; 2]>()))
        .prop_map(|(source_port, destination_port, [seq, ack], bits, window, options, sack)| {
            let all = [Flags::FIN, Flags::SYN, Flags::RST, Flags::PSH, Flags::URG, Flags::ECE, Flags::CWR];
            let mut flags = all.iter().zip(bits).filter(|(_, set)| *set).fold(Flags::NONE, |f, (flag, _)| f | *flag);
            if bits[7] {
                flags |= Flags::ACK;
            }
            let (mss, window_scale, sack_permitted, timestamps) = options;
            let timestamps = timestamps.map(|[value, echo]| Timestamps { value, echo });
            let mut options = Options { mss, window_scale, sack_permitted, timestamps, ..Options::NONE };
            if let Some([left, right]) = sack {
                options.sack.push(SackBlock { left: SeqNumber(left), right: SeqNumber(right) });
            }
            let ack = SeqNumber(if flags.contains(Flags::ACK) { ack } else { 0 });
            let urgent = if flags.contains(Flags::URG) { window ^ 0x55 } else { 0 };
            tcp::Repr { source_port, destination_port, seq: SeqNumber(seq), ack, flags, window, urgent, options }
        })
}

/// Options as etherparse writes them, which is in the order that it is given.
fn elements(options: &Options) -> Vec<TcpOptionElement> {
    let mut elements = Vec::new();
    elements.extend(options.mss.map(TcpOptionElement::MaximumSegmentSize));
    elements.extend(options.window_scale.map(TcpOptionElement::WindowScale));
    elements.extend(options.sack_permitted.then_some(TcpOptionElement::SelectiveAcknowledgementPermitted));
    elements.extend(options.timestamps.map(|t| TcpOptionElement::Timestamp(t.value, t.echo)));
    let blocks = options.sack.as_slice().iter();
    elements.extend(blocks.map(|b| TcpOptionElement::SelectiveAcknowledgement((b.left.0, b.right.0), [None; 3])));
    elements
}

/// The frame that etherparse makes of a segment.
fn built(repr: &tcp::Repr, v6: bool, vlan: Option<u16>, payload: &[u8]) -> Vec<u8> {
    let mut header = etherparse::TcpHeader::new(repr.source_port, repr.destination_port, repr.seq.0, repr.window);
    let has = |flag: Flags| repr.flags.contains(flag);
    (header.fin, header.syn, header.rst, header.psh) =
        (has(Flags::FIN), has(Flags::SYN), has(Flags::RST), has(Flags::PSH));
    (header.ack, header.urg, header.ece, header.cwr) =
        (has(Flags::ACK), has(Flags::URG), has(Flags::ECE), has(Flags::CWR));
    (header.acknowledgment_number, header.urgent_pointer) = (repr.ack.0, repr.urgent);
    header.set_options(&elements(&repr.options)).unwrap();
    let mut bytes = Vec::new();
    let link = PacketBuilder::ethernet2(MACS[0], MACS[1]);
    let (v4_ends, v6_ends) = (([10, 0, 0, 1], [10, 0, 0, 2]), ([3; 16], [5; 16]));
    match (vlan, v6) {
        (None, false) => link.ipv4(v4_ends.0, v4_ends.1, 61).tcp_header(header).write(&mut bytes, payload),
        (None, true) => link.ipv6(v6_ends.0, v6_ends.1, 61).tcp_header(header).write(&mut bytes, payload),
        (Some(id), v6) => {
            let link = link.single_vlan(id.try_into().unwrap());
            match v6 {
                false => link.ipv4(v4_ends.0, v4_ends.1, 61).tcp_header(header).write(&mut bytes, payload),
                true => link.ipv6(v6_ends.0, v6_ends.1, 61).tcp_header(header).write(&mut bytes, payload),
            }
        }
    }
    .unwrap();
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn their_frames_are_read_to_the_last_field(
        repr in segment(), v6: bool, vlan in prop::option::of(0u16..4096),
        payload in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let bytes = built(&repr, v6, vlan, &payload);
        let frame = Frame::new_checked(&bytes).unwrap();
        prop_assert_eq!((frame.source(), frame.destination()), (MacAddress(MACS[0]), MacAddress(MACS[1])));
        prop_assert_eq!(frame.vlan().map(VlanTag::id), vlan);
        prop_assert_eq!(frame.ether_type(), if v6 { EtherType::IPV6 } else { EtherType::IPV4 });
        let (transport, pseudo) = if v6 {
            let packet = ipv6::Packet::new_checked(frame.payload()).unwrap();
            prop_assert_eq!((packet.hop_limit(), packet.source()), (61, [3; 16].into()));
            let upper = packet.upper().unwrap();
            prop_assert_eq!(upper.protocol, Protocol::TCP);
            (upper.payload, packet.pseudo(upper.protocol))
        } else {
            let packet = ipv4::Packet::new_checked(frame.payload()).unwrap();
            let header = ipv4::Repr::parse(&packet, Verify::Compute).unwrap();
            prop_assert_eq!((header.ttl, header.protocol), (61, Protocol::TCP));
            (packet.payload(), packet.pseudo())
        };
        let parsed = tcp::Segment::new_checked(transport).unwrap();
        prop_assert_eq!(parsed.payload(), &payload[..]);
        prop_assert_eq!(tcp::Repr::parse(&parsed, pseudo, Verify::Compute), Ok(repr));
    }

    #[test]
    fn they_read_our_frames(repr in segment(), payload in prop::collection::vec(any::<u8>(), 0..60), vlan: Option<u16>) {
        let (source, destination) = (MacAddress(MACS[0]), MacAddress(MACS[1]));
        let vlan = vlan.map(VlanTag);
        let link = ethernet::Repr { destination, source, vlan, ether_type: EtherType::IPV4 };
        let segment_len = repr.header_len() + payload.len();
        let network = ipv4::Repr::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), Protocol::TCP, segment_len);
        let mut bytes = vec![0; link.header_len() + ipv4::HEADER_LEN + segment_len];
        let segment = network.emit(link.emit(&mut bytes).unwrap()).unwrap();
        segment[repr.header_len()..].copy_from_slice(&payload);
        repr.emit(segment, network.pseudo(), Fill::Complete).unwrap();

        let sliced = SlicedPacket::from_ethernet(&bytes).unwrap();
        let Some(NetSlice::Ipv4(ip)) = &sliced.net else { panic!("{sliced:?}") };
        let header = ip.header().to_header();
        prop_assert_eq!(header.header_checksum, header.calc_header_checksum());
        prop_assert_eq!((header.dont_fragment, header.time_to_live), (true, 64));
        let Some(TransportSlice::Tcp(theirs)) = &sliced.transport else { panic!("{sliced:?}") };
        prop_assert_eq!(Some(theirs.checksum()), theirs.calc_checksum_ipv4([10, 0, 0, 1], [10, 0, 0, 2]).ok());
        prop_assert_eq!((theirs.source_port(), theirs.destination_port()), (repr.source_port, repr.destination_port));
        prop_assert_eq!((theirs.sequence_number(), theirs.acknowledgment_number()), (repr.seq.0, repr.ack.0));
        prop_assert_eq!((theirs.window_size(), theirs.urgent_pointer()), (repr.window, repr.urgent));
        prop_assert_eq!(theirs.payload(), &payload[..]);
        let mut listed: Vec<_> = theirs.options_iterator().map(Result::unwrap).collect();
        listed.retain(|option| *option != TcpOptionElement::Noop);
        // Ours stand in Linux's order, theirs in the order of `elements`.
        let mut expected = elements(&repr.options);
        for list in [&mut listed, &mut expected] {
            list.sort_by_key(|option| format!("{option:?}"));
        }
        prop_assert_eq!(listed, expected);
    }

    #[test]
    fn datagrams_are_read_alike(ports in (any::<u16>(), 1u16..), payload in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut bytes = Vec::new();
        let builder = PacketBuilder::ethernet2(MACS[0], MACS[1]).ipv6([3; 16], [5; 16], 9).udp(ports.0, ports.1);
        builder.write(&mut bytes, &payload).unwrap();
        let frame = Frame::new_checked(&bytes).unwrap();
        let packet = ipv6::Packet::new_checked(frame.payload()).unwrap();
        let datagram = udp::Datagram::new_checked(packet.payload()).unwrap();
        let repr = udp::Repr::parse(&datagram, packet.pseudo(Protocol::UDP), Verify::Compute).unwrap();
        prop_assert_eq!((repr.source_port, repr.destination_port), ports);
        prop_assert_eq!(datagram.payload(), &payload[..]);
    }

    #[test]
    fn chains_of_extensions_end_at_the_same_place(
        chain in prop::collection::vec((prop::sample::select(vec![43u8, 60]), 0usize..3), 0..4), hop_by_hop: bool,
        next in prop::sample::select(vec![6u8, 17, 58, 59]), payload in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut kinds: Vec<(u8, usize)> = if hop_by_hop { vec![(0, 1)] } else { vec![] };
        kinds.extend(chain);
        let first = kinds.first().map_or(next, |(kind, _)| *kind);
        let mut bytes = Vec::new();
        for (n, (_, units)) in kinds.iter().enumerate() {
            let following = kinds.get(n + 1).map_or(next, |(kind, _)| *kind);
            bytes.extend([following, *units as u8]);
            bytes.extend(vec![0; 6 + 8 * units]);
        }
        bytes.extend(&payload);
        let ours = extensions::walk(Protocol(first), &bytes).unwrap();
        prop_assert_eq!((ours.protocol, ours.payload), (Protocol(next), &payload[..]));
        // etherparse takes each kind once or twice only; then it stops early and says so.
        if let Ok((_, protocol, rest)) = Ipv6ExtensionsSlice::from_slice(IpNumber(first), &bytes)
            && protocol.0 == next
        {
            prop_assert_eq!(rest, ours.payload);
        }
    }
}
