//! Sockets that wait for their other end: a plain data structure, no I/O.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use ringway_channel::Reason;
use serde::{Deserialize, Serialize};

use crate::endpoint::{Endpoint, SocketId, Tuple};

/// Processes that may wait for the same socket (members of a fork family).
pub(crate) const WAITERS_MAX: usize = 64;

/// A process that offered a socket, and its name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Waiter {
    pub(crate) client: u64,
    pub(crate) token: u64,
}

/// An offered socket. The first waiter is its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) endpoint: Endpoint,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) since: Instant,
    /// What to tell when nobody comes: better than "no partner" if one was seen but not allowed.
    pub(crate) reason: Reason,
}

/// A socket given up after less than this may have had a partner who was only slower.
const PARTNER_WAIT: Duration = Duration::from_secs(1);

impl Offer {
    /// Why it was not upgraded, if it ends now.
    pub(crate) fn verdict(&self, now: Instant) -> Reason {
        match self.reason {
            Reason::NoPartner if now.saturating_duration_since(self.since) < PARTNER_WAIT => Reason::NotConnected,
            reason => reason,
        }
    }
}

/// Which waiting socket is the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Partner {
    Absent,
    Found(SocketId),
    /// In another namespace, and the policy keeps them apart.
    Foreign(SocketId),
    /// Several namespaces have the addresses.
    Ambiguous,
}

/// See the module. Bounded by `limit` sockets with [`WAITERS_MAX`] waiters each.
#[derive(Debug)]
pub(crate) struct OfferTable {
    by_id: HashMap<SocketId, Offer>,
    by_tuple: HashMap<Tuple, Vec<SocketId>>,
    /// In the order of arrival; entries of sockets that have left are skipped.
    arrivals: VecDeque<(Instant, SocketId)>,
    limit: usize,
}

impl OfferTable {
    pub(crate) fn new(limit: usize) -> OfferTable {
        OfferTable { by_id: HashMap::new(), by_tuple: HashMap::new(), arrivals: VecDeque::new(), limit }
    }

    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn get(&self, id: SocketId) -> Option<&Offer> {
        self.by_id.get(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Offer> {
        self.by_id.values()
    }

    /// A waiting socket with the same addresses in the same namespace: it must have been closed without
    /// a word, for a live pair of addresses exists only once.
    pub(crate) fn stale(&self, endpoint: &Endpoint) -> Option<SocketId> {
        let same = |id: &&SocketId| id.netns == endpoint.id.netns && **id != endpoint.id;
        self.by_tuple.get(&endpoint.tuple)?.iter().find(same).copied()
    }

    /// Who is at the other end of `endpoint`. Across namespaces only when addresses mean the same host
    /// everywhere and each side has one candidate.
    pub(crate) fn partner(&self, endpoint: &Endpoint, across: bool) -> Partner {
        let candidates = self.by_tuple.get(&endpoint.tuple.reversed()).map_or(&[][..], Vec::as_slice);
        let others = || candidates.iter().filter(|id| **id != endpoint.id);
        if let Some(id) = others().find(|id| id.netns == endpoint.id.netns) {
            return Partner::Found(*id);
        }
        let Some(foreign) = others().next().filter(|_| endpoint.tuple.crosses_namespaces()) else {
            return Partner::Absent;
        };
        let twins = self.by_tuple.get(&endpoint.tuple).into_iter().flatten().filter(|id| **id != endpoint.id);
        match (across, others().count(), twins.count()) {
            (false, ..) => Partner::Foreign(*foreign),
            (true, 1, 0) => Partner::Found(*foreign),
            (true, ..) => Partner::Ambiguous,
        }
    }

    /// Adds a socket, or one more waiter to a socket that is there already.
    ///
    /// # Errors
    /// [`Reason::TableFull`].
    pub(crate) fn insert(&mut self, endpoint: Endpoint, waiter: Waiter, now: Instant) -> Result<(), Reason> {
        if let Some(offer) = self.by_id.get_mut(&endpoint.id) {
            if offer.waiters.len() >= WAITERS_MAX {
                return Err(Reason::TableFull);
            }
            offer.waiters.push(waiter);
            return Ok(());
        }
        if self.by_id.len() >= self.limit {
            return Err(Reason::TableFull);
        }
        let offer = Offer { endpoint, waiters: vec![waiter], since: now, reason: Reason::NoPartner };
        self.by_id.insert(endpoint.id, offer);
        self.by_tuple.entry(endpoint.tuple).or_default().push(endpoint.id);
        self.arrivals.push_back((now, endpoint.id));
        self.compact();
        Ok(())
    }

    /// Notes why the socket is still waiting.
    pub(crate) fn note(&mut self, id: SocketId, reason: Reason) {
        if let Some(offer) = self.by_id.get_mut(&id) {
            offer.reason = reason;
        }
    }

    pub(crate) fn remove(&mut self, id: SocketId) -> Option<Offer> {
        let offer = self.by_id.remove(&id)?;
        if let Some(ids) = self.by_tuple.get_mut(&offer.endpoint.tuple) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_tuple.remove(&offer.endpoint.tuple);
            }
        }
        Some(offer)
    }

    /// One process no longer waits for the socket; without waiters it leaves the table.
    pub(crate) fn withdraw(&mut self, id: SocketId, waiter: Waiter) {
        let Some(offer) = self.by_id.get_mut(&id) else { return };
        offer.waiters.retain(|other| *other != waiter);
        if offer.waiters.is_empty() {
            self.remove(id);
        }
    }

    /// Takes out one socket that has waited for `timeout` or longer.
    pub(crate) fn expired(&mut self, now: Instant, timeout: Duration) -> Option<Offer> {
        while let Some((since, id)) = self.arrivals.front().copied() {
            if now.saturating_duration_since(since) < timeout {
                return None;
            }
            self.arrivals.pop_front();
            if self.by_id.get(&id).is_some_and(|offer| offer.since == since) {
                return self.remove(id);
            }
        }
        None
    }

    /// Keeps the list of arrivals within twice the table, also when sockets come and go quickly.
    fn compact(&mut self) {
        if self.arrivals.len() > 2 * self.by_id.len() + 64 {
            let by_id = &self.by_id;
            self.arrivals.retain(|(since, id)| by_id.get(id).is_some_and(|offer| offer.since == *since));
        }
    }
}

#[cfg(test)]
#[path = "offers_tests.rs"]
mod tests;
