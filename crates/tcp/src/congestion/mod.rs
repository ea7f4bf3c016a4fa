//! Congestion control: how large the window is.
//!
//! [`CongestionControl`] is what an algorithm must say: how it grows the window on ACKs, and to what it shrinks it on
//! losses, timeouts and marks. [`Congestion`] holds the [`Window`] and the connection's algorithm, chosen by name as
//! `TCP_CONGESTION` does; the choice is an enum, so a connection allocates nothing for it.
//!
//! Loss recovery (in [`crate::recovery`]) decides *when*: it calls the reductions, and lets PRR set the window while a
//! reduction is under way. An algorithm like BBR, which sets window and rate itself, fits in as one more variant: each
//! [`AckSample`] carries the delivery rate, and [`CongestionControl::pacing_bytes_per_s`] takes its answer.
//!
//! - [`window`]: slow start, additive increase, validation of the window (RFC 5681, 2861, 7661).
//! - [`newreno`], [`cubic`] (with [`cube_root`] and [`hystart`]), [`dctcp`]: the algorithms.

pub mod cube_root;
pub mod cubic;
pub mod dctcp;
pub mod hystart;
pub mod newreno;
pub mod window;

use crate::rate::RateSample;
use crate::time::Instant;

use cubic::Cubic;
use dctcp::Dctcp;
use newreno::NewReno;
use window::Window;

/// What one ACK says to congestion control.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    pub now: Instant,
    /// Segments newly acknowledged or SACKed.
    pub delivered: u32,
    /// Of these, segments that the receiver reports as marked by ECN.
    pub marked: u32,
    /// The left edge of the window after the ACK, and what is sent next.
    pub una: u64,
    pub nxt: u64,
    /// Round-trip time of the newest segment delivered, if none of them was sent twice.
    pub rtt_us: Option<u32>,
    /// The delivery rate, if the ACK gave a sample.
    pub rate: Option<RateSample>,
    /// Whether the window may grow: it is not being reduced, and the ACK acknowledges data.
    pub may_grow: bool,
}

/// An algorithm. Answers are in segments.
pub trait CongestionControl {
    /// An ACK arrived that delivered something.
    fn on_ack(&mut self, window: &mut Window, ack: &AckSample);

    /// A loss was found by ACKs: answers the new `ssthresh`.
    fn on_loss(&mut self, window: &Window) -> u32;

    /// The retransmission timer expired: answers the new `ssthresh`.
    fn on_rto(&mut self, window: &Window) -> u32 {
        self.on_loss(window)
    }

    // RFC 3168 6.1.2: "the same as it would to a lost packet".
    /// The receiver echoed a mark: answers the new `ssthresh`.
    fn on_ecn(&mut self, window: &Window) -> u32 {
        self.on_loss(window)
    }

    /// The last reduction was needless: answers the window to return to.
    fn on_undo(&mut self, window: &Window) -> u32 {
        window.cwnd().max(window.prior_cwnd())
    }

    /// Sending restarts after nothing was in flight for `idle_us`.
    fn on_restart(&mut self, idle_us: u64);

    /// The rate at which the algorithm wants to send; `None` leaves it to window and round-trip time.
    fn pacing_bytes_per_s(&self) -> Option<u64> {
        None
    }
}

/// The algorithms that there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Algorithm {
    #[default]
    Cubic,
    NewReno,
    Dctcp,
}

impl Algorithm {
    pub const ALL: [Algorithm; 3] = [Algorithm::Cubic, Algorithm::NewReno, Algorithm::Dctcp];

    /// Linux's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Cubic => "cubic",
            Algorithm::NewReno => "reno",
            Algorithm::Dctcp => "dctcp",
        }
    }

    /// The algorithm of that name.
    pub fn from_name(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Whether it needs ECN, and all packets marked ECT(0), retransmissions and pure ACKs too (RFC 8257 3).
    pub fn needs_ecn(self) -> bool {
        self == Algorithm::Dctcp
    }
}

#[derive(Clone, Debug)]
enum State {
    Cubic(Cubic),
    NewReno(NewReno),
    Dctcp(Dctcp),
}

/// A connection's window and the algorithm that moves it.
#[derive(Clone, Debug)]
pub struct Congestion {
    pub window: Window,
    state: State,
}

impl Congestion {
    pub fn new(algorithm: Algorithm, initial_window: u32) -> Congestion {
        Congestion { window: Window::new(initial_window), state: State::new(algorithm) }
    }

    pub fn algorithm(&self) -> Algorithm {
        match &self.state {
            State::Cubic(_) => Algorithm::Cubic,
            State::NewReno(_) => Algorithm::NewReno,
            State::Dctcp(_) => Algorithm::Dctcp,
        }
    }

    /// Changes the algorithm; the window stays.
    pub fn set_algorithm(&mut self, algorithm: Algorithm) {
        if self.algorithm() != algorithm {
            self.state = State::new(algorithm);
        }
    }

    pub fn on_ack(&mut self, ack: &AckSample) {
        let Congestion { window, state } = self;
        state.control_mut().on_ack(window, ack);
    }

    /// A loss was found by ACKs: the reduction begins.
    pub fn on_loss(&mut self) {
        let ssthresh = self.state.control_mut().on_loss(&self.window);
        self.window.begin_reduction(ssthresh);
    }

    /// The retransmission timer expired: the reduction begins; the caller sets the window.
    pub fn on_rto(&mut self) {
        let ssthresh = self.state.control_mut().on_rto(&self.window);
        self.window.begin_reduction(ssthresh);
    }

    /// The receiver echoed a mark: the reduction begins.
    pub fn on_ecn(&mut self) {
        let ssthresh = self.state.control_mut().on_ecn(&self.window);
        self.window.begin_reduction(ssthresh);
    }

    /// The last reduction was needless; `ssthresh` is what it was before.
    pub fn on_undo(&mut self, now: Instant, ssthresh: u32) {
        let cwnd = self.state.control_mut().on_undo(&self.window);
        self.window.set_cwnd(cwnd);
        self.window.set_ssthresh(self.window.ssthresh().max(ssthresh));
        self.window.touch(now);
    }

    /// Sending restarts after nothing was in flight for `idle_us`; the window shrinks if that is longer than
    /// `rto_us` and `shrink` (`tcp_slow_start_after_idle`) says so.
    pub fn on_restart(&mut self, now: Instant, idle_us: u64, rto_us: u32, shrink: bool) {
        if shrink && idle_us > u64::from(rto_us) {
            self.window.restart_after_idle(now, idle_us, rto_us);
        }
        self.state.control_mut().on_restart(idle_us);
    }

    pub fn pacing_bytes_per_s(&self) -> Option<u64> {
        self.state.control().pacing_bytes_per_s()
    }
}

impl State {
    fn new(algorithm: Algorithm) -> State {
        match algorithm {
            Algorithm::Cubic => State::Cubic(Cubic::default()),
            Algorithm::NewReno => State::NewReno(NewReno),
            Algorithm::Dctcp => State::Dctcp(Dctcp::default()),
        }
    }

    fn control(&self) -> &dyn CongestionControl {
        match self {
            State::Cubic(control) => control,
            State::NewReno(control) => control,
            State::Dctcp(control) => control,
        }
    }

    fn control_mut(&mut self) -> &mut dyn CongestionControl {
        match self {
            State::Cubic(control) => control,
            State::NewReno(control) => control,
            State::Dctcp(control) => control,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_is_found_by_its_name() {
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::from_name(algorithm.name()), Some(algorithm));
            assert_eq!(Congestion::new(algorithm, 10).algorithm(), algorithm);
        }
        assert_eq!(Algorithm::from_name("vegas"), None);
    }

    #[test]
    fn every_algorithm_reduces_and_undoes() {
        for algorithm in Algorithm::ALL {
            let mut congestion = Congestion::new(algorithm, 10);
            congestion.window.set_cwnd(100);
            congestion.on_loss();
            let ssthresh = congestion.window.ssthresh();
            assert!((window::WINDOW_MIN..100).contains(&ssthresh), "{algorithm:?}");
            congestion.window.set_cwnd(1);
            congestion.on_undo(Instant::ZERO, window::SSTHRESH_INFINITE);
            assert_eq!(congestion.window.cwnd(), 100, "{algorithm:?}");
            assert_eq!(congestion.window.ssthresh(), window::SSTHRESH_INFINITE);
            congestion.window.set_cwnd(1);
            congestion.on_rto();
            assert!(congestion.window.ssthresh() >= window::WINDOW_MIN, "{algorithm:?}");
        }
    }
}
