//! Generated frames: UDP over IPv4 with a number, the time of sending and a filling that depends on the number.
//!
//! ```text
//!   Ethernet 14 | IPv4 20 | UDP 8 | magic 2 | number 8 | sent at, ns 8 | filling ...
//! ```
//! The UDP checksum is left out (zero), as IPv4 allows: number and time change in place.

use std::net::Ipv4Addr;

use anyhow::{Result, anyhow, ensure};
use ringway_wire::{EtherType, Fill, MacAddress, Protocol, ethernet, ipv4, udp};

/// Shortest and longest frame in bytes, without the frame check sequence. The longest IPv4 packet there is.
pub(crate) const LEN_MIN: usize = TAG_AT + TAG_LEN;
pub(crate) const LEN_MAX: usize = ethernet::HEADER_LEN + 65_535;

const TAG_AT: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN + udp::HEADER_LEN;
const TAG_LEN: usize = 18;
const MAGIC: [u8; 2] = *b"rw";

/// Who talks to whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) source_mac: MacAddress,
    pub(crate) destination_mac: MacAddress,
    pub(crate) source: (Ipv4Addr, u16),
    pub(crate) destination: (Ipv4Addr, u16),
}

/// What a frame of ours says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) number: u64,
    pub(crate) sent_ns: u64,
}

/// A frame to copy and number.
pub(crate) struct Template {
    bytes: Vec<u8>,
    flows: u16,
    source_port: u16,
}

impl Template {
    /// Frames of `len` bytes, of `flows` flows that differ by their source ports.
    pub(crate) fn new(addresses: &Addresses, len: usize, flows: u16) -> Result<Template> {
        ensure!((LEN_MIN..=LEN_MAX).contains(&len), "frames have {LEN_MIN} to {LEN_MAX} bytes, not {len}");
        let mut bytes = vec![0; len];
        let ethernet = ethernet::Repr {
            destination: addresses.destination_mac,
            source: addresses.source_mac,
            vlan: None,
            ether_type: EtherType::IPV4,
        };
        let payload_len = len - ethernet::HEADER_LEN - ipv4::HEADER_LEN;
        let (source, destination) = (addresses.source, addresses.destination);
        let ip = ipv4::Repr::new(source.0, destination.0, Protocol::UDP, payload_len);
        let udp = udp::Repr {
            source_port: source.1,
            destination_port: destination.1,
            payload_len: payload_len - udp::HEADER_LEN,
        };
        let failed = |e| anyhow!("a frame of {len} bytes: {e}");
        let rest = ethernet.emit(&mut bytes).map_err(failed)?;
        let rest = ip.emit(rest).map_err(failed)?;
        udp.emit(rest, ip.pseudo(), Fill::Partial).map_err(failed)?;
        rest[udp::CHECKSUM_OFFSET..][..2].fill(0);
        bytes[TAG_AT..][..2].copy_from_slice(&MAGIC);
        Ok(Template { bytes, flows: flows.max(1), source_port: source.1 })
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The next frame, with this number.
    #[inline]
    pub(crate) fn number(&mut self, tag: Tag) -> &[u8] {
        let port = self.source_port.wrapping_add((tag.number % u64::from(self.flows)) as u16);
        let udp_at = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
        self.bytes[udp_at..][..2].copy_from_slice(&port.to_be_bytes());
        let (number, time) = self.bytes[TAG_AT + 2..][..16].split_at_mut(8);
        number.copy_from_slice(&tag.number.to_be_bytes());
        time.copy_from_slice(&tag.sent_ns.to_be_bytes());
        &self.bytes
    }

    /// Fills what lies behind the tag by the frame's number, for a receiver that checks every byte.
    pub(crate) fn fill(&mut self, number: u64) {
        fill(&mut self.bytes[TAG_AT + TAG_LEN..], number);
    }
}

fn filling(number: u64, at: usize) -> u8 {
    (number as u8).wrapping_mul(31).wrapping_add(at as u8)
}

fn fill(bytes: &mut [u8], number: u64) {
    bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = filling(number, at));
}

/// The tag of a frame of ours; none for any other.
#[inline]
pub(crate) fn tag(frame: &[u8]) -> Option<Tag> {
    let tag: &[u8; TAG_LEN] = frame.get(TAG_AT..TAG_AT + TAG_LEN)?.try_into().ok()?;
    let word = |at: usize| u64::from_be_bytes(std::array::from_fn(|i| tag[at + i]));
    (tag[..2] == MAGIC).then(|| Tag { number: word(2), sent_ns: word(10) })
}

/// Whether the filling is the one that belongs to the number.
pub(crate) fn is_filled(frame: &[u8], number: u64) -> bool {
    frame[TAG_AT + TAG_LEN..].iter().enumerate().all(|(at, byte)| *byte == filling(number, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_wire::Verify;

    fn addresses() -> Addresses {
        Addresses {
            source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
            destination_mac: MacAddress::BROADCAST,
            source: (Ipv4Addr::new(10, 0, 0, 1), 1000),
            destination: (Ipv4Addr::new(10, 1, 0, 1), 2000),
        }
    }

    #[test]
    fn a_frame_is_a_right_packet_and_tells_its_number() {
        for len in [LEN_MIN, 61, 1514, LEN_MAX] {
            let mut template = Template::new(&addresses(), len, 4).unwrap();
            template.fill(6);
            let tag_in = Tag { number: 6, sent_ns: 77 };
            let bytes = template.number(tag_in).to_vec();
            let frame = ethernet::Frame::new_checked(&bytes).unwrap();
            let packet = ipv4::Packet::new_checked(frame.payload()).unwrap();
            let ip = ipv4::Repr::parse(&packet, Verify::Compute).unwrap();
            let datagram = udp::Datagram::new_checked(packet.payload()).unwrap();
            assert!(udp::Repr::parse(&datagram, ip.pseudo(), Verify::Compute).is_ok());
            assert_eq!((datagram.source_port(), datagram.destination_port()), (1002, 2000));
            assert_eq!(tag(&bytes), Some(tag_in));
            assert!(is_filled(&bytes, 6) && (len < LEN_MIN + 9 || !is_filled(&bytes, 7)));
        }
        assert_eq!(tag(&[0; 60]), None);
        assert!(Template::new(&addresses(), 59, 1).is_err());
    }
}
