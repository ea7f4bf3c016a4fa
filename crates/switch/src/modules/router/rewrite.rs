//! The network header of a frame: checked before it is routed, aged when it is.

use ringway_wire::{EtherType, Sum};

use crate::frame::Frame;

/// Behind an Ethernet header without tags; the router has no VLANs.
const NETWORK_AT: usize = 14;

/// A header that may be routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    V4 { destination: u32 },
    V6 { destination: u128 },
}

impl Network {
    /// A sound header: RFC 1812, 5.2.2 (version, lengths, checksum), and not a packet to a group.
    pub(super) fn of(frame: &Frame) -> Option<Network> {
        let (ethernet, packet) = frame.head().split_at_checked(NETWORK_AT)?;
        match EtherType(u16::from_be_bytes([ethernet[12], ethernet[13]])) {
            EtherType::IPV4 => Network::v4(packet, frame.len() - NETWORK_AT),
            EtherType::IPV6 => Network::v6(packet, frame.len() - NETWORK_AT),
            _ => None,
        }
    }

    fn v4(packet: &[u8], bytes: usize) -> Option<Network> {
        let header_len = usize::from(packet.first()? & 0xf) * 4;
        let header = packet.get(..header_len.max(20))?;
        let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let is_sound = header[0] >> 4 == 4 && header_len >= 20 && (header_len..=bytes).contains(&total_len);
        let destination = u32::from_be_bytes(header[16..20].try_into().ok()?);
        let is_unicast = destination >> 28 < 0xe && destination >> 24 != 0;
        (is_sound && is_unicast && Sum::of(header).is_valid()).then_some(Network::V4 { destination })
    }

    fn v6(packet: &[u8], bytes: usize) -> Option<Network> {
        let header = packet.get(..40)?;
        let payload_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let destination = u128::from_be_bytes(header[24..40].try_into().ok()?);
        // Link-local addresses do not leave their link (RFC 4291, 2.5.6), groups are not routed here.
        let is_routed = destination >> 120 != 0xff && destination >> 118 != 0xfe80 >> 6;
        (header[0] >> 4 == 6 && 40 + payload_len <= bytes && is_routed).then_some(Network::V6 { destination })
    }

    /// One hop less to live; None, and nothing changes, if that was the last.
    pub(super) fn age(self, frame: &mut Frame) -> Option<()> {
        let packet = frame.head_mut().get_mut(NETWORK_AT..)?;
        let ttl_at = if let Network::V4 { .. } = self { 8 } else { 7 };
        let ttl = packet[ttl_at];
        if ttl <= 1 {
            return None;
        }
        packet[ttl_at] = ttl - 1;
        if let Network::V4 { .. } = self {
            // RFC 1624, equation 3: HC' = ~(~HC + ~m + m'), for the word of TTL and protocol.
            let protocol = packet[9];
            let checksum = u16::from_be_bytes([packet[10], packet[11]]);
            let (before, after) = (u16::from_be_bytes([ttl, protocol]), u16::from_be_bytes([ttl - 1, protocol]));
            let sum = Sum::of_u16(!checksum) + Sum::of_u16(!before) + Sum::of_u16(after);
            packet[10..12].copy_from_slice(&sum.checksum().to_be_bytes());
        }
        Some(())
    }
}
