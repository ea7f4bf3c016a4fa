use super::*;
use crate::ethernet::{MacAddress, VlanTag};
use crate::ip::Fragment;
use crate::tcp::{Flags, Options, SackBlock, SeqNumber, Timestamps};
use proptest::prelude::*;

const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];

fn frame_of(ether_type: EtherType, vlan: Option<VlanTag>, payload: &[u8]) -> Vec<u8> {
    let (destination, source) = (MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2]));
    let repr = ethernet::Repr { destination, source, vlan, ether_type };
    let mut bytes = vec![0; repr.header_len() + payload.len()];
    repr.emit(&mut bytes).unwrap().copy_from_slice(payload);
    bytes
}

fn in_ipv4(protocol: Protocol, payload: &[u8]) -> Vec<u8> {
    let repr = ipv4::Repr::new(V4[0], V4[1], protocol, payload.len());
    let mut bytes = vec![0; 20 + payload.len()];
    repr.emit(&mut bytes).unwrap().copy_from_slice(payload);
    frame_of(EtherType::IPV4, None, &bytes)
}

fn in_ipv6(next_header: Protocol, payload: &[u8]) -> Vec<u8> {
    let repr = ipv6::Repr::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, next_header, payload.len());
    let mut bytes = vec![0; 40 + payload.len()];
    ipv6::Repr { hop_limit: 255, ..repr }.emit(&mut bytes).unwrap().copy_from_slice(payload);
    frame_of(EtherType::IPV6, Some(VlanTag(7)), &bytes)
}

fn tcp_segment() -> Vec<u8> {
    let mut options = Options { timestamps: Some(Timestamps { value: 1, echo: 2 }), ..Options::NONE };
    options.sack.push(SackBlock { left: SeqNumber(5), right: SeqNumber(9) });
    let (seq, ack, flags) = (SeqNumber(1), SeqNumber(2), Flags::ACK);
    let repr = tcp::Repr { source_port: 80, destination_port: 5000, seq, ack, flags, window: 9, urgent: 0, options };
    let mut bytes = vec![0; repr.header_len() + 5];
    repr.emit(&mut bytes, some_pseudo(Protocol::TCP, false), Fill::Complete).unwrap();
    bytes
}

fn nd_message() -> Vec<u8> {
    let mut option = [0; 40];
    let rest = nd::NdOption::SourceLinkLayer(MacAddress([2, 0, 0, 0, 0, 1])).emit(&mut option).unwrap();
    nd::NdOption::Redirected(b"the beginning of a packe").emit(rest).unwrap();
    let options = nd::Options::new_checked(&option).unwrap();
    let repr = nd::Repr::Redirect { target: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::LOCALHOST, options };
    let mut bytes = vec![0; repr.message_len()];
    repr.emit(&mut bytes, some_pseudo(Protocol::ICMPV6, true), Fill::Complete).unwrap();
    bytes
}

/// One valid frame of each kind.
fn valid_frames() -> Vec<Vec<u8>> {
    let (operation, sender_mac) = (arp::Operation::Request, MacAddress([2, 0, 0, 0, 0, 9]));
    let [sender_ip, target_ip] = V4;
    let arp = arp::Repr { operation, sender_mac, sender_ip, target_mac: MacAddress::default(), target_ip };
    let quote = in_ipv4(Protocol::TCP, &tcp_segment());
    let error = icmpv4::Repr::DestinationUnreachable { code: 4, mtu: 1400, quoted: &quote[14..] };
    let echo = icmpv4::Repr::EchoRequest { identification: 1, sequence: 2, data: b"data" };
    let mut udp = b"........data".to_vec();
    let pseudo = some_pseudo(Protocol::UDP, true);
    udp::Repr { source_port: 1, destination_port: 2, payload_len: 4 }.emit(&mut udp, pseudo, Fill::Complete).unwrap();
    let fragment = Fragment { identification: 1, offset: 16, more: true };
    let mut fragmented = vec![0; 16];
    ipv6::extensions::emit_fragment(fragment, Protocol::UDP, &mut fragmented).unwrap();
    let chain =
        [&[43, 0, 5, 2, 0, 0, 1, 0][..], &[60, 0, 0, 0, 0, 0, 0, 0], &[17, 0, 0x1e, 2, 0, 0, 0, 0], &udp].concat();
    vec![
        frame_of(EtherType::ARP, None, &written(28, |buffer| arp.emit(buffer))),
        in_ipv4(Protocol::TCP, &tcp_segment()),
        in_ipv4(Protocol::UDP, &udp),
        in_ipv4(Protocol::ICMP, &written(error.message_len(), |buffer| error.emit(buffer))),
        in_ipv4(Protocol::ICMP, &written(echo.message_len(), |buffer| echo.emit(buffer))),
        in_ipv6(Protocol::TCP, &tcp_segment()),
        in_ipv6(Protocol::HOP_BY_HOP, &chain),
        in_ipv6(Protocol::FRAGMENT, &fragmented),
        in_ipv6(Protocol::ICMPV6, &nd_message()),
    ]
}

#[test]
fn the_valid_frames_reach_every_reader() {
    let mut tally = Tally::default();
    valid_frames().iter().for_each(|bytes| frame(bytes, &mut tally));
    let expected = Tally {
        frames: 9,
        arp: 1,
        ipv4: 4,
        ipv6: 4,
        fragments: 1,
        tcp: 2,
        udp: 2,
        icmpv4: 2,
        icmpv6: 1,
        nd: 1,
        quoted: 1,
        virtio: tally.virtio,
        refused: 0,
    };
    assert_eq!(tally, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_frame_is_read_or_refused(
        which in 0usize..9, damage in prop::collection::vec((0usize..120, any::<u8>()), 0..4), cut in 0usize..400,
    ) {
        let mut bytes = valid_frames().swap_remove(which);
        for (at, value) in damage {
            let len = bytes.len();
            bytes[at % len] = value;
        }
        bytes.truncate(cut);
        frame(&bytes, &mut Tally::default());
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        number in prop::sample::select(vec![1u8, 6, 17, 58]), v6: bool, hop_limit in prop::sample::select(vec![64u8, 255]),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let protocol = Protocol(number);
        transport(protocol, &bytes, some_pseudo(protocol, v6), hop_limit, &mut Tally::default());
        frame(&bytes, &mut Tally::default());
    }
}

/// Enough of them that everything happens, as the tally must show.
#[test]
fn an_attackers_fragments_never_exceed_the_bounds() {
    let (mut tally, mut random) = (FragmentTally::default(), 1u64);
    for _ in 0..300 {
        let choices: Vec<u8> = (0..1000)
            .map(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 56) as u8
            })
            .collect();
        fragments(&choices, &mut tally);
    }
    let FragmentTally { kept, complete, expired, given_up, refused } = tally;
    assert!([kept, complete, expired, given_up, refused].iter().all(|n| *n > 50), "{tally:?}");
}

proptest! {
    #[test]
    fn chosen_fragments_never_exceed_the_bounds(choices in prop::collection::vec(any::<u8>(), 0..600)) {
        fragments(&choices, &mut FragmentTally::default());
    }
}
