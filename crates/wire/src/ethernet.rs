//! Ethernet II frames with at most one VLAN tag (IEEE 802.3, 802.1Q).
//!
//! ```text
//!    0            6            12      14                  with a tag
//!   +------------+------------+-------+---------            12      14    16      18
//!   | destination|   source   | type  | payload            | 81 00 | TCI | type  | payload
//!   +------------+------------+-------+---------
//! ```

use core::fmt;

use crate::Error;
use crate::bytes::{array, be16, put_be16};
use crate::ip::IpAddress;

/// Length of a header without a VLAN tag, in bytes.
pub const HEADER_LEN: usize = 14;
/// Length of a VLAN tag, in bytes.
pub const VLAN_LEN: usize = 4;
/// Below this a type is a length (IEEE 802.3, 3.2.6).
const TYPE_MIN: u16 = 0x600;

mod field {
    pub(super) const DESTINATION: usize = 0;
    pub(super) const SOURCE: usize = 6;
    pub(super) const TYPE: usize = 12;
}

/// A 48-bit station address.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    pub const BROADCAST: MacAddress = MacAddress([0xff; 6]);

    /// Where frames to a multicast address go (RFC 1112, 6.4; RFC 2464, 7); `None` for any other address.
    pub const fn for_multicast(address: IpAddress) -> Option<MacAddress> {
        match address {
            IpAddress::V4(v4) if v4.is_multicast() => {
                let [_, b, c, d] = v4.octets();
                Some(MacAddress([0x01, 0x00, 0x5e, b & 0x7f, c, d]))
            }
            IpAddress::V6(v6) if v6.is_multicast() => {
                let [.., a, b, c, d] = v6.octets();
                Some(MacAddress([0x33, 0x33, a, b, c, d]))
            }
            _ => None,
        }
    }

    /// The group bit: multicast or broadcast.
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// An address that a single station can have: not a group and not zero.
    pub const fn is_unicast(self) -> bool {
        let [a, b, c, d, e, f] = self.0;
        !self.is_group() && (a | b | c | d | e | f) != 0
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a frame carries (IANA "EtherType").
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    pub const IPV4: EtherType = EtherType(0x0800);
    pub const ARP: EtherType = EtherType(0x0806);
    pub const VLAN: EtherType = EtherType(0x8100);
    pub const IPV6: EtherType = EtherType(0x86dd);
}

impl fmt::Debug for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EtherType(0x{:04x})", self.0)
    }
}

/// A VLAN tag's control information: 3 bits priority, 1 bit drop eligible, 12 bits VLAN identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag(pub u16);

impl VlanTag {
    /// The VLAN's number, 0 to 4095.
    pub const fn id(self) -> u16 {
        self.0 & 0xfff
    }

    pub const fn priority(self) -> u8 {
        (self.0 >> 13) as u8
    }
}

/// A frame's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    header: &'a [u8; HEADER_LEN],
    vlan: Option<VlanTag>,
    ether_type: EtherType,
    payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// # Errors
    /// `EthernetTruncated`, `VlanTruncated`.
    #[inline(always)]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Frame<'a>, Error> {
        let Some((header, payload)) = bytes.split_first_chunk() else { return Err(Error::EthernetTruncated) };
        let ether_type = EtherType(be16(header, field::TYPE));
        if ether_type == EtherType::VLAN {
            return Frame::tagged(header, payload);
        }
        Ok(Frame { header, vlan: None, ether_type, payload })
    }

    fn tagged(header: &'a [u8; HEADER_LEN], rest: &'a [u8]) -> Result<Frame<'a>, Error> {
        let Some((tag, payload)) = rest.split_first_chunk::<VLAN_LEN>() else { return Err(Error::VlanTruncated) };
        Ok(Frame { header, vlan: Some(VlanTag(be16(tag, 0))), ether_type: EtherType(be16(tag, 2)), payload })
    }

    #[inline(always)]
    pub fn destination(&self) -> MacAddress {
        MacAddress(array(self.header, field::DESTINATION))
    }

    #[inline(always)]
    pub fn source(&self) -> MacAddress {
        MacAddress(array(self.header, field::SOURCE))
    }

    #[inline(always)]
    pub fn vlan(&self) -> Option<VlanTag> {
        self.vlan
    }

    /// The payload's type, behind a VLAN tag if there is one.
    #[inline(always)]
    pub fn ether_type(&self) -> EtherType {
        self.ether_type
    }

    /// All bytes behind the header; short frames are padded, so this may be longer than the packet within.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    pub destination: MacAddress,
    pub source: MacAddress,
    pub vlan: Option<VlanTag>,
    pub ether_type: EtherType,
}

impl Repr {
    /// # Errors
    /// `EthernetLength` for an 802.3 frame.
    pub fn parse(frame: &Frame) -> Result<Repr, Error> {
        if frame.ether_type().0 < TYPE_MIN {
            return Err(Error::EthernetLength);
        }
        Ok(Repr {
            destination: frame.destination(),
            source: frame.source(),
            vlan: frame.vlan(),
            ether_type: frame.ether_type(),
        })
    }

    /// In bytes.
    #[inline(always)]
    pub const fn header_len(&self) -> usize {
        if self.vlan.is_some() { HEADER_LEN + VLAN_LEN } else { HEADER_LEN }
    }

    /// Writes the header to the beginning of `buffer` and returns what lies behind it.
    ///
    /// # Errors
    /// `BufferTooShort`.
    #[inline(always)]
    pub fn emit<'a>(&self, buffer: &'a mut [u8]) -> Result<&'a mut [u8], Error> {
        let Some((header, payload)) = buffer.split_at_mut_checked(self.header_len()) else {
            return Err(Error::BufferTooShort);
        };
        header[field::DESTINATION..][..6].copy_from_slice(&self.destination.0);
        header[field::SOURCE..][..6].copy_from_slice(&self.source.0);
        let mut at = field::TYPE;
        if let Some(tag) = self.vlan {
            put_be16(header, at, EtherType::VLAN.0);
            put_be16(header, at + 2, tag.0);
            at += VLAN_LEN;
        }
        put_be16(header, at, self.ether_type.0);
        Ok(payload)
    }
}

#[cfg(test)]
mod tests;
