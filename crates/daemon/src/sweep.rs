//! What has to happen without anybody asking: time-outs, retries, the burial of dead connections.

use std::time::{Duration, Instant};

use crate::monitor::{Monitor, SWEEP_PERIOD};

/// Suspects looked up in one sweep.
const SUSPECTS_MAX: usize = 512;
/// Connections whose memory is measured in one sweep.
const SAMPLES_MAX: usize = 256;
/// Offers that time out in one sweep.
const EXPIRIES_MAX: usize = 1024;
/// A client that has not said Hello by then is dropped.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

impl Monitor {
    /// How long the loop may sleep; for ever when nothing can time out.
    pub(crate) fn next_wake_up(&self) -> Option<Duration> {
        let paused = self.clients.values().any(|client| client.paused_until.is_some() || client.stuck);
        if paused {
            return Some(crate::client::PAUSE);
        }
        let idle = self.clients.is_empty() && self.tools.is_empty() && self.connections.len() == 0;
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
        self.bury_dead(SUSPECTS_MAX);
        self.connections.sample_memory(SAMPLES_MAX);
        self.exit_if_idle(now);
    }

    fn resume_clients(&mut self, now: Instant) {
        let rested = |client: &crate::client::Client| client.paused_until.is_some_and(|until| now >= until);
        let ids: Vec<u64> = self.clients.values().filter(|c| rested(c) || c.stuck).map(|c| c.id).collect();
        for id in ids {
            if let Some(client) = self.clients.get_mut(&id).filter(|client| rested(client)) {
                client.paused_until = None;
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
    }

    /// Looks up suspects in the kernel's tables. In a namespace that we cannot see into, an end that no
    /// connected process holds is taken for dead.
    fn bury_dead(&mut self, count: usize) {
        for _ in 0..count.min(self.connections.suspects()) {
            let Some((at, endpoint)) = self.connections.next_suspect() else { return };
            match self.diag.as_mut().and_then(|diag| diag.alive(&endpoint)) {
                Some(true) => self.connections.keep_suspect(at),
                Some(false) | None => {
                    self.connections.bury(at);
                }
            }
        }
    }

    fn exit_if_idle(&mut self, now: Instant) {
        if !self.clients.is_empty() || self.connections.len() > 0 {
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
