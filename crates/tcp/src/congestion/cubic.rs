//! CUBIC (RFC 9438): after a loss the window follows a cubic curve of time, flat around the size at which the loss
//! came, and never below what Reno would have.
//!
//! ```text
//!  W_max  - - - - - -.-----'- - - - -    W(t) = C (t - K)^3 + W_max
//!                .'            '.
//!              .'                        t in 1/1024 s, C = 0.4 = 410/1024 segments/s^3
//!   cwnd  ----'                          K: when W(t) is back at W_max
//! ```

use super::cube_root::cube_root;
use super::hystart::{HyStart, HyStartVerdict};
use super::window::{WINDOW_MIN, Window};
use super::{AckSample, CongestionControl};
use crate::time::Instant;

/// RFC 9438 4.6, beta_cubic: 0.7, in 1024ths.
const BETA: u64 = 717;
/// RFC 9438 5, C: 0.4, in 1024ths.
const C: u64 = 410;
/// t^3 has thirty binary places and C ten.
const CUBE_SHIFT: u32 = 40;
/// Beyond this distance from K (4 minutes) the curve is as steep as it needs to be, and its cube still fits.
const DISTANCE_MAX: u64 = 1 << 18;
/// 1 / alpha_cubic, with alpha_cubic = 3 (1 - beta) / (1 + beta) = 9/17, in eighths.
const RENO_ACKS_X8: u64 = 15;
/// The curve is not followed more often than this while the window stands still.
const UPDATE_INTERVAL_US: u64 = 31_250;
/// RFC 9438 4.9's spirit, and Linux's bound: at first use grow at least 5 % a round.
const FIRST_EPOCH_ACKS_MAX: u32 = 20;

/// One connection's curve.
#[derive(Clone, Debug, Default)]
pub struct Cubic {
    /// W_max: the window before the last reduction; 0 before the first.
    w_max: u32,
    epoch: Option<Epoch>,
    hystart: HyStart,
    min_rtt_us: u32,
    /// What to return to if the reduction is undone.
    before: Before,
}

#[derive(Clone, Copy, Debug, Default)]
struct Before {
    w_max: u32,
    cwnd: u32,
}

/// Congestion avoidance since the last reduction.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Instant,
    /// K, in 1/1024 s.
    k: u64,
    /// The window at K.
    origin: u32,
    /// W_est: what Reno would have, and the segments acknowledged towards its next increase.
    reno: u32,
    reno_acked: u64,
    /// Segments to acknowledge for each increase by one along the curve.
    curve_acks: u32,
    updated: Instant,
    updated_cwnd: u32,
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, window: &mut Window, ack: &AckSample) {
        if let Some(rtt_us) = ack.rtt_us {
            let known_us = if self.min_rtt_us == 0 { u32::MAX } else { self.min_rtt_us };
            self.min_rtt_us = known_us.min(rtt_us.max(1));
        }
        let slow_start = window.in_slow_start();
        let verdict = slow_start.then(|| self.hystart.on_ack(ack.delivered, ack.rtt_us, ack.una, ack.nxt));
        if !ack.may_grow || !window.is_limiting() {
            return;
        }
        let left = match verdict {
            None => ack.delivered,
            Some(HyStartVerdict::Grow(segments)) => window.slow_start(segments),
            Some(HyStartVerdict::Leave) => {
                window.set_ssthresh(window.cwnd());
                ack.delivered
            }
        };
        if left > 0 {
            let per = self.acks_per_increase(ack.now, window.cwnd(), left);
            window.increase_every(per, left);
        }
    }

    // RFC 9438 4.6 and 4.7.
    fn on_loss(&mut self, window: &Window) -> u32 {
        let cwnd = window.cwnd();
        self.before = Before { w_max: self.w_max, cwnd };
        self.epoch = None;
        // RFC 9438 4.7, fast convergence: a second loss below W_max means that others need room.
        self.w_max = if cwnd < self.w_max { (u64::from(cwnd) * (1024 + BETA) / 2048) as u32 } else { cwnd };
        ((u64::from(cwnd) * BETA / 1024) as u32).max(WINDOW_MIN)
    }

    // RFC 9438 4.8: after a timeout slow start begins anew, and so do its measurements.
    fn on_rto(&mut self, window: &Window) -> u32 {
        self.hystart = HyStart::default();
        self.min_rtt_us = 0;
        self.on_loss(window)
    }

    // RFC 9438 4.9: spurious congestion events: return to the state before.
    fn on_undo(&mut self, window: &Window) -> u32 {
        self.w_max = self.before.w_max;
        window.cwnd().max(self.before.cwnd)
    }

    // RFC 9438 4.2's note: time without data in flight is not part of the curve.
    fn on_restart(&mut self, idle_us: u64) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start = epoch.start + idle_us;
            epoch.updated = epoch.updated + idle_us;
        }
    }
}

impl Cubic {
    /// How many segments must be acknowledged for the window to grow by one.
    fn acks_per_increase(&mut self, now: Instant, cwnd: u32, acked: u32) -> u32 {
        let epoch = self.epoch.get_or_insert_with(|| Epoch::begin(now, cwnd, self.w_max));
        if epoch.updated_cwnd != cwnd || now.since_us(epoch.updated) > UPDATE_INTERVAL_US {
            (epoch.updated, epoch.updated_cwnd) = (now, cwnd);
            // RFC 9438 4.2: the target is W(t + RTT).
            let target = epoch.curve(now.since_us(epoch.start) + u64::from(self.min_rtt_us));
            epoch.curve_acks = if target > cwnd { cwnd / (target - cwnd) } else { cwnd.saturating_mul(100) };
            if self.w_max == 0 {
                epoch.curve_acks = epoch.curve_acks.min(FIRST_EPOCH_ACKS_MAX);
            }
        }
        let reno = epoch.grow_reno(cwnd, self.before.cwnd, acked);
        // RFC 9438 4.3: in the Reno-friendly region.
        let acks = if reno > cwnd { epoch.curve_acks.min(cwnd / (reno - cwnd)) } else { epoch.curve_acks };
        // RFC 9438 4.4: at most half a segment for each segment acknowledged.
        acks.max(2)
    }
}

impl Epoch {
    fn begin(now: Instant, cwnd: u32, w_max: u32) -> Epoch {
        // RFC 9438 4.2, equation (2): K = cubic root((W_max - cwnd_epoch) / C).
        let below = u64::from(w_max.saturating_sub(cwnd)).min(1 << 23);
        let k = u64::from(cube_root((below << CUBE_SHIFT) / C));
        Epoch {
            start: now,
            k,
            origin: w_max.max(cwnd),
            reno: cwnd,
            reno_acked: 0,
            curve_acks: 0,
            updated: now,
            updated_cwnd: 0,
        }
    }

    /// W(t), with t in microseconds since the beginning of the epoch.
    fn curve(&self, since_us: u64) -> u32 {
        let t = since_us.saturating_mul(1024) / 1_000_000;
        let distance = t.abs_diff(self.k).min(DISTANCE_MAX);
        let rise = ((C * distance.pow(3)) >> CUBE_SHIFT) as u32;
        if t < self.k { self.origin.saturating_sub(rise) } else { self.origin.saturating_add(rise) }
    }

    // RFC 9438 4.3, equation (4): W_est grows by alpha for each window, and by 1 once it is past `prior_cwnd`.
    fn grow_reno(&mut self, cwnd: u32, prior_cwnd: u32, acked: u32) -> u32 {
        let alpha_one = prior_cwnd > 0 && self.reno >= prior_cwnd;
        let acks_per_segment = (u64::from(cwnd) * if alpha_one { 8 } else { RENO_ACKS_X8 } / 8).max(1);
        self.reno_acked += u64::from(acked);
        if self.reno_acked >= acks_per_segment {
            self.reno = self.reno.saturating_add((self.reno_acked / acks_per_segment) as u32);
            self.reno_acked %= acks_per_segment;
        }
        self.reno
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::window::SendReport;

    struct Flow {
        cubic: Cubic,
        window: Window,
        now: Instant,
        rtt_us: u32,
        sent: u64,
    }

    impl Flow {
        fn new(rtt_us: u32) -> Flow {
            Flow { cubic: Cubic::default(), window: Window::new(10), now: Instant::ZERO, rtt_us, sent: 0 }
        }

        fn lose(&mut self) {
            let ssthresh = self.cubic.on_loss(&self.window);
            self.window.begin_reduction(ssthresh);
            self.window.set_cwnd(ssthresh);
        }

        /// One round trip in which the whole window is sent and acknowledged, segment by segment.
        fn round(&mut self) {
            let segments = self.window.cwnd();
            let una = self.sent;
            self.sent += u64::from(segments);
            let report = SendReport { now: self.now, una, nxt: self.sent, segments, limited: true };
            self.window.on_sent(report, None);
            for index in 0..u64::from(segments) {
                self.now = self.now + u64::from(self.rtt_us) / u64::from(segments);
                let ack = AckSample {
                    now: self.now,
                    delivered: 1,
                    marked: 0,
                    una: una + index + 1,
                    nxt: self.sent,
                    rtt_us: Some(self.rtt_us),
                    rate: None,
                    may_grow: true,
                };
                self.cubic.on_ack(&mut self.window, &ack);
            }
        }

        fn run(&mut self, seconds: f64) -> u32 {
            let end = self.now + (seconds * 1e6) as u64;
            while self.now < end {
                self.round();
            }
            self.window.cwnd()
        }
    }

    #[test]
    fn slow_start_doubles() {
        let mut flow = Flow::new(50_000);
        (0..3).for_each(|_| flow.round());
        assert_eq!(flow.window.cwnd(), 80);
    }

    #[test]
    fn a_loss_takes_three_tenths() {
        let mut flow = Flow::new(50_000);
        flow.window.set_cwnd(1000);
        flow.lose();
        assert_eq!(flow.window.cwnd(), 700);
    }

    /// RFC 9438 4.2: K = cbrt((1000 - 700) / 0.4) = 9.09 s; the window is back at W_max then, and flat around it.
    #[test]
    fn the_curve_comes_back_to_w_max_at_k() {
        let mut flow = Flow::new(100_000);
        flow.window.set_cwnd(1000);
        flow.lose();
        let half_way = flow.run(4.5);
        assert!((940..980).contains(&half_way), "{half_way}");
        let at_k = flow.run(4.5);
        assert!((990..=1002).contains(&at_k), "{at_k}");
        let plateau = flow.run(2.0);
        assert!((995..1015).contains(&plateau), "{plateau}");
        let probing = flow.run(6.0);
        assert!(probing > 1150, "{probing}");
    }

    /// On a short path the curve is slower than Reno, and Reno's growth counts.
    #[test]
    fn short_paths_grow_as_reno() {
        let mut flow = Flow::new(1000);
        flow.window.set_cwnd(100);
        flow.lose();
        // 70 + 0.53 a round until 100, then 1 a round.
        let after = flow.run(0.150);
        assert!((185..=205).contains(&after), "{after}");
    }

    #[test]
    fn fast_convergence_gives_way() {
        let mut flow = Flow::new(50_000);
        flow.window.set_cwnd(1000);
        flow.lose();
        flow.lose();
        assert_eq!(flow.cubic.w_max, 700 * (1024 + 717) / 2048);
    }

    #[test]
    fn undoing_returns_to_the_window_before() {
        let mut flow = Flow::new(50_000);
        flow.window.set_cwnd(1000);
        flow.lose();
        flow.window.set_cwnd(10);
        assert_eq!(flow.cubic.on_undo(&flow.window), 1000);
        assert_eq!(flow.cubic.w_max, 0);
    }

    #[test]
    fn idle_time_does_not_count() {
        let mut flow = Flow::new(100_000);
        flow.window.set_cwnd(1000);
        flow.lose();
        let before = flow.run(2.0);
        flow.now = flow.now + 3_600_000_000;
        flow.cubic.on_restart(3_600_000_000);
        flow.round();
        assert!(flow.window.cwnd() < before + 30, "{before} {}", flow.window.cwnd());
    }
}
