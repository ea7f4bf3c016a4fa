//! Listeners: who they are for, and their two bounded queues.

use std::collections::{BTreeMap, VecDeque};

use ringway_wire::{Endpoint, IpAddress};

use crate::event::ConnId;
use crate::options::SocketOptions;

/// A listener; its half-open connections are records elsewhere, counted here.
#[derive(Default)]
pub(super) struct Listener {
    pub(super) local: Option<Endpoint>,
    pub(super) backlog: u32,
    pub(super) options: SocketOptions,
    pub(super) generation: u32,
    pub(super) half_open: u32,
    /// Connections that wait to be accepted, oldest first.
    pub(super) ready: VecDeque<ConnId>,
    pub(super) in_event_list: bool,
}

impl Listener {
    /// Linux's `sk_acceptq_is_full`: one more than the backlog.
    pub(super) fn is_accept_queue_full(&self) -> bool {
        self.ready.len() > self.backlog as usize
    }
}

/// Listeners by port.
#[derive(Default)]
pub(super) struct Ports {
    by_port: BTreeMap<u16, Vec<(IpAddress, u32)>>,
}

impl Ports {
    /// The listener for a local address: one bound to it, or else to any.
    pub(super) fn find(&self, local: Endpoint) -> Option<u32> {
        let bound = self.by_port.get(&local.port)?;
        let of = |wanted: IpAddress| bound.iter().find(|(address, _)| *address == wanted).map(|(_, index)| *index);
        let any_v4 = IpAddress::from([0; 4]);
        let any_v6 = IpAddress::from([0; 16]);
        of(local.address).or_else(|| local.address.is_ipv4().then(|| of(any_v4)).flatten()).or_else(|| of(any_v6))
    }

    /// Whether a listener would get in the way of one at `local`.
    pub(super) fn is_taken(&self, local: Endpoint) -> bool {
        let Some(bound) = self.by_port.get(&local.port) else { return false };
        bound.iter().any(|(address, _)| {
            let any = address.is_unspecified() || local.address.is_unspecified();
            *address == local.address || any && address.is_ipv4() == local.address.is_ipv4()
        })
    }

    pub(super) fn insert(&mut self, local: Endpoint, index: u32) {
        self.by_port.entry(local.port).or_default().push((local.address, index));
    }

    pub(super) fn remove(&mut self, local: Endpoint, index: u32) {
        if let Some(bound) = self.by_port.get_mut(&local.port) {
            bound.retain(|(_, other)| *other != index);
            if bound.is_empty() {
                self.by_port.remove(&local.port);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddr;

    fn end(text: &str) -> Endpoint {
        text.parse::<SocketAddr>().unwrap().into()
    }

    #[test]
    fn the_nearest_listener_is_found() {
        let mut ports = Ports::default();
        ports.insert(end("0.0.0.0:80"), 1);
        ports.insert(end("10.0.0.1:80"), 2);
        ports.insert(end("[::]:81"), 3);
        assert_eq!(ports.find(end("10.0.0.1:80")), Some(2));
        assert_eq!(ports.find(end("10.0.0.2:80")), Some(1));
        assert_eq!(ports.find(end("[::1]:80")), None);
        assert_eq!([ports.find(end("10.0.0.2:81")), ports.find(end("[::1]:81"))], [Some(3); 2]);
        assert!(ports.is_taken(end("10.0.0.9:80")) && !ports.is_taken(end("10.0.0.9:81")));
        ports.remove(end("10.0.0.1:80"), 2);
        assert_eq!(ports.find(end("10.0.0.1:80")), Some(1));
    }
}
