use super::*;
use proptest::prelude::*;

const TCP: u8 = 6;

fn walked(first: Protocol, bytes: &[u8]) -> Result<(Protocol, usize), Refused> {
    walk(first, bytes).map(|upper| (upper.protocol, upper.payload.len()))
}

#[test]
fn without_extensions_there_is_nothing_to_walk() {
    for protocol in [Protocol::TCP, Protocol::ICMPV6, Protocol::ESP, Protocol::NO_NEXT_HEADER] {
        let upper = walk(protocol, &[1, 2]).unwrap();
        assert_eq!((upper.protocol, upper.payload, upper.protocol_at), (protocol, &[1, 2][..], 6));
    }
}

#[test]
fn a_chain_leads_to_the_transport() {
    let mut bytes = vec![60, 0, 5, 2, 0, 0, 1, 0]; // hop-by-hop: router alert, PadN
    bytes.extend([43, 1, 0, 0, 1, 4, 0, 0, 0, 0, 0x1e, 2, 1, 1, 0, 0]); // destination options, 16 bytes
    bytes.extend([TCP, 0, 0, 0, 0, 0, 0, 0]); // routing, no segments left
    bytes.extend([9, 9, 9]);
    let upper = walk(Protocol::HOP_BY_HOP, &bytes).unwrap();
    assert_eq!((upper.protocol, upper.payload, upper.protocol_at), (Protocol::TCP, &[9, 9, 9][..], 40 + 24));
}

#[test]
fn a_fragment_ends_the_walk_and_an_atomic_one_does_not() {
    let fragment = Fragment { identification: 0xdead_beef, offset: 1448, more: true };
    let mut bytes = [0; 12];
    emit_fragment(fragment, Protocol::DESTINATION_OPTIONS, &mut bytes).unwrap();
    let upper = walk(Protocol::FRAGMENT, &bytes).unwrap();
    assert_eq!((upper.fragment, upper.protocol), (Some(fragment), Protocol::DESTINATION_OPTIONS));
    assert_eq!(upper.payload.len(), 4);
    let atomic = Fragment { identification: 1, offset: 0, more: false };
    emit_fragment(atomic, Protocol::TCP, &mut bytes).unwrap();
    let upper = walk(Protocol::FRAGMENT, &bytes).unwrap();
    assert_eq!((upper.fragment, upper.protocol, upper.payload.len()), (None, Protocol::TCP, 4));
    assert_eq!(emit_fragment(atomic, Protocol::TCP, &mut [0; 7]), Err(Error::BufferTooShort));
}

#[test]
fn what_is_cut_off_is_refused() {
    for first in [Protocol::HOP_BY_HOP, Protocol::DESTINATION_OPTIONS, Protocol::ROUTING, Protocol::FRAGMENT] {
        for len in 0..8 {
            let refused = walk(first, &[0; 8][..len]).unwrap_err();
            assert_eq!(refused, silent(Error::Ipv6ExtensionTruncated), "{first:?} {len}");
        }
    }
    let too_long = walk(Protocol::ROUTING, &[TCP, 1, 0, 0, 0, 0, 0, 0, 0]).unwrap_err();
    assert_eq!(too_long.error, Error::Ipv6ExtensionTruncated);
    let option = walk(Protocol::DESTINATION_OPTIONS, &[TCP, 0, 1, 9, 0, 0, 0, 0]).unwrap_err();
    assert_eq!(option.error, Error::Ipv6Option);
}

#[test]
fn the_chain_has_a_bound() {
    let chain = |headers: usize| {
        let mut bytes = [60, 0, 1, 4, 0, 0, 0, 0].repeat(headers);
        bytes[8 * (headers - 1)] = TCP;
        bytes
    };
    assert_eq!(walked(Protocol::DESTINATION_OPTIONS, &chain(8)), Ok((Protocol::TCP, 0)));
    let refused = walked(Protocol::DESTINATION_OPTIONS, &chain(9)).unwrap_err();
    assert_eq!(refused, silent(Error::Ipv6ExtensionsTooMany));
}

#[test]
fn hop_by_hop_comes_first_or_not_at_all() {
    let bytes = [[0, 0, 1, 4, 0, 0, 0, 0], [TCP, 0, 1, 4, 0, 0, 0, 0]].concat();
    let refused = walked(Protocol::DESTINATION_OPTIONS, &bytes).unwrap_err();
    assert_eq!(refused, owed(Error::Ipv6HopByHopMisplaced, UNKNOWN_NEXT_HEADER, 40));
}

#[test]
fn segments_left_are_not_for_us() {
    let refused = walked(Protocol::ROUTING, &[TCP, 0, 0, 1, 0, 0, 0, 0]).unwrap_err();
    assert_eq!(refused, owed(Error::Ipv6RoutingHeader, ERRONEOUS_FIELD, 42));
}

#[test]
fn unknown_options_say_what_to_do() {
    let with_option = |kind: u8| walked(Protocol::DESTINATION_OPTIONS, &[TCP, 0, 0, kind, 0, 0, 0, 0]);
    assert_eq!(with_option(0x3e), Ok((Protocol::TCP, 0)));
    assert_eq!(with_option(0x7e), Err(silent(Error::Ipv6UnknownOption)));
    for (kind, even_if_multicast) in [(0xbe, true), (0xfe, false)] {
        let answer = Some(Answer { code: UNKNOWN_OPTION, pointer: 43, even_if_multicast });
        assert_eq!(with_option(kind), Err(Refused { error: Error::Ipv6UnknownOption, answer }));
    }
}

#[test]
fn options_have_a_bound() {
    let options = |count: usize| {
        let mut bytes = vec![TCP, 2];
        bytes.extend([0x1e, 0].repeat(count));
        bytes.resize(24, PAD1);
        walked(Protocol::HOP_BY_HOP, &bytes)
    };
    assert_eq!(options(8), Ok((Protocol::TCP, 0)));
    assert_eq!(options(9), Err(silent(Error::Ipv6OptionsTooMany)));
}

proptest! {
    #[test]
    fn any_bytes_lead_somewhere_within_them(first: u8, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(upper) = walk(Protocol(first), &bytes) {
            prop_assert!(bytes.ends_with(upper.payload));
            let (at, packet_len) = (upper.protocol_at as usize, HEADER_LEN + bytes.len());
            prop_assert!(at == 6 || at < packet_len && bytes[at - HEADER_LEN] == upper.protocol.0);
        }
    }

    #[test]
    fn fragment_headers_read_back(identification: u32, offset in 0u16..0x2000, more: bool) {
        let fragment = Fragment { identification, offset: offset * 8, more };
        let mut bytes = [0; 8];
        emit_fragment(fragment, Protocol::UDP, &mut bytes).unwrap();
        let upper = walk(Protocol::FRAGMENT, &bytes).unwrap();
        prop_assert_eq!(upper.protocol, Protocol::UDP);
        prop_assert_eq!(upper.fragment, (offset != 0 || more).then_some(fragment));
    }
}
