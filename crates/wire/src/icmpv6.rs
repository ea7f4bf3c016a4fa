//! ICMPv6 (RFC 4443): echoes, errors, and neighbor discovery, which [`nd`] reads and writes.

use crate::checksum::{Fill, Pseudo, Verify};
use crate::icmp::{self, Message};
use crate::{Error, nd};

mod kind {
    pub(super) const DESTINATION_UNREACHABLE: u8 = 1;
    pub(super) const PACKET_TOO_BIG: u8 = 2;
    pub(super) const TIME_EXCEEDED: u8 = 3;
    pub(super) const PARAMETER_PROBLEM: u8 = 4;
    pub(super) const ECHO_REQUEST: u8 = 128;
    pub(super) const ECHO_REPLY: u8 = 129;
}

/// Codes of "destination unreachable" (RFC 4443, 3.1).
pub mod unreachable {
    pub const NO_ROUTE: u8 = 0;
    pub const ADMINISTRATIVELY_PROHIBITED: u8 = 1;
    pub const BEYOND_SCOPE: u8 = 2;
    pub const ADDRESS: u8 = 3;
    pub const PORT: u8 = 4;
    pub const POLICY: u8 = 5;
    pub const REJECT_ROUTE: u8 = 6;
}

/// Codes of "time exceeded".
pub mod time_exceeded {
    pub const TRANSIT: u8 = 0;
    pub const REASSEMBLY: u8 = 1;
}

/// A message. `quoted` is the beginning of the packet that caused an error; [`icmp::Quoted::v6`] reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repr<'a> {
    EchoRequest {
        identification: u16,
        sequence: u16,
        data: &'a [u8],
    },
    EchoReply {
        identification: u16,
        sequence: u16,
        data: &'a [u8],
    },
    DestinationUnreachable {
        code: u8,
        quoted: &'a [u8],
    },
    PacketTooBig {
        /// Of the next hop, in bytes. Believe none below 1280 (RFC 8201, 4).
        mtu: u32,
        quoted: &'a [u8],
    },
    TimeExceeded {
        code: u8,
        quoted: &'a [u8],
    },
    ParameterProblem {
        code: u8,
        /// Offset of what is wrong, in bytes.
        pointer: u32,
        quoted: &'a [u8],
    },
    Nd(nd::Repr<'a>),
}

impl<'a> Repr<'a> {
    /// `hop_limit` is the packet's: neighbor discovery comes from the link only (RFC 4861, 11.2).
    ///
    /// # Errors
    /// `IcmpChecksum`, `IcmpType`, and those of [`nd::Repr::parse`].
    pub fn parse(message: &Message<'a>, hop_limit: u8, pseudo: Pseudo, verify: Verify) -> Result<Repr<'a>, Error> {
        if verify == Verify::Compute && !message.verify_checksum_v6(pseudo) {
            return Err(Error::IcmpChecksum);
        }
        let rest = message.rest_of_header();
        let [a, b, c, d] = rest;
        let (identification, sequence) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let (code, word, body) = (message.code(), u32::from_be_bytes(rest), message.body());
        Ok(match message.kind() {
            kind::ECHO_REQUEST => Repr::EchoRequest { identification, sequence, data: body },
            kind::ECHO_REPLY => Repr::EchoReply { identification, sequence, data: body },
            kind::DESTINATION_UNREACHABLE => Repr::DestinationUnreachable { code, quoted: body },
            kind::PACKET_TOO_BIG => Repr::PacketTooBig { mtu: word, quoted: body },
            kind::TIME_EXCEEDED => Repr::TimeExceeded { code, quoted: body },
            kind::PARAMETER_PROBLEM => Repr::ParameterProblem { code, pointer: word, quoted: body },
            _ => Repr::Nd(nd::Repr::parse(message, hop_limit)?),
        })
    }

    /// Header and body, in bytes.
    pub fn message_len(&self) -> usize {
        match self {
            Repr::Nd(nd) => nd.message_len(),
            other => icmp::HEADER_LEN + other.parts().2.len(),
        }
    }

    /// Writes the message, checksum included, to the beginning of `buffer`.
    ///
    /// # Errors
    /// `BufferTooShort`.
    pub fn emit(&self, buffer: &mut [u8], pseudo: Pseudo, fill: Fill) -> Result<(), Error> {
        if let Repr::Nd(nd) = self {
            return nd.emit(buffer, pseudo, fill);
        }
        let (kind_and_code, rest_of_header, body) = self.parts();
        let checksum = |message: &[u8]| icmp::checksum_v6(message, pseudo, fill);
        icmp::emit(buffer, kind_and_code, rest_of_header, &[body], checksum)
    }

    /// Type and code, the second half of the header, and the body; neighbor discovery has its own.
    fn parts(&self) -> ((u8, u8), [u8; 4], &'a [u8]) {
        let echo = |identification: u16, sequence: u16| {
            let ([a, b], [c, d]) = (identification.to_be_bytes(), sequence.to_be_bytes());
            [a, b, c, d]
        };
        match *self {
            Repr::EchoRequest { identification, sequence, data } => {
                ((kind::ECHO_REQUEST, 0), echo(identification, sequence), data)
            }
            Repr::EchoReply { identification, sequence, data } => {
                ((kind::ECHO_REPLY, 0), echo(identification, sequence), data)
            }
            Repr::DestinationUnreachable { code, quoted } => ((kind::DESTINATION_UNREACHABLE, code), [0; 4], quoted),
            Repr::PacketTooBig { mtu, quoted } => ((kind::PACKET_TOO_BIG, 0), mtu.to_be_bytes(), quoted),
            Repr::TimeExceeded { code, quoted } => ((kind::TIME_EXCEEDED, code), [0; 4], quoted),
            Repr::ParameterProblem { code, pointer, quoted } => {
                ((kind::PARAMETER_PROBLEM, code), pointer.to_be_bytes(), quoted)
            }
            Repr::Nd(_) => ((0, 0), [0; 4], &[]),
        }
    }
}

#[cfg(test)]
mod tests;
