//! What the processes of one `ringway run` have counted together, ended ones included.

use std::collections::{BTreeMap, HashMap, VecDeque};

use ringway_channel::Reason;
use ringway_mem::stats::{Counters, ProcessPage, REASON_SLOTS};

use crate::control::{Run, SCHEMA};
use crate::metrics::Sums;
use crate::monitor::Monitor;
use crate::peer::Peer;

/// Runs that are remembered; the oldest is forgotten first.
const RUNS_MAX: usize = 1024;

/// See the module. A run is a number that its processes bring along with Hello; zero is none.
#[derive(Debug, Default)]
pub(crate) struct RunTable {
    runs: HashMap<u64, Account>,
    order: VecDeque<u64>,
}

#[derive(Debug)]
struct Account {
    uid: u32,
    processes: u64,
    /// Of processes that have left.
    ended: Sums,
}

impl RunTable {
    /// A process of the run has come. A number that another user took first counts for that user.
    pub(crate) fn join(&mut self, run_id: u64, uid: u32) {
        if run_id == 0 {
            return;
        }
        if !self.runs.contains_key(&run_id) {
            if self.order.len() >= RUNS_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.runs.remove(&oldest);
            }
            self.order.push_back(run_id);
            self.runs.insert(run_id, Account { uid, processes: 0, ended: Sums::new() });
        }
        if let Some(account) = self.runs.get_mut(&run_id).filter(|account| account.uid == uid) {
            account.processes += 1;
        }
    }

    /// A process of the run was not served, or left a socket that had not been upgraded.
    pub(crate) fn count_refusal(&mut self, run_id: u64, uid: u32, reason: Reason) {
        if let Some(account) = self.runs.get_mut(&run_id).filter(|account| account.uid == uid) {
            account.ended.refusals[reason as usize % REASON_SLOTS] += 1;
        }
    }

    /// A process of the run has left.
    pub(crate) fn retire(&mut self, run_id: u64, uid: u32, page: &ProcessPage) {
        if let Some(account) = self.runs.get_mut(&run_id).filter(|account| account.uid == uid) {
            account.ended.add(page);
        }
    }
}

impl Monitor {
    /// What the run has counted so far; zeros for one that nobody has heard of.
    pub(crate) fn describe_run(&self, peer: &Peer, run_id: u64) -> Run {
        let account = self.runs.runs.get(&run_id).filter(|account| self.sees(peer, account.uid));
        let mut sums = account.map_or_else(Sums::new, |account| account.ended.clone());
        let of_run =
            self.clients.values().filter(|c| c.run_id == run_id && account.is_some_and(|a| a.uid == c.peer.uid));
        for session in of_run.filter_map(|client| client.session.as_ref()) {
            sums.add(session.page());
        }
        let counters = Counters::NAMES.iter().zip(&sums.counters).map(|(name, n)| (name.to_string(), *n));
        let refusals = Reason::ALL.into_iter().filter_map(|reason| {
            let count = *sums.refusals.get(reason as usize)?;
            (count > 0).then(|| (reason.name().to_string(), count))
        });
        Run {
            schema: SCHEMA,
            run_id,
            processes_total: account.map_or(0, |account| account.processes),
            counters: counters.collect::<BTreeMap<_, _>>(),
            refusals: refusals.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_bounded_and_belong_to_their_first_user() {
        let mut table = RunTable::default();
        table.join(0, 5);
        assert!(table.runs.is_empty());
        for run_id in 1..=RUNS_MAX as u64 + 10 {
            table.join(run_id, 5);
        }
        assert_eq!((table.runs.len(), table.order.len()), (RUNS_MAX, RUNS_MAX));
        assert!(!table.runs.contains_key(&10) && table.runs.contains_key(&11));
        table.join(11, 6);
        table.join(11, 5);
        assert_eq!(table.runs[&11].processes, 2);
        table.count_refusal(11, 6, Reason::VersionMismatch);
        table.count_refusal(11, 5, Reason::VersionMismatch);
        assert_eq!(table.runs[&11].ended.refusals[Reason::VersionMismatch as usize], 1);
    }
}
