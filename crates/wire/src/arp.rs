//! ARP for Ethernet and IPv4 (RFC 826).
//!
//! ```text
//!   hardware 1 | protocol 0800 | 6 | 4 | operation | sender MAC, IP | target MAC, IP
//! ```

use core::net::Ipv4Addr;

use crate::Error;
use crate::bytes::{array, be16, be32};
use crate::ethernet::MacAddress;

/// In bytes; frames pad it.
pub const PACKET_LEN: usize = 28;

/// Hardware type 1, protocol type IPv4, their lengths.
const FORMAT: [u8; 6] = [0, 1, 0x08, 0x00, 6, 4];

mod field {
    pub(super) const OPERATION: usize = 6;
    pub(super) const SENDER_MAC: usize = 8;
    pub(super) const SENDER_IP: usize = 14;
    pub(super) const TARGET_MAC: usize = 18;
    pub(super) const TARGET_IP: usize = 24;
}

/// A packet's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a>(&'a [u8; PACKET_LEN]);

impl<'a> Packet<'a> {
    /// # Errors
    /// `ArpTruncated`, `ArpFormat`.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Packet<'a>, Error> {
        let Some(packet) = bytes.first_chunk() else { return Err(Error::ArpTruncated) };
        if packet[..FORMAT.len()] != FORMAT {
            return Err(Error::ArpFormat);
        }
        Ok(Packet(packet))
    }

    pub fn operation(&self) -> u16 {
        be16(self.0, field::OPERATION)
    }

    pub fn sender_mac(&self) -> MacAddress {
        MacAddress(array(self.0, field::SENDER_MAC))
    }

    pub fn sender_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(be32(self.0, field::SENDER_IP))
    }

    pub fn target_mac(&self) -> MacAddress {
        MacAddress(array(self.0, field::TARGET_MAC))
    }

    pub fn target_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(be32(self.0, field::TARGET_IP))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Request = 1,
    Reply = 2,
}

/// A request or a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    pub operation: Operation,
    /// A station's address when it comes from [`Repr::parse`].
    pub sender_mac: MacAddress,
    /// Unspecified in a probe for a duplicate (RFC 5227).
    pub sender_ip: Ipv4Addr,
    /// Means nothing in a request.
    pub target_mac: MacAddress,
    pub target_ip: Ipv4Addr,
}

impl Repr {
    /// # Errors
    /// `ArpOperation`, `ArpAddress`.
    pub fn parse(packet: &Packet) -> Result<Repr, Error> {
        let operation = match packet.operation() {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return Err(Error::ArpOperation),
        };
        if !packet.sender_mac().is_unicast() {
            return Err(Error::ArpAddress);
        }
        Ok(Repr {
            operation,
            sender_mac: packet.sender_mac(),
            sender_ip: packet.sender_ip(),
            target_mac: packet.target_mac(),
            target_ip: packet.target_ip(),
        })
    }

    /// Writes the packet to the beginning of `buffer`.
    ///
    /// # Errors
    /// `BufferTooShort`.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let Some(packet) = buffer.first_chunk_mut::<PACKET_LEN>() else { return Err(Error::BufferTooShort) };
        packet[..FORMAT.len()].copy_from_slice(&FORMAT);
        packet[field::OPERATION..][..2].copy_from_slice(&(self.operation as u16).to_be_bytes());
        packet[field::SENDER_MAC..][..6].copy_from_slice(&self.sender_mac.0);
        packet[field::SENDER_IP..][..4].copy_from_slice(&self.sender_ip.octets());
        packet[field::TARGET_MAC..][..6].copy_from_slice(&self.target_mac.0);
        packet[field::TARGET_IP..][..4].copy_from_slice(&self.target_ip.octets());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
