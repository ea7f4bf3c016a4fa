//! Which address is ours, and where a packet goes next.

use ringway_wire::{IpAddress, MacAddress};

use crate::config::{ConfigError, Prefix};

/// Addresses, their networks, and the ways out of these.
pub(crate) struct Routes {
    addresses: Vec<Prefix>,
    gateways: Vec<IpAddress>,
}

/// The next station on a packet's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextHop {
    /// The station with this IP address.
    Neighbour(IpAddress),
    /// Whoever listens to this group.
    Group(MacAddress),
}

impl Routes {
    pub(crate) fn new(addresses: Vec<Prefix>, gateways: Vec<IpAddress>) -> Result<Routes, ConfigError> {
        if addresses.is_empty() {
            return Err(ConfigError::NoAddress);
        }
        let reachable = |gateway: &IpAddress| addresses.iter().any(|prefix| prefix.contains(*gateway));
        if let Some(lost) = gateways.iter().find(|gateway| !reachable(gateway)) {
            return Err(ConfigError::Gateway(*lost));
        }
        Ok(Routes { addresses, gateways })
    }

    pub(crate) fn addresses(&self) -> &[Prefix] {
        &self.addresses
    }

    #[inline]
    pub(crate) fn is_ours(&self, address: IpAddress) -> bool {
        self.addresses.iter().any(|prefix| prefix.address == address)
    }

    /// All ones, or all ones in the part of a network's address that names the station.
    pub(crate) fn is_broadcast(&self, address: IpAddress) -> bool {
        matches!(address, IpAddress::V4(v4) if v4.is_broadcast())
            || self.addresses.iter().any(|prefix| prefix.is_broadcast(address))
    }

    /// `None` if nothing leads there.
    pub(crate) fn next_hop(&self, to: IpAddress) -> Option<NextHop> {
        if let Some(group) = MacAddress::for_multicast(to) {
            return Some(NextHop::Group(group));
        }
        if self.is_broadcast(to) {
            return Some(NextHop::Group(MacAddress::BROADCAST));
        }
        if self.is_ours(to) {
            return None;
        }
        let on_link = self.addresses.iter().any(|prefix| prefix.contains(to));
        let gateway = || self.gateways.iter().find(|gateway| gateway.is_ipv4() == to.is_ipv4()).copied();
        if on_link { Some(NextHop::Neighbour(to)) } else { gateway().map(NextHop::Neighbour) }
    }

    /// Our address towards `to`: one in the next hop's network, or else the first of the family.
    pub(crate) fn source_for(&self, to: IpAddress) -> Option<IpAddress> {
        let near = match self.next_hop(to)? {
            NextHop::Neighbour(next) => next,
            NextHop::Group(_) => to,
        };
        let mut family = self.addresses.iter().filter(|prefix| prefix.address.is_ipv4() == to.is_ipv4());
        let first = family.clone().next();
        family.find(|prefix| prefix.contains(near)).or(first).map(|prefix| prefix.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes() -> Routes {
        let addresses = ["10.0.0.2/24", "192.168.7.1/16", "fd00::2/64"].map(|text| text.parse().unwrap());
        Routes::new(addresses.into(), vec!["10.0.0.1".parse().unwrap()]).unwrap()
    }

    fn ip(text: &str) -> IpAddress {
        text.parse().unwrap()
    }

    #[test]
    fn packets_go_to_their_neighbour_the_gateway_or_nowhere() {
        let routes = routes();
        assert_eq!(routes.next_hop(ip("10.0.0.9")), Some(NextHop::Neighbour(ip("10.0.0.9"))));
        assert_eq!(routes.next_hop(ip("8.8.8.8")), Some(NextHop::Neighbour(ip("10.0.0.1"))));
        assert_eq!(routes.next_hop(ip("2001:db8::1")), None);
        assert_eq!(routes.next_hop(ip("10.0.0.2")), None);
        assert_eq!(routes.next_hop(ip("192.168.255.255")), Some(NextHop::Group(MacAddress::BROADCAST)));
        assert_eq!(routes.next_hop(ip("224.0.0.5")), Some(NextHop::Group(MacAddress([0x01, 0, 0x5e, 0, 0, 5]))));
    }

    #[test]
    fn a_source_is_near_its_destination() {
        let routes = routes();
        assert_eq!(routes.source_for(ip("192.168.1.1")), Some(ip("192.168.7.1")));
        assert_eq!(routes.source_for(ip("8.8.8.8")), Some(ip("10.0.0.2")));
        assert_eq!(routes.source_for(ip("fd00::9")), Some(ip("fd00::2")));
        assert_eq!(routes.source_for(ip("2001:db8::1")), None);
    }

    #[test]
    fn what_cannot_be_reached_is_refused_at_once() {
        let one = vec!["10.0.0.2/24".parse().unwrap()];
        assert_eq!(Routes::new(vec![], vec![]).err(), Some(ConfigError::NoAddress));
        assert_eq!(Routes::new(one, vec![ip("10.0.1.1")]).err(), Some(ConfigError::Gateway(ip("10.0.1.1"))));
    }
}
