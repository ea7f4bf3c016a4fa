use super::options::tests::any_options;
use super::*;
use crate::ip::Protocol;
use core::net::Ipv4Addr;
use proptest::prelude::*;

fn pseudo() -> Pseudo {
    Pseudo::v4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), Protocol::TCP)
}

fn repr() -> Repr {
    Repr {
        source_port: 8080,
        destination_port: 40_000,
        seq: SeqNumber(0x0102_0304),
        ack: SeqNumber(0x0506_0708),
        flags: Flags::PSH | Flags::ACK,
        window: 0x1122,
        urgent: 0,
        options: Options::NONE,
    }
}

fn written(repr: &Repr, payload: &[u8], fill: Fill) -> Vec<u8> {
    let mut bytes = vec![0; repr.header_len()];
    bytes.extend(payload);
    repr.emit(&mut bytes, pseudo(), fill).unwrap();
    bytes
}

#[test]
fn a_header_is_where_the_rfc_draws_it() {
    let bytes = written(&repr(), b"hi", Fill::Complete);
    let header = [0x1f, 0x90, 0x9c, 0x40, 1, 2, 3, 4, 5, 6, 7, 8, 0x50, 0x18, 0x11, 0x22];
    assert_eq!(bytes[..16], header);
    assert_eq!(bytes[18..], [0, 0, b'h', b'i']);
    let segment = Segment::new_checked(&bytes).unwrap();
    assert_eq!((segment.payload(), segment.seq_len(), segment.header_len()), (&b"hi"[..], 2, 20));
    assert!(segment.verify_checksum(pseudo()));
    assert_eq!(Repr::parse(&segment, pseudo(), Verify::Compute), Ok(repr()));
}

#[test]
fn impossible_lengths_are_refused_by_name() {
    let bytes = written(&repr(), b"", Fill::Complete);
    assert_eq!(Segment::new_checked(&bytes[..19]).unwrap_err(), Error::TcpTruncated);
    for offset in [0x00, 0x40, 0x60, 0xf0] {
        let mut bad = bytes.clone();
        bad[12] = offset;
        assert_eq!(Segment::new_checked(&bad).unwrap_err(), Error::TcpDataOffset);
    }
}

#[test]
fn a_wrong_checksum_is_refused_unless_trusted() {
    let mut bytes = written(&repr(), b"hello", Fill::Complete);
    bytes[24] ^= 0x10;
    let segment = Segment::new_checked(&bytes).unwrap();
    assert_eq!(Repr::parse(&segment, pseudo(), Verify::Compute), Err(Error::TcpChecksum));
    assert_eq!(Repr::parse(&segment, pseudo(), Verify::Trust), Ok(repr()));
}

#[test]
fn port_zero_is_refused() {
    for repr in [Repr { source_port: 0, ..repr() }, Repr { destination_port: 0, ..repr() }] {
        let bytes = written(&repr, b"", Fill::Complete);
        let segment = Segment::new_checked(&bytes).unwrap();
        assert_eq!(Repr::parse(&segment, pseudo(), Verify::Compute), Err(Error::TcpPort));
    }
}

#[test]
fn a_device_finishes_a_partial_checksum() {
    let mut bytes = written(&repr(), b"some payload", Fill::Partial);
    // What a device does: the sum from the header's start on, the field's content included, complemented.
    let checksum = Sum::of(&bytes).checksum();
    bytes[CHECKSUM_OFFSET..][..2].copy_from_slice(&checksum.to_be_bytes());
    assert_eq!(bytes, written(&repr(), b"some payload", Fill::Complete));
}

#[test]
fn a_header_may_be_written_apart_from_its_payload() {
    let mut header = [0; 20];
    let mut copy = [0; 5];
    let sum = Sum::copying(&mut copy, b"hello");
    repr().emit_header(&mut header, 5, sum, pseudo(), Fill::Complete).unwrap();
    assert_eq!([&header[..], &copy].concat(), written(&repr(), b"hello", Fill::Complete));
}

#[test]
fn what_does_not_fit_is_not_written() {
    assert_eq!(repr().emit(&mut [0; 19], pseudo(), Fill::Complete), Err(Error::BufferTooShort));
    let mut options = Options { timestamps: Some(Timestamps::default()), ..Options::NONE };
    while options.sack.push(SackBlock::default()) {}
    let long = Repr { options, ..repr() };
    assert_eq!(long.header_len(), 68);
    assert_eq!(long.emit(&mut [0; 100], pseudo(), Fill::Complete), Err(Error::TcpOptionsTooLong));
}

#[test]
fn flags_are_shown_as_packetdrill_does() {
    let shown = |flags: Flags| flags.to_string();
    assert_eq!(shown(Flags::SYN | Flags::ACK), "S.");
    assert_eq!(shown(Flags::PSH | Flags::ACK), "P.");
    assert_eq!((shown(Flags::NONE), shown(Flags::RST - Flags::RST)), ("-".into(), "-".into()));
    assert_eq!((Flags::SYN | Flags::FIN | Flags::ACK).seq_len(), 2);
}

pub(crate) fn any_repr() -> impl Strategy<Value = Repr> {
    let numbers = (1u16.., 1u16.., any::<[u32; 2]>(), 0u16..0x200, any::<[u16; 2]>());
    let options = any_options().prop_filter("options of at most 40 bytes", |o| o.wire_len() <= OPTIONS_LEN_MAX);
    (numbers, options).prop_map(|((source_port, destination_port, [seq, ack], flags, [window, urgent]), options)| {
        let flags = Flags::from_word(flags);
        let ack = SeqNumber(if flags.contains(Flags::ACK) { ack } else { 0 });
        let urgent = if flags.contains(Flags::URG) { urgent } else { 0 };
        Repr { source_port, destination_port, seq: SeqNumber(seq), ack, flags, window, urgent, options }
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(repr in any_repr(), payload in prop::collection::vec(any::<u8>(), 0..100)) {
        let bytes = written(&repr, &payload, Fill::Complete);
        let segment = Segment::new_checked(&bytes).unwrap();
        prop_assert_eq!(segment.payload(), &payload[..]);
        prop_assert_eq!(Repr::parse(&segment, pseudo(), Verify::Compute), Ok(repr));
    }
}
