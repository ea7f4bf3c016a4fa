//! A piece of a stream, by 64-bit offsets: what SACK blocks, holes and duplicates are.

use core::fmt;

/// The octets from `start` up to, not including, `end`.
///
/// Offsets count sequence space from the connection's first sequence number (the SYN is offset 0), so they do
/// not wrap; 32-bit sequence numbers are widened where packets are read.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    pub start: u64,
    pub end: u64,
}

impl Span {
    pub const fn new(start: u64, end: u64) -> Span {
        Span { start, end }
    }

    pub const fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Whether every octet of `inner` is in here.
    pub const fn covers(self, inner: Span) -> bool {
        self.start <= inner.start && inner.end <= self.end
    }

    /// Whether the two share an octet or lie side by side.
    pub const fn touches(self, other: Span) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    /// The smallest span that covers both.
    pub fn merged(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The octets that both have; empty if there are none.
    pub fn intersection(self, other: Span) -> Span {
        let start = self.start.max(other.start);
        Span { start, end: self.end.min(other.end).max(start) }
    }
}

/// The offset near `near` whose low half is `low`: widens a sequence number, less the connection's first one.
///
/// `near` is the edge of the window that the number must be judged against; the answer lies within 2 GiB of it, and a
/// number from before the beginning is taken for the beginning.
pub const fn widen(near: u64, low: u32) -> u64 {
    near.saturating_add_signed(low.wrapping_sub(near as u32) as i32 as i64)
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widening_stays_near() {
        assert_eq!(widen(10, 20), 20);
        assert_eq!(widen(10, u32::MAX), 0);
        assert_eq!(widen(0x1_0000_0005, u32::MAX), 0xffff_ffff);
        assert_eq!(widen(0xffff_fff0, 4), 0x1_0000_0004);
    }

    #[test]
    fn neighbours_touch_and_merge() {
        let (a, b) = (Span::new(1, 4), Span::new(4, 9));
        assert!(a.touches(b) && b.touches(a));
        assert!(!a.touches(Span::new(5, 9)));
        assert_eq!(a.merged(b), Span::new(1, 9));
        assert!(a.intersection(b).is_empty());
        assert_eq!(Span::new(1, 6).intersection(b), Span::new(4, 6));
        assert!(a.merged(b).covers(a) && !a.covers(b));
    }
}
