//! The Internet checksum (RFC 1071): sums of bytes, pseudo-headers, incremental updates, work left to devices.
//!
//! A sum does not depend on the order of bytes within a word but for one swap at the end (RFC 1071, 2(B)), and not
//! on the width of the words that are added. So bytes are added as 64-bit words in the machine's own order, with
//! the carries counted apart, and folded once.

use core::net::{Ipv4Addr, Ipv6Addr};
use core::ops::{Add, AddAssign};

use crate::ip::{IpAddress, Protocol};

/// What a receiver does about checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// Sums the bytes and refuses what does not add up.
    Compute,
    /// Takes them as right: the device has verified them, or the link is memory, or they are not filled in yet.
    Trust,
}

/// What a sender writes into a transport checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// The whole checksum.
    Complete,
    /// The sum of the pseudo-header; the device adds the bytes (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
    Partial,
}

/// A ones' complement sum of 16-bit words that is not folded yet. Parts of a packet are summed apart and added up;
/// every part but the last must have an even length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    pub const ZERO: Sum = Sum(0);

    /// The sum of `bytes`; an odd last byte counts as if a zero followed it.
    #[inline]
    pub fn of(bytes: &[u8]) -> Sum {
        Sum(fold_to_32(sum_words(bytes)))
    }

    /// The same for a length that is known and a multiple of 4.
    #[inline(always)]
    pub fn of_words<const N: usize>(bytes: &[u8; N]) -> Sum {
        const { assert!(N.is_multiple_of(4) && N < 1 << 16) };
        let (words, _) = bytes.as_chunks::<4>();
        Sum(words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum())
    }

    /// The sum of one 16-bit value.
    #[inline(always)]
    pub const fn of_u16(value: u16) -> Sum {
        Sum(value.to_be() as u64)
    }

    /// The sum of the two halves of a 32-bit value.
    #[inline(always)]
    pub const fn of_u32(value: u32) -> Sum {
        Sum(value.to_be() as u64)
    }

    /// Copies `from` into the beginning of `to` and sums it.
    ///
    /// # Panics
    /// If `to` is shorter than `from`.
    #[inline]
    pub fn copying(to: &mut [u8], from: &[u8]) -> Sum {
        let to = &mut to[..from.len()];
        to.copy_from_slice(from);
        Sum::of(to)
    }

    /// 16 bits, in the machine's order.
    #[inline(always)]
    const fn folded(self) -> u16 {
        let once = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        let twice = (once & 0xffff) + ((once >> 16) & 0xffff) + (once >> 32);
        let thrice = (twice & 0xffff) + (twice >> 16);
        ((thrice & 0xffff) + (thrice >> 16)) as u16
    }

    /// The checksum: the complement of the folded sum.
    #[inline(always)]
    pub const fn checksum(self) -> u16 {
        !u16::from_be(self.folded())
    }

    /// Whether bytes that include their own checksum add up.
    #[inline(always)]
    pub const fn is_valid(self) -> bool {
        self.folded() == 0xffff
    }
}

impl Add for Sum {
    type Output = Sum;
    /// No overflow within 2^31 additions: each part is below 2^33.
    #[inline(always)]
    fn add(self, other: Sum) -> Sum {
        Sum(self.0 + other.0)
    }
}

impl AddAssign for Sum {
    #[inline(always)]
    fn add_assign(&mut self, other: Sum) {
        *self = *self + other;
    }
}

/// The part of a pseudo-header that stays the same for a connection: addresses and protocol (RFC 9293, 3.1; RFC
/// 8200, 8.1). The length is added for each packet.
#[derive(Clone, Copy, Debug)]
pub struct Pseudo {
    sum: Sum,
    is_v4: bool,
}

impl Pseudo {
    #[inline(always)]
    pub fn v4(source: Ipv4Addr, destination: Ipv4Addr, protocol: Protocol) -> Pseudo {
        let addresses = Sum::of_u32(source.to_bits()) + Sum::of_u32(destination.to_bits());
        Pseudo { sum: addresses + Sum::of_u16(protocol.0.into()), is_v4: true }
    }

    #[inline(always)]
    pub fn v6(source: Ipv6Addr, destination: Ipv6Addr, protocol: Protocol) -> Pseudo {
        let addresses = Sum::of(&source.octets()) + Sum::of(&destination.octets());
        Pseudo { sum: addresses + Sum::of_u16(protocol.0.into()), is_v4: false }
    }

    /// For two addresses of one family; an IPv4 address beside an IPv6 one counts in its mapped form.
    #[inline(always)]
    pub fn new(source: IpAddress, destination: IpAddress, protocol: Protocol) -> Pseudo {
        match (source, destination) {
            (IpAddress::V4(source), IpAddress::V4(destination)) => Pseudo::v4(source, destination, protocol),
            (source, destination) => Pseudo::v6(as_v6(source), as_v6(destination), protocol),
        }
    }

    /// The whole pseudo-header's sum for a transport header and payload of `len` bytes.
    #[inline(always)]
    pub const fn sum(self, len: u32) -> Sum {
        Sum(self.sum.0 + Sum::of_u32(len).0)
    }

    /// Of IPv4, where a UDP datagram needs no checksum.
    #[inline(always)]
    pub const fn is_v4(self) -> bool {
        self.is_v4
    }

    /// Whether a transport header and payload, their checksum included, add up.
    #[inline]
    pub fn matches(self, bytes: &[u8]) -> bool {
        (self.sum(bytes.len() as u32) + Sum::of(bytes)).is_valid()
    }
}

fn as_v6(address: IpAddress) -> Ipv6Addr {
    match address {
        IpAddress::V4(address) => address.to_ipv6_mapped(),
        IpAddress::V6(address) => address,
    }
}

/// What a checksum becomes when a 16-bit word that it covers changes (RFC 1624, equation 3). The word must lie at
/// an even offset.
#[inline(always)]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = !checksum as u32 + !old as u32 + new as u32;
    let once = (sum & 0xffff) + (sum >> 16);
    !((once & 0xffff) + (once >> 16)) as u16
}

/// [`update`] for a 32-bit value, such as an address.
#[inline(always)]
pub const fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    let high = update(checksum, (old >> 16) as u16, (new >> 16) as u16);
    update(high, old as u16, new as u16)
}

/// At most 33 bits: [`Sum`] may add many.
#[inline(always)]
const fn fold_to_32(sum: u128) -> u64 {
    let (low, high) = (sum as u64, (sum >> 64) as u64);
    (low & 0xffff_ffff) + (low >> 32) + high
}

/// Adds 64-bit words in the machine's order. Two chains, as one would wait for its own carry.
#[inline(always)]
fn sum_words(bytes: &[u8]) -> u128 {
    let (blocks, rest) = bytes.as_chunks::<32>();
    let (mut even, mut odd) = (0u128, 0u128);
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        even += u128::from(u64::from_ne_bytes(words[0]));
        odd += u128::from(u64::from_ne_bytes(words[1]));
        even += u128::from(u64::from_ne_bytes(words[2]));
        odd += u128::from(u64::from_ne_bytes(words[3]));
    }
    let (words, tail) = rest.as_chunks::<8>();
    for word in words {
        even += u128::from(u64::from_ne_bytes(*word));
    }
    even + odd + u128::from(sum_tail(tail))
}

/// Adds less than 8 bytes; a call to copy them into a word would cost more than a short header's whole sum.
#[inline(always)]
fn sum_tail(bytes: &[u8]) -> u64 {
    let (fours, rest) = bytes.as_chunks::<4>();
    let (twos, rest) = rest.as_chunks::<2>();
    let mut sum = fours.first().map_or(0, |four| u64::from(u32::from_ne_bytes(*four)));
    sum += twos.first().map_or(0, |two| u64::from(u16::from_ne_bytes(*two)));
    sum + rest.first().map_or(0, |last| u64::from(u16::from_ne_bytes([*last, 0])))
}

#[cfg(test)]
mod tests;
