//! Points in time in 32 bits, for records of which there are many.

use crate::time::Instant;

/// The low 32 bits of an [`Instant`]: microseconds that wrap after 71 minutes.
///
/// Two stamps compare rightly while they are less than 35 minutes apart, and a segment behind one that is sent again
/// and again may be in flight for longer. So they serve where a wrong answer only spoils a sample: delivery rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stamp(u32);

impl Stamp {
    /// Microseconds from `earlier` to here; 0 if `earlier` is later.
    pub const fn since_us(self, earlier: Stamp) -> u32 {
        let us = self.0.wrapping_sub(earlier.0);
        if us < 1 << 31 { us } else { 0 }
    }

    /// Whether this is later than `other`.
    pub const fn is_after(self, other: Stamp) -> bool {
        (other.0.wrapping_sub(self.0) as i32) < 0
    }

    /// The point `us` microseconds later.
    pub const fn plus_us(self, us: u32) -> Stamp {
        Stamp(self.0.wrapping_add(us))
    }
}

impl From<Instant> for Stamp {
    fn from(at: Instant) -> Stamp {
        Stamp(at.us() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap() {
        let before = Stamp::from(Instant::from_us(u64::from(u32::MAX) - 5));
        let after = Stamp::from(Instant::from_us(u64::from(u32::MAX) + 5));
        assert!(after.is_after(before) && !before.is_after(after) && !after.is_after(after));
        assert_eq!(after.since_us(before), 10);
        assert_eq!(before.since_us(after), 0);
        assert_eq!(before.plus_us(10), after);
    }
}
