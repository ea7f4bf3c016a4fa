//! The headers that nearly every packet of an established connection has: IPv4 without options, TCP with timestamps and
//! nothing else (RFC 7323, appendix A). Read and written in one go, with all offsets known.
//!
//! ```text
//!   0              20                    40            52
//!   | IPv4, 5 words | TCP, 5 words        | nop nop TS  | payload
//! ```
//! What is read here means what [`ipv4::Repr::parse`](crate::ipv4::Repr::parse) and
//! [`tcp::Repr::parse`](crate::tcp::Repr::parse) would say of it, and what is written is what their `emit` would write;
//! anything unusual is left to them.

use crate::bytes::{be16, be32, put_be16, put_be32};
use crate::checksum::Sum;
use crate::ip::{Ecn, Protocol};
use crate::tcp::{Flags, SeqNumber, Timestamps, timestamps_word};

/// Length of both headers, in bytes.
pub const HEADERS_LEN: usize = 52;
/// Of the IPv4 header.
const IP_LEN: usize = 20;
/// Version 4, five words.
const VERSION_IHL: u8 = 0x45;
/// Fragment offset and the bit for more fragments.
const FRAGMENT_MASK: u16 = 0x3fff;
const DONT_FRAGMENT: u16 = 0x4000;
/// Eight words of TCP header, in the place of the data offset.
const OFFSET: u16 = 8 << 12;

/// Both headers' values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Addresses as they lie in memory.
    pub source: [u8; 4],
    pub destination: [u8; 4],
    /// Source port above, destination port below.
    pub ports: u32,
    pub seq: SeqNumber,
    /// Means something only with [`Flags::ACK`].
    pub ack: SeqNumber,
    pub flags: Flags,
    /// Not scaled.
    pub window: u16,
    pub timestamps: Timestamps,
    /// DSCP in the upper six bits, ECN below.
    pub traffic_class: u8,
    pub ttl: u8,
}

impl Headers {
    pub fn ecn(&self) -> Ecn {
        Ecn::from_traffic_class(self.traffic_class)
    }

    /// Reads and verifies a packet; `None` if it is unusual in any way: the long way is to judge it. Urgent data, a port of
    /// zero and addresses that are no host's are unusual.
    #[inline]
    pub fn parse(packet: &[u8]) -> Option<(Headers, &[u8])> {
        let (h, _) = packet.split_first_chunk::<HEADERS_LEN>()?;
        let total_len = usize::from(be16(h, 2));
        let usual = h[0] == VERSION_IHL
            && be16(h, 6) & FRAGMENT_MASK == 0
            && h[9] == Protocol::TCP.0
            && be16(h, 32) & 0xf000 == OFFSET
            && be32(h, 40) == timestamps_word();
        let flags = Flags::from_word(be16(h, 32));
        if !usual || flags.contains(Flags::URG) || !flags.contains(Flags::ACK) {
            return None;
        }
        let payload = packet.get(HEADERS_LEN..total_len)?;
        let (source, destination) = ([h[12], h[13], h[14], h[15]], [h[16], h[17], h[18], h[19]]);
        let ports = be32(h, 20);
        if !is_hosts(source) || !is_hosts(destination) || ports >> 16 == 0 || ports as u16 == 0 {
            return None;
        }
        let (ip, transport) = h.split_first_chunk::<IP_LEN>()?;
        let transport = transport.first_chunk::<{ HEADERS_LEN - IP_LEN }>()?;
        let sum = pseudo_sum(source, destination, total_len) + Sum::of_words(transport) + Sum::of(payload);
        if !Sum::of_words(ip).is_valid() || !sum.is_valid() {
            return None;
        }
        let headers = Headers {
            source,
            destination,
            ports,
            seq: SeqNumber(be32(h, 24)),
            ack: SeqNumber(be32(h, 28)),
            flags,
            window: be16(h, 34),
            timestamps: Timestamps { value: be32(h, 44), echo: be32(h, 48) },
            traffic_class: h[1],
            ttl: h[8],
        };
        Some((headers, payload))
    }

    /// Writes the headers of a packet that routers may not split, with the identification 0, before a payload of
    /// `payload_len` bytes that add up to `payload_sum`. Packets beyond 65,535 bytes cannot be.
    #[inline]
    pub fn emit(&self, out: &mut [u8; HEADERS_LEN], payload_len: usize, payload_sum: Sum) {
        let total_len = (HEADERS_LEN + payload_len) as u16;
        let first = u32::from(VERSION_IHL) << 24 | u32::from(self.traffic_class) << 16 | u32::from(total_len);
        let ttl_protocol = u16::from(self.ttl) << 8 | u16::from(Protocol::TCP.0);
        let addresses =
            Sum::of_u32(u32::from_be_bytes(self.source)) + Sum::of_u32(u32::from_be_bytes(self.destination));
        let ip_sum = addresses + Sum::of_u32(first) + Sum::of_u16(DONT_FRAGMENT) + Sum::of_u16(ttl_protocol);
        put_be32(out, 0, first);
        put_be32(out, 4, u32::from(DONT_FRAGMENT));
        put_be16(out, 8, ttl_protocol);
        put_be16(out, 10, ip_sum.checksum());
        out[12..16].copy_from_slice(&self.source);
        out[16..20].copy_from_slice(&self.destination);
        let offset_window = u32::from(OFFSET | self.flags.bits()) << 16 | u32::from(self.window);
        let Timestamps { value, echo } = self.timestamps;
        let fixed =
            Sum::of_u32(self.ports) + Sum::of_u32(self.seq.0) + Sum::of_u32(self.ack.0) + Sum::of_u32(offset_window);
        let options = Sum::of_u32(timestamps_word()) + Sum::of_u32(value) + Sum::of_u32(echo);
        let pseudo = addresses + Sum::of_u16(Protocol::TCP.0.into()) + Sum::of_u16(total_len - IP_LEN as u16);
        put_be32(out, 20, self.ports);
        put_be32(out, 24, self.seq.0);
        put_be32(out, 28, self.ack.0);
        put_be32(out, 32, offset_window);
        put_be16(out, 36, (payload_sum + fixed + options + pseudo).checksum());
        put_be16(out, 38, 0);
        put_be32(out, 40, timestamps_word());
        put_be32(out, 44, value);
        put_be32(out, 48, echo);
    }
}

#[inline(always)]
fn pseudo_sum(source: [u8; 4], destination: [u8; 4], total_len: usize) -> Sum {
    let addresses = Sum::of_u32(u32::from_be_bytes(source)) + Sum::of_u32(u32::from_be_bytes(destination));
    addresses + Sum::of_u16(Protocol::TCP.0.into()) + Sum::of_u32((total_len - IP_LEN) as u32)
}

/// Neither unspecified, nor a group or broadcast, nor reserved.
#[inline(always)]
fn is_hosts(address: [u8; 4]) -> bool {
    address != [0; 4] && address[0] < 224
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::{Fill, Verify};
    use crate::tcp::{self, Options};
    use crate::{ipv4, tcp::Segment};
    use proptest::prelude::*;

    fn headers() -> impl Strategy<Value = Headers> {
        let values = any::<(([u8; 4], [u8; 4], u32), (u32, u32, u16, u16), (u32, u32), (u8, u8))>();
        values.prop_map(
            |((source, destination, ports), (seq, ack, flags, window), (value, echo), (traffic_class, ttl))| Headers {
                source,
                destination,
                ports,
                seq: SeqNumber(seq),
                ack: SeqNumber(ack),
                flags: (Flags::from_word(flags) | Flags::ACK) - Flags::URG,
                window,
                timestamps: Timestamps { value, echo },
                traffic_class,
                ttl,
            },
        )
    }

    /// The packet by the long way.
    fn long_way(headers: &Headers, payload: &[u8]) -> Vec<u8> {
        let mut ip = ipv4::Repr::new(
            headers.source.into(),
            headers.destination.into(),
            Protocol::TCP,
            HEADERS_LEN - IP_LEN + payload.len(),
        );
        (ip.traffic_class, ip.ttl) = (headers.traffic_class, headers.ttl);
        let segment = tcp::Repr {
            source_port: (headers.ports >> 16) as u16,
            destination_port: headers.ports as u16,
            seq: headers.seq,
            ack: headers.ack,
            flags: headers.flags,
            window: headers.window,
            urgent: 0,
            options: Options { timestamps: Some(headers.timestamps), ..Options::NONE },
        };
        let mut bytes = vec![0; HEADERS_LEN + payload.len()];
        let room = ip.emit(&mut bytes).unwrap();
        room[HEADERS_LEN - IP_LEN..].copy_from_slice(payload);
        segment.emit(room, ip.pseudo(), Fill::Complete).unwrap();
        bytes
    }

    proptest! {
        #[test]
        fn it_writes_what_the_long_way_writes(headers in headers(), payload in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = [0xee; HEADERS_LEN];
            headers.emit(&mut bytes, payload.len(), Sum::of(&payload));
            let expected = long_way(&headers, &payload);
            prop_assert_eq!(&bytes[..], &expected[..HEADERS_LEN]);
            let read = Headers::parse(&expected);
            let hosts = is_hosts(headers.source) && is_hosts(headers.destination);
            let is_usual = hosts && headers.ports >> 16 > 0 && headers.ports as u16 > 0;
            prop_assert_eq!(read, is_usual.then_some((headers, &payload[..])));
        }

        /// Whatever a changed byte makes of a packet: it is not taken for something else than the long way takes it for.
        #[test]
        fn it_reads_nothing_that_the_long_way_refuses(
            headers in headers(),
            payload in proptest::collection::vec(any::<u8>(), 0..40),
            (at, value, pad) in (0usize..92, any::<u8>(), 0usize..4),
        ) {
            let mut bytes = long_way(&headers, &payload);
            let at = at % bytes.len();
            bytes[at] = value;
            bytes.resize(bytes.len() + pad, 0);
            if let Some((read, rest)) = Headers::parse(&bytes) {
                let packet = ipv4::Packet::new_checked(&bytes).unwrap();
                let ip = ipv4::Repr::parse(&packet, Verify::Compute).unwrap();
                let segment = Segment::new_checked(packet.payload()).unwrap();
                let long = tcp::Repr::parse(&segment, ip.pseudo(), Verify::Compute).unwrap();
                prop_assert_eq!((long.seq, long.ack, long.flags, long.window), (read.seq, read.ack, read.flags, read.window));
                prop_assert_eq!(long.options, Options { timestamps: Some(read.timestamps), ..Options::NONE });
                prop_assert_eq!((long.source_port, long.destination_port), ((read.ports >> 16) as u16, read.ports as u16));
                prop_assert_eq!((segment.payload(), ip.source.octets(), ip.ttl), (rest, read.source, read.ttl));
            }
        }

        #[test]
        fn garbage_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Headers::parse(&bytes);
        }
    }
}
