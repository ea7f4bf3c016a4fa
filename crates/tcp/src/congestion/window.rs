//! The congestion window: its value, how it grows, and whether the sender has been using it.
//!
//! Windows are counted in segments, as Linux counts (RFC 5681 counts octets): a small segment takes a place in the
//! bottleneck's queue as a large one does. With full-sized segments the two are the same.

use crate::time::Instant;

/// RFC 6928: the initial window, in segments.
pub const INITIAL_WINDOW: u32 = 10;
/// `ssthresh` before the first loss (RFC 5681 3.1: "arbitrarily high").
pub const SSTHRESH_INFINITE: u32 = 0x7fff_ffff;
/// RFC 5681 3.1, equation (4): no reduction goes below two segments.
pub const WINDOW_MIN: u32 = 2;

/// The congestion window of one connection.
#[derive(Clone, Debug)]
pub struct Window {
    cwnd: u32,
    ssthresh: u32,
    /// What `cwnd` was before the last reduction.
    prior_cwnd: u32,
    /// Segments acknowledged towards the next increase by one.
    credit: u32,
    initial: u32,
    /// Largest window (`TCP_WINDOW_CLAMP`-like bounds of the caller).
    clamp: u32,
    /// RFC 3465 (ABC): most segments of growth for one ACK while in slow start. Linux sets no limit.
    growth_limit: u32,
    usage: Usage,
}

/// Whether the window, or something else, has limited the sender.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    /// The window was the limit at some time since the round trip began that ends at `round_end`.
    limited: bool,
    /// Most segments in flight in that round trip.
    most: u32,
    round_end: u64,
    /// Most segments in flight since `at`, the last time that the window was used fully.
    used: u32,
    at: Instant,
}

impl Window {
    pub fn new(initial: u32) -> Window {
        Window {
            cwnd: initial,
            ssthresh: SSTHRESH_INFINITE,
            prior_cwnd: 0,
            credit: 0,
            initial,
            clamp: u32::MAX,
            growth_limit: u32::MAX,
            usage: Usage::default(),
        }
    }

    pub fn cwnd(&self) -> u32 {
        self.cwnd
    }

    pub fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    /// What `cwnd` was before the last reduction.
    pub fn prior_cwnd(&self) -> u32 {
        self.prior_cwnd
    }

    pub fn set_cwnd(&mut self, cwnd: u32) {
        self.cwnd = cwnd.clamp(1, self.clamp);
    }

    pub fn set_ssthresh(&mut self, ssthresh: u32) {
        self.ssthresh = ssthresh;
    }

    pub fn set_clamp(&mut self, clamp: u32) {
        self.clamp = clamp.max(1);
        self.cwnd = self.cwnd.min(self.clamp);
    }

    pub fn set_growth_limit(&mut self, segments: u32) {
        self.growth_limit = segments.max(1);
    }

    // RFC 5681 3.1: "The slow start algorithm is used when cwnd < ssthresh".
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// A reduction begins: remembers the window, sets the threshold, drops the credit.
    pub fn begin_reduction(&mut self, ssthresh: u32) {
        self.prior_cwnd = self.cwnd;
        self.ssthresh = ssthresh;
        self.credit = 0;
    }

    // RFC 5681 3.1, equation (2), with RFC 3465's counting of what was acknowledged.
    /// Grows by what was acknowledged, up to the threshold. Answers what is left for congestion avoidance.
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let acked = acked.min(self.growth_limit);
        let grown = self.cwnd.saturating_add(acked).min(self.ssthresh);
        let left = acked.saturating_sub(grown.saturating_sub(self.cwnd));
        self.cwnd = grown.min(self.clamp);
        left
    }

    // RFC 5681 3.1, equation (3), counted in whole segments.
    /// Grows by one segment for every `per` segments acknowledged.
    pub fn increase_every(&mut self, per: u32, acked: u32) {
        let per = per.max(1);
        if self.credit >= per {
            // The interval shrank since the credit was gathered.
            self.credit = 0;
            self.cwnd = self.cwnd.saturating_add(1);
        }
        self.credit = self.credit.saturating_add(acked);
        self.cwnd = self.cwnd.saturating_add(self.credit / per).min(self.clamp);
        self.credit %= per;
    }

    // RFC 7661 4.1, in Linux's form: a window that was not used may not grow.
    /// Whether the window has been the sender's limit: only then does it grow.
    pub fn is_limiting(&self) -> bool {
        // In slow start it may double beyond what was in flight.
        self.usage.limited || self.in_slow_start() && self.cwnd < self.usage.most.saturating_mul(2)
    }

    /// After sending: `in_flight` segments are out, and sending stopped because of the window (`limited`) or not.
    /// `idle_decay_us` is the retransmission timeout, after which an unused window shrinks; `None` for never.
    pub fn on_sent(&mut self, sent: SendReport, idle_decay_us: Option<u32>) {
        let usage = &mut self.usage;
        if sent.una >= usage.round_end || sent.limited || !usage.limited && sent.segments > usage.most {
            (usage.limited, usage.most, usage.round_end) = (sent.limited, sent.segments, sent.nxt);
        }
        if self.is_limiting() {
            (self.usage.used, self.usage.at) = (0, sent.now);
            return;
        }
        self.usage.used = self.usage.used.max(sent.segments);
        if idle_decay_us.is_some_and(|us| sent.now.since_us(self.usage.at) >= u64::from(us)) {
            self.decay_unused(sent.now);
        }
    }

    // RFC 7661 4.4.3, RFC 2861: a sender limited by its application for a timeout gives back half of what it did
    // not use.
    fn decay_unused(&mut self, now: Instant) {
        let used = self.usage.used.max(self.initial);
        if used < self.cwnd {
            self.ssthresh = self.equivalent_ssthresh();
            self.cwnd = self.cwnd.midpoint(used);
        }
        (self.usage.used, self.usage.at) = (0, now);
    }

    // RFC 5681 4.1: "the sender SHOULD use the restart window"; RFC 2861: halved for each timeout of idleness.
    /// Sending restarts after `idle_us`, longer than the timeout of `rto_us`.
    pub fn restart_after_idle(&mut self, now: Instant, idle_us: u64, rto_us: u32) {
        self.ssthresh = self.equivalent_ssthresh();
        let floor = self.initial.min(self.cwnd);
        let halvings = (idle_us / u64::from(rto_us.max(1))).min(31) as u32;
        self.cwnd = (self.cwnd >> halvings).max(floor);
        (self.usage.used, self.usage.at) = (0, now);
    }

    /// The threshold that remembers a window about to be given back: three quarters of it.
    pub fn equivalent_ssthresh(&self) -> u32 {
        self.ssthresh.max(self.cwnd / 2 + self.cwnd / 4)
    }

    /// Notes that the window is in use at `now`, so that idleness counts from here.
    pub fn touch(&mut self, now: Instant) {
        self.usage.at = now;
    }
}

/// The state of a sender that has just stopped sending.
#[derive(Clone, Copy, Debug)]
pub struct SendReport {
    pub now: Instant,
    pub una: u64,
    pub nxt: u64,
    /// Segments sent and not acknowledged.
    pub segments: u32,
    /// Whether it stopped because the window was full.
    pub limited: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(ms: u64, segments: u32, limited: bool) -> SendReport {
        SendReport { now: Instant::from_ms(ms), una: ms, nxt: ms + 1, segments, limited }
    }

    #[test]
    fn slow_start_stops_at_the_threshold() {
        let mut window = Window::new(10);
        window.set_ssthresh(15);
        assert_eq!(window.slow_start(4), 0);
        assert_eq!((window.slow_start(4), window.cwnd()), (3, 15));
        window.set_ssthresh(100);
        window.set_growth_limit(2);
        assert_eq!((window.slow_start(8), window.cwnd()), (0, 17));
    }

    #[test]
    fn congestion_avoidance_adds_one_a_window() {
        let mut window = Window::new(10);
        for _ in 0..9 {
            window.increase_every(10, 1);
        }
        assert_eq!(window.cwnd(), 10);
        window.increase_every(10, 1);
        assert_eq!(window.cwnd(), 11);
        window.increase_every(11, 33);
        assert_eq!(window.cwnd(), 14);
    }

    #[test]
    fn a_window_that_is_not_used_does_not_limit() {
        let mut window = Window::new(10);
        window.on_sent(sent(0, 3, false), None);
        assert!(!window.is_limiting());
        window.on_sent(sent(1, 6, false), None);
        assert!(window.is_limiting(), "slow start may grow to twice what was in flight");
        window.set_ssthresh(5);
        assert!(!window.is_limiting());
        window.on_sent(sent(2, 10, true), None);
        assert!(window.is_limiting());
    }

    #[test]
    fn an_unused_window_decays_once_a_timeout() {
        let mut window = Window::new(10);
        window.set_cwnd(100);
        window.set_ssthresh(50);
        window.touch(Instant::ZERO);
        window.on_sent(sent(100, 20, false), Some(200_000));
        assert_eq!(window.cwnd(), 100);
        window.on_sent(sent(250, 20, false), Some(200_000));
        assert_eq!((window.cwnd(), window.ssthresh()), (60, 75));
        window.on_sent(sent(300, 20, false), Some(200_000));
        assert_eq!(window.cwnd(), 60);
    }

    #[test]
    fn idleness_halves_down_to_the_initial_window() {
        let mut window = Window::new(10);
        window.set_cwnd(100);
        window.restart_after_idle(Instant::ZERO, 650_000, 300_000);
        assert_eq!((window.cwnd(), window.ssthresh()), (25, SSTHRESH_INFINITE));
        window.restart_after_idle(Instant::ZERO, u64::MAX, 300_000);
        assert_eq!(window.cwnd(), 10);
        window.set_cwnd(3);
        window.restart_after_idle(Instant::ZERO, u64::MAX, 300_000);
        assert_eq!(window.cwnd(), 3);
    }
}
