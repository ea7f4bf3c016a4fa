//! DXR: longest-prefix match by a direct table and short sorted ranges.
//!
//! ```text
//!   address   | first K bits | next bits (16 for IPv4, 32 for IPv6) | ... IPv6 only
//!                    |                      |
//!   direct    [ . | . | T | . ]             |       T = a next hop, or a chunk of ranges
//!                       |                   v
//!   ranges              +--> | 0: T | 40: T | c0: T | c0: T |    the last one that begins at or before the key
//! ```
//!
//! Prefixes that overlap are flattened into ranges that do not, so a lookup is one load and, for the
//! addresses that prefixes longer than K split further, a binary search in a few cache lines. The
//! ranges of an IPv6 chunk may lead to a chunk of the next 32 bits.
//!
//! After "DXR: towards a billion routing lookups per second in software" (Zec, Rizzo, Mikuc; SIGCOMM CCR 2012).
//! Where the paper keeps the length of a chunk, ours are padded to powers of two, which makes the steps of
//! a search known beforehand; IPv6 is ours.
//!
//! **Updates.** Prefixes live in an ordered map. Changes are collected, and [`Dxr::commit`] rebuilds the
//! chunks that they touch, each once, in one sweep over the prefixes in them.

mod arena;
mod build;
mod lookup;
mod prefix;
mod rib;
pub mod synthetic;
#[cfg(test)]
mod tests;

use std::fmt;

use arena::{Arena, Target};
pub use prefix::{Address, Prefix, PrefixError};
use rib::Rib;

/// Where a packet goes next, as an index into a table of the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHop(pub u16);

impl NextHop {
    /// No prefix holds the address.
    pub const NONE: NextHop = NextHop(u16::MAX);

    pub fn is_none(self) -> bool {
        self == NextHop::NONE
    }
}

/// Prefixes that one table may hold.
pub const PREFIXES_MAX: usize = 1 << 21;
/// Bits that the direct table may resolve.
pub const DIRECT_BITS: std::ops::RangeInclusive<u32> = 16..=20;
/// 4 MiB of direct table; IPv4 prefixes up to /24 then need two loads at most, and no search.
pub const DIRECT_BITS_DEFAULT: u32 = 20;
/// Changes that may wait; one more commits them.
const CHANGES_MAX: usize = 1 << 16;

/// Why a table or a change is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DxrError {
    /// The table holds [`PREFIXES_MAX`] prefixes.
    Full,
    /// [`NextHop::NONE`] cannot be a prefix's next hop.
    NoNextHop,
    /// The direct table's width is outside of [`DIRECT_BITS`].
    DirectBits(u32),
}

impl fmt::Display for DxrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => write!(f, "the routing table is full: it holds {PREFIXES_MAX} prefixes, its bound"),
            Self::NoNextHop => write!(f, "next hop {} stands for \"none\"; use a smaller index", u16::MAX),
            Self::DirectBits(bits) => {
                let (min, max) = (DIRECT_BITS.start(), DIRECT_BITS.end());
                write!(f, "a direct table of {bits} bits; choose {min} to {max}")
            }
        }
    }
}

impl std::error::Error for DxrError {}

/// A routing table; `A` is `u32` for IPv4 and `u128` for IPv6.
///
/// Lookups see changes after [`Dxr::commit`].
#[derive(Debug)]
pub struct Dxr<A: Address> {
    direct: Vec<Target>,
    arena: Arena<A::Entry>,
    direct_bits: u32,
    rib: Rib<A>,
    /// Entries of the direct table that changes touch: first and last of each.
    changes: Vec<(u32, u32)>,
}

impl<A: Address> Default for Dxr<A> {
    fn default() -> Self {
        Dxr::new(DIRECT_BITS_DEFAULT).expect("the default is within the bounds")
    }
}

impl<A: Address> Dxr<A> {
    /// An empty table whose direct part resolves the first `direct_bits` bits, at 4 bytes for each of their values.
    ///
    /// # Errors
    /// A width outside of [`DIRECT_BITS`].
    pub fn new(direct_bits: u32) -> Result<Self, DxrError> {
        if !DIRECT_BITS.contains(&direct_bits) {
            return Err(DxrError::DirectBits(direct_bits));
        }
        let direct = vec![Target::NONE; 1 << direct_bits];
        Ok(Dxr { direct, arena: Arena::new(direct_bits), direct_bits, rib: Rib::default(), changes: Vec::new() })
    }

    /// Adds `prefix`, or gives it another next hop; returns the one that it had.
    ///
    /// # Errors
    /// A table that is full, or [`NextHop::NONE`].
    pub fn insert(&mut self, prefix: Prefix<A>, next_hop: NextHop) -> Result<Option<NextHop>, DxrError> {
        if next_hop.is_none() {
            return Err(DxrError::NoNextHop);
        }
        let before = self.rib.insert(prefix, next_hop)?;
        if before != Some(next_hop) {
            self.note(prefix);
        }
        Ok(before)
    }

    /// Removes `prefix`; returns the next hop that it had.
    pub fn remove(&mut self, prefix: Prefix<A>) -> Option<NextHop> {
        let before = self.rib.remove(prefix)?;
        self.note(prefix);
        Some(before)
    }

    /// Makes all changes since the last commit visible to lookups. Costs about a microsecond for each chunk
    /// that they touch; a prefix shorter than the direct table's width touches a chunk for each value below it.
    pub fn commit(&mut self) {
        let mut changes = std::mem::take(&mut self.changes);
        changes.sort_unstable();
        let mut changes = changes.into_iter().peekable();
        while let Some((first, mut last)) = changes.next() {
            while let Some((_, end)) = changes.next_if(|(start, _)| *start <= last.saturating_add(1)) {
                last = last.max(end);
            }
            build::rebuild(&self.rib, &mut self.arena, &mut self.direct, (first, last));
        }
        if self.arena.is_wasteful() {
            self.arena = Arena::new(self.direct_bits);
            self.direct.fill(Target::NONE);
            let all = (0, self.last_direct());
            build::rebuild(&self.rib, &mut self.arena, &mut self.direct, all);
        }
    }

    /// The next hop of exactly `prefix`, committed or not.
    pub fn get(&self, prefix: Prefix<A>) -> Option<NextHop> {
        self.rib.get(prefix)
    }

    /// All prefixes in the order of their addresses, the shorter before the longer.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix<A>, NextHop)> {
        self.rib.iter()
    }

    /// How many prefixes it holds.
    pub fn len(&self) -> usize {
        self.rib.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory that lookups touch: direct table and ranges, without the prefixes that they are made from.
    pub fn lookup_bytes(&self) -> usize {
        self.direct.len() * size_of::<Target>() + self.arena.bytes()
    }

    fn last_direct(&self) -> u32 {
        (self.direct.len() - 1) as u32
    }

    fn note(&mut self, prefix: Prefix<A>) {
        let first = prefix.address().bits(0, self.direct_bits);
        let last = first | self.last_direct().checked_shr(prefix.length()).unwrap_or(0);
        self.changes.push((first, last));
        if self.changes.len() > CHANGES_MAX {
            self.commit();
        }
    }
}
