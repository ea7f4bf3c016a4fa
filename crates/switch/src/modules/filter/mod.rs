//! A static filter in front of another module: rules on addresses, protocols and ports, the first that matches wins.
//!
//! ```text
//!   # action   what must match, all of it          one rule a line
//!   drop       vlan=7
//!   pass       ether=arp
//!   to 3       proto=tcp dst=10.0.0.0/8 dport=80-443 port=1
//!   broadcast  dmac=01:80:c2:00:00:0e
//!   drop                                           (everything else)
//! ```
//! `pass` leaves the frame to the module behind the filter, as does the end of the rules; what a rule drops or sends is not
//! seen by that module, so it learns nothing from it. A rule on a field that a frame does not have (the ports of a
//! later fragment, say) does not match.

mod parse;

use std::ops::RangeInclusive;

pub use parse::RuleError;
use ringway_wire::{EtherType, MacAddress, Protocol};

use crate::dxr::Prefix;
use crate::{Forward, Frame, Headers, Ip, Source, Verdict};

/// Rules of a filter at most.
pub const RULES_MAX: usize = 1024;

/// What happens to a frame that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The module behind the filter decides.
    Pass,
    Drop,
    Broadcast,
    /// To this port of the switch.
    To(u8),
}

/// An address prefix of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    V4(Prefix<u32>),
    V6(Prefix<u128>),
}

/// One line. What is None matches everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub action: Action,
    /// Port of the switch that the frame came from.
    pub port: Option<u8>,
    pub ether: Option<EtherType>,
    pub vlan: Option<u16>,
    pub source_mac: Option<MacAddress>,
    pub destination_mac: Option<MacAddress>,
    pub source: Option<Network>,
    pub destination: Option<Network>,
    pub protocol: Option<Protocol>,
    pub source_ports: Option<RangeInclusive<u16>>,
    pub destination_ports: Option<RangeInclusive<u16>>,
}

impl Rule {
    fn new(action: Action) -> Rule {
        Rule {
            action,
            port: None,
            ether: None,
            vlan: None,
            source_mac: None,
            destination_mac: None,
            source: None,
            destination: None,
            protocol: None,
            source_ports: None,
            destination_ports: None,
        }
    }

    fn matches(&self, port: u8, frame: &Frame, headers: &Headers) -> bool {
        let (source, destination) = match headers.ip {
            Some(Ip::V4(a, b)) => (Some(a.into()), Some(b.into())),
            Some(Ip::V6(a, b)) => (Some(a.into()), Some(b.into())),
            None => (None, None),
        };
        let mac = |at: usize| frame.head().get(at..at + 6).and_then(|b| b.try_into().ok()).map(MacAddress);
        is_or_any(&self.port, Some(port))
            && is_or_any(&self.ether, Some(headers.ether_type))
            && is_or_any(&self.vlan, headers.vlan)
            && is_or_any(&self.destination_mac, mac(0))
            && is_or_any(&self.source_mac, mac(6))
            && is_or_any(&self.protocol, headers.protocol)
            && self.source.is_none_or(|network| source.is_some_and(|address| network.contains(address)))
            && self.destination.is_none_or(|network| destination.is_some_and(|address| network.contains(address)))
            && in_range_or_any(&self.source_ports, headers.ports.map(|(source, _)| source))
            && in_range_or_any(&self.destination_ports, headers.ports.map(|(_, destination)| destination))
    }
}

impl Network {
    fn contains(self, address: std::net::IpAddr) -> bool {
        match (self, address) {
            (Network::V4(prefix), std::net::IpAddr::V4(address)) => prefix.contains(address.to_bits()),
            (Network::V6(prefix), std::net::IpAddr::V6(address)) => prefix.contains(address.to_bits()),
            _ => false,
        }
    }
}

fn is_or_any<T: PartialEq>(wanted: &Option<T>, found: Option<T>) -> bool {
    wanted.is_none() || *wanted == found
}

fn in_range_or_any(wanted: &Option<RangeInclusive<u16>>, found: Option<u16>) -> bool {
    wanted.as_ref().is_none_or(|range| found.is_some_and(|port| range.contains(&port)))
}

/// Rules in front of the module `F`.
pub struct Filter<F> {
    rules: Vec<Rule>,
    behind: F,
}

impl<F: Forward> Filter<F> {
    /// Reads rules in the form that the module's text shows.
    ///
    /// # Errors
    /// The line, the key and what is wrong with it.
    pub fn parse(text: &str, behind: F) -> Result<Filter<F>, RuleError> {
        Ok(Filter { rules: parse::rules(text)?, behind })
    }

    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    fn action(&self, port: u8, frame: &Frame) -> Action {
        // A batch has no frames without an Ethernet header; one that is cut in its tag matches nothing.
        let Some(headers) = Headers::of(frame.head()) else { return Action::Drop };
        let rule = self.rules.iter().find(|rule| rule.matches(port, frame, &headers));
        rule.map_or(Action::Pass, |rule| rule.action)
    }
}

impl<F: Forward> Forward for Filter<F> {
    fn lookup(&self, source: &mut Source, now_ns: u64, frames: &mut [Frame]) {
        let mut passing_from = 0;
        for at in 0..frames.len() {
            let verdict = match self.action(source.port, &frames[at]) {
                Action::Pass => continue,
                Action::Drop => Verdict::Drop,
                Action::Broadcast => Verdict::Broadcast,
                Action::To(port) => Verdict::To { port, ring: source.ring },
            };
            self.behind.lookup(source, now_ns, &mut frames[passing_from..at]);
            frames[at].verdict = verdict;
            passing_from = at + 1;
        }
        self.behind.lookup(source, now_ns, &mut frames[passing_from..]);
    }

    fn port_left(&self, port: u8) {
        self.behind.port_left(port);
    }
}

#[cfg(test)]
mod tests;
