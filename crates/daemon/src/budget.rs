//! How many clients, tools and connections the limit on open files leaves room for.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::DaemonError;
use crate::policy::Policy;

/// Descriptors kept free for everything that is neither client nor connection (half the table, if that is less): with
/// them tools are answered also when all else is in use.
const DESCRIPTORS_SPARE: u64 = 512;
/// With fewer descriptors than this the monitor does not start.
const DESCRIPTORS_MIN: u64 = 64;
/// Tools connected at once.
const TOOLS_MAX: u64 = 64;
/// Names at which packet ports meet, and processes that ask for one at once.
const MEETINGS_MAX: u64 = 128;
const GUESTS_MAX: u64 = 64;
/// Room for fewer connections than this is worth a warning.
const CONNECTIONS_SCARCE: u64 = 1024;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Descriptors in one table.
    pub(crate) descriptors: u64,
    /// Two descriptors each.
    pub(crate) clients_max: u64,
    /// One descriptor each, and two in the vault.
    pub(crate) connections_max: u64,
    /// One descriptor each.
    pub(crate) tools_max: usize,
    /// Two descriptors each.
    pub(crate) meetings_max: usize,
    /// One descriptor each.
    pub(crate) guests_max: usize,
}

impl Budget {
    pub(crate) fn new(policy: &Policy, descriptors: u64) -> Budget {
        let clients_max = policy.limits.clients.min(descriptors / 8);
        let left = descriptors.saturating_sub(DESCRIPTORS_SPARE.min(descriptors / 2) + 2 * clients_max);
        let connections_max = left.min(policy.limits.connections);
        let share = |most: u64, of: u64| most.min(descriptors / of) as usize;
        Budget {
            descriptors,
            clients_max,
            connections_max,
            tools_max: share(TOOLS_MAX, 8),
            meetings_max: share(MEETINGS_MAX, 32),
            guests_max: share(GUESTS_MAX, 32),
        }
    }

    /// Whether the limit on open files, not the policy, bounds the tables.
    pub(crate) fn is_short(&self, policy: &Policy) -> bool {
        self.clients_max < policy.limits.clients || self.connections_max < policy.limits.connections
    }

    /// Tells the log if the limit on open files is the tighter bound.
    pub(crate) fn report(&self, policy: &Policy) {
        if !self.is_short(policy) {
            return;
        }
        let Budget { descriptors, clients_max, connections_max, .. } = self;
        let text = format!(
            "the limit on open files, {descriptors}, leaves room for {clients_max} programs and {connections_max} \
             connections; raise it (`ulimit -Hn`, LimitNOFILE=) and restart the monitor"
        );
        match *connections_max < CONNECTIONS_SCARCE.min(policy.limits.connections) {
            true => tracing::warn!("{text}"),
            false => tracing::info!("{text}"),
        }
    }
}

/// Raises the limit on open files as far as it helps and may be; returns it.
///
/// # Errors
/// [`DaemonError::OpenFiles`] when too few are left to serve anybody.
pub fn raise_open_files(policy: &Policy) -> Result<u64, DaemonError> {
    let wanted = DESCRIPTORS_SPARE + 2 * policy.limits.clients + policy.limits.connections;
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    if hard < wanted {
        // Only the privileged may; otherwise the bound on connections follows from what there is.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: Some(wanted) });
    }
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    match getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) {
        limit if limit < DESCRIPTORS_MIN => Err(DaemonError::OpenFiles { limit, least: DESCRIPTORS_MIN }),
        limit => Ok(limit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_leaves_room_for_everybody_and_for_the_monitor_itself() {
        let policy = Policy::default();
        for descriptors in DESCRIPTORS_MIN..100_000 {
            let budget = Budget::new(&policy, descriptors);
            assert!(budget.clients_max >= 2 && budget.connections_max >= 1 && budget.tools_max >= 2, "{budget:?}");
            assert!(budget.meetings_max >= 2 && budget.guests_max >= 2, "{budget:?}");
            let used = 2 * budget.clients_max + budget.connections_max;
            let others = (budget.tools_max + 2 * budget.meetings_max + budget.guests_max) as u64;
            // Standard streams, lock, listeners, epoll, signals and the like are fewer than 16.
            assert!(used + others + 16 <= descriptors, "{budget:?}");
        }
        assert!(Budget::new(&policy, 64).is_short(&policy));
        assert!(!Budget::new(&policy, 1 << 20).is_short(&policy));
    }
}
