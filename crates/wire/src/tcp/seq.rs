//! Sequence numbers: integers that wrap, with the comparison that RFC 9293, 3.4 defines.

use core::cmp::Ordering;
use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// A sequence number. Order is defined for numbers within 2^31 of each other, and no window is as large; beyond,
/// each is before the other, so there is no `Ord`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SeqNumber(pub u32);

impl SeqNumber {
    /// The later of the two.
    #[inline(always)]
    #[must_use]
    pub fn max(self, other: SeqNumber) -> SeqNumber {
        if self < other { other } else { self }
    }

    /// The earlier of the two.
    #[inline(always)]
    #[must_use]
    pub fn min(self, other: SeqNumber) -> SeqNumber {
        if other < self { other } else { self }
    }

    /// How far this lies behind `base`, counted forwards and modulo 2^32; never negative.
    #[inline(always)]
    pub const fn offset_from(self, base: SeqNumber) -> u32 {
        self.0.wrapping_sub(base.0)
    }

    /// `start <= self < start + len`, right for any `len`, in one comparison.
    #[inline(always)]
    pub const fn is_within(self, start: SeqNumber, len: u32) -> bool {
        self.offset_from(start) < len
    }
}

impl PartialOrd for SeqNumber {
    #[inline(always)]
    fn partial_cmp(&self, other: &SeqNumber) -> Option<Ordering> {
        Some((*self - *other).cmp(&0))
    }
    #[inline(always)]
    fn lt(&self, other: &SeqNumber) -> bool {
        *self - *other < 0
    }
    #[inline(always)]
    fn le(&self, other: &SeqNumber) -> bool {
        *self - *other <= 0
    }
    #[inline(always)]
    fn gt(&self, other: &SeqNumber) -> bool {
        *self - *other > 0
    }
    #[inline(always)]
    fn ge(&self, other: &SeqNumber) -> bool {
        *self - *other >= 0
    }
}

/// The signed distance, negative if `self` comes first.
impl Sub for SeqNumber {
    type Output = i32;
    #[inline(always)]
    fn sub(self, other: SeqNumber) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }
}

impl Add<u32> for SeqNumber {
    type Output = SeqNumber;
    #[inline(always)]
    fn add(self, len: u32) -> SeqNumber {
        SeqNumber(self.0.wrapping_add(len))
    }
}

impl AddAssign<u32> for SeqNumber {
    #[inline(always)]
    fn add_assign(&mut self, len: u32) {
        *self = *self + len;
    }
}

impl Sub<u32> for SeqNumber {
    type Output = SeqNumber;
    #[inline(always)]
    fn sub(self, len: u32) -> SeqNumber {
        SeqNumber(self.0.wrapping_sub(len))
    }
}

impl SubAssign<u32> for SeqNumber {
    #[inline(always)]
    fn sub_assign(&mut self, len: u32) {
        *self = *self - len;
    }
}

impl fmt::Display for SeqNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for SeqNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_wraps() {
        let (before, after) = (SeqNumber(u32::MAX - 5), SeqNumber(10));
        for (earlier, later) in [(before, after), (after, after + 1)] {
            assert!(earlier < later);
            assert!(later > earlier);
            assert!(earlier <= later);
            assert!(later >= earlier);
        }
        assert_eq!(after - before, 16);
        assert_eq!(before - after, -16);
        assert_eq!(before + 16, after);
        assert_eq!(before.max(after), after);
        assert_eq!(before.min(after), before);
        assert_eq!(after.offset_from(before), 16);
    }

    #[test]
    fn a_window_may_wrap() {
        let start = SeqNumber(u32::MAX - 1);
        assert!(start.is_within(start, 1));
        assert!(!start.is_within(start, 0));
        assert!(SeqNumber(3).is_within(start, 6));
        assert!(!SeqNumber(4).is_within(start, 6));
        assert!(!(start - 1).is_within(start, u32::MAX));
    }
}
