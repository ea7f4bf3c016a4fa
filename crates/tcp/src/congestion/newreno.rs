//! Reno's window (RFC 5681, 6582) with appropriate byte counting (RFC 3465).

use super::window::{WINDOW_MIN, Window};
use super::{AckSample, CongestionControl};

/// Additive increase, multiplicative decrease.
#[derive(Clone, Copy, Debug)]
pub struct NewReno;

impl CongestionControl for NewReno {
    fn on_ack(&mut self, window: &mut Window, ack: &AckSample) {
        if ack.may_grow {
            grow(window, ack.delivered);
        }
    }

    // RFC 5681 3.1, equation (4): ssthresh = max(FlightSize / 2, 2 SMSS).
    fn on_loss(&mut self, window: &Window) -> u32 {
        (window.cwnd() / 2).max(WINDOW_MIN)
    }

    fn on_restart(&mut self, _idle_us: u64) {}
}

/// Slow start, then one segment a window.
pub(super) fn grow(window: &mut Window, acked: u32) {
    if !window.is_limiting() {
        return;
    }
    let left = if window.in_slow_start() { window.slow_start(acked) } else { acked };
    if left > 0 {
        window.increase_every(window.cwnd(), left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::window::SendReport;
    use crate::time::Instant;

    #[test]
    fn doubles_then_adds_one_a_round() {
        let mut window = Window::new(10);
        window.set_ssthresh(35);
        let mut sizes = Vec::new();
        for round in 0..4 {
            let now = Instant::from_ms(round);
            let report = SendReport { now, una: round, nxt: round + 1, segments: window.cwnd(), limited: true };
            window.on_sent(report, None);
            for _ in 0..window.cwnd() {
                grow(&mut window, 1);
            }
            sizes.push(window.cwnd());
        }
        assert_eq!(sizes, [20, 35, 36, 37]);
        assert_eq!(NewReno.on_loss(&window), 18);
    }
}
