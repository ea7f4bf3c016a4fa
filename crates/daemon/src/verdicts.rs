//! Why sockets that processes have shown to the monitor stay on TCP: for display, while those processes live.

use std::collections::{BTreeMap, HashMap};

use ringway_channel::Reason;

use crate::endpoint::{Endpoint, Tuple};
use crate::monitor::Monitor;
use crate::peer::Peer;

/// Verdicts that are remembered; the oldest is forgotten first.
const VERDICTS_MAX: usize = 4096;

/// What was decided about one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) endpoint: Endpoint,
    /// The process that was told, and its user.
    pub(crate) client: u64,
    pub(crate) uid: u32,
    pub(crate) reason: Reason,
}

/// See the module. A pair of addresses has one verdict in each namespace: the newest.
#[derive(Debug, Default)]
pub(crate) struct VerdictTable {
    by_age: BTreeMap<u64, Verdict>,
    ages: HashMap<(u64, Tuple), u64>,
    last_age: u64,
}

fn key(endpoint: &Endpoint) -> (u64, Tuple) {
    (endpoint.id.netns, endpoint.tuple)
}

impl VerdictTable {
    pub(crate) fn note(&mut self, verdict: Verdict) {
        self.forget(&verdict.endpoint);
        if self.by_age.len() >= VERDICTS_MAX
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.ages.remove(&key(&oldest.endpoint));
        }
        self.last_age += 1;
        self.ages.insert(key(&verdict.endpoint), self.last_age);
        self.by_age.insert(self.last_age, verdict);
    }

    /// The question is open again.
    pub(crate) fn forget(&mut self, endpoint: &Endpoint) {
        if let Some(age) = self.ages.remove(&key(endpoint)) {
            self.by_age.remove(&age);
        }
    }

    pub(crate) fn forget_client(&mut self, client: u64) {
        let ages = &mut self.ages;
        self.by_age.retain(|_, verdict| {
            let keep = verdict.client != client;
            if !keep {
                ages.remove(&key(&verdict.endpoint));
            }
            keep
        });
    }

    /// The verdict on the other end of `endpoint`.
    pub(crate) fn of_other_end(&self, endpoint: &Endpoint) -> Option<Reason> {
        let age = self.ages.get(&(endpoint.id.netns, endpoint.tuple.reversed()))?;
        self.by_age.get(age).map(|verdict| verdict.reason)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Verdict> {
        self.by_age.values()
    }
}

impl Monitor {
    /// Remembers what was decided; a connection that has ended needs no explanation.
    pub(crate) fn remember(&mut self, endpoint: Endpoint, client: u64, reason: Reason) {
        if reason != Reason::NotConnected
            && let Some(Peer { uid, .. }) = self.clients.get(&client).map(|c| &c.peer)
        {
            self.verdicts.note(Verdict { endpoint, client, uid: *uid, reason });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::SocketId;

    fn verdict(port: u16, client: u64, reason: Reason) -> Verdict {
        let local = std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let tuple = Tuple { local, remote: ([127, 0, 0, 1], 9).into() };
        let endpoint = Endpoint { id: SocketId { netns: 1, cookie: port.into() }, tuple, interface: 0 };
        Verdict { endpoint, client, uid: 5, reason }
    }

    #[test]
    fn the_newest_verdict_counts_until_its_process_leaves_and_the_table_is_bounded() {
        let mut table = VerdictTable::default();
        for port in 1..=VERDICTS_MAX as u16 + 10 {
            table.note(verdict(port, u64::from(port % 2), Reason::NoPartner));
        }
        assert_eq!((table.by_age.len(), table.ages.len()), (VERDICTS_MAX, VERDICTS_MAX));
        assert!(table.iter().all(|v| v.endpoint.tuple.local.port() > 10));
        let again = verdict(100, 0, Reason::Shared);
        table.note(again);
        assert_eq!(table.iter().filter(|v| v.endpoint.tuple.local.port() == 100).count(), 1);
        let other = Endpoint { tuple: again.endpoint.tuple.reversed(), ..again.endpoint };
        assert_eq!(table.of_other_end(&other), Some(Reason::Shared));
        table.forget_client(0);
        assert_eq!((table.of_other_end(&other), table.by_age.len()), (None, table.ages.len()));
        assert!(table.iter().all(|v| v.client == 1));
    }
}
