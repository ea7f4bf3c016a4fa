//! Options of neighbor discovery (RFC 4861, 4.6).
//!
//! ```text
//!   +--------+--------+-----------------
//!   |  type  | len/8  |  data ...
//!   +--------+--------+-----------------
//! ```

use core::net::Ipv6Addr;

use crate::Error;
use crate::bytes::{array, be32, put_be32};
use crate::ethernet::MacAddress;

mod kind {
    pub(super) const SOURCE_LINK_LAYER: u8 = 1;
    pub(super) const TARGET_LINK_LAYER: u8 = 2;
    pub(super) const PREFIX_INFORMATION: u8 = 3;
    pub(super) const REDIRECTED: u8 = 4;
    pub(super) const MTU: u8 = 5;
}

const ON_LINK: u8 = 0x80;
const AUTONOMOUS: u8 = 0x40;

/// Options as they lie in a message; each has a possible length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options<'a>(&'a [u8]);

/// One prefix of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixInformation {
    /// In bits, at most 128.
    pub prefix_len: u8,
    /// Its addresses are neighbors.
    pub on_link: bool,
    /// Addresses may be made from it (RFC 4862).
    pub autonomous: bool,
    /// `u32::MAX` is for ever.
    pub valid_s: u32,
    /// `u32::MAX` is for ever.
    pub preferred_s: u32,
    pub prefix: Ipv6Addr,
}

/// An option that is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdOption<'a> {
    SourceLinkLayer(MacAddress),
    TargetLinkLayer(MacAddress),
    Prefix(PrefixInformation),
    /// The beginning of the packet that caused a redirect, and padding.
    Redirected(&'a [u8]),
    /// Of the link, in bytes.
    Mtu(u32),
}

impl<'a> Options<'a> {
    pub const NONE: Options<'static> = Options(&[]);

    /// At most as many steps as there are 8 bytes.
    ///
    /// # Errors
    /// `NdOption` if one is empty (RFC 4861, 4.6: the whole message is discarded) or goes beyond the message.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Options<'a>, Error> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = split(rest).ok_or(Error::NdOption)?.1;
        }
        Ok(Options(bytes))
    }

    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Those that are understood; others are passed over.
    pub fn iter(&self) -> impl Iterator<Item = NdOption<'a>> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let (option, tail) = split(rest)?;
            rest = tail;
            Some(NdOption::parse(option))
        })
        .flatten()
    }

    pub fn source_link_layer(&self) -> Option<MacAddress> {
        self.iter().find_map(|o| if let NdOption::SourceLinkLayer(mac) = o { Some(mac) } else { None })
    }

    pub fn target_link_layer(&self) -> Option<MacAddress> {
        self.iter().find_map(|o| if let NdOption::TargetLinkLayer(mac) = o { Some(mac) } else { None })
    }
}

/// The first option of at least 8 bytes, and what follows.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = 8 * usize::from(*bytes.get(1)?);
    if len == 0 { None } else { bytes.split_at_checked(len) }
}

impl<'a> NdOption<'a> {
    fn parse(option: &'a [u8]) -> Option<NdOption<'a>> {
        match option[0] {
            kind::SOURCE_LINK_LAYER => link_layer(option).map(NdOption::SourceLinkLayer),
            kind::TARGET_LINK_LAYER => link_layer(option).map(NdOption::TargetLinkLayer),
            kind::PREFIX_INFORMATION => prefix(option).map(NdOption::Prefix),
            kind::REDIRECTED => Some(NdOption::Redirected(&option[8..])),
            kind::MTU => option.try_into().ok().map(|option: &[u8; 8]| NdOption::Mtu(be32(option, 4))),
            _ => None,
        }
    }

    /// In bytes, padding included.
    pub fn wire_len(&self) -> usize {
        match self {
            NdOption::SourceLinkLayer(_) | NdOption::TargetLinkLayer(_) | NdOption::Mtu(_) => 8,
            NdOption::Prefix(_) => 32,
            NdOption::Redirected(packet) => 8 + packet.len().next_multiple_of(8),
        }
    }

    /// Writes the option to the beginning of `buffer`, where [`Options::new_checked`] finds it, and returns what lies
    /// behind it.
    ///
    /// # Errors
    /// `BufferTooShort`, `PayloadTooLong`.
    pub fn emit<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b mut [u8], Error> {
        let len = self.wire_len();
        let units = u8::try_from(len / 8).map_err(|_| Error::PayloadTooLong)?;
        let Some((option, rest)) = buffer.split_at_mut_checked(len) else { return Err(Error::BufferTooShort) };
        option.fill(0);
        option[1] = units;
        match self {
            NdOption::SourceLinkLayer(mac) => {
                option[0] = kind::SOURCE_LINK_LAYER;
                option[2..8].copy_from_slice(&mac.0);
            }
            NdOption::TargetLinkLayer(mac) => {
                option[0] = kind::TARGET_LINK_LAYER;
                option[2..8].copy_from_slice(&mac.0);
            }
            NdOption::Prefix(prefix) => prefix.write(option),
            NdOption::Redirected(packet) => {
                option[0] = kind::REDIRECTED;
                option[8..8 + packet.len()].copy_from_slice(packet);
            }
            NdOption::Mtu(mtu) => {
                option[0] = kind::MTU;
                put_be32(option, 4, *mtu);
            }
        }
        Ok(rest)
    }
}

impl PrefixInformation {
    fn write(&self, option: &mut [u8]) {
        option[0] = kind::PREFIX_INFORMATION;
        option[2] = self.prefix_len;
        let on_link = if self.on_link { ON_LINK } else { 0 };
        option[3] = on_link | if self.autonomous { AUTONOMOUS } else { 0 };
        put_be32(option, 4, self.valid_s);
        put_be32(option, 8, self.preferred_s);
        option[16..32].copy_from_slice(&self.prefix.octets());
    }
}

/// An Ethernet address; those of other links have other lengths.
fn link_layer(option: &[u8]) -> Option<MacAddress> {
    let option: &[u8; 8] = option.try_into().ok()?;
    Some(MacAddress(array(option, 2)))
}

fn prefix(option: &[u8]) -> Option<PrefixInformation> {
    let option: &[u8; 32] = option.try_into().ok()?;
    let prefix_len = option[2];
    (prefix_len <= 128).then(|| PrefixInformation {
        prefix_len,
        on_link: option[3] & ON_LINK != 0,
        autonomous: option[3] & AUTONOMOUS != 0,
        valid_s: be32(option, 4),
        preferred_s: be32(option, 8),
        prefix: Ipv6Addr::from(array::<16, _>(option, 16)),
    })
}
