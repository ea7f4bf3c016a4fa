//! Extension headers: from the fixed header to what the packet carries (RFC 8200, 4).
//!
//! ```text
//!   hop-by-hop, destination options, routing          fragment
//!   +--------+--------+---------------+               +--------+--------+------------+--+
//!   |next hdr| len/8-1|  data ...     |               |next hdr|   0    | offset/8   |M |
//!   +--------+--------+---------------+               |           identification        |
//!                                                     +---------------------------------+
//! ```

use crate::Error;
use crate::bytes::{be16, be32};
use crate::ip::{Fragment, Protocol};
use crate::ipv6::HEADER_LEN;

/// More extension headers than this are refused.
pub const HEADERS_MAX: usize = 8;
/// More options in one header, padding not counted, are refused (RFC 8504, 5.3).
pub const OPTIONS_MAX: usize = 8;
/// Length of a fragment header, in bytes.
pub const FRAGMENT_LEN: usize = 8;

/// What a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upper<'a> {
    /// What [`Upper::payload`] is; in a fragment that is not the first it says what the datagram begins with.
    pub protocol: Protocol,
    pub payload: &'a [u8],
    /// This is a part only. Once reassembled, walk the datagram from `protocol` on.
    pub fragment: Option<Fragment>,
    /// Where `protocol` stands, in bytes from the beginning of the packet: the pointer of the answer to a protocol
    /// that nobody knows (RFC 8200, 4).
    pub protocol_at: u32,
}

/// The ICMPv6 parameter problem that is owed to the sender (RFC 4443, 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub code: u8,
    /// Offset of what is wrong from the beginning of the packet, in bytes.
    pub pointer: u32,
    /// It is owed even if the packet went to a multicast address.
    pub even_if_multicast: bool,
}

/// Why a packet was not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub error: Error,
    pub answer: Option<Answer>,
}

const ERRONEOUS_FIELD: u8 = 0;
const UNKNOWN_NEXT_HEADER: u8 = 1;
const UNKNOWN_OPTION: u8 = 2;

/// Walks from `first`, which is the type of `payload`, over at most [`HEADERS_MAX`] headers, and stops at the
/// first that is no extension or at a fragment. Options are judged: those unknown are passed over if they say so.
///
/// # Errors
/// `Ipv6ExtensionTruncated`, `Ipv6ExtensionsTooMany`, `Ipv6HopByHopMisplaced`, `Ipv6Option`, `Ipv6OptionsTooMany`,
/// `Ipv6UnknownOption`, `Ipv6RoutingHeader`.
#[inline(always)]
pub fn walk(first: Protocol, payload: &[u8]) -> Result<Upper<'_>, Refused> {
    if first == Protocol::TCP || first == Protocol::UDP {
        return Ok(Upper { protocol: first, payload, fragment: None, protocol_at: NEXT_HEADER_AT });
    }
    walk_all(first, payload)
}

/// Where the fixed header names what follows it.
const NEXT_HEADER_AT: u32 = 6;

fn walk_all(first: Protocol, payload: &[u8]) -> Result<Upper<'_>, Refused> {
    let mut upper = Upper { protocol: first, payload, fragment: None, protocol_at: NEXT_HEADER_AT };
    for headers in 0..HEADERS_MAX {
        let at = (HEADER_LEN + payload.len() - upper.payload.len()) as u32;
        let header_len = match upper.protocol {
            Protocol::HOP_BY_HOP if headers > 0 => {
                return Err(owed(Error::Ipv6HopByHopMisplaced, UNKNOWN_NEXT_HEADER, upper.protocol_at));
            }
            Protocol::HOP_BY_HOP | Protocol::DESTINATION_OPTIONS => {
                let header = header(upper.payload)?;
                judge_options(&header[2..], at + 2)?;
                header.len()
            }
            Protocol::ROUTING => {
                let header = header(upper.payload)?;
                // RFC 8200, 4.4: "If Segments Left is zero, the node must ignore the Routing header".
                if header[3] != 0 {
                    return Err(owed(Error::Ipv6RoutingHeader, ERRONEOUS_FIELD, at + 2));
                }
                header.len()
            }
            Protocol::FRAGMENT => {
                upper.fragment = fragment(upper.payload)?;
                FRAGMENT_LEN
            }
            _ => return Ok(upper),
        };
        upper.protocol = Protocol(upper.payload[0]);
        upper.protocol_at = at;
        upper.payload = &upper.payload[header_len..];
        if upper.fragment.is_some() {
            return Ok(upper);
        }
    }
    if is_extension(upper.protocol) { Err(silent(Error::Ipv6ExtensionsTooMany)) } else { Ok(upper) }
}

/// One that [`walk`] passes over.
fn is_extension(protocol: Protocol) -> bool {
    [Protocol::HOP_BY_HOP, Protocol::DESTINATION_OPTIONS, Protocol::ROUTING, Protocol::FRAGMENT].contains(&protocol)
}

fn silent(error: Error) -> Refused {
    Refused { error, answer: None }
}

fn owed(error: Error, code: u8, pointer: u32) -> Refused {
    Refused { error, answer: Some(Answer { code, pointer, even_if_multicast: false }) }
}

/// The header that `bytes` begins with, of at least 8 bytes.
fn header(bytes: &[u8]) -> Result<&[u8], Refused> {
    let len = bytes.get(1).map(|len| 8 * (usize::from(*len) + 1));
    len.and_then(|len| bytes.get(..len)).ok_or(silent(Error::Ipv6ExtensionTruncated))
}

/// `None` for an atomic fragment, which is a whole datagram (RFC 6946, 4).
fn fragment(bytes: &[u8]) -> Result<Option<Fragment>, Refused> {
    let header = bytes.first_chunk::<FRAGMENT_LEN>().ok_or(silent(Error::Ipv6ExtensionTruncated))?;
    let word = be16(header, 2);
    let fragment = Fragment { identification: be32(header, 4), offset: word & !7, more: word & 1 != 0 };
    Ok((fragment.offset != 0 || fragment.more).then_some(fragment))
}

const PAD1: u8 = 0;
const PADN: u8 = 1;
/// RFC 2711; a host needs no alert.
const ROUTER_ALERT: u8 = 5;

/// The options of a hop-by-hop or destination options header; `at` is where they begin in the packet.
fn judge_options(options: &[u8], at: u32) -> Result<(), Refused> {
    let (mut rest, mut count) = (options, 0);
    while let [kind, tail @ ..] = rest {
        if *kind == PAD1 {
            rest = tail;
            continue;
        }
        let pointer = at + (options.len() - rest.len()) as u32;
        let len = tail.first().map(|len| usize::from(*len) + 1);
        rest = len.and_then(|len| tail.get(len..)).ok_or(silent(Error::Ipv6Option))?;
        if *kind == PADN {
            continue;
        }
        count += 1;
        if count > OPTIONS_MAX {
            return Err(silent(Error::Ipv6OptionsTooMany));
        }
        if *kind != ROUTER_ALERT {
            judge_unknown(*kind, pointer)?;
        }
    }
    Ok(())
}

/// The two highest bits say what is done with an unknown option (RFC 8200, 4.2).
fn judge_unknown(kind: u8, pointer: u32) -> Result<(), Refused> {
    let error = Error::Ipv6UnknownOption;
    let answer = Answer { code: UNKNOWN_OPTION, pointer, even_if_multicast: kind >> 6 == 2 };
    match kind >> 6 {
        0 => Ok(()),
        1 => Err(silent(error)),
        _ => Err(Refused { error, answer: Some(answer) }),
    }
}

/// Writes a fragment header to the beginning of `buffer` and returns what lies behind it.
///
/// # Errors
/// `BufferTooShort`.
pub fn emit_fragment(fragment: Fragment, next: Protocol, buffer: &mut [u8]) -> Result<&mut [u8], Error> {
    let Some((header, payload)) = buffer.split_first_chunk_mut::<FRAGMENT_LEN>() else {
        return Err(Error::BufferTooShort);
    };
    header[..2].copy_from_slice(&[next.0, 0]);
    header[2..4].copy_from_slice(&(fragment.offset & !7 | u16::from(fragment.more)).to_be_bytes());
    header[4..].copy_from_slice(&fragment.identification.to_be_bytes());
    Ok(payload)
}

#[cfg(test)]
mod tests;
