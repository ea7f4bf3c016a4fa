//! One direction of a link: a queue with a bound, a rate at which it empties, and a delay.

use std::collections::VecDeque;

use ringway_tcp::Instant;
use ringway_wire::{Ecn, ipv4};

use crate::fault::{FaultInjector, Faults};
use crate::random::Random;

/// What a link is like.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// 0 means infinitely fast.
    pub bits_per_s: u64,
    pub delay_us: u64,
    /// What does not fit into the queue is dropped.
    pub queue_bytes: usize,
    /// Packets that find more than this in the queue are marked if they are ECN-capable.
    pub mark_above_bytes: usize,
    /// Largest packet.
    pub mtu: usize,
    /// Changes of the MTU: from the time in microseconds on.
    pub mtu_changes: Vec<(u64, usize)>,
    /// Whether a router in front says which packets were too large, rather than be silent (a PMTU black hole).
    pub tells_too_large: bool,
    pub faults: Faults,
}

impl Default for LinkConfig {
    fn default() -> LinkConfig {
        LinkConfig {
            bits_per_s: 0,
            delay_us: 0,
            queue_bytes: usize::MAX,
            mark_above_bytes: usize::MAX,
            mtu: 1500,
            mtu_changes: Vec::new(),
            tells_too_large: true,
            faults: Faults::default(),
        }
    }
}

/// What became of the packets that entered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    pub entered: u64,
    pub bytes: u64,
    pub overflowed: u64,
    pub lost: u64,
    pub too_large: u64,
    pub marked: u64,
    pub corrupted: u64,
    pub queue_bytes_most: usize,
}

/// What the link did with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It (or copies of it) comes out at these times.
    Through(Vec<Instant>),
    Lost,
    /// It is larger than the link takes: at most this.
    TooLarge(usize),
}

/// A link at work.
#[derive(Clone, Debug)]
pub struct Link {
    config: LinkConfig,
    faults: FaultInjector,
    /// When each packet in the queue has left it, and its length.
    queue: VecDeque<(u64, usize)>,
    queued_bytes: usize,
    free_at_ns: u64,
    stats: LinkStats,
}

impl Link {
    pub fn new(config: LinkConfig, random: Random) -> Link {
        let faults = FaultInjector::new(config.faults.clone(), random);
        let stats = LinkStats::default();
        Link { config, faults, queue: VecDeque::new(), queued_bytes: 0, free_at_ns: 0, stats }
    }

    pub fn stats(&self) -> LinkStats {
        self.stats
    }

    /// The largest packet that passes at `now`.
    pub fn mtu(&self, now: Instant) -> usize {
        let latest = self.config.mtu_changes.iter().rfind(|(at_us, _)| *at_us <= now.us());
        latest.map_or(self.config.mtu, |(_, mtu)| *mtu)
    }

    pub fn tells_too_large(&self) -> bool {
        self.config.tells_too_large
    }

    /// A packet enters at `now`; the link may mark or corrupt it.
    pub fn enter(&mut self, now: Instant, packet: &mut [u8]) -> Passage {
        self.stats.entered += 1;
        let mtu = self.mtu(now);
        if packet.len() > mtu {
            self.stats.too_large += 1;
            return Passage::TooLarge(mtu);
        }
        let now_ns = now.us() * 1000;
        self.drain(now_ns);
        if self.queued_bytes.saturating_add(packet.len()) > self.config.queue_bytes {
            self.stats.overflowed += 1;
            return Passage::Lost;
        }
        if self.queued_bytes > self.config.mark_above_bytes && mark(packet) {
            self.stats.marked += 1;
        }
        let departure_ns = self.queue_up(now_ns, packet.len());
        let fate = self.faults.decide(now, packet.len());
        if let Some((at, change)) = fate.corrupted {
            packet[at] ^= change;
            self.stats.corrupted += 1;
        }
        if fate.copies_us.is_empty() {
            self.stats.lost += 1;
            return Passage::Lost;
        }
        let out = Instant::from_us(departure_ns.div_ceil(1000)) + self.config.delay_us;
        Passage::Through(fate.copies_us.into_iter().map(|later_us| out + later_us).collect())
    }

    fn drain(&mut self, now_ns: u64) {
        while let Some((_, len)) = self.queue.pop_front_if(|(left_ns, _)| *left_ns <= now_ns) {
            self.queued_bytes -= len;
        }
    }

    /// Answers when the packet has left the queue.
    fn queue_up(&mut self, now_ns: u64, len: usize) -> u64 {
        self.stats.bytes += len as u64;
        if self.config.bits_per_s == 0 {
            return now_ns;
        }
        let takes_ns = (len as u128 * 8_000_000_000 / u128::from(self.config.bits_per_s)) as u64;
        self.free_at_ns = self.free_at_ns.max(now_ns) + takes_ns;
        self.queue.push_back((self.free_at_ns, len));
        self.queued_bytes += len;
        self.stats.queue_bytes_most = self.stats.queue_bytes_most.max(self.queued_bytes);
        self.free_at_ns
    }
}

/// Sets CE on an ECN-capable IPv4 packet; answers whether it did.
fn mark(packet: &mut [u8]) -> bool {
    let Ok(view) = ipv4::Packet::new_checked(packet) else { return false };
    if view.ecn() == Ecn::NotEct || view.ecn() == Ecn::Ce {
        return false;
    }
    let before = u16::from_be_bytes([packet[0], packet[1]]);
    packet[1] |= Ecn::Ce as u8;
    let after = u16::from_be_bytes([packet[0], packet[1]]);
    // RFC 1624: HC' = ~(~HC + ~m + m').
    let sum = u32::from(!u16::from_be_bytes([packet[10], packet[11]])) + u32::from(!before) + u32::from(after);
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    packet[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use ringway_wire::Protocol;

    use super::*;

    fn link(change: impl FnOnce(&mut LinkConfig)) -> Link {
        let mut config = LinkConfig::default();
        change(&mut config);
        Link::new(config, Random::new(1))
    }

    fn arrival(link: &mut Link, us: u64, len: usize) -> Option<u64> {
        match link.enter(Instant::from_us(us), &mut vec![0; len]) {
            Passage::Through(times) => Some(times[0].us()),
            Passage::Lost => None,
            Passage::TooLarge(_) => panic!("too large"),
        }
    }

    #[test]
    fn packets_wait_for_those_before_them() {
        // A kilobyte takes 1 ms.
        let mut link = link(|config| (config.bits_per_s, config.delay_us) = (8_000_000, 10_000));
        assert_eq!(arrival(&mut link, 0, 1000), Some(11_000));
        assert_eq!(arrival(&mut link, 0, 1000), Some(12_000));
        assert_eq!(arrival(&mut link, 5000, 500), Some(15_500));
    }

    #[test]
    fn a_full_queue_drops_its_tail() {
        let mut link = link(|config| (config.bits_per_s, config.queue_bytes) = (8_000_000, 2500));
        assert!(arrival(&mut link, 0, 1000).is_some() && arrival(&mut link, 0, 1000).is_some());
        assert_eq!(arrival(&mut link, 0, 1000), None);
        assert!(arrival(&mut link, 1000, 1000).is_some(), "one has left");
        assert_eq!((link.stats().overflowed, link.stats().queue_bytes_most), (1, 2000));
    }

    #[test]
    fn the_mtu_changes_at_its_time() {
        let mut link = link(|config| config.mtu_changes = vec![(100, 576)]);
        assert!(arrival(&mut link, 99, 1500).is_some());
        assert_eq!(link.enter(Instant::from_us(100), &mut [0; 1500]), Passage::TooLarge(576));
    }

    #[test]
    fn marks_keep_the_header_checksum_right() {
        let mut repr = ipv4::Repr::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), Protocol::TCP, 20);
        for (ecn, marked) in [(Ecn::Ect0, true), (Ecn::Ect1, true), (Ecn::NotEct, false), (Ecn::Ce, false)] {
            repr.traffic_class = 0xb8 | ecn as u8;
            let mut packet = [0; 40];
            repr.emit(&mut packet).unwrap();
            assert_eq!(mark(&mut packet), marked);
            let view = ipv4::Packet::new_checked(&packet).unwrap();
            assert!(view.verify_checksum());
            assert_eq!(view.ecn() == Ecn::Ce, marked || ecn == Ecn::Ce);
            assert_eq!(view.traffic_class() & !3, 0xb8);
        }
    }
}
