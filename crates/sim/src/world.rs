//! Hosts, the paths between them, and the loop that lets time pass.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::Ipv4Addr;

use ringway_tcp::{Engine, Event, Instant, PacketBatch};
use ringway_wire::{IpAddress, Protocol, icmpv4, ipv4};

use crate::link::{Link, LinkConfig, LinkStats, Passage};
use crate::random::Random;
use crate::tap::Tap;
use crate::trace::{self, Happening};

/// Packets that a host sends before others have their turn.
const BURST_PACKETS: usize = 32;
/// An engine that does not stop sending at one point in time is broken.
const BURSTS_MAX: usize = 1 << 16;
/// Octets of the packet that an ICMP error quotes.
const QUOTE_BYTES: usize = 28;

/// A host's number.
pub type HostId = usize;
/// A link's number.
pub type LinkId = usize;

/// A host: an engine at an address.
pub struct Host {
    pub engine: Engine,
    pub address: Ipv4Addr,
    /// For each other host, the links to it.
    paths: Vec<(HostId, Vec<LinkId>)>,
}

/// A packet under way, in the order of arrival; of those that arrive together, as they were sent.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flying {
    at: Instant,
    order: u64,
    to: HostId,
    from: HostId,
    /// Links that it has passed.
    hops: usize,
    packet: Vec<u8>,
}

/// The network.
pub struct World {
    pub now: Instant,
    pub hosts: Vec<Host>,
    pub tap: Tap,
    events: Vec<(HostId, Event)>,
    links: Vec<Link>,
    flying: BinaryHeap<Reverse<Flying>>,
    order: u64,
    steps: u64,
    random: Random,
    traced: bool,
}

impl World {
    pub fn new(seed: u64) -> World {
        World {
            now: Instant::from_ms(1000),
            hosts: Vec::new(),
            tap: Tap::default(),
            events: Vec::new(),
            links: Vec::new(),
            flying: BinaryHeap::new(),
            order: 0,
            steps: 0,
            random: Random::new(seed),
            traced: std::env::var_os(trace::VARIABLE).is_some(),
        }
    }

    /// Adds a host; its address is 10.0.0.1 for the first, and so on.
    pub fn add_host(&mut self, config: ringway_tcp::Config) -> HostId {
        let id = self.hosts.len();
        let seed = self.random.part(1000 + id as u64).number();
        let address = Ipv4Addr::from(0x0a00_0001 + id as u32);
        self.hosts.push(Host { engine: Engine::new(config, seed), address, paths: Vec::new() });
        id
    }

    pub fn add_link(&mut self, config: LinkConfig) -> LinkId {
        let id = self.links.len();
        self.links.push(Link::new(config, self.random.part(id as u64)));
        id
    }

    /// Packets from one host to another take `links` in this order. Links may be shared.
    pub fn set_path(&mut self, from: HostId, to: HostId, links: &[LinkId]) {
        let paths = &mut self.hosts[from].paths;
        paths.retain(|(other, _)| *other != to);
        paths.push((to, links.to_vec()));
    }

    pub fn link_stats(&self, link: LinkId) -> LinkStats {
        self.links[link].stats()
    }

    /// Steps taken so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Whether nothing is under way and no engine waits for anything: time may pass, nothing will happen.
    pub fn is_asleep(&self) -> bool {
        self.flying.is_empty() && self.hosts.iter().all(|host| host.engine.next_deadline().is_none())
    }

    /// Lets everything leave that wants to, then goes to the next arrival or deadline, but not beyond `until`, and
    /// lets it happen. Answers whether there was one.
    pub fn step(&mut self, until: Instant) -> bool {
        self.flush();
        let arrival = self.flying.peek().map(|Reverse(flying)| flying.at);
        let deadline = self.hosts.iter().filter_map(|host| host.engine.next_deadline()).min();
        let Some(at) = arrival.into_iter().chain(deadline).min().filter(|at| *at <= until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = self.now.max(at);
        self.steps += 1;
        while self.flying.peek().is_some_and(|Reverse(flying)| flying.at <= self.now) {
            let Some(Reverse(flying)) = self.flying.pop() else { break };
            self.arrive(flying);
        }
        for host in &mut self.hosts {
            if host.engine.next_deadline().is_some_and(|at| at <= self.now) {
                host.engine.on_timer(self.now);
            }
        }
        self.flush();
        true
    }

    /// Lets `us` pass.
    pub fn run_for(&mut self, us: u64) {
        let until = self.now + us;
        while self.step(until) {}
    }

    /// What engines have told applications since the last call: edges.
    pub fn take_events(&mut self) -> Vec<(HostId, Event)> {
        core::mem::take(&mut self.events)
    }

    /// Whether applications have something to learn before time passes.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Lets all packets leave that engines want to send, and takes their events.
    pub fn flush(&mut self) {
        for from in 0..self.hosts.len() {
            let mut batch = PacketBatch::new(BURST_PACKETS);
            for burst in 0.. {
                assert!(burst < BURSTS_MAX, "host {from} does not stop sending at {:?}", self.now);
                batch.clear();
                let done = self.hosts[from].engine.poll_transmit(self.now, &mut batch);
                for packet in batch.iter() {
                    self.depart(from, packet.to_vec());
                }
                if done {
                    break;
                }
            }
            let mut events = Vec::new();
            self.hosts[from].engine.poll_events(&mut events, usize::MAX);
            self.events.extend(events.into_iter().map(|event| (from, event)));
        }
    }

    fn depart(&mut self, from: HostId, packet: Vec<u8>) {
        self.trace(Happening::Sent, &packet);
        self.tap.on_sent(self.now, &packet, self.hosts[from].engine.config().mtu as usize);
        let destination = ipv4::Packet::new_checked(&packet).map(|view| view.destination());
        let Some(to) = self.hosts.iter().position(|host| Ok(host.address) == destination) else { return };
        self.forward(Flying { at: self.now, order: 0, to, from, hops: 0, packet });
    }

    /// Hands a packet to its next link, or to its host behind the last.
    fn arrive(&mut self, flying: Flying) {
        let links = self.hosts[flying.from].paths.iter().find(|(to, _)| *to == flying.to).map_or(0, |(_, p)| p.len());
        if flying.hops < links {
            self.forward(flying);
            return;
        }
        self.trace(Happening::Delivered, &flying.packet);
        self.tap.on_delivered(&flying.packet);
        self.hosts[flying.to].engine.on_packet(self.now, &flying.packet);
    }

    fn forward(&mut self, mut flying: Flying) {
        let path = self.hosts[flying.from].paths.iter().find(|(to, _)| *to == flying.to);
        let Some(link) = path.and_then(|(_, links)| links.get(flying.hops).copied()) else { return };
        match self.links[link].enter(self.now, &mut flying.packet) {
            Passage::Lost => self.trace(Happening::Lost, &flying.packet),
            Passage::TooLarge(mtu) => self.too_large(link, mtu, &flying),
            Passage::Through(times) => {
                for at in times {
                    self.order += 1;
                    let copy = Flying { at, order: self.order, packet: flying.packet.clone(), ..flying };
                    self.flying.push(Reverse(Flying { hops: flying.hops + 1, ..copy }));
                }
            }
        }
    }

    /// RFC 1191 4: the router before the link tells the sender.
    fn too_large(&mut self, link: LinkId, mtu: usize, flying: &Flying) {
        if !self.links[link].tells_too_large() {
            return;
        }
        let quoted = &flying.packet[..QUOTE_BYTES.min(flying.packet.len())];
        let code = icmpv4::unreachable::FRAGMENTATION_NEEDED;
        let message = icmpv4::Repr::DestinationUnreachable { code, mtu: mtu as u16, quoted };
        let (router, sender) = (self.hosts[flying.to].address, self.hosts[flying.from].address);
        let repr = ipv4::Repr::new(router, sender, Protocol::ICMP, message.message_len());
        let mut packet = vec![0; ipv4::HEADER_LEN + message.message_len()];
        let written = repr.emit(&mut packet).and_then(|payload| message.emit(payload));
        assert!(written.is_ok(), "an ICMP message of its own length: {written:?}");
        self.hosts[flying.from].engine.on_packet(self.now, &packet);
    }

    fn trace(&self, happening: Happening, packet: &[u8]) {
        if self.traced {
            eprintln!("{}", trace::line(self.now, happening, packet));
        }
    }

    /// The address of a host, for endpoints.
    pub fn address(&self, host: HostId) -> IpAddress {
        self.hosts[host].address.into()
    }
}
