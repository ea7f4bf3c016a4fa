//! TCP segments (RFC 9293, 3.1).
//!
//! ```text
//!    0        1        2        3
//!   +-----------------+-----------------+
//!   |   source port   |destination port |
//!   |          sequence number          |
//!   |      acknowledgment number        |
//!   +----+---+--------+-----------------+
//!   |off |   | flags  |     window      |
//!   +----+---+--------+-----------------+
//!   |    checksum     | urgent pointer  |
//!   +-----------------+-----------------+
//!   |     options, up to 40 bytes       |
//!   +-----------------------------------+
//! ```

use crate::Error;
use crate::bytes::{be16, be32, put_be16, put_be32};
use crate::checksum::{Fill, Pseudo, Sum, Verify};

mod flags;
mod options;
mod seq;

pub use flags::Flags;
pub(crate) use options::timestamps_word;
pub use options::{Authentication, FastOpen, Options, SackBlock, SackBlocks, Timestamps};
pub use seq::SeqNumber;

/// Length of a header without options, in bytes.
pub const HEADER_LEN: usize = 20;
/// Most bytes that options can take.
pub const OPTIONS_LEN_MAX: usize = 40;
/// Length of the longest header, in bytes.
pub const HEADER_LEN_MAX: usize = HEADER_LEN + OPTIONS_LEN_MAX;

mod field {
    pub(super) const SOURCE_PORT: usize = 0;
    pub(super) const DESTINATION_PORT: usize = 2;
    pub(super) const SEQ: usize = 4;
    pub(super) const ACK: usize = 8;
    pub(super) const OFFSET_FLAGS: usize = 12;
    pub(super) const WINDOW: usize = 14;
    pub(super) const CHECKSUM: usize = 16;
    pub(super) const URGENT: usize = 18;
}

/// Where the checksum lies in a header; a device that fills it in is told so.
pub const CHECKSUM_OFFSET: usize = field::CHECKSUM;

/// A segment's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    header: &'a [u8; HEADER_LEN],
    options: &'a [u8],
    payload: &'a [u8],
    whole: &'a [u8],
}

impl<'a> Segment<'a> {
    /// # Errors
    /// `TcpTruncated`, `TcpDataOffset`.
    #[inline(always)]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Segment<'a>, Error> {
        let Some((header, _)) = bytes.split_first_chunk() else { return Err(Error::TcpTruncated) };
        let header_len = usize::from(header[field::OFFSET_FLAGS] >> 4) * 4;
        if header_len < HEADER_LEN || header_len > bytes.len() {
            return Err(Error::TcpDataOffset);
        }
        Ok(Segment { header, options: &bytes[HEADER_LEN..header_len], payload: &bytes[header_len..], whole: bytes })
    }

    #[inline(always)]
    pub fn source_port(&self) -> u16 {
        be16(self.header, field::SOURCE_PORT)
    }

    #[inline(always)]
    pub fn destination_port(&self) -> u16 {
        be16(self.header, field::DESTINATION_PORT)
    }

    #[inline(always)]
    pub fn seq(&self) -> SeqNumber {
        SeqNumber(be32(self.header, field::SEQ))
    }

    /// Means something only with [`Flags::ACK`].
    #[inline(always)]
    pub fn ack(&self) -> SeqNumber {
        SeqNumber(be32(self.header, field::ACK))
    }

    #[inline(always)]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    #[inline(always)]
    pub fn flags(&self) -> Flags {
        Flags::from_word(be16(self.header, field::OFFSET_FLAGS))
    }

    /// Not scaled.
    #[inline(always)]
    pub fn window(&self) -> u16 {
        be16(self.header, field::WINDOW)
    }

    /// The checksum as it stands in the header.
    #[inline(always)]
    pub fn checksum(&self) -> u16 {
        be16(self.header, field::CHECKSUM)
    }

    /// Means something only with [`Flags::URG`].
    #[inline(always)]
    pub fn urgent(&self) -> u16 {
        be16(self.header, field::URGENT)
    }

    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// How much sequence space the segment takes: its payload, and one each for SYN and FIN.
    #[inline(always)]
    pub fn seq_len(&self) -> u32 {
        self.payload.len() as u32 + self.flags().seq_len()
    }

    #[inline(always)]
    pub fn option_bytes(&self) -> &'a [u8] {
        self.options
    }

    /// All options. What is malformed is passed over as Linux does; see [`Options::malformed`].
    #[inline(always)]
    pub fn options(&self) -> Options {
        Options::parse(self.options)
    }

    /// The timestamps, if they are the only option and laid out as RFC 7323, appendix A recommends and every
    /// system does: the common case of an established connection in three comparisons.
    #[inline(always)]
    pub fn only_timestamps(&self) -> Option<Timestamps> {
        Timestamps::only(self.options)
    }

    #[inline]
    pub fn verify_checksum(&self, pseudo: Pseudo) -> bool {
        pseudo.matches(self.whole)
    }
}

/// A header with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Not zero when it comes from [`Repr::parse`].
    pub source_port: u16,
    /// Not zero when it comes from [`Repr::parse`].
    pub destination_port: u16,
    pub seq: SeqNumber,
    /// Zero without [`Flags::ACK`].
    pub ack: SeqNumber,
    pub flags: Flags,
    /// Not scaled.
    pub window: u16,
    /// Zero without [`Flags::URG`].
    pub urgent: u16,
    pub options: Options,
}

impl Repr {
    /// # Errors
    /// `TcpChecksum`, `TcpPort`.
    #[inline]
    pub fn parse(segment: &Segment, pseudo: Pseudo, verify: Verify) -> Result<Repr, Error> {
        if verify == Verify::Compute && !segment.verify_checksum(pseudo) {
            return Err(Error::TcpChecksum);
        }
        if segment.source_port() == 0 || segment.destination_port() == 0 {
            return Err(Error::TcpPort);
        }
        let flags = segment.flags();
        Ok(Repr {
            source_port: segment.source_port(),
            destination_port: segment.destination_port(),
            seq: segment.seq(),
            ack: if flags.contains(Flags::ACK) { segment.ack() } else { SeqNumber(0) },
            flags,
            window: segment.window(),
            urgent: if flags.contains(Flags::URG) { segment.urgent() } else { 0 },
            options: segment.options(),
        })
    }

    /// Header and options in bytes.
    #[inline(always)]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.wire_len()
    }

    /// Writes the header to the beginning of `segment`, whose rest is the payload and lies there already, as the
    /// checksum includes it.
    ///
    /// # Errors
    /// `BufferTooShort` if `segment` is shorter than [`Repr::header_len`], `TcpOptionsTooLong`.
    #[inline]
    pub fn emit(&self, segment: &mut [u8], pseudo: Pseudo, fill: Fill) -> Result<(), Error> {
        let header_len = self.checked_header_len()?;
        let Some((header, payload)) = segment.split_at_mut_checked(header_len) else {
            return Err(Error::BufferTooShort);
        };
        let payload_sum = if fill == Fill::Complete { Sum::of(payload) } else { Sum::ZERO };
        self.emit_header(header, payload.len(), payload_sum, pseudo, fill)
    }

    /// Writes the header alone, for a payload that lies elsewhere or was summed while it was copied
    /// ([`Sum::copying`]). `header` has [`Repr::header_len`] bytes; with [`Fill::Partial`] `payload_sum` is not used.
    ///
    /// # Errors
    /// `BufferTooShort`, `TcpOptionsTooLong`.
    #[inline]
    pub fn emit_header(
        &self,
        header: &mut [u8],
        payload_len: usize,
        payload_sum: Sum,
        pseudo: Pseudo,
        fill: Fill,
    ) -> Result<(), Error> {
        let header_len = self.checked_header_len()?;
        let Some(header) = header.get_mut(..header_len) else { return Err(Error::BufferTooShort) };
        let Some((fixed, options)) = header.split_first_chunk_mut::<HEADER_LEN>() else {
            return Err(Error::BufferTooShort);
        };
        self.write_fixed(fixed, header_len);
        self.options.write(options);
        let pseudo_sum = pseudo.sum((header_len + payload_len) as u32);
        let checksum = match fill {
            Fill::Complete => (pseudo_sum + payload_sum + Sum::of(header)).checksum(),
            Fill::Partial => !pseudo_sum.checksum(),
        };
        put_be16(header, field::CHECKSUM, checksum);
        Ok(())
    }

    #[inline(always)]
    fn checked_header_len(&self) -> Result<usize, Error> {
        let len = self.header_len();
        if len > HEADER_LEN_MAX { Err(Error::TcpOptionsTooLong) } else { Ok(len) }
    }

    /// All but the checksum, which is zero afterwards.
    #[inline(always)]
    fn write_fixed(&self, fixed: &mut [u8; HEADER_LEN], header_len: usize) {
        put_be16(fixed, field::SOURCE_PORT, self.source_port);
        put_be16(fixed, field::DESTINATION_PORT, self.destination_port);
        put_be32(fixed, field::SEQ, self.seq.0);
        put_be32(fixed, field::ACK, self.ack.0);
        put_be16(fixed, field::OFFSET_FLAGS, (header_len as u16 / 4) << 12 | self.flags.bits());
        put_be16(fixed, field::WINDOW, self.window);
        put_be16(fixed, field::CHECKSUM, 0);
        put_be16(fixed, field::URGENT, self.urgent);
    }
}

#[cfg(test)]
mod tests;
