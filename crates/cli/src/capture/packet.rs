//! IP and TCP headers around a piece of a stream, as if it had been sent.

use std::net::{IpAddr, SocketAddr};

/// Payload of one made-up packet at most, in bytes; well below the 65,535 of an IP packet.
pub(crate) const PAYLOAD_MAX: usize = 32 << 10;

const TCP_HEADER_BYTES: usize = 20;
const PROTOCOL_TCP: u8 = 6;
const FLAGS_PSH_ACK: u8 = 0x18;

/// One piece of a stream and where it lies.
pub(crate) struct Segment<'a> {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    /// Sequence number of the first payload byte.
    pub sequence: u32,
    /// Next byte that the source expects from the destination.
    pub acknowledgement: u32,
    /// At most [`PAYLOAD_MAX`] bytes.
    pub payload: &'a [u8],
}

impl Segment<'_> {
    /// The packet from the IP header on. Both addresses must be of one family; a mixed pair (an IPv4
    /// peer of an IPv6 socket) is shown as IPv6.
    pub(crate) fn to_packet(&self) -> Vec<u8> {
        assert!(self.payload.len() <= PAYLOAD_MAX);
        match (self.source.ip().to_canonical(), self.destination.ip().to_canonical()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => self.ipv4(source.octets(), destination.octets()),
            (source, destination) => self.ipv6(octets16(source), octets16(destination)),
        }
    }

    fn ipv4(&self, source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
        let total = 20 + TCP_HEADER_BYTES + self.payload.len();
        let mut packet = Vec::with_capacity(total);
        packet.extend_from_slice(&[0x45, 0]);
        packet.extend_from_slice(&(total as u16).to_be_bytes());
        // Identification 0, "don't fragment", hop limit 64, checksum to be filled in.
        packet.extend_from_slice(&[0, 0, 0x40, 0, 64, PROTOCOL_TCP, 0, 0]);
        packet.extend_from_slice(&source);
        packet.extend_from_slice(&destination);
        let checksum = finish(sum(0, &packet));
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        let pseudo = sum(sum(0, &source), &destination);
        self.push_tcp(&mut packet, pseudo);
        packet
    }

    fn ipv6(&self, source: [u8; 16], destination: [u8; 16]) -> Vec<u8> {
        let length = TCP_HEADER_BYTES + self.payload.len();
        let mut packet = Vec::with_capacity(40 + length);
        packet.extend_from_slice(&[0x60, 0, 0, 0]);
        packet.extend_from_slice(&(length as u16).to_be_bytes());
        packet.extend_from_slice(&[PROTOCOL_TCP, 64]);
        packet.extend_from_slice(&source);
        packet.extend_from_slice(&destination);
        let pseudo = sum(sum(0, &source), &destination);
        self.push_tcp(&mut packet, pseudo);
        packet
    }

    /// Appends the TCP header and the payload; `addresses` is the sum over the pseudo header's addresses.
    fn push_tcp(&self, packet: &mut Vec<u8>, addresses: u64) {
        let start = packet.len();
        packet.extend_from_slice(&self.source.port().to_be_bytes());
        packet.extend_from_slice(&self.destination.port().to_be_bytes());
        packet.extend_from_slice(&self.sequence.to_be_bytes());
        packet.extend_from_slice(&self.acknowledgement.to_be_bytes());
        // Header of five words, full window, checksum to be filled in, no urgent data.
        packet.extend_from_slice(&[5 << 4, FLAGS_PSH_ACK, 0xff, 0xff, 0, 0, 0, 0]);
        packet.extend_from_slice(self.payload);
        let length = (packet.len() - start) as u64;
        let checksum = finish(sum(addresses + u64::from(PROTOCOL_TCP) + length, &packet[start..]));
        packet[start + 16..start + 18].copy_from_slice(&checksum.to_be_bytes());
    }
}

fn octets16(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// Adds `bytes` as 16-bit big-endian words; an odd last byte counts as the high half of a word.
fn sum(start: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(2);
    let odd = words.remainder().first().map_or(0, |b| u64::from(*b) << 8);
    words.fold(start + odd, |total, w| total + u64::from(u16::from_be_bytes([w[0], w[1]])))
}

fn finish(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    !(total as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn segment<'a>(source: &str, destination: &str, payload: &'a [u8]) -> Segment<'a> {
        Segment {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            sequence: 0x0102_0304,
            acknowledgement: 0x0506_0708,
            payload,
        }
    }

    #[test]
    fn the_ipv4_header_is_laid_out_and_sums_to_zero() {
        let packet = segment("127.0.0.1:7000", "127.0.0.1:40000", b"hi").to_packet();
        assert_eq!(packet.len(), 42);
        assert_eq!(packet[..4], [0x45, 0, 0, 42]);
        assert_eq!(finish(sum(0, &packet[..20])), 0);
        assert_eq!(packet[20..22], 7000u16.to_be_bytes());
        assert_eq!(packet[24..28], [1, 2, 3, 4]);
        assert_eq!(packet[28..32], [5, 6, 7, 8]);
        assert_eq!(&packet[40..], b"hi");
    }

    #[test]
    fn mapped_addresses_are_ipv4_and_mixed_pairs_ipv6() {
        assert_eq!(segment("[::ffff:1.2.3.4]:1", "5.6.7.8:2", b"").to_packet()[0], 0x45);
        let packet = segment("[::1]:1", "[fe80::1]:2", b"abc").to_packet();
        assert_eq!((packet[0], packet.len()), (0x60, 63));
        assert_eq!(packet[4..6], [0, 23]);
        assert_eq!(segment("[::1]:1", "5.6.7.8:2", b"").to_packet()[0], 0x60);
    }

    proptest! {
        #[test]
        fn checksums_verify(v6: bool, payload in proptest::collection::vec(any::<u8>(), 0..3000)) {
            let (a, b) = if v6 { ("[::1]:9", "[2001:db8::2]:8") } else { ("10.0.0.1:9", "10.0.0.2:8") };
            let packet = segment(a, b, &payload).to_packet();
            let (header, addresses) = if v6 { (40, 8..40) } else { (20, 12..20) };
            let tcp = &packet[header..];
            let pseudo = sum(u64::from(PROTOCOL_TCP) + tcp.len() as u64, &packet[addresses]);
            prop_assert_eq!(finish(sum(pseudo, tcp)), 0);
        }
    }
}
