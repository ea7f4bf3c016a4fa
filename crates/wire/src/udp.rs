//! UDP datagrams (RFC 768).
//!
//! ```text
//!   +-----------------+-----------------+
//!   |   source port   |destination port |
//!   |     length      |    checksum     |
//!   +-----------------+-----------------+
//! ```

use crate::Error;
use crate::bytes::{be16, put_be16};
use crate::checksum::{Fill, Pseudo, Sum, Verify};

/// In bytes.
pub const HEADER_LEN: usize = 8;
/// The longest payload that the length field can say, in bytes; an IPv4 packet carries 20 less.
pub const PAYLOAD_LEN_MAX: usize = 65_535 - HEADER_LEN;
/// Where the checksum lies in a header; a device that fills it in is told so.
pub const CHECKSUM_OFFSET: usize = 6;

mod field {
    pub(super) const SOURCE_PORT: usize = 0;
    pub(super) const DESTINATION_PORT: usize = 2;
    pub(super) const LEN: usize = 4;
    pub(super) const CHECKSUM: usize = super::CHECKSUM_OFFSET;
}

/// A datagram's bytes, without what lies behind its length.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
    whole: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// # Errors
    /// `UdpTruncated`, `UdpLength`.
    #[inline(always)]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Datagram<'a>, Error> {
        let Some((header, _)) = bytes.split_first_chunk() else { return Err(Error::UdpTruncated) };
        let len = usize::from(be16(header, field::LEN));
        let Some(whole) = bytes.get(..len) else { return Err(Error::UdpLength) };
        let Some(payload) = whole.get(HEADER_LEN..) else { return Err(Error::UdpLength) };
        Ok(Datagram { header, payload, whole })
    }

    #[inline(always)]
    pub fn source_port(&self) -> u16 {
        be16(self.header, field::SOURCE_PORT)
    }

    #[inline(always)]
    pub fn destination_port(&self) -> u16 {
        be16(self.header, field::DESTINATION_PORT)
    }

    /// As it stands in the header; zero says that there is none.
    #[inline(always)]
    pub fn checksum(&self) -> u16 {
        be16(self.header, field::CHECKSUM)
    }

    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// A missing checksum is right in IPv4 and refused in IPv6 (RFC 8200, 8.1).
    ///
    /// # Errors
    /// `UdpChecksum`, `UdpChecksumMissing`.
    #[inline]
    pub fn verify_checksum(&self, pseudo: Pseudo) -> Result<(), Error> {
        match self.checksum() {
            0 if pseudo.is_v4() => Ok(()),
            0 => Err(Error::UdpChecksumMissing),
            _ if pseudo.matches(self.whole) => Ok(()),
            _ => Err(Error::UdpChecksum),
        }
    }
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Zero if no answer is wanted.
    pub source_port: u16,
    /// Not zero when it comes from [`Repr::parse`].
    pub destination_port: u16,
    /// At most [`PAYLOAD_LEN_MAX`].
    pub payload_len: usize,
}

impl Repr {
    /// # Errors
    /// `UdpPort`, `UdpChecksum`, `UdpChecksumMissing`.
    #[inline]
    pub fn parse(datagram: &Datagram, pseudo: Pseudo, verify: Verify) -> Result<Repr, Error> {
        if verify == Verify::Compute {
            datagram.verify_checksum(pseudo)?;
        }
        if datagram.destination_port() == 0 {
            return Err(Error::UdpPort);
        }
        Ok(Repr {
            source_port: datagram.source_port(),
            destination_port: datagram.destination_port(),
            payload_len: datagram.payload.len(),
        })
    }

    /// Writes the header to the beginning of `datagram`; the payload lies behind it already, as the checksum
    /// includes it.
    ///
    /// # Errors
    /// `BufferTooShort` if `datagram` has no room for both, `PayloadTooLong`.
    #[inline]
    pub fn emit(&self, datagram: &mut [u8], pseudo: Pseudo, fill: Fill) -> Result<(), Error> {
        if self.payload_len > PAYLOAD_LEN_MAX {
            return Err(Error::PayloadTooLong);
        }
        let len = HEADER_LEN + self.payload_len;
        let Some(datagram) = datagram.get_mut(..len) else { return Err(Error::BufferTooShort) };
        put_be16(datagram, field::SOURCE_PORT, self.source_port);
        put_be16(datagram, field::DESTINATION_PORT, self.destination_port);
        put_be16(datagram, field::LEN, len as u16);
        put_be16(datagram, field::CHECKSUM, 0);
        let pseudo_sum = pseudo.sum(len as u32);
        let checksum = match fill {
            Fill::Complete => not_zero((pseudo_sum + Sum::of(datagram)).checksum()),
            Fill::Partial => !pseudo_sum.checksum(),
        };
        put_be16(datagram, field::CHECKSUM, checksum);
        Ok(())
    }
}

/// Zero would say that there is no checksum; its other form says the same sum (RFC 768).
#[inline(always)]
const fn not_zero(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

#[cfg(test)]
mod tests;
