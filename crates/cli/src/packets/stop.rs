//! When a tool ends: by signal, after a time, or after a number of packets.

use std::time::{Duration, Instant};

use anyhow::Result;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Time between two looks for a signal: each is a system call.
const SIGNAL_PERIOD: Duration = Duration::from_millis(20);

/// Longest wait for packets, so that a signal is seen soon.
pub(crate) const NAP: Duration = Duration::from_millis(50);

pub(crate) struct Stop {
    signals: SignalFd,
    look_at: Instant,
    deadline: Option<Instant>,
    stopped: bool,
}

impl Stop {
    /// From here on SIGINT, SIGTERM and SIGHUP end the tool with its summary.
    pub(crate) fn new(duration: Option<Duration>) -> Result<Stop> {
        let mut ends = SigSet::empty();
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().for_each(|signal| ends.add(signal));
        ends.thread_block()?;
        let signals = SignalFd::with_flags(&ends, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        let now = Instant::now();
        Ok(Stop { signals, look_at: now, deadline: duration.map(|duration| now + duration), stopped: false })
    }

    /// Whether it is time to end.
    pub(crate) fn reached(&mut self, now: Instant) -> bool {
        if now >= self.look_at {
            self.look_at = now + SIGNAL_PERIOD;
            self.stopped |= !matches!(self.signals.read_signal(), Ok(None));
        }
        self.stopped || self.deadline.is_some_and(|deadline| now >= deadline)
    }
}
