//! What has to happen without anybody asking: time-outs, retries, the burial of dead connections.

use std::time::{Duration, Instant};

use crate::monitor::{Monitor, SWEEP_PERIOD};

/// Suspects looked up in one sweep.
const SUSPECTS_MAX: usize = 4096;
/// Connections whose memory is measured in one sweep.
const SAMPLES_MAX: usize = 256;
/// Offers that time out in one sweep.
const EXPIRIES_MAX: usize = 1024;
/// How long an end may be without a process where the kernel's tables cannot be asked.
const UNSEEN_GRACE: Duration = Duration::from_secs(60);
/// A client that has not said Hello by then is dropped.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

impl Monitor {
    /// How long the loop may sleep; for ever when nothing can time out.
    pub(crate) fn next_wake_up(&self) -> Option<Duration> {
        if !self.restless.is_empty() {
            return Some(crate::client::PAUSE);
        }
        let idle = self.is_unused() && self.tools.is_empty() && self.scrapers.is_empty();
        let pending = !idle || self.deaf || self.options.idle_exit.is_some();
        pending.then_some(SWEEP_PERIOD)
    }

    /// Called after each round of events; does its periodic part once in [`SWEEP_PERIOD`].
    pub(crate) fn sweep(&mut self, now: Instant) {
        if now.saturating_duration_since(self.last_sweep) < crate::client::PAUSE {
            return;
        }
        self.resume_clients(now);
        if now.saturating_duration_since(self.last_sweep) < SWEEP_PERIOD {
            return;
        }
        self.last_sweep = now;
        if self.deaf {
            self.set_deaf(false);
        }
        let timeout = Duration::from_secs(self.policy.offer_timeout_s);
        for _ in 0..EXPIRIES_MAX {
            let Some(offer) = self.offers.expired(now, timeout) else { break };
            let reason = offer.reason;
            self.refuse_waiters(offer, reason, now);
        }
        self.drop_silent(now);
        self.sweep_meetings(now);
        self.bury_dead(SUSPECTS_MAX, now);
        self.connections.sample_memory(SAMPLES_MAX);
        self.meetings.sample_memory();
        self.exit_if_idle(now);
    }

    fn resume_clients(&mut self, now: Instant) {
        for id in std::mem::take(&mut self.restless) {
            let Some(client) = self.clients.get_mut(&id) else { continue };
            client.paused_until = client.paused_until.filter(|until| now < *until);
            if client.paused_until.is_some() {
                self.restless.insert(id);
            }
            self.flush_client(id, now);
        }
    }

    fn drop_silent(&mut self, now: Instant) {
        let silent: Vec<u64> = (self.clients.values())
            .filter(|c| c.session.is_none() && now.saturating_duration_since(c.since) > HELLO_TIMEOUT)
            .map(|c| c.id)
            .collect();
        for id in silent {
            self.drop_client(id, "no Hello in time", now);
        }
        self.drop_silent_tools(now);
        self.drop_slow_scrapers(now);
    }

    /// Looks up suspects in the kernel's tables. In a namespace that we cannot see into, an end that no
    /// connected process has held for [`UNSEEN_GRACE`] is taken for dead.
    fn bury_dead(&mut self, count: usize, now: Instant) {
        for _ in 0..count.min(self.connections.suspects()) {
            let Some((suspect, endpoint, since)) = self.connections.next_suspect() else { return };
            let alive = match self.diag.as_mut().and_then(|diag| diag.alive(&endpoint)) {
                Some(alive) => alive,
                // An exec, or a socket handed from one process to another, takes a moment only.
                None => now.saturating_duration_since(since) < UNSEEN_GRACE,
            };
            match alive {
                true => self.connections.keep_suspect(suspect),
                false => drop(self.connections.bury(suspect)),
            }
        }
    }

    /// Whether there is nobody whom the monitor serves, tools aside.
    fn is_unused(&self) -> bool {
        self.clients.is_empty() && self.connections.len() == 0 && self.guests.is_empty() && self.meetings.len() == 0
    }

    fn exit_if_idle(&mut self, now: Instant) {
        if !self.is_unused() {
            self.idle_since = None;
            return;
        }
        let since = *self.idle_since.get_or_insert(now);
        if self.options.idle_exit.is_some_and(|limit| now.saturating_duration_since(since) >= limit) {
            tracing::info!("idle, leaving");
            self.stopping = true;
        }
    }
}
