//! When requests are due: as soon as the one before is answered, or at a steady rate.

/// Behind by more than this, an open loop says that it could not keep its rate.
const LATE_NS: u64 = 1_000_000_000;

pub(super) enum Schedule {
    Closed,
    Open(Rate),
}

/// The n-th request is due at n times a gap, whatever became of those before.
pub(super) struct Rate {
    start_ns: u64,
    per_s: f64,
    asked: u64,
}

impl Schedule {
    pub(super) fn new(per_s: Option<f64>) -> Schedule {
        per_s.map_or(Schedule::Closed, |per_s| Schedule::Open(Rate { start_ns: 0, per_s, asked: 0 }))
    }

    /// The first request is due at `now_ns`.
    pub(super) fn start(&mut self, now_ns: u64) {
        if let Schedule::Open(rate) = self {
            (rate.start_ns, rate.asked) = (now_ns, 0);
        }
    }

    /// When the next request is, or was, due; `None` as soon as somebody can ask.
    #[inline]
    pub(super) fn due_ns(&self) -> Option<u64> {
        match self {
            Schedule::Closed => None,
            Schedule::Open(rate) => Some(rate.due_ns()),
        }
    }

    /// A request was made.
    #[inline]
    pub(super) fn asked(&mut self) {
        if let Schedule::Open(rate) = self {
            rate.asked += 1;
        }
    }

    /// Whether so many requests are overdue that the rate is not kept.
    pub(super) fn is_late(&self, now_ns: u64) -> bool {
        self.due_ns().is_some_and(|due_ns| now_ns.saturating_sub(due_ns) > LATE_NS)
    }
}

impl Rate {
    fn due_ns(&self) -> u64 {
        self.start_ns + (self.asked as f64 * 1e9 / self.per_s) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_loop_does_not_wait_for_answers() {
        let mut schedule = Schedule::new(Some(1000.0));
        schedule.start(500);
        let due: Vec<_> = (0..3)
            .map(|_| {
                let due = schedule.due_ns();
                schedule.asked();
                due
            })
            .collect();
        assert_eq!(due, [Some(500), Some(1_000_500), Some(2_000_500)]);
        assert!(!schedule.is_late(3_000_500 + LATE_NS) && schedule.is_late(3_000_501 + LATE_NS));
        assert_eq!(Schedule::new(None).due_ns(), None);
    }
}
