//! When the packets of a capture are to be sent.

/// How the times are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Timing {
    /// By the capture's time stamps, so many times as fast.
    AsCaptured {
        speed: f64,
    },
    /// Evenly.
    Rate {
        packets_per_s: f64,
    },
    AtOnce,
}

pub(crate) struct Schedule {
    timing: Timing,
    start_ns: u64,
    sent: u64,
    /// Of the capture that is playing: its first time stamp, and when that was.
    origin: (u64, u64),
    /// The latest time given: a capture that is played again begins there, and time stamps that go back do not.
    last_ns: u64,
}

impl Schedule {
    pub(crate) fn new(timing: Timing, now_ns: u64) -> Schedule {
        Schedule { timing, start_ns: now_ns, sent: 0, origin: (0, now_ns), last_ns: now_ns }
    }

    /// When the next packet is due, which was captured at `stamp_ns`; `is_first`: of the file.
    pub(crate) fn next(&mut self, stamp_ns: u64, is_first: bool) -> u64 {
        if is_first {
            self.origin = (stamp_ns, self.last_ns);
        }
        let at_ns = match self.timing {
            Timing::AsCaptured { speed } => {
                let since_ns = stamp_ns.saturating_sub(self.origin.0) as f64 / speed;
                self.origin.1.saturating_add(since_ns as u64)
            }
            Timing::Rate { packets_per_s } => {
                self.start_ns.saturating_add((self.sent as f64 * 1e9 / packets_per_s) as u64)
            }
            Timing::AtOnce => self.start_ns,
        };
        self.sent += 1;
        self.last_ns = self.last_ns.max(at_ns);
        self.last_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(timing: Timing) -> Vec<u64> {
        let mut schedule = Schedule::new(timing, 1000);
        let stamps =
            [(70_000, true), (70_500, false), (70_400, false), (71_000, false), (70_000, true), (70_500, false)];
        stamps.into_iter().map(|(stamp, is_first)| schedule.next(stamp, is_first)).collect()
    }

    #[test]
    fn gaps_are_the_capture_s_and_time_never_goes_back() {
        assert_eq!(times(Timing::AsCaptured { speed: 1.0 }), [1000, 1500, 1500, 2000, 2000, 2500]);
        assert_eq!(times(Timing::AsCaptured { speed: 2.0 }), [1000, 1250, 1250, 1500, 1500, 1750]);
        assert_eq!(times(Timing::Rate { packets_per_s: 1e7 }), [1000, 1100, 1200, 1300, 1400, 1500]);
        assert_eq!(times(Timing::AtOnce), [1000; 6]);
    }
}
