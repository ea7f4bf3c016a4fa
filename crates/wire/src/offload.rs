//! A device's work done by the processor: finding the transport checksum of a frame, completing it, and splitting a
//! frame that was left together for a segmentation offload.
//!
//! ```text
//!   | Ethernet, tag | IPv4 or IPv6 | TCP or UDP header ..checksum.. | payload, perhaps 64 KiB of it
//!                                  ^ start            ^ start + offset
//! ```

use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use crate::checksum::{Pseudo, Sum};
use crate::ethernet::EtherType;
use crate::virtio::{Gso, GsoKind};
use crate::{Error, Protocol, ethernet, ipv4, ipv6};

/// Where in a frame TCP or UDP begins, and what its checksum covers.
#[derive(Clone, Copy, Debug)]
pub struct Transport {
    /// Offset of the IP header, in bytes.
    pub network: usize,
    /// Offset of the TCP or UDP header.
    pub start: usize,
    /// Offset of the checksum from there.
    pub offset: usize,
    /// Bytes of transport header and payload.
    pub len: usize,
    pub protocol: Protocol,
    pseudo: Pseudo,
}

impl Transport {
    /// Of a frame, or of the beginning of one. None for fragments, for IPv6 with extension headers, and for
    /// whatever is neither TCP nor UDP.
    pub fn of(frame: &[u8]) -> Option<Transport> {
        let type_at = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        let tagged = type_at(12)? == EtherType::VLAN.0;
        let network = ethernet::HEADER_LEN + if tagged { ethernet::VLAN_LEN } else { 0 };
        let packet = frame.get(network..)?;
        let (protocol, header_len, len, pseudo) = match EtherType(type_at(network - 2)?) {
            EtherType::IPV4 => of_v4(packet)?,
            EtherType::IPV6 => of_v6(packet)?,
            _ => return None,
        };
        let start = network + header_len;
        let offset = match protocol {
            Protocol::TCP => 16,
            Protocol::UDP => 6,
            _ => return None,
        };
        let fits = len >= offset + 2 && frame.len() >= start + offset + 2;
        fits.then_some(Transport { network, start, offset, len, protocol, pseudo })
    }

    /// The sum of the pseudo-header, as it stands in a checksum that a device is to complete.
    pub fn partial(&self) -> u16 {
        !self.pseudo.sum(self.len as u32).checksum()
    }

    /// Whether the frame's checksum holds no more than that.
    pub fn is_partial(&self, frame: &[u8]) -> bool {
        frame.get(self.start + self.offset..).and_then(|rest| rest.first_chunk()) == Some(&self.partial().to_be_bytes())
    }

    /// The checksum of `sum`, the sum of all bytes from `start` on with the checksum itself partial.
    pub fn finish(&self, sum: Sum) -> [u8; 2] {
        let checksum = match sum.checksum() {
            // As UDP wants it; in TCP both forms say the same.
            0 => 0xffff,
            other => other,
        };
        checksum.to_be_bytes()
    }

    /// Writes the whole checksum, whatever stands there.
    ///
    /// # Errors
    /// `BufferTooShort`: the frame ends before its IP header says it does.
    pub fn complete(&self, frame: &mut [u8]) -> Result<(), Error> {
        let segment = frame.get_mut(self.start..self.start + self.len).ok_or(Error::BufferTooShort)?;
        let (partial, at) = (self.partial(), self.offset);
        segment[at..at + 2].copy_from_slice(&partial.to_be_bytes());
        let checksum = self.finish(Sum::of(segment));
        segment[at..at + 2].copy_from_slice(&checksum);
        Ok(())
    }
}

fn of_v4(packet: &[u8]) -> Option<(Protocol, usize, usize, Pseudo)> {
    let header: &[u8; ipv4::HEADER_LEN] = packet.first_chunk()?;
    let header_len = usize::from(header[0] & 0xf) * 4;
    let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
    let whole = header[0] >> 4 == 4 && header_len >= ipv4::HEADER_LEN && fragment == 0;
    let len = total_len.checked_sub(header_len).filter(|_| whole)?;
    let address = |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
    let protocol = Protocol(header[9]);
    Some((protocol, header_len, len, Pseudo::v4(address(12), address(16), protocol)))
}

fn of_v6(packet: &[u8]) -> Option<(Protocol, usize, usize, Pseudo)> {
    let header: &[u8; ipv6::HEADER_LEN] = packet.first_chunk()?;
    let (source, destination) = (header[8..24].first_chunk::<16>()?, header[24..40].first_chunk::<16>()?);
    let protocol = Protocol(header[6]);
    let pseudo = Pseudo::v6(Ipv6Addr::from(*source), Ipv6Addr::from(*destination), protocol);
    let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    (header[0] >> 4 == 6).then_some((protocol, ipv6::HEADER_LEN, len, pseudo))
}

/// Splits a frame into frames with at most `gso.size` bytes of payload, each with its own lengths, identification,
/// sequence number, flags and checksums, and gives them to `each` in order.
///
/// # Errors
/// `VirtioGso`: the frame is not what `gso` says, is cut off, or is to be split by IP fragmentation.
pub fn split(frame: &[u8], gso: Gso, mut each: impl FnMut(&[u8])) -> Result<(), Error> {
    let transport = Transport::of(frame).ok_or(Error::VirtioGso)?;
    let segments_tcp = match gso.kind {
        GsoKind::TcpV4 | GsoKind::TcpV6 => true,
        GsoKind::UdpSegments => false,
        GsoKind::UdpFragments => return Err(Error::VirtioGso),
    };
    if segments_tcp != (transport.protocol == Protocol::TCP) || gso.size == 0 {
        return Err(Error::VirtioGso);
    }
    let end = transport.start + transport.len;
    let header_len = match frame.get(transport.start + 12) {
        Some(offset) if segments_tcp => transport.start + usize::from(offset >> 4) * 4,
        _ => transport.start + 8,
    };
    if header_len < transport.start + transport.offset + 2 || header_len > end || end > frame.len() {
        return Err(Error::VirtioGso);
    }
    let (headers, payload) = (&frame[..header_len], &frame[header_len..end]);
    let mut segment = Vec::with_capacity(header_len + usize::from(gso.size));
    for (n, part) in payload.chunks(gso.size.into()).enumerate() {
        segment.clear();
        segment.extend_from_slice(headers);
        segment.extend_from_slice(part);
        let done = n * usize::from(gso.size);
        set_lengths(&mut segment, &transport, n as u16);
        if segments_tcp {
            set_tcp(&mut segment[transport.start..], done as u32, n == 0, done + part.len() == payload.len());
        }
        if let Some(transport) = Transport::of(&segment) {
            transport.complete(&mut segment)?;
        }
        each(&segment);
    }
    Ok(())
}

/// The IP and UDP lengths, IPv4's identification and checksum, of the n-th segment.
fn set_lengths(segment: &mut [u8], transport: &Transport, n: u16) {
    let (network, start, len) = (transport.network, transport.start, segment.len());
    if transport.protocol == Protocol::UDP {
        put(segment, start + 4, (len - start) as u16);
    }
    if segment[network] >> 4 == 6 {
        put(segment, network + 4, (len - network - ipv6::HEADER_LEN) as u16);
        return;
    }
    let identification = u16::from_be_bytes([segment[network + 4], segment[network + 5]]);
    put(segment, network + 2, (len - network) as u16);
    put(segment, network + 4, identification.wrapping_add(n));
    put(segment, network + 10, 0);
    let checksum = Sum::of(&segment[network..start]).checksum();
    put(segment, network + 10, checksum);
}

fn put(segment: &mut [u8], at: usize, value: u16) {
    segment[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// The sequence number `done` bytes on; CWR only in the first segment, FIN and PSH only in the last.
fn set_tcp(segment: &mut [u8], done: u32, first: bool, last: bool) {
    const FIN_AND_PSH: u8 = 0x09;
    const CWR: u8 = 0x80;
    let sequence = u32::from_be_bytes([segment[4], segment[5], segment[6], segment[7]]).wrapping_add(done);
    segment[4..8].copy_from_slice(&sequence.to_be_bytes());
    segment[13] &= if first { 0xff } else { !CWR } & if last { 0xff } else { !FIN_AND_PSH };
}

#[cfg(test)]
mod tests;
