use super::*;
use proptest::prelude::*;

fn written(repr: &Repr) -> Vec<u8> {
    let mut bytes = vec![0xee; repr.message_len()];
    repr.emit(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_ping_that_was_seen() {
    let data: Vec<u8> = (b'a'..=b'w').chain(b'a'..=b'i').collect();
    let bytes = written(&Repr::EchoRequest { identification: 1, sequence: 1, data: &data });
    assert_eq!(bytes[..8], [8, 0, 0x4d, 0x5a, 0, 1, 0, 1]); // as `ping` of another system sends it
}

#[test]
fn the_next_hops_mtu_is_read() {
    let bytes = written(&Repr::DestinationUnreachable { code: 4, mtu: 1280, quoted: b"quote" });
    assert_eq!((bytes[..2].to_vec(), bytes[4..8].to_vec()), (vec![3, 4], vec![0, 0, 5, 0]));
    let mut other_code = bytes.clone();
    other_code[1] = unreachable::PORT;
    let message = Message::new_checked(&other_code).unwrap();
    assert_eq!(Repr::parse(&message, Verify::Compute), Err(Error::IcmpChecksum));
    let parsed = Repr::parse(&message, Verify::Trust);
    assert_eq!(parsed, Ok(Repr::DestinationUnreachable { code: 3, mtu: 0, quoted: b"quote" }));
}

#[test]
fn what_is_unknown_is_refused() {
    for kind in [1, 2, 4, 13, 255] {
        let message = [kind, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(Repr::parse(&Message::new_checked(&message).unwrap(), Verify::Trust), Err(Error::IcmpType));
    }
    let repr = Repr::TimeExceeded { code: 1, quoted: &[0; 28] };
    assert_eq!(repr.emit(&mut [0; 35]), Err(Error::BufferTooShort));
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        which in 0..6, code: u8, numbers: (u16, u16), pointer: u8, gateway: Ipv4Addr,
        body in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let (identification, sequence) = numbers;
        let repr = match which {
            0 => Repr::EchoRequest { identification, sequence, data: &body },
            1 => Repr::EchoReply { identification, sequence, data: &body },
            2 => Repr::DestinationUnreachable { code, mtu: if code == 4 { sequence } else { 0 }, quoted: &body },
            3 => Repr::Redirect { code, gateway, quoted: &body },
            4 => Repr::TimeExceeded { code, quoted: &body },
            _ => Repr::ParameterProblem { code, pointer, quoted: &body },
        };
        let bytes = written(&repr);
        prop_assert_eq!(Repr::parse(&Message::new_checked(&bytes).unwrap(), Verify::Compute), Ok(repr));
    }
}
