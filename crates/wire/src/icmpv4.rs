//! ICMP for IPv4 (RFC 792): echoes and errors.

use core::net::Ipv4Addr;

use crate::Error;
use crate::checksum::{Sum, Verify};
use crate::icmp::{self, Message};

mod kind {
    pub(super) const ECHO_REPLY: u8 = 0;
    pub(super) const DESTINATION_UNREACHABLE: u8 = 3;
    pub(super) const REDIRECT: u8 = 5;
    pub(super) const ECHO_REQUEST: u8 = 8;
    pub(super) const TIME_EXCEEDED: u8 = 11;
    pub(super) const PARAMETER_PROBLEM: u8 = 12;
}

/// Codes of "destination unreachable" (RFC 792; RFC 1122, 3.2.2.1).
pub mod unreachable {
    pub const NET: u8 = 0;
    pub const HOST: u8 = 1;
    pub const PROTOCOL: u8 = 2;
    pub const PORT: u8 = 3;
    /// The packet was too long and must not be split: path MTU discovery (RFC 1191).
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    pub const SOURCE_ROUTE_FAILED: u8 = 5;
    pub const NET_PROHIBITED: u8 = 9;
    pub const HOST_PROHIBITED: u8 = 10;
    /// RFC 1812, 5.2.7.1.
    pub const ADMINISTRATIVELY_PROHIBITED: u8 = 13;
}

/// Codes of "time exceeded".
pub mod time_exceeded {
    pub const TRANSIT: u8 = 0;
    pub const REASSEMBLY: u8 = 1;
}

/// A message. `quoted` is the beginning of the packet that caused an error; [`icmp::Quoted::v4`] reads it.
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
        /// Of the next hop, in bytes, with [`unreachable::FRAGMENTATION_NEEDED`]; 0 from routers that do not say it,
        /// and with other codes.
        mtu: u16,
        quoted: &'a [u8],
    },
    Redirect {
        code: u8,
        gateway: Ipv4Addr,
        quoted: &'a [u8],
    },
    TimeExceeded {
        code: u8,
        quoted: &'a [u8],
    },
    ParameterProblem {
        code: u8,
        /// Offset of what is wrong, in bytes.
        pointer: u8,
        quoted: &'a [u8],
    },
}

impl<'a> Repr<'a> {
    /// # Errors
    /// `IcmpChecksum`, `IcmpType`.
    pub fn parse(message: &Message<'a>, verify: Verify) -> Result<Repr<'a>, Error> {
        if verify == Verify::Compute && !message.verify_checksum_v4() {
            return Err(Error::IcmpChecksum);
        }
        let rest = message.rest_of_header();
        let [a, b, c, d] = rest;
        let (identification, sequence) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let (code, body) = (message.code(), message.body());
        Ok(match message.kind() {
            kind::ECHO_REQUEST => Repr::EchoRequest { identification, sequence, data: body },
            kind::ECHO_REPLY => Repr::EchoReply { identification, sequence, data: body },
            kind::DESTINATION_UNREACHABLE => {
                let mtu = if code == unreachable::FRAGMENTATION_NEEDED { sequence } else { 0 };
                Repr::DestinationUnreachable { code, mtu, quoted: body }
            }
            kind::REDIRECT => Repr::Redirect { code, gateway: rest.into(), quoted: body },
            kind::TIME_EXCEEDED => Repr::TimeExceeded { code, quoted: body },
            kind::PARAMETER_PROBLEM => Repr::ParameterProblem { code, pointer: a, quoted: body },
            _ => return Err(Error::IcmpType),
        })
    }

    /// Header and body, in bytes.
    pub fn message_len(&self) -> usize {
        icmp::HEADER_LEN + self.parts().2.len()
    }

    /// Writes the message, checksum included, to the beginning of `buffer`.
    ///
    /// # Errors
    /// `BufferTooShort`.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let (kind_and_code, rest_of_header, body) = self.parts();
        icmp::emit(buffer, kind_and_code, rest_of_header, &[body], |message| Sum::of(message).checksum())
    }

    /// Type and code, the second half of the header, and the body.
    fn parts(&self) -> ((u8, u8), [u8; 4], &'a [u8]) {
        let pair = |first: u16, second: u16| {
            let ([a, b], [c, d]) = (first.to_be_bytes(), second.to_be_bytes());
            [a, b, c, d]
        };
        match *self {
            Repr::EchoRequest { identification, sequence, data } => {
                ((kind::ECHO_REQUEST, 0), pair(identification, sequence), data)
            }
            Repr::EchoReply { identification, sequence, data } => {
                ((kind::ECHO_REPLY, 0), pair(identification, sequence), data)
            }
            Repr::DestinationUnreachable { code, mtu, quoted } => {
                ((kind::DESTINATION_UNREACHABLE, code), pair(0, mtu), quoted)
            }
            Repr::Redirect { code, gateway, quoted } => ((kind::REDIRECT, code), gateway.octets(), quoted),
            Repr::TimeExceeded { code, quoted } => ((kind::TIME_EXCEEDED, code), [0; 4], quoted),
            Repr::ParameterProblem { code, pointer, quoted } => {
                ((kind::PARAMETER_PROBLEM, code), [pointer, 0, 0, 0], quoted)
            }
        }
    }
}

#[cfg(test)]
mod tests;
