//! The control bits of a segment.

use core::fmt;
use core::ops::{BitAnd, BitOr, BitOrAssign, Sub};

/// A set of control bits (RFC 9293, 3.1; `AE` by RFC 9768). Shown as packetdrill and tcpdump do: `S.`, `P.`, `R`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(u16);

impl Flags {
    pub const NONE: Flags = Flags(0);
    pub const FIN: Flags = Flags(0x001);
    pub const SYN: Flags = Flags(0x002);
    pub const RST: Flags = Flags(0x004);
    pub const PSH: Flags = Flags(0x008);
    pub const ACK: Flags = Flags(0x010);
    pub const URG: Flags = Flags(0x020);
    /// ECN echo.
    pub const ECE: Flags = Flags(0x040);
    /// Congestion window reduced.
    pub const CWR: Flags = Flags(0x080);
    /// Accurate ECN.
    pub const AE: Flags = Flags(0x100);

    const ALL: u16 = 0x1ff;

    /// The flags in the word that begins with the data offset; the reserved bits are left out.
    #[inline(always)]
    pub(crate) const fn from_word(word: u16) -> Flags {
        Flags(word & Self::ALL)
    }

    #[inline(always)]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// All of `other`.
    #[inline(always)]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Any of `other`.
    #[inline(always)]
    pub const fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// [`BitOr`] for constants.
    #[inline(always)]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// How much sequence space the flags take: one each for SYN and FIN.
    #[inline(always)]
    pub const fn seq_len(self) -> u32 {
        (self.0 & 1) as u32 + (self.0 >> 1 & 1) as u32
    }
}

impl BitOr for Flags {
    type Output = Flags;
    #[inline(always)]
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    #[inline(always)]
    fn bitor_assign(&mut self, other: Flags) {
        self.0 |= other.0;
    }
}

impl BitAnd for Flags {
    type Output = Flags;
    #[inline(always)]
    fn bitand(self, other: Flags) -> Flags {
        Flags(self.0 & other.0)
    }
}

/// `self` without `other`.
impl Sub for Flags {
    type Output = Flags;
    #[inline(always)]
    fn sub(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [
            (Flags::SYN, "S"),
            (Flags::FIN, "F"),
            (Flags::RST, "R"),
            (Flags::PSH, "P"),
            (Flags::URG, "U"),
            (Flags::ECE, "E"),
            (Flags::CWR, "W"),
            (Flags::AE, "A"),
            (Flags::ACK, "."),
        ];
        if *self == Flags::NONE {
            return f.write_str("-");
        }
        letters.iter().filter(|(flag, _)| self.contains(*flag)).try_for_each(|(_, letter)| f.write_str(letter))
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
