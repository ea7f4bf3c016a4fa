//! IPv6 (RFC 8200): the fixed header here, those that may follow it in [`extensions`].
//!
//! ```text
//!    0       1        2        3
//!   +----+--------+--------------------+
//!   | 6  |traffic |     flow label     |
//!   +----+--------+---+--------+-------+
//!   | payload length  |next hdr|hop lim|
//!   +-----------------+--------+-------+
//!   |     source address, 16 bytes     |
//!   |  destination address, 16 bytes   |
//!   +----------------------------------+
//! ```

use core::net::Ipv6Addr;

use crate::Error;
use crate::bytes::{array, be16, be32, put_be16, put_be32};
use crate::checksum::Pseudo;
use crate::ip::{Ecn, Protocol};

pub mod extensions;

/// Length of the fixed header, in bytes.
pub const HEADER_LEN: usize = 40;
/// The longest payload, in bytes (no jumbograms).
pub const PAYLOAD_LEN_MAX: usize = 65_535;

/// The group at which an address is looked for (RFC 4291, 2.7.1).
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (a & 0xff), b)
}

const VERSION: u32 = 6;
const FLOW_LABEL_MASK: u32 = 0xf_ffff;

mod field {
    pub(super) const FIRST_WORD: usize = 0;
    pub(super) const PAYLOAD_LEN: usize = 4;
    pub(super) const NEXT_HEADER: usize = 6;
    pub(super) const HOP_LIMIT: usize = 7;
    pub(super) const SOURCE: usize = 8;
    pub(super) const DESTINATION: usize = 24;
}

/// A packet's bytes, without what a link has padded.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// # Errors
    /// `Ipv6Truncated`, `Ipv6Version`, `Ipv6PayloadLength`.
    #[inline(always)]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Packet<'a>, Error> {
        let Some((header, rest)) = bytes.split_first_chunk() else { return Err(Error::Ipv6Truncated) };
        if be32(header, field::FIRST_WORD) >> 28 != VERSION {
            return Err(Error::Ipv6Version);
        }
        let payload_len = usize::from(be16(header, field::PAYLOAD_LEN));
        let Some(payload) = rest.get(..payload_len) else { return Err(Error::Ipv6PayloadLength) };
        Ok(Packet { header, payload })
    }

    /// A packet that is cut off behind its header, as ICMP errors quote them: the payload is what is there.
    ///
    /// # Errors
    /// `Ipv6Truncated`, `Ipv6Version`.
    pub fn new_quoted(bytes: &'a [u8]) -> Result<Packet<'a>, Error> {
        let Some((header, payload)) = bytes.split_first_chunk() else { return Err(Error::Ipv6Truncated) };
        if be32(header, field::FIRST_WORD) >> 28 != VERSION {
            return Err(Error::Ipv6Version);
        }
        Ok(Packet { header, payload })
    }

    /// DSCP and ECN in one byte.
    #[inline(always)]
    pub fn traffic_class(&self) -> u8 {
        (be32(self.header, field::FIRST_WORD) >> 20) as u8
    }

    #[inline(always)]
    pub fn ecn(&self) -> Ecn {
        Ecn::from_traffic_class(self.traffic_class())
    }

    /// 20 bits.
    #[inline(always)]
    pub fn flow_label(&self) -> u32 {
        be32(self.header, field::FIRST_WORD) & FLOW_LABEL_MASK
    }

    #[inline(always)]
    pub fn next_header(&self) -> Protocol {
        Protocol(self.header[field::NEXT_HEADER])
    }

    #[inline(always)]
    pub fn hop_limit(&self) -> u8 {
        self.header[field::HOP_LIMIT]
    }

    #[inline(always)]
    pub fn source(&self) -> Ipv6Addr {
        Ipv6Addr::from(array::<16, _>(self.header, field::SOURCE))
    }

    #[inline(always)]
    pub fn destination(&self) -> Ipv6Addr {
        Ipv6Addr::from(array::<16, _>(self.header, field::DESTINATION))
    }

    /// What follows the fixed header: extension headers, if there are any, and what they carry.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// What the packet carries behind its extension headers; without any, two comparisons.
    ///
    /// # Errors
    /// See [`extensions::walk`].
    #[inline(always)]
    pub fn upper(&self) -> Result<extensions::Upper<'a>, extensions::Refused> {
        extensions::walk(self.next_header(), self.payload)
    }

    /// The pseudo-header of `protocol` in this packet; `protocol` is the last next header, behind all extensions.
    #[inline(always)]
    pub fn pseudo(&self, protocol: Protocol) -> Pseudo {
        Pseudo::v6(self.source(), self.destination(), protocol)
    }
}

/// A fixed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    pub source: Ipv6Addr,
    pub destination: Ipv6Addr,
    pub next_header: Protocol,
    pub hop_limit: u8,
    /// DSCP and ECN in one byte.
    pub traffic_class: u8,
    /// 20 bits; those above are not written.
    pub flow_label: u32,
    /// Extension headers included; at most [`PAYLOAD_LEN_MAX`].
    pub payload_len: usize,
}

impl Repr {
    /// With Linux's default hop limit of 64, no traffic class and no flow label.
    #[inline(always)]
    pub const fn new(source: Ipv6Addr, destination: Ipv6Addr, next_header: Protocol, payload_len: usize) -> Repr {
        Repr { source, destination, next_header, hop_limit: 64, traffic_class: 0, flow_label: 0, payload_len }
    }

    #[inline(always)]
    pub fn parse(packet: &Packet) -> Repr {
        Repr {
            source: packet.source(),
            destination: packet.destination(),
            next_header: packet.next_header(),
            hop_limit: packet.hop_limit(),
            traffic_class: packet.traffic_class(),
            flow_label: packet.flow_label(),
            payload_len: packet.payload.len(),
        }
    }

    /// The pseudo-header of what follows, if no extension header does.
    #[inline(always)]
    pub fn pseudo(&self) -> Pseudo {
        Pseudo::v6(self.source, self.destination, self.next_header)
    }

    /// Writes the header to the beginning of `buffer` and returns the `payload_len` bytes behind it.
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
        let class_and_label = u32::from(self.traffic_class) << 20 | self.flow_label & FLOW_LABEL_MASK;
        put_be32(header, field::FIRST_WORD, VERSION << 28 | class_and_label);
        put_be16(header, field::PAYLOAD_LEN, self.payload_len as u16);
        header[field::NEXT_HEADER] = self.next_header.0;
        header[field::HOP_LIMIT] = self.hop_limit;
        header[field::SOURCE..][..16].copy_from_slice(&self.source.octets());
        header[field::DESTINATION..][..16].copy_from_slice(&self.destination.octets());
        Ok(payload)
    }
}

#[cfg(test)]
mod tests;
