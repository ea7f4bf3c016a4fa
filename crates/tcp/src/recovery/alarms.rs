//! When to look again: the retransmission timeout (RFC 6298 5), the tail loss probe (RFC 8985 7.3) and the reordering
//! timer (RFC 8985 6.3) share one alarm, for only the earliest matters.

use super::tlp::Tlp;
use super::{Recovery, Resend, State};
use crate::time::Instant;

/// What an alarm is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alarm {
    /// The retransmission timer.
    Timeout,
    /// A tail loss probe is due.
    Probe,
    /// A segment that might be reordered counts as lost now.
    Reordering,
}

/// What the engine does when the alarm went off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AlarmAction {
    Nothing,
    /// Segments may be waiting for retransmission: send.
    Send,
    /// Send one segment whatever the window says: a new one, or [`Recovery::probe_segment`] again; then call
    /// [`Recovery::on_probe`].
    Probe,
    /// The retransmission timer expired: give up if it has too often, else send.
    TimedOut,
}

/// Linux's `TCP_TIMEOUT_MIN`: what the reordering timer adds for slow clocks.
const SLACK_US: u32 = 2000;

impl Recovery {
    /// What to wait for, and until when.
    pub fn alarm(&self) -> Option<(Alarm, Instant)> {
        self.alarm
    }

    /// The alarm's time has come (or has not: then nothing happens).
    pub fn on_alarm(&mut self, now: Instant) -> AlarmAction {
        let Some((alarm, _)) = self.alarm.filter(|(_, at)| *at <= now) else { return AlarmAction::Nothing };
        self.alarm = None;
        if self.board.segments() == 0 {
            return AlarmAction::Nothing;
        }
        match alarm {
            Alarm::Reordering => self.on_reordering_alarm(now),
            // RFC 8985 7.3: one probe at a time.
            Alarm::Probe if self.tlp.end().is_none() => AlarmAction::Probe,
            Alarm::Probe => {
                self.rearm_timeout_from_head(now);
                AlarmAction::Nothing
            }
            Alarm::Timeout => {
                self.on_timeout(now);
                AlarmAction::TimedOut
            }
        }
    }

    /// The segment that a tail loss probe repeats if there is nothing new to send: the last that is not SACKed.
    pub fn probe_segment(&self) -> Option<Resend> {
        let number = self.board.last_missing()?;
        Some(Resend { number, span: self.board.span(number) })
    }

    /// The probe was sent, as a new segment or (`retransmitted`) as the last once more; or (`None`) could not be.
    pub fn on_probe(&mut self, now: Instant, retransmitted: Option<bool>) {
        if let Some(retransmitted) = retransmitted {
            self.tlp.on_sent(self.board.nxt(), retransmitted);
            self.totals.probes = self.totals.probes.saturating_add(1);
        }
        self.rearm_timeout_from_head(now);
    }

    /// Begins the retransmission timer anew, if something is in flight; stops it if not.
    pub(super) fn rearm_timeout(&mut self, now: Instant) {
        let running = self.board.segments() > 0;
        self.alarm = running.then(|| (Alarm::Timeout, now + u64::from(self.rtt.rto_us())));
    }

    /// Sets the timer to `us` from now, whatever the timeout.
    pub(super) fn set_timeout(&mut self, now: Instant, us: u32) {
        self.alarm = Some((Alarm::Timeout, now + u64::from(us)));
    }

    pub(super) fn set_reordering_alarm(&mut self, now: Instant, us: u32) {
        self.alarm = Some((Alarm::Reordering, now + u64::from(us.saturating_add(SLACK_US))));
    }

    // RFC 6298 5.2, 5.3; RFC 8985 7.2.
    /// An ACK took segments off the scoreboard: the wait begins anew.
    pub(super) fn set_alarm(&mut self, now: Instant) {
        let elapsed_alarm = matches!(self.alarm, Some((Alarm::Reordering | Alarm::Probe, _)));
        if self.board.segments() > 0 && elapsed_alarm {
            self.rearm_timeout_from_head(now);
        } else {
            self.rearm_timeout(now);
        }
        self.schedule_probe(now, self.rtt.rto_us());
    }

    /// RFC 8985 7.2: a probe, or the timeout `timeout_us` from now if that comes first. In recovery, without SACK, or when the
    /// receiver holds something out of order, so that RACK has what it needs, there is none.
    pub(super) fn schedule_probe(&mut self, now: Instant, timeout_us: u32) {
        let calm = matches!(self.state, State::Open | State::Cwr) && self.board.sacked_out() == 0;
        let segments = self.board.segments();
        if !self.config.tail_loss_probes || !self.config.sack || !calm || segments == 0 {
            return;
        }
        let min_rto_us = self.rtt.config().min_rto_us;
        let probe_us = Tlp::timeout_us(self.rtt.srtt_us(), segments, min_rto_us);
        let us = if timeout_us > 0 { probe_us.min(timeout_us) } else { probe_us };
        self.alarm = Some((Alarm::Probe, now + u64::from(us)));
    }

    /// The timeout counts from when the first segment was sent, if another alarm stood in its place meanwhile.
    fn rearm_timeout_from_head(&mut self, now: Instant) {
        self.alarm = Some((Alarm::Timeout, now + u64::from(self.until_timeout_us(now).max(1))));
    }

    pub(super) fn until_timeout_us(&self, now: Instant) -> u32 {
        let Some(head) = self.board.first() else { return self.rtt.rto_us() };
        let age_us = now.since_us_u32(self.board.segment(head).sent());
        self.rtt.rto_us().saturating_sub(age_us)
    }

    fn on_reordering_alarm(&mut self, now: Instant) -> AlarmAction {
        let pipe = self.board.pipe();
        let found = self.detect_losses(now);
        if self.board.pipe() != pipe && self.state != State::Recovery {
            self.enter_recovery(false);
            self.reduce(1, false);
        }
        match found.again_in_us {
            Some(us) => self.set_reordering_alarm(now, us),
            None => self.rearm_timeout_from_head(now),
        }
        AlarmAction::Send
    }

    // RFC 6298 5.4 to 5.6.
    fn on_timeout(&mut self, now: Instant) {
        self.enter_loss(now);
        self.timeouts = self.timeouts.saturating_add(1);
        self.totals.timeouts = self.totals.timeouts.saturating_add(1);
        self.rtt.back_off();
        self.rearm_timeout(now);
    }
}
