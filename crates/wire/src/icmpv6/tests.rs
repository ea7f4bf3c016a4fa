use super::*;
use crate::ip::Protocol;
use core::net::Ipv6Addr;
use proptest::prelude::*;

fn pseudo() -> Pseudo {
    Pseudo::v6("fe80::1".parse().unwrap(), Ipv6Addr::LOCALHOST, Protocol::ICMPV6)
}

fn written(repr: &Repr) -> Vec<u8> {
    let mut bytes = vec![0xee; repr.message_len()];
    repr.emit(&mut bytes, pseudo(), Fill::Complete).unwrap();
    bytes
}

fn parsed(bytes: &[u8]) -> Result<Repr<'_>, Error> {
    Repr::parse(&Message::new_checked(bytes).unwrap(), 64, pseudo(), Verify::Compute)
}

#[test]
fn the_pseudo_header_is_part_of_the_checksum() {
    let bytes = written(&Repr::PacketTooBig { mtu: 1400, quoted: b"quote" });
    assert_eq!((&bytes[..2], &bytes[4..8]), (&[2, 0][..], &[0, 0, 5, 0x78][..]));
    let message = Message::new_checked(&bytes).unwrap();
    assert!(message.verify_checksum_v6(pseudo()));
    assert!(!message.verify_checksum_v4());
    let mut wrong = bytes.clone();
    wrong[7] += 1;
    assert_eq!(parsed(&wrong), Err(Error::IcmpChecksum));
}

#[test]
fn neighbor_discovery_needs_the_links_hop_limit() {
    let bytes = written(&Repr::Nd(nd::Repr::RouterSolicit { options: nd::Options::NONE }));
    assert_eq!(parsed(&bytes), Err(Error::NdHopLimit));
}

#[test]
fn what_is_unknown_is_refused() {
    for kind in [0, 5, 127, 130, 132, 138, 255] {
        let message = [kind, 0, 0, 0, 0, 0, 0, 0];
        let message = Message::new_checked(&message).unwrap();
        assert_eq!(Repr::parse(&message, 255, pseudo(), Verify::Trust), Err(Error::IcmpType));
    }
    let repr = Repr::TimeExceeded { code: 1, quoted: &[0; 48] };
    assert_eq!(repr.emit(&mut [0; 55], pseudo(), Fill::Complete), Err(Error::BufferTooShort));
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        which in 0..6, code: u8, numbers: (u16, u16), word: u32, body in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let (identification, sequence) = numbers;
        let repr = match which {
            0 => Repr::EchoRequest { identification, sequence, data: &body },
            1 => Repr::EchoReply { identification, sequence, data: &body },
            2 => Repr::DestinationUnreachable { code, quoted: &body },
            3 => Repr::PacketTooBig { mtu: word, quoted: &body },
            4 => Repr::TimeExceeded { code, quoted: &body },
            _ => Repr::ParameterProblem { code, pointer: word, quoted: &body },
        };
        let mut bytes = written(&repr);
        prop_assert_eq!(parsed(&bytes), Ok(repr));
        let complete = bytes.clone();
        repr.emit(&mut bytes, pseudo(), Fill::Partial).unwrap();
        let finished = crate::Sum::of(&bytes).checksum();
        bytes[icmp::CHECKSUM_OFFSET..][..2].copy_from_slice(&finished.to_be_bytes());
        prop_assert_eq!(bytes, complete);
    }
}
