//! DCTCP (RFC 8257): reduce in proportion to the fraction of marked segments, not by half.

use super::newreno::grow;
use super::window::{WINDOW_MIN, Window};
use super::{AckSample, CongestionControl};

/// DCTCP.Alpha of 1.
const ALPHA_ONE: u32 = 1024;
// RFC 8257 4.2: "g = 1/16".
const GAIN_SHIFT: u32 = 4;

/// The estimate of how much of the traffic is marked.
#[derive(Clone, Debug)]
pub struct Dctcp {
    /// DCTCP.Alpha, in 1024ths.
    alpha: u32,
    /// DCTCP.WindowEnd: the observation window ends when this offset is acknowledged.
    window_end: u64,
    /// Segments acknowledged, and of these marked, in this observation window.
    acked: u32,
    marked: u32,
}

impl Default for Dctcp {
    fn default() -> Dctcp {
        // RFC 8257 4.2: "Set DCTCP.Alpha to 1 initially": careful until it has been measured.
        Dctcp { alpha: ALPHA_ONE, window_end: 0, acked: 0, marked: 0 }
    }
}

impl Dctcp {
    /// DCTCP.Alpha, in 1024ths.
    pub fn alpha(&self) -> u32 {
        self.alpha
    }

    // RFC 8257 3.3, steps 4 to 9.
    fn observe(&mut self, ack: &AckSample) {
        self.acked = self.acked.saturating_add(ack.delivered);
        self.marked = self.marked.saturating_add(ack.marked);
        if ack.una < self.window_end {
            return;
        }
        // DCTCP.Alpha = DCTCP.Alpha * (1 - g) + g * M, and what is too small to shrink is gone.
        let decay = self.alpha >> GAIN_SHIFT;
        self.alpha -= if decay == 0 { self.alpha } else { decay };
        let fraction = u64::from(self.marked) * u64::from(ALPHA_ONE >> GAIN_SHIFT) / u64::from(self.acked.max(1));
        self.alpha = (self.alpha + fraction as u32).min(ALPHA_ONE);
        (self.acked, self.marked, self.window_end) = (0, 0, ack.nxt);
    }
}

impl CongestionControl for Dctcp {
    fn on_ack(&mut self, window: &mut Window, ack: &AckSample) {
        self.observe(ack);
        if ack.may_grow {
            grow(window, ack.delivered);
        }
    }

    // RFC 8257 3.5: losses are handled as in conventional TCP.
    fn on_loss(&mut self, window: &Window) -> u32 {
        (window.cwnd() / 2).max(WINDOW_MIN)
    }

    // RFC 8257 3.3: cwnd = cwnd * (1 - DCTCP.Alpha / 2).
    fn on_ecn(&mut self, window: &Window) -> u32 {
        let cut = (u64::from(window.cwnd()) * u64::from(self.alpha) / u64::from(2 * ALPHA_ONE)) as u32;
        (window.cwnd() - cut).max(WINDOW_MIN)
    }

    fn on_restart(&mut self, _idle_us: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Instant;

    fn ack(round: u64, delivered: u32, marked: u32) -> AckSample {
        let (una, nxt) = (round * 100, round * 100 + 100);
        AckSample { now: Instant::ZERO, delivered, marked, una, nxt, rtt_us: None, rate: None, may_grow: false }
    }

    fn after(rounds: u64, marked: u32) -> Dctcp {
        let (mut dctcp, mut window) = (Dctcp::default(), Window::new(10));
        (0..rounds).for_each(|round| dctcp.on_ack(&mut window, &ack(round, 100, marked)));
        dctcp
    }

    #[test]
    fn alpha_follows_the_marked_fraction() {
        assert_eq!(after(100, 100).alpha(), ALPHA_ONE);
        assert_eq!(after(200, 0).alpha(), 0);
        let quarter = after(200, 25).alpha();
        assert!(quarter.abs_diff(ALPHA_ONE / 4) < 24, "{quarter}");
    }

    #[test]
    fn reductions_are_in_proportion() {
        let mut window = Window::new(10);
        window.set_cwnd(100);
        assert_eq!(after(100, 100).on_ecn(&window), 50);
        assert_eq!(after(200, 0).on_ecn(&window), 100);
        assert_eq!(after(200, 0).on_loss(&window), 50);
        let mild = after(200, 25).on_ecn(&window);
        assert!((86..=89).contains(&mild), "{mild}");
    }
}
