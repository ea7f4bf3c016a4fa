//! What ICMP for IPv4 and for IPv6 share: the header, and the packets that errors quote.
//!
//! ```text
//!   +--------+--------+-----------------+
//!   |  type  |  code  |    checksum     |
//!   |      depends on the type          |
//!   +-----------------------------------+
//! ```

use crate::bytes::{array, be16, be32, put_be16};
use crate::checksum::{Fill, Pseudo, Sum};
use crate::ip::{IpAddress, Protocol};
use crate::{Error, SeqNumber, ipv4, ipv6};

/// In bytes.
pub const HEADER_LEN: usize = 8;
/// Where the checksum lies in a header.
pub const CHECKSUM_OFFSET: usize = 2;

/// A message's bytes, of either version.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    header: &'a [u8; HEADER_LEN],
    body: &'a [u8],
    whole: &'a [u8],
}

impl<'a> Message<'a> {
    /// # Errors
    /// `IcmpTruncated`.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Message<'a>, Error> {
        let Some((header, body)) = bytes.split_first_chunk() else { return Err(Error::IcmpTruncated) };
        Ok(Message { header, body, whole: bytes })
    }

    pub fn kind(&self) -> u8 {
        self.header[0]
    }

    pub fn code(&self) -> u8 {
        self.header[1]
    }

    pub fn checksum(&self) -> u16 {
        be16(self.header, CHECKSUM_OFFSET)
    }

    /// The second half of the header.
    pub fn rest_of_header(&self) -> [u8; 4] {
        array(self.header, 4)
    }

    /// What follows the header.
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// In ICMP for IPv4 the checksum covers the message alone.
    pub fn verify_checksum_v4(&self) -> bool {
        Sum::of(self.whole).is_valid()
    }

    /// In ICMPv6 it covers a pseudo-header too (RFC 4443, 2.3).
    pub fn verify_checksum_v6(&self, pseudo: Pseudo) -> bool {
        pseudo.matches(self.whole)
    }
}

/// Writes header and body to the beginning of `buffer`, and then the checksum that `checksum` makes of them.
pub(crate) fn emit(
    buffer: &mut [u8],
    (kind, code): (u8, u8),
    rest_of_header: [u8; 4],
    body: &[&[u8]],
    checksum: impl FnOnce(&[u8]) -> u16,
) -> Result<(), Error> {
    let len = HEADER_LEN + body.iter().map(|part| part.len()).sum::<usize>();
    let Some(message) = buffer.get_mut(..len) else { return Err(Error::BufferTooShort) };
    message[..4].copy_from_slice(&[kind, code, 0, 0]);
    message[4..HEADER_LEN].copy_from_slice(&rest_of_header);
    let mut at = HEADER_LEN;
    for part in body {
        message[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    let checksum = checksum(message);
    put_be16(message, CHECKSUM_OFFSET, checksum);
    Ok(())
}

/// The checksum of an ICMPv6 message whose checksum field is zero.
pub(crate) fn checksum_v6(message: &[u8], pseudo: Pseudo, fill: Fill) -> u16 {
    let pseudo_sum = pseudo.sum(message.len() as u32);
    match fill {
        Fill::Complete => (pseudo_sum + Sum::of(message)).checksum(),
        Fill::Partial => !pseudo_sum.checksum(),
    }
}

/// What an error says of the packet that caused it: enough to find the socket that sent it. Addresses are as in
/// that packet, so `source` is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted<'a> {
    pub source: IpAddress,
    pub destination: IpAddress,
    pub protocol: Protocol,
    /// What every error quotes of the transport header (RFC 792): ports and, in TCP, the sequence number.
    pub transport: &'a [u8; 8],
}

impl<'a> Quoted<'a> {
    /// What an ICMP error for IPv4 quotes.
    ///
    /// # Errors
    /// `IcmpQuoteTruncated`, also for a later fragment, which has no transport header.
    pub fn v4(bytes: &'a [u8]) -> Result<Quoted<'a>, Error> {
        let packet = ipv4::Packet::new_quoted(bytes).map_err(|_| Error::IcmpQuoteTruncated)?;
        let transport = packet.payload().first_chunk().filter(|_| packet.fragment_offset() == 0);
        Ok(Quoted {
            source: packet.source().into(),
            destination: packet.destination().into(),
            protocol: packet.protocol(),
            transport: transport.ok_or(Error::IcmpQuoteTruncated)?,
        })
    }

    /// What an ICMPv6 error quotes.
    ///
    /// # Errors
    /// `IcmpQuoteTruncated`, also for a later fragment, which has no transport header.
    pub fn v6(bytes: &'a [u8]) -> Result<Quoted<'a>, Error> {
        let packet = ipv6::Packet::new_quoted(bytes).map_err(|_| Error::IcmpQuoteTruncated)?;
        let upper = packet.upper().map_err(|_| Error::IcmpQuoteTruncated)?;
        let is_first = upper.fragment.is_none_or(|f| f.offset == 0);
        let transport = upper.payload.first_chunk().filter(|_| is_first);
        Ok(Quoted {
            source: packet.source().into(),
            destination: packet.destination().into(),
            protocol: upper.protocol,
            transport: transport.ok_or(Error::IcmpQuoteTruncated)?,
        })
    }

    /// Ours, in TCP and UDP.
    pub fn source_port(&self) -> u16 {
        be16(self.transport, 0)
    }

    /// The peer's, in TCP and UDP.
    pub fn destination_port(&self) -> u16 {
        be16(self.transport, 2)
    }

    /// TCP's sequence number; an attacker off the path does not know it (RFC 5927, 4.1).
    pub fn tcp_seq(&self) -> SeqNumber {
        SeqNumber(be32(self.transport, 4))
    }
}

#[cfg(test)]
mod tests;
