//! IPv4 (RFC 791).
//!
//! ```text
//!    0       1        2        3
//!   +--------+--------+-----------------+
//!   | 4, IHL | DSCP/E |  total length   |
//!   +--------+--------+-----------------+
//!   |  identification | DF MF offset/8  |
//!   +--------+--------+-----------------+
//!   |  TTL   |protocol| header checksum |
//!   +--------+--------+-----------------+
//!   |          source address           |
//!   |        destination address        |
//!   |     options, up to 40 bytes       |
//!   +-----------------------------------+
//! ```

use core::net::Ipv4Addr;

use crate::Error;
use crate::bytes::{be16, be32, put_be16, put_be32};
use crate::checksum::{Pseudo, Sum, Verify};
use crate::ip::{Ecn, Fragment, Protocol};

pub mod options;

/// Length of a header without options, in bytes; what [`Repr`] emits.
pub const HEADER_LEN: usize = 20;
/// The longest packet, in bytes.
pub const PACKET_LEN_MAX: usize = 65_535;
/// The longest payload behind a header without options, in bytes.
pub const PAYLOAD_LEN_MAX: usize = PACKET_LEN_MAX - HEADER_LEN;

const VERSION: u8 = 4;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

mod field {
    pub(super) const VERSION_IHL: usize = 0;
    pub(super) const TRAFFIC_CLASS: usize = 1;
    pub(super) const TOTAL_LEN: usize = 2;
    pub(super) const IDENTIFICATION: usize = 4;
    pub(super) const FRAGMENT: usize = 6;
    pub(super) const TTL: usize = 8;
    pub(super) const PROTOCOL: usize = 9;
    pub(super) const CHECKSUM: usize = 10;
    pub(super) const SOURCE: usize = 12;
    pub(super) const DESTINATION: usize = 16;
}

/// A packet's bytes, without what a link has padded.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    header: &'a [u8; HEADER_LEN],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// # Errors
    /// `Ipv4Truncated`, `Ipv4Version`, `Ipv4HeaderLength`, `Ipv4TotalLength`.
    #[inline(always)]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Packet<'a>, Error> {
        let Some((header, _)) = bytes.split_first_chunk() else { return Err(Error::Ipv4Truncated) };
        let version_ihl = header[field::VERSION_IHL];
        if version_ihl >> 4 != VERSION {
            return Err(Error::Ipv4Version);
        }
        let header_len = usize::from(version_ihl & 0xf) * 4;
        let total_len = usize::from(be16(header, field::TOTAL_LEN));
        if header_len < HEADER_LEN {
            return Err(Error::Ipv4HeaderLength);
        }
        if total_len < header_len {
            return Err(Error::Ipv4TotalLength);
        }
        let Some(bytes) = bytes.get(..total_len) else { return Err(Error::Ipv4TotalLength) };
        Ok(Packet { header, options: &bytes[HEADER_LEN..header_len], payload: &bytes[header_len..] })
    }

    /// A packet that is cut off behind its header, as ICMP errors quote them: the payload is what is there.
    ///
    /// # Errors
    /// `Ipv4Truncated`, `Ipv4Version`, `Ipv4HeaderLength`.
    pub fn new_quoted(bytes: &'a [u8]) -> Result<Packet<'a>, Error> {
        let Some((header, _)) = bytes.split_first_chunk() else { return Err(Error::Ipv4Truncated) };
        if header[field::VERSION_IHL] >> 4 != VERSION {
            return Err(Error::Ipv4Version);
        }
        let header_len = usize::from(header[field::VERSION_IHL] & 0xf) * 4;
        let payload = bytes.get(header_len..).ok_or(Error::Ipv4HeaderLength)?;
        let options = bytes.get(HEADER_LEN..header_len).ok_or(Error::Ipv4HeaderLength)?;
        Ok(Packet { header, options, payload })
    }

    #[inline(always)]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Header and payload, in bytes.
    #[inline(always)]
    pub fn total_len(&self) -> usize {
        self.header_len() + self.payload.len()
    }

    /// DSCP and ECN in one byte.
    #[inline(always)]
    pub fn traffic_class(&self) -> u8 {
        self.header[field::TRAFFIC_CLASS]
    }

    #[inline(always)]
    pub fn ecn(&self) -> Ecn {
        Ecn::from_traffic_class(self.traffic_class())
    }

    #[inline(always)]
    pub fn identification(&self) -> u16 {
        be16(self.header, field::IDENTIFICATION)
    }

    #[inline(always)]
    pub fn dont_fragment(&self) -> bool {
        be16(self.header, field::FRAGMENT) & DONT_FRAGMENT != 0
    }

    #[inline(always)]
    pub fn more_fragments(&self) -> bool {
        be16(self.header, field::FRAGMENT) & MORE_FRAGMENTS != 0
    }

    /// Where the payload lies in the whole datagram's, in bytes.
    #[inline(always)]
    pub fn fragment_offset(&self) -> u16 {
        (be16(self.header, field::FRAGMENT) & OFFSET_MASK) << 3
    }

    /// Whether this is a part of a datagram.
    #[inline(always)]
    pub fn is_fragment(&self) -> bool {
        be16(self.header, field::FRAGMENT) & (MORE_FRAGMENTS | OFFSET_MASK) != 0
    }

    /// Where this part of a datagram belongs; `None` if it is a whole one.
    #[inline(always)]
    pub fn fragment(&self) -> Option<Fragment> {
        self.is_fragment().then(|| Fragment {
            identification: self.identification().into(),
            offset: self.fragment_offset(),
            more: self.more_fragments(),
        })
    }

    #[inline(always)]
    pub fn ttl(&self) -> u8 {
        self.header[field::TTL]
    }

    #[inline(always)]
    pub fn protocol(&self) -> Protocol {
        Protocol(self.header[field::PROTOCOL])
    }

    #[inline(always)]
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(be32(self.header, field::SOURCE))
    }

    #[inline(always)]
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(be32(self.header, field::DESTINATION))
    }

    /// The options' bytes; [`options::iter`] reads them.
    #[inline(always)]
    pub fn options(&self) -> &'a [u8] {
        self.options
    }

    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The pseudo-header of what this packet carries.
    #[inline(always)]
    pub fn pseudo(&self) -> Pseudo {
        Pseudo::v4(self.source(), self.destination(), self.protocol())
    }

    /// Whether the header's checksum is right.
    #[inline(always)]
    pub fn verify_checksum(&self) -> bool {
        let fixed = Sum::of(self.header);
        let sum = if self.options.is_empty() { fixed } else { fixed + Sum::of(self.options) };
        sum.is_valid()
    }
}

/// A header, of a whole datagram or of a fragment. It is written without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    pub source: Ipv4Addr,
    pub destination: Ipv4Addr,
    pub protocol: Protocol,
    pub ttl: u8,
    /// DSCP and ECN in one byte.
    pub traffic_class: u8,
    pub identification: u16,
    pub dont_fragment: bool,
    pub more_fragments: bool,
    /// Where the payload lies in the whole datagram's, in bytes; a multiple of 8.
    pub fragment_offset: u16,
    /// At most [`PAYLOAD_LEN_MAX`] when it is written.
    pub payload_len: usize,
}

impl Repr {
    /// A whole datagram that routers may not split, with Linux's default TTL of 64.
    #[inline(always)]
    pub const fn new(source: Ipv4Addr, destination: Ipv4Addr, protocol: Protocol, payload_len: usize) -> Repr {
        Repr {
            source,
            destination,
            protocol,
            ttl: 64,
            traffic_class: 0,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            payload_len,
        }
    }

    /// Options are judged and left out.
    ///
    /// # Errors
    /// `Ipv4Checksum`, `Ipv4Option`, `Ipv4SourceRoute`.
    #[inline(always)]
    pub fn parse(packet: &Packet, verify: Verify) -> Result<Repr, Error> {
        if verify == Verify::Compute && !packet.verify_checksum() {
            return Err(Error::Ipv4Checksum);
        }
        if !packet.options.is_empty() {
            options::judge(packet.options)?;
        }
        Ok(Repr {
            source: packet.source(),
            destination: packet.destination(),
            protocol: packet.protocol(),
            ttl: packet.ttl(),
            traffic_class: packet.traffic_class(),
            identification: packet.identification(),
            dont_fragment: packet.dont_fragment(),
            more_fragments: packet.more_fragments(),
            fragment_offset: packet.fragment_offset(),
            payload_len: packet.payload.len(),
        })
    }

    /// The pseudo-header of what follows.
    #[inline(always)]
    pub fn pseudo(&self) -> Pseudo {
        Pseudo::v4(self.source, self.destination, self.protocol)
    }

    /// Writes the header, checksum included, to the beginning of `buffer` and returns the `payload_len` bytes
    /// behind it.
    ///
    /// # Errors
    /// `BufferTooShort`, `PayloadTooLong`.
    #[inline(always)]
    pub fn emit<'a>(&self, buffer: &'a mut [u8]) -> Result<&'a mut [u8], Error> {
        if self.payload_len > PAYLOAD_LEN_MAX {
            return Err(Error::PayloadTooLong);
        }
        let Some((header, rest)) = buffer.split_first_chunk_mut::<HEADER_LEN>() else {
            return Err(Error::BufferTooShort);
        };
        let Some(payload) = rest.get_mut(..self.payload_len) else { return Err(Error::BufferTooShort) };
        header[field::VERSION_IHL] = VERSION << 4 | (HEADER_LEN / 4) as u8;
        header[field::TRAFFIC_CLASS] = self.traffic_class;
        put_be16(header, field::TOTAL_LEN, (HEADER_LEN + self.payload_len) as u16);
        put_be16(header, field::IDENTIFICATION, self.identification);
        put_be16(header, field::FRAGMENT, self.fragment_word());
        header[field::TTL] = self.ttl;
        header[field::PROTOCOL] = self.protocol.0;
        put_be16(header, field::CHECKSUM, 0);
        put_be32(header, field::SOURCE, self.source.to_bits());
        put_be32(header, field::DESTINATION, self.destination.to_bits());
        let checksum = Sum::of(header).checksum();
        put_be16(header, field::CHECKSUM, checksum);
        Ok(payload)
    }

    #[inline(always)]
    fn fragment_word(&self) -> u16 {
        let flags = if self.dont_fragment { DONT_FRAGMENT } else { 0 };
        let more = if self.more_fragments { MORE_FRAGMENTS } else { 0 };
        flags | more | self.fragment_offset >> 3
    }
}

#[cfg(test)]
mod tests;
