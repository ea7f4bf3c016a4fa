use super::*;
use crate::ethernet::MacAddress;
use crate::ip::Protocol;
use proptest::prelude::*;

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 7]);

fn pseudo() -> Pseudo {
    Pseudo::v6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, Protocol::ICMPV6)
}

fn written(repr: &Repr) -> Vec<u8> {
    let mut bytes = vec![0xee; repr.message_len()];
    repr.emit(&mut bytes, pseudo(), Fill::Complete).unwrap();
    bytes
}

fn parsed(bytes: &[u8], hop_limit: u8) -> Result<Repr<'_>, Error> {
    Repr::parse(&Message::new_checked(bytes).unwrap(), hop_limit)
}

fn options(list: &[NdOption]) -> Vec<u8> {
    let mut bytes = vec![0xee; list.iter().map(NdOption::wire_len).sum()];
    let mut rest = &mut bytes[..];
    for option in list {
        rest = option.emit(rest).unwrap();
    }
    assert!(rest.is_empty());
    bytes
}

fn solicit(bytes: &[u8]) -> Repr<'_> {
    let target = "fe80::7".parse().unwrap();
    Repr::NeighborSolicit { target, options: Options::new_checked(bytes).unwrap() }
}

#[test]
fn a_solicitation_carries_our_address() {
    let options = options(&[NdOption::SourceLinkLayer(MAC)]);
    let bytes = written(&solicit(&options));
    assert_eq!((bytes.len(), bytes[0], &bytes[24..]), (32, 135, &[1, 1, 2, 0, 0, 0, 0, 7][..]));
    let Ok(Repr::NeighborSolicit { options, .. }) = parsed(&bytes, 255) else { panic!("{bytes:?}") };
    assert_eq!((options.source_link_layer(), options.target_link_layer()), (Some(MAC), None));
}

#[test]
fn what_the_rfc_wants_discarded_is_refused_by_name() {
    let good = written(&solicit(&[]));
    assert_eq!(parsed(&good, 254), Err(Error::NdHopLimit));
    let changed = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        parsed(&bytes, 255).unwrap_err()
    };
    assert_eq!(changed(0, 138), Error::IcmpType);
    assert_eq!(changed(1, 1), Error::NdCode);
    assert_eq!(changed(8, 0xff), Error::NdTarget);
    for (kind, len) in [(135, 23), (136, 8), (137, 39), (134, 15)] {
        let mut bytes = [0; 40];
        bytes[0] = kind;
        assert_eq!(parsed(&bytes[..len], 255), Err(Error::NdTruncated), "type {kind}");
    }
}

#[test]
fn options_need_a_possible_length() {
    for bad in [&[1][..], &[1, 0, 0, 0, 0, 0, 0, 0], &[1, 1, 0, 0, 0, 0, 0], &[1, 2, 0, 0, 0, 0, 0, 0]] {
        assert_eq!(Options::new_checked(bad), Err(Error::NdOption));
    }
    let mut bytes = written(&solicit(&options(&[NdOption::Mtu(1500)])));
    bytes[25] = 0;
    assert_eq!(parsed(&bytes, 255), Err(Error::NdOption));
}

#[test]
fn unknown_options_and_those_of_other_links_are_passed_over() {
    let long_address = [1, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
    let bytes = [&long_address[..], &[200, 1, 0, 0, 0, 0, 0, 0], &options(&[NdOption::Mtu(9000)])].concat();
    let listed: Vec<_> = Options::new_checked(&bytes).unwrap().iter().collect();
    assert_eq!(listed, [NdOption::Mtu(9000)]);
}

#[test]
fn an_option_has_at_most_255_units() {
    let packet = vec![0; 2040];
    assert_eq!(NdOption::Redirected(&packet[..2033]).emit(&mut vec![0; 4000]), Err(Error::PayloadTooLong));
    assert_eq!(NdOption::Redirected(&packet[..2032]).emit(&mut vec![0; 2040]).unwrap().len(), 0);
    assert_eq!(NdOption::Mtu(1).emit(&mut [0; 7]), Err(Error::BufferTooShort));
}

fn any_option() -> impl Strategy<Value = NdOption<'static>> {
    let mac = || any::<[u8; 6]>().prop_map(MacAddress);
    let prefix = (0u8..=128, any::<[bool; 2]>(), any::<[u32; 2]>(), any::<Ipv6Addr>()).prop_map(
        |(prefix_len, [on_link, autonomous], [valid_s, preferred_s], prefix)| PrefixInformation {
            prefix_len,
            on_link,
            autonomous,
            valid_s,
            preferred_s,
            prefix,
        },
    );
    prop_oneof![
        mac().prop_map(NdOption::SourceLinkLayer),
        mac().prop_map(NdOption::TargetLinkLayer),
        any::<u32>().prop_map(NdOption::Mtu),
        prefix.prop_map(NdOption::Prefix),
        Just(NdOption::Redirected(b"a packet of 24 bytes ...")),
    ]
}

fn unicast() -> impl Strategy<Value = Ipv6Addr> {
    any::<[u16; 8]>().prop_map(|mut segments| {
        segments[0] &= 0x7fff;
        Ipv6Addr::from(segments)
    })
}

proptest! {
    #[test]
    fn options_read_back(list in prop::collection::vec(any_option(), 0..5)) {
        let bytes = options(&list);
        let listed: Vec<_> = Options::new_checked(&bytes).unwrap().iter().collect();
        prop_assert_eq!(listed, list);
    }

    #[test]
    fn what_is_written_is_read(
        which in 0..5, bits: [bool; 3], numbers: (u8, u16, u32, u32), target in unicast(), destination: Ipv6Addr,
        list in prop::collection::vec(any_option(), 0..4),
    ) {
        let bytes = options(&list);
        let options = Options::new_checked(&bytes).unwrap();
        let [router, solicited, overrides] = bits;
        let (hop_limit, lifetime_s, reachable_ms, retransmit_ms) = numbers;
        let repr = match which {
            0 => Repr::RouterSolicit { options },
            1 => Repr::RouterAdvert {
                hop_limit, managed: router, other: solicited, lifetime_s, reachable_ms, retransmit_ms, options,
            },
            2 => Repr::NeighborSolicit { target, options },
            3 => Repr::NeighborAdvert { router, solicited, overrides, target, options },
            _ => Repr::Redirect { target, destination, options },
        };
        let message = written(&repr);
        prop_assert_eq!(parsed(&message, HOP_LIMIT), Ok(repr));
    }
}
