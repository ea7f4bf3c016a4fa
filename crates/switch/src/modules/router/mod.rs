//! An IP router: longest-prefix match, a new Ethernet header, one hop less to live.
//!
//! ```text
//!   frame to the router's own address at its port, IPv4 or IPv6, header sound
//!     -> routes (DXR, a batch at a time) -> next hop: port, station address
//!     -> addresses rewritten, TTL decremented (RFC 1812, 5.3.1; RFC 8200, 3), checksum updated (RFC 1624)
//!   anything else: ARP, neighbour discovery, expired packets, no route
//!     -> the host port, if there is one, where somebody answers; or dropped
//! ```
//! **Changes** are made to a copy of the tables that nobody reads, which then takes the place of the other: lookups never
//! wait, and see all of a change or nothing.

mod rewrite;

use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use ringway_wire::MacAddress;

use crate::dxr::{Dxr, NextHop};
use crate::{Forward, Frame, Source, Verdict};
use rewrite::Network;

/// Frames that are looked up together.
const GROUP: usize = 64;

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Port of the switch.
    pub port: u8,
    /// The neighbour's address there.
    pub station: MacAddress,
}

/// The tables of a router.
#[derive(Debug)]
pub struct Routes {
    pub v4: Dxr<u32>,
    pub v6: Dxr<u128>,
    /// What the tables' next hops mean. A packet whose next hop is not there has no route.
    pub hops: Vec<Hop>,
    /// The router's own address at each port that has one; others' frames are not routed.
    pub interfaces: [Option<MacAddress>; 256],
    /// The port that gets what is not routed.
    pub host: Option<u8>,
}

impl Default for Routes {
    fn default() -> Self {
        Routes { v4: Dxr::default(), v6: Dxr::default(), hops: Vec::new(), interfaces: [None; 256], host: None }
    }
}

/// See the module's text.
#[derive(Default)]
pub struct Router {
    tables: [RwLock<Routes>; 2],
    /// The tables that lookups use.
    active: AtomicUsize,
    changing: Mutex<()>,
}

impl Router {
    /// Changes the tables by `change`, which is called twice, once for each copy, and must do the same both times.
    /// Returns what the first call did.
    pub fn change<R>(&self, change: impl Fn(&mut Routes) -> R) -> R {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let spare = 1 - self.active.load(Relaxed);
        let apply = |at: usize| {
            let mut routes = self.tables[at].write().unwrap_or_else(PoisonError::into_inner);
            let result = change(&mut routes);
            routes.v4.commit();
            routes.v6.commit();
            result
        };
        let result = apply(spare);
        self.active.store(spare, Release);
        apply(1 - spare);
        result
    }

    /// The tables of the moment. Only the spare ones are ever locked for writing, so that this succeeds at once unless a
    /// change has just exchanged them.
    fn routes(&self) -> RwLockReadGuard<'_, Routes> {
        loop {
            if let Ok(routes) = self.tables[self.active.load(Acquire)].try_read() {
                return routes;
            }
            std::hint::spin_loop();
        }
    }
}

impl Forward for Router {
    fn lookup(&self, source: &mut Source, _now_ns: u64, frames: &mut [Frame]) {
        let routes = self.routes();
        for group in frames.chunks_mut(GROUP) {
            route_group(&routes, source, group);
        }
    }
}

fn route_group(routes: &Routes, source: &Source, frames: &mut [Frame]) {
    let own = routes.interfaces[usize::from(source.port)];
    let (mut v4, mut v6) = ([0_u32; GROUP], [0_u128; GROUP]);
    let (mut count4, mut count6) = (0, 0);
    let mut networks = [None; GROUP];
    for (frame, network) in frames.iter().zip(&mut networks) {
        let to_us = own.is_some_and(|mac| frame.head().starts_with(&mac.0));
        *network = if to_us { Network::of(frame) } else { None };
        match network {
            Some(Network::V4 { destination, .. }) => {
                v4[count4] = *destination;
                count4 += 1;
            }
            Some(Network::V6 { destination, .. }) => {
                v6[count6] = *destination;
                count6 += 1;
            }
            None => {}
        }
    }
    let (mut hops4, mut hops6) = ([NextHop::NONE; GROUP], [NextHop::NONE; GROUP]);
    routes.v4.lookup_batch(&v4[..count4], &mut hops4[..count4]);
    routes.v6.lookup_batch(&v6[..count6], &mut hops6[..count6]);
    let (mut next4, mut next6) = (hops4.iter(), hops6.iter());
    for (frame, network) in frames.iter_mut().zip(networks) {
        let next_hop = match network {
            Some(Network::V4 { .. }) => next4.next(),
            Some(Network::V6 { .. }) => next6.next(),
            None => None,
        };
        let hop = next_hop.and_then(|next_hop| routes.hops.get(usize::from(next_hop.0)));
        frame.verdict = network
            .zip(hop)
            .and_then(|(network, hop)| forward(routes, source, frame, network, *hop))
            .unwrap_or(routes.host.map_or(Verdict::Drop, |port| Verdict::To { port, ring: source.ring }));
    }
}

/// Rewrites a frame for its next hop; None if it has lived long enough, or there is no way out.
fn forward(routes: &Routes, source: &Source, frame: &mut Frame, network: Network, hop: Hop) -> Option<Verdict> {
    let leaving_from = routes.interfaces[usize::from(hop.port)]?;
    network.age(frame)?;
    let head = frame.head_mut();
    head[..6].copy_from_slice(&hop.station.0);
    head[6..12].copy_from_slice(&leaving_from.0);
    Some(Verdict::To { port: hop.port, ring: source.ring })
}

#[cfg(test)]
mod tests;
