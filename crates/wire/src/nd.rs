//! Neighbor discovery (RFC 4861): solicitations, advertisements and redirects of routers and neighbors.
//!
//! ```text
//!   ICMPv6 header, whose second half is     then                               then
//!   router solicitation      0              -                                  options
//!   router advertisement     hop limit,     reachable and retransmit times     options
//!                            flags, lifetime
//!   neighbor solicitation    0              target                             options
//!   neighbor advertisement   flags          target                             options
//!   redirect                 0              target, destination                options
//! ```

use core::net::Ipv6Addr;

use crate::Error;
use crate::bytes::be32;
use crate::checksum::{Fill, Pseudo};
use crate::icmp::{self, Message};

mod options;

pub use options::{NdOption, Options, PrefixInformation};

/// The hop limit of every message: no router has passed it on (RFC 4861, 11.2).
pub const HOP_LIMIT: u8 = 255;

mod kind {
    pub(super) const ROUTER_SOLICIT: u8 = 133;
    pub(super) const ROUTER_ADVERT: u8 = 134;
    pub(super) const NEIGHBOR_SOLICIT: u8 = 135;
    pub(super) const NEIGHBOR_ADVERT: u8 = 136;
    pub(super) const REDIRECT: u8 = 137;
}

mod flag {
    pub(super) const MANAGED: u8 = 0x80;
    pub(super) const OTHER: u8 = 0x40;
    pub(super) const ROUTER: u8 = 0x80;
    pub(super) const SOLICITED: u8 = 0x40;
    pub(super) const OVERRIDE: u8 = 0x20;
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repr<'a> {
    RouterSolicit {
        options: Options<'a>,
    },
    RouterAdvert {
        /// What hosts shall use; 0 if the router does not say.
        hop_limit: u8,
        /// Addresses by DHCPv6.
        managed: bool,
        /// Other configuration by DHCPv6.
        other: bool,
        /// 0 if it is no default router.
        lifetime_s: u16,
        /// 0 if the router does not say.
        reachable_ms: u32,
        /// 0 if the router does not say.
        retransmit_ms: u32,
        options: Options<'a>,
    },
    NeighborSolicit {
        target: Ipv6Addr,
        options: Options<'a>,
    },
    NeighborAdvert {
        router: bool,
        solicited: bool,
        overrides: bool,
        target: Ipv6Addr,
        options: Options<'a>,
    },
    Redirect {
        /// The better next hop.
        target: Ipv6Addr,
        destination: Ipv6Addr,
        options: Options<'a>,
    },
}

/// What lies between header and options: at most two addresses.
struct Fixed {
    bytes: [u8; 32],
    len: usize,
}

impl Fixed {
    fn of(parts: &[&[u8]]) -> Fixed {
        let mut fixed = Fixed { bytes: [0; 32], len: 0 };
        for part in parts {
            fixed.bytes[fixed.len..][..part.len()].copy_from_slice(part);
            fixed.len += part.len();
        }
        fixed
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl<'a> Repr<'a> {
    /// The checks of RFC 4861, 6.1, 7.1 and 8.1 that need nothing but message and hop limit.
    ///
    /// # Errors
    /// `IcmpType`, `NdHopLimit`, `NdCode`, `NdTruncated`, `NdTarget`, `NdOption`.
    pub fn parse(message: &Message<'a>, hop_limit: u8) -> Result<Repr<'a>, Error> {
        if !(kind::ROUTER_SOLICIT..=kind::REDIRECT).contains(&message.kind()) {
            return Err(Error::IcmpType);
        }
        if hop_limit != HOP_LIMIT {
            return Err(Error::NdHopLimit);
        }
        if message.code() != 0 {
            return Err(Error::NdCode);
        }
        let [flags, ..] = message.rest_of_header();
        match message.kind() {
            kind::ROUTER_SOLICIT => Ok(Repr::RouterSolicit { options: Options::new_checked(message.body())? }),
            kind::ROUTER_ADVERT => Repr::parse_router_advert(message),
            kind::NEIGHBOR_SOLICIT => {
                let (target, options) = target(message.body())?;
                Ok(Repr::NeighborSolicit { target, options: Options::new_checked(options)? })
            }
            kind::NEIGHBOR_ADVERT => {
                let (target, options) = target(message.body())?;
                Ok(Repr::NeighborAdvert {
                    router: flags & flag::ROUTER != 0,
                    solicited: flags & flag::SOLICITED != 0,
                    overrides: flags & flag::OVERRIDE != 0,
                    target,
                    options: Options::new_checked(options)?,
                })
            }
            _ => {
                let (target, rest) = target(message.body())?;
                let (destination, options) = address(rest)?;
                Ok(Repr::Redirect { target, destination, options: Options::new_checked(options)? })
            }
        }
    }

    fn parse_router_advert(message: &Message<'a>) -> Result<Repr<'a>, Error> {
        let (times, options) = message.body().split_first_chunk::<8>().ok_or(Error::NdTruncated)?;
        let [hop_limit, flags, high, low] = message.rest_of_header();
        Ok(Repr::RouterAdvert {
            hop_limit,
            managed: flags & flag::MANAGED != 0,
            other: flags & flag::OTHER != 0,
            lifetime_s: u16::from_be_bytes([high, low]),
            reachable_ms: be32(times, 0),
            retransmit_ms: be32(times, 4),
            options: Options::new_checked(options)?,
        })
    }

    /// Header, body and options, in bytes.
    pub fn message_len(&self) -> usize {
        let (_, _, fixed, options) = self.parts();
        icmp::HEADER_LEN + fixed.len + options.as_bytes().len()
    }

    /// Writes the message, checksum included, to the beginning of `buffer`. The packet's hop limit is [`HOP_LIMIT`].
    ///
    /// # Errors
    /// `BufferTooShort`.
    pub fn emit(&self, buffer: &mut [u8], pseudo: Pseudo, fill: Fill) -> Result<(), Error> {
        let (kind, rest_of_header, fixed, options) = self.parts();
        let body = [fixed.as_slice(), options.as_bytes()];
        icmp::emit(buffer, (kind, 0), rest_of_header, &body, |message| icmp::checksum_v6(message, pseudo, fill))
    }

    /// Type, second half of the header, what follows it, options.
    fn parts(&self) -> (u8, [u8; 4], Fixed, Options<'a>) {
        match *self {
            Repr::RouterSolicit { options } => (kind::ROUTER_SOLICIT, [0; 4], Fixed::of(&[]), options),
            Repr::RouterAdvert { hop_limit, managed, other, lifetime_s, reachable_ms, retransmit_ms, options } => {
                let flags = bit(managed, flag::MANAGED) | bit(other, flag::OTHER);
                let [high, low] = lifetime_s.to_be_bytes();
                let times = Fixed::of(&[&reachable_ms.to_be_bytes(), &retransmit_ms.to_be_bytes()]);
                (kind::ROUTER_ADVERT, [hop_limit, flags, high, low], times, options)
            }
            Repr::NeighborSolicit { target, options } => {
                (kind::NEIGHBOR_SOLICIT, [0; 4], Fixed::of(&[&target.octets()]), options)
            }
            Repr::NeighborAdvert { router, solicited, overrides, target, options } => {
                let flags =
                    bit(router, flag::ROUTER) | bit(solicited, flag::SOLICITED) | bit(overrides, flag::OVERRIDE);
                (kind::NEIGHBOR_ADVERT, [flags, 0, 0, 0], Fixed::of(&[&target.octets()]), options)
            }
            Repr::Redirect { target, destination, options } => {
                let addresses = Fixed::of(&[&target.octets(), &destination.octets()]);
                (kind::REDIRECT, [0; 4], addresses, options)
            }
        }
    }
}

fn bit(set: bool, flag: u8) -> u8 {
    if set { flag } else { 0 }
}

fn address(bytes: &[u8]) -> Result<(Ipv6Addr, &[u8]), Error> {
    let (address, rest) = bytes.split_first_chunk::<16>().ok_or(Error::NdTruncated)?;
    Ok((Ipv6Addr::from(*address), rest))
}

/// RFC 4861, 7.1.1, 7.1.2: "Target Address is not a multicast address"; nor can a next hop be one.
fn target(bytes: &[u8]) -> Result<(Ipv6Addr, &[u8]), Error> {
    let (target, rest) = address(bytes)?;
    if target.is_multicast() { Err(Error::NdTarget) } else { Ok((target, rest)) }
}

#[cfg(test)]
mod tests;
