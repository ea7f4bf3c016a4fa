//! Which flow a frame belongs to: one number for both directions of a connection.

use ringway_wire::rss::{SYMMETRIC_KEY, Toeplitz};
use ringway_wire::{EtherType, Protocol, ethernet, ipv4, ipv6};

static HASH: Toeplitz = Toeplitz::new(&SYMMETRIC_KEY);

/// The flow's hash. Fragments hash by their addresses, so that all of a datagram go the same way; what is no IP packet
/// hashes to zero.
pub(crate) fn hash(frame: &[u8]) -> u32 {
    let Ok(frame) = ethernet::Frame::new_checked(frame) else { return 0 };
    match frame.ether_type() {
        EtherType::IPV4 => v4(frame.payload()),
        EtherType::IPV6 => v6(frame.payload()),
        _ => 0,
    }
}

fn v4(bytes: &[u8]) -> u32 {
    let Ok(packet) = ipv4::Packet::new_checked(bytes) else { return 0 };
    match ports(packet.protocol(), packet.payload()).filter(|_| !packet.is_fragment()) {
        Some((source, destination)) => HASH.v4(packet.source(), packet.destination(), source, destination),
        None => HASH.addresses(packet.source().into(), packet.destination().into()),
    }
}

fn v6(bytes: &[u8]) -> u32 {
    let Ok(packet) = ipv6::Packet::new_checked(bytes) else { return 0 };
    let upper = packet.upper().ok().filter(|upper| upper.fragment.is_none());
    match upper.and_then(|upper| ports(upper.protocol, upper.payload)) {
        Some((source, destination)) => HASH.v6(packet.source(), packet.destination(), source, destination),
        None => HASH.addresses(packet.source().into(), packet.destination().into()),
    }
}

fn ports(protocol: Protocol, payload: &[u8]) -> Option<(u16, u16)> {
    let has_ports = matches!(protocol, Protocol::TCP | Protocol::UDP);
    let (bytes, _) = payload.split_first_chunk::<4>().filter(|_| has_ports)?;
    Some((u16::from_be_bytes([bytes[0], bytes[1]]), u16::from_be_bytes([bytes[2], bytes[3]])))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use ringway_wire::MacAddress;

    use super::*;
    use crate::packets::frame::{Addresses, Tag, Template};

    fn of(from: (u8, u16), to: (u8, u16)) -> u32 {
        let end = |(host, port)| (Ipv4Addr::new(10, 0, 0, host), port);
        let macs = (MacAddress([2; 6]), MacAddress([4; 6]));
        let addresses =
            Addresses { source_mac: macs.0, destination_mac: macs.1, source: end(from), destination: end(to) };
        hash(Template::new(&addresses, 60, 1).unwrap().number(Tag { number: 0, sent_ns: 0 }))
    }

    #[test]
    fn both_directions_are_one_flow_and_flows_spread() {
        assert_eq!(of((1, 5000), (2, 80)), of((2, 80), (1, 5000)));
        let spread: std::collections::HashSet<u32> = (0..64).map(|n| of((1, 5000 + n), (2, 80)) % 4).collect();
        assert_eq!(spread.len(), 4);
        assert_eq!((hash(&[]), hash(&[0; 60])), (0, 0));
    }
}
