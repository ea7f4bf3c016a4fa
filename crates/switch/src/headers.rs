//! The fields of a frame that rules, routes and hashes look at, read from its head.
//!
//! `ringway_wire`'s views want whole packets; a head may end in the middle of one. Fields that lie beyond it, or that a
//! fragment does not have, are absent, never zero.

use std::net::{Ipv4Addr, Ipv6Addr};

use ringway_wire::{EtherType, Protocol};

use crate::frame::Frame;

/// VLAN tags that are passed over: customer's and provider's (802.1Q, 802.1ad).
const TAGS_MAX: usize = 2;
const PROVIDER_TAG: EtherType = EtherType(0x88a8);
/// IPv6 extension headers that are passed over.
const EXTENSIONS_MAX: usize = 4;

/// What could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    pub ether_type: EtherType,
    /// Number of the outermost VLAN.
    pub vlan: Option<u16>,
    pub ip: Option<Ip>,
    pub protocol: Option<Protocol>,
    /// Of TCP, UDP, SCTP, DCCP and UDP-Lite: source and destination port.
    pub ports: Option<(u16, u16)>,
    /// Where the network header begins.
    pub network_at: usize,
}

/// Source and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

impl Headers {
    /// Reads a frame's head.
    pub fn of(head: &[u8]) -> Option<Headers> {
        let mut at = 12;
        let mut vlan = None;
        let mut ether_type = EtherType(be16(head, at)?);
        for _ in 0..TAGS_MAX {
            if ether_type != EtherType::VLAN && ether_type != PROVIDER_TAG {
                break;
            }
            vlan = vlan.or(Some(be16(head, at + 2)? & 0xfff));
            at += 4;
            ether_type = EtherType(be16(head, at)?);
        }
        let mut headers = Headers { ether_type, vlan, ip: None, protocol: None, ports: None, network_at: at + 2 };
        match ether_type {
            EtherType::IPV4 => headers.read_v4(head),
            EtherType::IPV6 => headers.read_v6(head),
            _ => None,
        };
        Some(headers)
    }

    fn read_v4(&mut self, head: &[u8]) -> Option<()> {
        let packet = head.get(self.network_at..)?;
        let header_len = usize::from(packet.first()? & 0xf) * 4;
        if packet[0] >> 4 != 4 || header_len < 20 {
            return None;
        }
        let address = |at: usize| packet.get(at..at + 4)?.try_into().ok().map(|b: [u8; 4]| Ipv4Addr::from(b));
        self.ip = Some(Ip::V4(address(12)?, address(16)?));
        self.protocol = Some(Protocol(packet[9]));
        let fragment_offset = be16(packet, 6)? & 0x1fff;
        if fragment_offset == 0 {
            self.read_ports(packet, header_len);
        }
        Some(())
    }

    fn read_v6(&mut self, head: &[u8]) -> Option<()> {
        let packet = head.get(self.network_at..)?;
        if packet.first()? >> 4 != 6 {
            return None;
        }
        let address = |at: usize| packet.get(at..at + 16)?.try_into().ok().map(|b: [u8; 16]| Ipv6Addr::from(b));
        self.ip = Some(Ip::V6(address(8)?, address(24)?));
        let (mut next, mut at) = (packet[6], 40);
        for _ in 0..EXTENSIONS_MAX {
            // RFC 8200, 4: hop-by-hop options, routing, destination options; 4.5: fragment.
            let len = match next {
                0 | 43 | 60 => 8 + usize::from(*packet.get(at + 1)?) * 8,
                44 if be16(packet, at + 2)? & 0xfff8 == 0 => 8,
                44 => {
                    self.protocol = Some(Protocol(*packet.get(at)?));
                    return Some(());
                }
                _ => break,
            };
            next = *packet.get(at)?;
            at += len;
        }
        self.protocol = Some(Protocol(next));
        self.read_ports(packet, at);
        Some(())
    }

    fn read_ports(&mut self, packet: &[u8], at: usize) {
        let has_ports = self.protocol.is_some_and(|protocol| matches!(protocol.0, 6 | 17 | 33 | 132 | 136));
        if has_ports && let (Some(source), Some(destination)) = (be16(packet, at), be16(packet, at + 2)) {
            self.ports = Some((source, destination));
        }
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]))
}

/// See [`Frame::flow_hash`].
pub(crate) fn flow_hash(frame: &Frame) -> u32 {
    let headers = Headers::of(frame.head());
    // Sums do not change when source and destination change places.
    let ends = match headers.and_then(|headers| headers.ip) {
        Some(Ip::V4(a, b)) => u64::from(a.to_bits()) + u64::from(b.to_bits()),
        Some(Ip::V6(a, b)) => fold(a.to_bits()).wrapping_add(fold(b.to_bits())),
        None => frame.source().wrapping_add(frame.destination()),
    };
    let ports = headers.and_then(|headers| headers.ports).map_or(0, |(a, b)| u64::from(a) + u64::from(b));
    (mix(ends ^ mix(ports)) >> 32) as u32
}

fn fold(address: u128) -> u64 {
    mix((address >> 64) as u64) ^ address as u64
}

fn mix(number: u64) -> u64 {
    (number ^ number >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A UDP packet of the given addresses and ports in an Ethernet frame of 60 bytes, with a VLAN tag if `vlan`.
    pub(crate) fn udp_v4(source: [u8; 4], destination: [u8; 4], ports: (u16, u16), vlan: Option<u16>) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        if let Some(vlan) = vlan {
            frame.extend([0x81, 0]);
            frame.extend(vlan.to_be_bytes());
        }
        frame.extend([8, 0, 0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0, 0]);
        let network_at = frame.len() - 12;
        frame.extend(source);
        frame.extend(destination);
        let sum = ringway_wire::Sum::of(&frame[network_at..]).checksum();
        frame[network_at + 10..network_at + 12].copy_from_slice(&sum.to_be_bytes());
        frame.extend(ports.0.to_be_bytes());
        frame.extend(ports.1.to_be_bytes());
        frame.resize(60, 0);
        frame
    }

    #[test]
    fn fields_are_read_with_and_without_a_tag() {
        for vlan in [None, Some(7)] {
            let headers = Headers::of(&udp_v4([10, 0, 0, 1], [10, 0, 0, 2], (1000, 53), vlan)).unwrap();
            assert_eq!(headers.ether_type, EtherType::IPV4);
            assert_eq!((headers.vlan, headers.ports), (vlan, Some((1000, 53))));
            assert_eq!(headers.ip, Some(Ip::V4([10, 0, 0, 1].into(), [10, 0, 0, 2].into())));
            assert_eq!(headers.protocol, Some(Protocol(17)));
        }
    }

    #[test]
    fn a_later_fragment_has_no_ports_and_a_cut_head_no_fields_beyond() {
        let mut bytes = udp_v4([10, 0, 0, 1], [10, 0, 0, 2], (1000, 53), None);
        bytes[21] = 1;
        assert_eq!(Headers::of(&bytes).unwrap().ports, None);
        for len in 0..bytes.len() {
            let headers = Headers::of(&bytes[..len]);
            assert_eq!(headers.is_some(), len >= 14);
            assert_eq!(headers.is_some_and(|h| h.ip.is_some()), len >= 34);
        }
    }

    #[test]
    fn ipv6_extension_headers_are_passed_over() {
        let mut bytes = vec![0; 12];
        bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 24, 0, 64]);
        bytes.extend([0x20; 16]);
        bytes.extend([0x30; 16]);
        bytes.extend([60, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0, 0, 80, 1, 187]);
        let headers = Headers::of(&bytes).unwrap();
        assert_eq!((headers.protocol, headers.ports), (Some(Protocol(6)), Some((80, 443))));
    }

    #[test]
    fn both_directions_of_a_flow_hash_alike_and_flows_spread() {
        let hash = |a: [u8; 4], b: [u8; 4], ports| Frame::of(&udp_v4(a, b, ports, None)).flow_hash();
        assert_eq!(hash([10, 0, 0, 1], [10, 0, 0, 2], (5, 6)), hash([10, 0, 0, 2], [10, 0, 0, 1], (6, 5)));
        let mut counts = [0; 4];
        for port in 0..1000 {
            counts[(hash([10, 0, 0, 1], [10, 0, 0, 2], (port, 80)) % 4) as usize] += 1;
        }
        assert!(counts.iter().all(|count| *count > 150), "{counts:?}");
    }
}
