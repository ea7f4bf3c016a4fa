//! What happens when nothing does: retransmission, delayed acknowledgements, probes, the end of waiting.

use super::{Conn, Flags, Owed, State};
use crate::error::Error;
use crate::stats::Counter;
use crate::time::Instant;

/// A connection's timers. Each is a deadline; the wheel knows the earliest, or an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Timer {
    /// Retransmission time-out, or in its place a tail loss probe, a look for reordering, a probe of a closed window.
    Retransmit,
    /// A delayed acknowledgement.
    Answer,
    /// Keepalive, and the end of FIN-WAIT-2.
    Keepalive,
    /// The next segment may leave.
    Pace,
}

const TIMERS: [Timer; 4] = [Timer::Retransmit, Timer::Answer, Timer::Keepalive, Timer::Pace];

/// What the retransmission timer waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// The answer to a SYN.
    #[default]
    Handshake,
    /// Loss recovery: a time-out, a tail loss probe, reordering.
    Recovery,
    /// A closed window to open.
    Window,
}

#[derive(Clone, Debug)]
pub(crate) struct Timers {
    at: [Instant; TIMERS.len()],
    pub(crate) waiting: Waiting,
    /// When the wheel goes off: not after the earliest timer, unless `is_unarmed`.
    armed: Instant,
    /// The wheel must be told of an earlier time.
    pub(crate) is_unarmed: bool,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers {
            at: [Instant::FAR_FUTURE; TIMERS.len()],
            waiting: Waiting::Handshake,
            armed: Instant::FAR_FUTURE,
            is_unarmed: false,
        }
    }
}

impl Timers {
    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        self.at[timer as usize] = at;
        self.is_unarmed |= at < self.armed;
    }

    /// The wheel is told of the earliest timer, if there is one, which it answers.
    pub(crate) fn arm(&mut self) -> Option<Instant> {
        let earliest = self.earliest();
        (self.armed, self.is_unarmed) = (earliest.unwrap_or(Instant::FAR_FUTURE), false);
        earliest
    }

    /// The wheel has gone off.
    pub(crate) fn disarm(&mut self) {
        (self.armed, self.is_unarmed) = (Instant::FAR_FUTURE, true);
    }

    pub(crate) fn stop(&mut self, timer: Timer) {
        self.at[timer as usize] = Instant::FAR_FUTURE;
    }

    pub(crate) fn stop_all(&mut self) {
        self.at = [Instant::FAR_FUTURE; TIMERS.len()];
    }

    pub(crate) fn at(&self, timer: Timer) -> Option<Instant> {
        Some(self.at[timer as usize]).filter(|at| *at != Instant::FAR_FUTURE)
    }

    pub(crate) fn earliest(&self) -> Option<Instant> {
        self.at.iter().min().copied().filter(|at| *at != Instant::FAR_FUTURE)
    }

    fn take_due(&mut self, now: Instant) -> Option<Timer> {
        let timer = TIMERS.into_iter().find(|timer| self.at[*timer as usize] <= now)?;
        self.stop(timer);
        Some(timer)
    }
}

/// Linux's `TCP_RTO_MIN`: the least interval between probes of a closed window, and the unit of giving up.
const RTO_MIN_US: u64 = 200_000;
/// RFC 9293 3.8.3 (MUST-21): R2 for connections that nobody holds, unless configured.
const ORPHAN_RETRIES: u32 = 8;

impl Conn<'_> {
    /// The wheel has gone off: does what is due by now.
    pub(crate) fn on_timer(&mut self) {
        while let Some(timer) = self.cold.timers.take_due(self.shared.now) {
            match timer {
                Timer::Retransmit => self.on_retransmit_timer(),
                Timer::Answer => self.on_answer_timer(),
                Timer::Keepalive => self.on_keepalive_timer(),
                Timer::Pace => self.owe(Owed::DATA),
            }
        }
    }

    fn on_retransmit_timer(&mut self) {
        match (self.state(), self.cold.timers.waiting) {
            (State::SynSent | State::SynReceived, _) => self.on_syn_timeout(),
            (_, Waiting::Window) => self.on_probe_timer(),
            (_, Waiting::Recovery | Waiting::Handshake) => self.on_recovery_alarm(),
        }
    }

    // RFC 9293 3.8.3 (MUST-23): SYNs are sent again for at least three minutes; Linux: `tcp_syn_retries`, the first of
    // them without doubling the time-out.
    fn on_syn_timeout(&mut self) {
        let config = &self.shared.config;
        let active = self.state() == State::SynSent;
        let retries = match active {
            true => self.cold.options.syn_retries.unwrap_or(config.tcp_syn_retries) + config.tcp_syn_linear_timeouts,
            false => config.tcp_synack_retries,
        };
        if self.cold.timeouts >= retries || self.user_timeout_is_over() {
            return self.give_up();
        }
        self.cold.timeouts += 1;
        if !active || self.cold.timeouts > config.tcp_syn_linear_timeouts {
            self.back_off();
        }
        self.give_up_fast_open();
        self.owe(Owed::SYN);
    }

    /// The retransmission timer has expired once more.
    pub(super) fn on_data_timeout(&mut self) {
        // RFC 9293 3.8.3 (MUST-20): a connection whose data are not acknowledged ends after R2.
        if self.retries_are_over() {
            return self.give_up();
        }
        self.cold.retransmitting_since.get_or_insert(self.cold.last_sent);
        self.cold.timeouts += 1;
        self.doubt_path_mtu();
    }

    /// Linux's `retransmits_timed_out`: R2 as the time that so many doublings of the least time-out take.
    fn retries_are_over(&self) -> bool {
        if self.user_timeout_is_over() {
            return true;
        }
        let retries = self.retries_max();
        if self.cold.timeouts == 0 {
            return false;
        }
        let since = self.cold.retransmitting_since.unwrap_or(self.cold.last_sent);
        let rto_max_us = u64::from(self.shared.config.tcp_rto_max_ms) * 1000;
        let doublings = (rto_max_us / RTO_MIN_US).max(1).ilog2();
        let patience_us = if retries <= doublings {
            ((2 << retries) - 1) * RTO_MIN_US
        } else {
            ((2 << doublings) - 1) * RTO_MIN_US + u64::from(retries - doublings) * rto_max_us
        };
        self.shared.now.since_us(since) >= patience_us
    }

    fn retries_max(&self) -> u32 {
        let config = &self.shared.config;
        if self.hot.flags.contains(Flags::OPEN) {
            return config.tcp_retries2;
        }
        if config.tcp_orphan_retries == 0 { ORPHAN_RETRIES } else { config.tcp_orphan_retries }
    }

    // RFC 5482, as Linux's TCP_USER_TIMEOUT: counted from the first transmission that is not acknowledged.
    fn user_timeout_is_over(&self) -> bool {
        let limit_us = u64::from(self.cold.options.user_timeout_ms) * 1000;
        let since = self.cold.retransmitting_since;
        limit_us > 0 && since.is_some_and(|since| self.shared.now.since_us(since) >= limit_us)
    }

    /// When the user's patience with data that time out is over (Linux: `tcp_clamp_rto_to_user_timeout`).
    pub(super) fn user_timeout_at(&self) -> Option<Instant> {
        let limit_us = u64::from(self.cold.options.user_timeout_ms) * 1000;
        let timing_out = limit_us > 0 && self.cold.timeouts > 0;
        self.cold.retransmitting_since.filter(|_| timing_out).map(|since| since + limit_us)
    }

    pub(super) fn give_up(&mut self) {
        let error = self.cold.soft_error.unwrap_or(Error::TimedOut);
        self.shared.count(Counter::TimedOut);
        self.end(error);
    }

    // RFC 9293 3.8.6.1 (MUST-35, SHLD-29): a closed window is probed after a retransmission time-out, then at
    // exponentially growing intervals, for as long as the peer answers.
    fn on_probe_timer(&mut self) {
        if self.hot.flight() > 0 || !self.has_unsent() {
            return;
        }
        // RFC 5482, as Linux reads it (`tcp_probe_timer`): from the first probe on, also if the peer answers.
        self.cold.retransmitting_since.get_or_insert(self.shared.now);
        if self.user_timeout_is_over() || self.cold.probes >= self.retries_max() {
            return self.give_up();
        }
        self.cold.probes += 1;
        self.cold.probe_backoff = (self.cold.probe_backoff + 1).min(16);
        self.cold.more_follows = false;
        self.owe(Owed::PROBE | Owed::DATA);
    }

    /// How long until the next probe of a closed window.
    pub(super) fn probe_interval_us(&self) -> u64 {
        let base_us = u64::from(self.rto_us()).max(RTO_MIN_US);
        let longest_us = u64::from(self.shared.config.tcp_rto_max_ms) * 1000;
        let interval_us = (base_us << self.cold.probe_backoff).min(longest_us);
        let limit_us = u64::from(self.cold.options.user_timeout_ms) * 1000;
        match self.cold.retransmitting_since {
            Some(since) if limit_us > 0 => {
                interval_us.min(limit_us.saturating_sub(self.shared.now.since_us(since))).max(1)
            }
            _ => interval_us,
        }
    }

    /// Keepalive begins anew, if the application wants it (RFC 9293 3.8.4).
    pub(crate) fn restart_keepalive(&mut self) {
        if !self.cold.options.keepalive || !self.state().is_synchronized() {
            return;
        }
        let config = &self.shared.config;
        let idle_s = self.cold.options.keepalive_idle_s.unwrap_or(config.tcp_keepalive_time);
        self.cold.timers.set(Timer::Keepalive, self.cold.last_received + u64::from(idle_s) * 1_000_000);
    }

    fn on_keepalive_timer(&mut self) {
        if self.state() == State::FinWait2 && !self.hot.flags.contains(Flags::OPEN) {
            return self.finish();
        }
        if !self.cold.options.keepalive || !self.state().is_synchronized() {
            return;
        }
        let (options, config) = (&self.cold.options, &self.shared.config);
        let idle_us = u64::from(options.keepalive_idle_s.unwrap_or(config.tcp_keepalive_time)) * 1_000_000;
        let interval_us = u64::from(options.keepalive_interval_s.unwrap_or(config.tcp_keepalive_intvl)) * 1_000_000;
        let probes_max = options.keepalive_probes.unwrap_or(config.tcp_keepalive_probes);
        let silent_us = self.shared.now.since_us(self.cold.last_received);
        if self.hot.flight() > 0 || self.has_unsent() {
            // The retransmission timer and the window probes look after it.
            self.cold.timers.set(Timer::Keepalive, self.shared.now + idle_us);
            return;
        }
        if silent_us < idle_us {
            self.cold.timers.set(Timer::Keepalive, self.cold.last_received + idle_us);
            return;
        }
        let limit_us = u64::from(options.user_timeout_ms) * 1000;
        let given_up = match limit_us {
            0 => self.cold.probes >= probes_max,
            limit_us => self.cold.probes > 0 && silent_us >= limit_us,
        };
        if given_up {
            self.send_reset();
            return self.give_up();
        }
        self.cold.probes += 1;
        self.owe(Owed::PROBE);
        self.cold.timers.set(Timer::Keepalive, self.shared.now + interval_us);
    }
}
