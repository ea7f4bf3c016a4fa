//! All of a host but TCP and UDP: whose packet is this, who are the neighbours, echoes and errors.
//!
//! - `v4`, `v6`: a packet arrived. `icmp`: answers. `arp`, `nd`: questions of and to neighbours.
//! - `neighbours`: stations by address. `routes`: which of them is next. `outbox`: what we have to say.
//! - `counters`: why packets were dropped.

mod arp;
pub(crate) mod counters;
mod icmp;
mod nd;
mod neighbours;
mod outbox;
mod routes;
mod v4;
mod v6;

use std::net::Ipv4Addr;

use ringway_tcp::Instant;
use ringway_wire::ethernet::Frame;
use ringway_wire::reassembly::{Limits, Reassembler};
use ringway_wire::{EtherType, IpAddress, MacAddress};

use crate::config::{ConfigError, StackConfig};
use counters::{Counters, DropReason};
use neighbours::{Lookup, Neighbours};
use outbox::Outbox;
pub(crate) use outbox::Outgoing;
pub(crate) use routes::{NextHop, Routes};

/// Packets that wait for the engine, at most: reassembled ones, and errors of our own.
const INBOX_MAX: usize = 64;

pub(crate) struct Host {
    pub(crate) mac: MacAddress,
    pub(crate) routes: Routes,
    pub(crate) counters: Counters,
    pub(crate) outbox: Outbox,
    /// Of the link, in bytes.
    mtu: usize,
    neighbours: Neighbours,
    fragments_v4: Reassembler,
    fragments_v6: Reassembler,
    /// IP packets for the engine that did not come as they are.
    inbox: Vec<Vec<u8>>,
    /// Of the last datagram that was sent in fragments.
    identification: u16,
    /// Source and destination of the last packet whose addresses were found proper: packets come in trains.
    proper_v4: Option<(Ipv4Addr, Ipv4Addr)>,
    /// The last destination, and whom it is reached by.
    last_hop: Option<(IpAddress, IpAddress)>,
}

impl Host {
    pub(crate) fn new(config: &StackConfig, mac: MacAddress, mtu: usize) -> Result<Host, ConfigError> {
        let mut addresses = config.addresses.clone();
        if addresses.iter().any(|prefix| prefix.address.is_ipv6()) {
            addresses.push(nd::link_local(mac));
        }
        Ok(Host {
            mac,
            routes: Routes::new(addresses, config.gateways.clone())?,
            counters: Counters::default(),
            outbox: Outbox::default(),
            mtu,
            neighbours: Neighbours::default(),
            fragments_v4: Reassembler::new(Limits::IPV4),
            fragments_v6: Reassembler::new(Limits::IPV6),
            inbox: Vec::new(),
            identification: 0,
            proper_v4: None,
            last_hop: None,
        })
    }

    /// A frame arrived. Answers the IP packet in it if that is TCP's business; all else is done here.
    #[inline]
    pub(crate) fn arrive<'f>(&mut self, now: Instant, bytes: &'f [u8]) -> Option<&'f [u8]> {
        self.counters.frames_in += 1;
        let frame = match Frame::new_checked(bytes) {
            Ok(frame) => frame,
            Err(error) => return self.refuse(error),
        };
        let is_group = frame.destination().is_group();
        if frame.destination() != self.mac && !is_group {
            return self.drop(DropReason::OtherStation);
        }
        if frame.vlan().is_some() {
            return self.drop(DropReason::Tagged);
        }
        match frame.ether_type() {
            EtherType::IPV4 => self.arrive_v4(now, frame.payload(), is_group),
            EtherType::IPV6 => self.arrive_v6(now, &frame, is_group),
            EtherType::ARP => {
                self.arrive_arp(now, frame.payload());
                None
            }
            _ => self.drop(DropReason::EtherType),
        }
    }

    /// The station that `packet`, which is ours and whole, goes to next. `None` if it is gone: it waits for an answer of
    /// its neighbour, or was dropped.
    #[inline]
    pub(crate) fn station_for(&mut self, now: Instant, packet: &[u8]) -> Option<MacAddress> {
        let destination = destination_of(packet)?;
        let next = match self.last_hop {
            Some((known, next)) if known == destination => next,
            _ => match self.routes.next_hop(destination) {
                Some(NextHop::Neighbour(next)) => next,
                Some(NextHop::Group(mac)) => return Some(mac),
                None => return self.drop(DropReason::NoRoute),
            },
        };
        self.last_hop = Some((destination, next));
        match self.neighbours.look_up(now, next, packet) {
            Lookup::Known(mac) => Some(mac),
            Lookup::Waits => None,
            Lookup::Full => self.drop(DropReason::ResolveQueueFull),
        }
    }

    /// When [`Host::on_timer`] has something to do.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let fragments = [&self.fragments_v4, &self.fragments_v6].into_iter().filter_map(Reassembler::next_deadline_us);
        fragments.map(Instant::from_us).chain(self.neighbours.next_deadline()).min()
    }

    /// Asks for neighbours, gives up those that do not answer, and datagrams that stay incomplete.
    pub(crate) fn on_timer(&mut self, now: Instant) {
        let due = self.neighbours.on_timer(now);
        for question in due.questions {
            match question.address {
                IpAddress::V4(address) => self.ask_v4(address, question.to),
                IpAddress::V6(address) => self.ask_v6(address, question.to),
            }
        }
        for packet in due.given_up {
            self.counters.count(DropReason::Unresolved);
            if let Some(error) = icmp::unreachable_neighbour(&packet) {
                self.deliver(error);
            }
        }
        while self.fragments_v4.expire(now.us()).is_some() || self.fragments_v6.expire(now.us()).is_some() {
            self.counters.count(DropReason::Expired);
        }
    }

    /// IP packets for the engine, besides those that [`Host::arrive`] answers.
    pub(crate) fn take_inbox(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.inbox)
    }

    /// A station says that it has `address`: packets that waited for it may leave.
    fn learn(&mut self, now: Instant, address: IpAddress, mac: MacAddress, wanted: bool) {
        for packet in self.neighbours.learn(now, address, mac, wanted) {
            self.say(Outgoing::Packet(packet));
        }
    }

    fn say(&mut self, what: Outgoing) {
        if !self.outbox.push(what) {
            self.counters.count(DropReason::OutboxFull);
        }
    }

    fn deliver(&mut self, packet: Vec<u8>) {
        if self.inbox.len() < INBOX_MAX {
            self.inbox.push(packet);
        }
    }

    #[cold]
    fn drop<T>(&mut self, why: DropReason) -> Option<T> {
        self.counters.count(why);
        None
    }

    #[cold]
    fn refuse<T>(&mut self, cause: ringway_wire::Error) -> Option<T> {
        self.counters.count_malformed(cause);
        None
    }
}

/// Where an IP packet of ours goes.
#[inline]
fn destination_of(packet: &[u8]) -> Option<IpAddress> {
    match packet.first()? >> 4 {
        4 => packet.get(16..20)?.first_chunk::<4>().map(|octets| IpAddress::from(*octets)),
        _ => packet.get(24..40)?.first_chunk::<16>().map(|octets| IpAddress::from(*octets)),
    }
}
