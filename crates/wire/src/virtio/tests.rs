use super::*;
use proptest::prelude::*;

const GSO: Gso = Gso { kind: GsoKind::TcpV6, ecn: true, header_len: 74, size: 1428 };

#[test]
fn fields_are_where_the_standard_draws_them() {
    let header = Header { checksum: Checksum::Needed { start: 54, offset: 16 }, gso: Some(GSO) };
    let mut bytes = [0xee; 12 + 100];
    assert_eq!(header.emit(&mut bytes, Layout::Full).unwrap().len(), 100);
    assert_eq!(bytes[..12], [1, 0x84, 74, 0, 0x94, 0x05, 54, 0, 16, 0, 1, 0]);
    assert_eq!(Header::parse(&bytes, Layout::Full), Ok((header, &bytes[12..])));
    assert_eq!(header.emit(&mut bytes[..10], Layout::Short).unwrap().len(), 0);
    assert_eq!(header.emit(&mut bytes[..11], Layout::Full), Err(Error::BufferTooShort));
}

#[test]
fn what_a_device_or_guest_gets_wrong_is_refused() {
    let parse = |bytes: &[u8]| Header::parse(bytes, Layout::Short).map(|(header, _)| header).unwrap_err();
    assert_eq!(parse(&[0; 9]), Error::VirtioTruncated);
    assert_eq!(Header::parse(&[0; 11], Layout::Full), Err(Error::VirtioTruncated));
    assert_eq!(parse(&[0, 1, 0, 0, 0, 0, 0, 0, 0, 0]), Error::VirtioGso);
    assert_eq!(parse(&[0, 2, 0, 0, 9, 0, 0, 0, 0, 0]), Error::VirtioGso);
    assert_eq!(parse(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]), Error::VirtioChecksum);
    assert_eq!(parse(&[1, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 7, 7, 7]), Error::VirtioChecksum);
}

#[test]
fn what_is_known_of_a_checksum_decides_who_verifies() {
    assert_eq!(Checksum::Unknown.verify(), Verify::Compute);
    assert_eq!(Checksum::Valid.verify(), Verify::Trust);
    assert_eq!(Checksum::Needed { start: 0, offset: 0 }.verify(), Verify::Trust);
}

#[test]
fn a_checksum_is_finished_once() {
    let mut packet = *b"....\x12\x34\x00\x00data!";
    let mut header = Header { checksum: Checksum::Needed { start: 4, offset: 2 }, gso: None };
    let expected = Sum::of(&packet[4..]).checksum();
    header.finish_checksum(&mut packet).unwrap();
    assert_eq!(packet[6..8], expected.to_be_bytes());
    assert_eq!(header.checksum, Checksum::Valid);
    let before = packet;
    header.finish_checksum(&mut packet).unwrap();
    assert_eq!(packet, before);
    let mut beyond = Header { checksum: Checksum::Needed { start: 12, offset: 0 }, gso: None };
    assert_eq!(beyond.finish_checksum(&mut packet), Err(Error::VirtioChecksum));
}

#[test]
fn a_checksum_of_zero_is_written_in_its_other_form() {
    let mut packet = [0xff, 0xff, 0, 0];
    let mut header = Header { checksum: Checksum::Needed { start: 0, offset: 2 }, gso: None };
    header.finish_checksum(&mut packet).unwrap();
    assert_eq!(packet, [0xff; 4]);
}

pub(crate) fn any_header() -> impl Strategy<Value = Header> {
    let needed = (0u16..50, 0u16..48).prop_map(|(start, offset)| Checksum::Needed { start, offset });
    let checksum = prop_oneof![Just(Checksum::Unknown), Just(Checksum::Valid), needed];
    let kinds = [GsoKind::TcpV4, GsoKind::TcpV6, GsoKind::UdpFragments, GsoKind::UdpSegments];
    let gso = (prop::sample::select(kinds.to_vec()), any::<bool>(), any::<u16>(), 1u16..)
        .prop_map(|(kind, ecn, header_len, size)| Gso { kind, ecn, header_len, size });
    (checksum, prop::option::of(gso)).prop_map(|(checksum, gso)| Header { checksum, gso })
}

proptest! {
    #[test]
    fn what_is_written_is_read(header in any_header(), full: bool) {
        let layout = if full { Layout::Full } else { Layout::Short };
        let mut bytes = [0xee; 12 + 100];
        header.emit(&mut bytes, layout).unwrap();
        prop_assert_eq!(Header::parse(&bytes, layout).unwrap().0, header);
    }
}
