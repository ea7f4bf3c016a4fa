//! The virtio-net header: what stands before a packet on a TAP device or a vhost queue and says which work is left
//! (Virtual I/O Device 1.2, 5.1.6; Linux: `include/uapi/linux/virtio_net.h`).
//!
//! ```text
//!   0       1          2         4          6            8             10            12
//!   +-------+----------+---------+----------+------------+-------------+-------------+
//!   | flags | GSO type | hdr len | GSO size | csum start | csum offset | num buffers |   little endian
//!   +-------+----------+---------+----------+------------+-------------+-------------+
//! ```
//!
//! TAP uses 10 bytes unless told otherwise (`TUNSETVNETHDRSZ`), virtio 1 always 12.

use crate::Error;
use crate::checksum::{Sum, Verify};

const LEN_SHORT: usize = 10;
const LEN: usize = 12;

/// Which of the two lengths the header has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// 10 bytes, without the number of buffers.
    Short,
    /// 12 bytes.
    Full,
}

impl Layout {
    /// In bytes.
    pub const fn header_len(self) -> usize {
        match self {
            Layout::Short => LEN_SHORT,
            Layout::Full => LEN,
        }
    }
}

mod flag {
    pub(super) const NEEDS_CSUM: u8 = 1;
    pub(super) const DATA_VALID: u8 = 2;
}

mod gso_type {
    pub(super) const NONE: u8 = 0;
    pub(super) const TCPV4: u8 = 1;
    pub(super) const UDP: u8 = 3;
    pub(super) const TCPV6: u8 = 4;
    pub(super) const UDP_L4: u8 = 5;
    /// A bit beside the type.
    pub(super) const ECN: u8 = 0x80;
}

/// What is known about the packet's checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// It stands in the packet and nobody has looked at it.
    #[default]
    Unknown,
    /// It has been verified.
    Valid,
    /// It holds the sum of the pseudo-header. The rest is missing: the sum from `start` to the end, complemented,
    /// goes to `start + offset`.
    Needed { start: u16, offset: u16 },
}

impl Checksum {
    /// What a receiver does about it. A packet whose checksum is still needed has never been on a wire.
    pub const fn verify(self) -> Verify {
        match self {
            Checksum::Unknown => Verify::Compute,
            Checksum::Valid | Checksum::Needed { .. } => Verify::Trust,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GsoKind {
    TcpV4,
    TcpV6,
    /// Fragmentation of one datagram.
    UdpFragments,
    /// One datagram for each segment.
    UdpSegments,
}

/// The packet is to be split, or was put together of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gso {
    pub kind: GsoKind,
    /// The segments have CWR set; it belongs into the first one only.
    pub ecn: bool,
    /// Length of each packet's headers, in bytes; a hint.
    pub header_len: u16,
    /// Payload of each packet but the last, in bytes; not zero.
    pub size: u16,
}

/// A header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub checksum: Checksum,
    pub gso: Option<Gso>,
}

impl Header {
    /// Reads the header that `bytes` begins with, and returns it with the packet behind it. The number of buffers is
    /// not read: a packet here lies in one piece.
    ///
    /// # Errors
    /// `VirtioTruncated`, `VirtioGso`, `VirtioChecksum` if the checksum to be filled in lies beyond the packet.
    #[inline]
    pub fn parse(bytes: &[u8], layout: Layout) -> Result<(Header, &[u8]), Error> {
        let (Some(fields), Some(packet)) = (bytes.first_chunk::<LEN_SHORT>(), bytes.get(layout.header_len()..)) else {
            return Err(Error::VirtioTruncated);
        };
        let le16 = |at: usize| u16::from_le_bytes([fields[at], fields[at + 1]]);
        let checksum = match fields[0] {
            flags if flags & flag::NEEDS_CSUM != 0 => Checksum::Needed { start: le16(6), offset: le16(8) },
            flags if flags & flag::DATA_VALID != 0 => Checksum::Valid,
            _ => Checksum::Unknown,
        };
        let header = Header { checksum, gso: Gso::parse(fields[1], le16(2), le16(4))? };
        match checksum_range(checksum, packet.len()) {
            Some(_) => Ok((header, packet)),
            None => Err(Error::VirtioChecksum),
        }
    }

    /// Writes the header to the beginning of `buffer` and returns what lies behind it.
    ///
    /// # Errors
    /// `BufferTooShort`.
    #[inline]
    pub fn emit<'a>(&self, buffer: &'a mut [u8], layout: Layout) -> Result<&'a mut [u8], Error> {
        let Some((bytes, packet)) = buffer.split_at_mut_checked(layout.header_len()) else {
            return Err(Error::BufferTooShort);
        };
        bytes.fill(0);
        let mut put = |at: usize, value: u16| bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        if layout == Layout::Full {
            put(10, 1);
        }
        if let Some(gso) = self.gso {
            put(2, gso.header_len);
            put(4, gso.size);
        }
        if let Checksum::Needed { start, offset } = self.checksum {
            put(6, start);
            put(8, offset);
        }
        bytes[0] = match self.checksum {
            Checksum::Unknown => 0,
            Checksum::Valid => flag::DATA_VALID,
            Checksum::Needed { .. } => flag::NEEDS_CSUM,
        };
        bytes[1] = self.gso.map_or(gso_type::NONE, Gso::type_byte);
        Ok(packet)
    }

    /// Does a device's work: fills in the checksum that `packet` still needs, so that its bytes can go anywhere. The
    /// packet must not need segmentation.
    ///
    /// # Errors
    /// `VirtioChecksum` if the checksum lies beyond the packet.
    pub fn finish_checksum(&mut self, packet: &mut [u8]) -> Result<(), Error> {
        let (start, at) = checksum_range(self.checksum, packet.len()).ok_or(Error::VirtioChecksum)?;
        if let Checksum::Needed { .. } = self.checksum {
            let checksum = match Sum::of(&packet[start..]).checksum() {
                // As UDP wants it; in TCP both forms say the same.
                0 => 0xffff,
                other => other,
            };
            packet[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
            self.checksum = Checksum::Valid;
        }
        Ok(())
    }
}

impl Gso {
    fn parse(type_byte: u8, header_len: u16, size: u16) -> Result<Option<Gso>, Error> {
        let kind = match type_byte & !gso_type::ECN {
            gso_type::NONE => return Ok(None),
            gso_type::TCPV4 => GsoKind::TcpV4,
            gso_type::TCPV6 => GsoKind::TcpV6,
            gso_type::UDP => GsoKind::UdpFragments,
            gso_type::UDP_L4 => GsoKind::UdpSegments,
            _ => return Err(Error::VirtioGso),
        };
        if size == 0 {
            return Err(Error::VirtioGso);
        }
        Ok(Some(Gso { kind, ecn: type_byte & gso_type::ECN != 0, header_len, size }))
    }

    fn type_byte(self) -> u8 {
        let kind = match self.kind {
            GsoKind::TcpV4 => gso_type::TCPV4,
            GsoKind::TcpV6 => gso_type::TCPV6,
            GsoKind::UdpFragments => gso_type::UDP,
            GsoKind::UdpSegments => gso_type::UDP_L4,
        };
        kind | if self.ecn { gso_type::ECN } else { 0 }
    }
}

/// Where the sum begins and where it goes; `None` if that lies beyond the packet.
fn checksum_range(checksum: Checksum, packet_len: usize) -> Option<(usize, usize)> {
    let Checksum::Needed { start, offset } = checksum else { return Some((0, 0)) };
    let (start, at) = (usize::from(start), usize::from(start) + usize::from(offset));
    (at + 2 <= packet_len).then_some((start, at))
}

#[cfg(test)]
mod tests;
