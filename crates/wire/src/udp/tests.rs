use super::*;
use crate::ip::{IpAddress, Protocol};
use proptest::prelude::*;

fn pseudo(address: &str) -> Pseudo {
    let address: IpAddress = address.parse().unwrap();
    Pseudo::new(address, address, Protocol::UDP)
}

fn written(repr: &Repr, payload: &[u8], pseudo: Pseudo, fill: Fill) -> Vec<u8> {
    let mut bytes = [&[0; HEADER_LEN][..], payload].concat();
    repr.emit(&mut bytes, pseudo, fill).unwrap();
    bytes
}

const REPR: Repr = Repr { source_port: 53, destination_port: 0x1234, payload_len: 2 };

#[test]
fn what_lies_behind_the_length_does_not_belong() {
    let mut bytes = written(&REPR, b"hi", pseudo("10.0.0.1"), Fill::Complete);
    assert_eq!(bytes[..6], [0, 53, 0x12, 0x34, 0, 10]);
    bytes.extend([7, 7, 7]);
    let datagram = Datagram::new_checked(&bytes).unwrap();
    assert_eq!(datagram.payload(), b"hi");
    assert_eq!(Repr::parse(&datagram, pseudo("10.0.0.1"), Verify::Compute), Ok(REPR));
}

#[test]
fn impossible_lengths_are_refused_by_name() {
    let bytes = written(&REPR, b"hi", pseudo("10.0.0.1"), Fill::Complete);
    assert_eq!(Datagram::new_checked(&bytes[..7]).unwrap_err(), Error::UdpTruncated);
    assert_eq!(Datagram::new_checked(&bytes[..9]).unwrap_err(), Error::UdpLength);
    for len in [0, 7, 11] {
        let mut bad = bytes.clone();
        bad[5] = len;
        assert_eq!(Datagram::new_checked(&bad).unwrap_err(), Error::UdpLength);
    }
}

#[test]
fn only_ipv4_needs_no_checksum() {
    let mut bytes = written(&REPR, b"hi", pseudo("10.0.0.1"), Fill::Complete);
    bytes[6..8].fill(0);
    let datagram = Datagram::new_checked(&bytes).unwrap();
    assert_eq!(Repr::parse(&datagram, pseudo("10.0.0.1"), Verify::Compute), Ok(REPR));
    assert_eq!(Repr::parse(&datagram, pseudo("::1"), Verify::Compute), Err(Error::UdpChecksumMissing));
    assert_eq!(Repr::parse(&datagram, pseudo("::1"), Verify::Trust), Ok(REPR));
    bytes[7] = 1;
    let datagram = Datagram::new_checked(&bytes).unwrap();
    assert_eq!(Repr::parse(&datagram, pseudo("10.0.0.1"), Verify::Compute), Err(Error::UdpChecksum));
}

#[test]
fn a_checksum_of_zero_is_written_in_its_other_form() {
    // The payload that makes everything add up to 0xffff, by the checksum without it.
    let repr = Repr { payload_len: 2, ..REPR };
    let without = written(&repr, &[0, 0], pseudo("10.0.0.1"), Fill::Complete);
    let bytes = written(&repr, &without[6..8], pseudo("10.0.0.1"), Fill::Complete);
    assert_eq!(bytes[6..8], [0xff, 0xff]);
    let datagram = Datagram::new_checked(&bytes).unwrap();
    assert_eq!(Repr::parse(&datagram, pseudo("10.0.0.1"), Verify::Compute), Ok(repr));
}

#[test]
fn what_cannot_be_is_refused() {
    let no_port = written(&Repr { destination_port: 0, ..REPR }, b"hi", pseudo("::1"), Fill::Complete);
    let datagram = Datagram::new_checked(&no_port).unwrap();
    assert_eq!(Repr::parse(&datagram, pseudo("::1"), Verify::Compute), Err(Error::UdpPort));
    assert_eq!(REPR.emit(&mut [0; 9], pseudo("::1"), Fill::Complete), Err(Error::BufferTooShort));
    let long = Repr { payload_len: PAYLOAD_LEN_MAX + 1, ..REPR };
    assert_eq!(long.emit(&mut vec![0; 70_000], pseudo("::1"), Fill::Complete), Err(Error::PayloadTooLong));
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        source_port: u16, destination_port in 1u16.., payload in prop::collection::vec(any::<u8>(), 0..100), v6: bool,
    ) {
        let pseudo = pseudo(if v6 { "fe80::1" } else { "10.1.2.3" });
        let repr = Repr { source_port, destination_port, payload_len: payload.len() };
        let mut bytes = written(&repr, &payload, pseudo, Fill::Complete);
        let datagram = Datagram::new_checked(&bytes).unwrap();
        prop_assert_eq!(datagram.payload(), &payload[..]);
        prop_assert_eq!(Repr::parse(&datagram, pseudo, Verify::Compute), Ok(repr));

        let complete = bytes.clone();
        repr.emit(&mut bytes, pseudo, Fill::Partial).unwrap();
        let finished = not_zero(Sum::of(&bytes).checksum());
        bytes[CHECKSUM_OFFSET..][..2].copy_from_slice(&finished.to_be_bytes());
        prop_assert_eq!(bytes, complete);
    }
}
