//! The engine's clock: it has none. Every call that needs the time is given an [`Instant`].

use core::fmt;
use core::ops::{Add, Sub};

/// A point in time, in microseconds since an origin that the caller chose once for the engine.
///
/// Durations are plain integers whose names end in `_us` or `_ms`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    pub const ZERO: Instant = Instant(0);
    /// Later than anything that happens.
    pub const FAR_FUTURE: Instant = Instant(u64::MAX);

    pub const fn from_us(us: u64) -> Instant {
        Instant(us)
    }

    pub const fn from_ms(ms: u64) -> Instant {
        Instant(ms * 1000)
    }

    pub const fn us(self) -> u64 {
        self.0
    }

    pub const fn ms(self) -> u64 {
        self.0 / 1000
    }

    /// Microseconds from `earlier` to here; 0 if `earlier` is later.
    pub const fn since_us(self, earlier: Instant) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The same, at most [`u32::MAX`]: 71 minutes.
    pub const fn since_us_u32(self, earlier: Instant) -> u32 {
        let us = self.since_us(earlier);
        if us > u32::MAX as u64 { u32::MAX } else { us as u32 }
    }
}

/// Moves by microseconds; stays at [`Instant::FAR_FUTURE`] rather than wrap.
impl Add<u64> for Instant {
    type Output = Instant;

    fn add(self, us: u64) -> Instant {
        Instant(self.0.saturating_add(us))
    }
}

/// Moves back by microseconds; stays at [`Instant::ZERO`] rather than wrap.
impl Sub<u64> for Instant {
    type Output = Instant;

    fn sub(self, us: u64) -> Instant {
        Instant(self.0.saturating_sub(us))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_far_future_stays_where_it_is() {
        assert_eq!(Instant::FAR_FUTURE + 5, Instant::FAR_FUTURE);
        assert_eq!(Instant::ZERO - 5, Instant::ZERO);
        assert_eq!(Instant::from_us(7).since_us(Instant::from_us(9)), 0);
        assert_eq!(format!("{:?}", Instant::from_us(1_000_002)), "1.000002s");
    }
}
