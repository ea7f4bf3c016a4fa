//! A learning bridge (IEEE 802.1D, 7.8 and 7.9): frames go to the port where their destination was last seen, all
//! others to everybody.
//!
//! ```text
//!   station (64 bits) = address 48 | age 8 | port + 1 8         8 of them are a set, one cache line
//!   set of an address = its hash; a set that is full gives up its oldest station
//! ```
//! A station is one word, so readers and writers need no lock, and the table may lie in memory that several processes
//! share. Two senders that learn one address at the same time may leave it in a set twice; the next one that learns it
//! sets that right.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::frame::is_group;
use crate::{Forward, Frame, Source, Verdict};

/// Stations of a set.
const WAYS: usize = 8;
/// A station that was not heard of for so long is forgotten (802.1D, table 7-5).
pub const AGEING_S: u64 = 300;
/// Ages are counted in units of this; 128 of them are the ageing time.
const TICK_NS: u64 = AGEING_S * 1_000_000_000 / 128;
/// Ticks after which a station has aged out.
const TICKS_MAX: u8 = 128;

/// A bridge over a table of its own (`Bridge::new`) or in shared memory.
pub struct Bridge<T> {
    table: T,
}

/// One word of the table; zero is none.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Station(u64);

impl Station {
    fn new(mac: u64, tick: u8, port: u8) -> Station {
        Station(mac << 16 | u64::from(tick) << 8 | (u64::from(port) + 1))
    }

    fn mac(self) -> u64 {
        self.0 >> 16
    }

    fn age(self, tick: u8) -> u8 {
        tick.wrapping_sub((self.0 >> 8) as u8)
    }

    fn port(self) -> Option<u8> {
        (self.0 as u8).checked_sub(1)
    }

    fn is_valid(self, tick: u8) -> bool {
        self.0 != 0 && self.age(tick) < TICKS_MAX
    }
}

impl Bridge<Box<[AtomicU64]>> {
    /// A bridge for at least `stations` addresses (up to 2^20), in memory of its own.
    pub fn new(stations: usize) -> Self {
        let words = stations.clamp(WAYS, 1 << 20).next_power_of_two();
        Bridge::over((0..words).map(|_| AtomicU64::new(0)).collect())
    }
}

impl<T: Deref<Target = [AtomicU64]>> Bridge<T> {
    /// A bridge whose stations are in `table`: a power of two of words, at least 8.
    ///
    /// # Panics
    /// If it is anything else.
    pub fn over(table: T) -> Self {
        assert!(table.len().is_power_of_two() && table.len() >= WAYS, "{} words are no table", table.len());
        Bridge { table }
    }

    /// Stations that have not aged out: address, port, age in seconds.
    pub fn stations(&self, now_ns: u64) -> impl Iterator<Item = (u64, u8, u64)> {
        let tick = tick(now_ns);
        let words = self.table.iter().map(|word| Station(word.load(Relaxed)));
        words.filter(move |station| station.is_valid(tick)).filter_map(move |station| {
            Some((station.mac(), station.port()?, u64::from(station.age(tick)) * TICK_NS / 1_000_000_000))
        })
    }

    /// Index of the first word of an address's set.
    #[inline]
    fn first(&self, mac: u64) -> usize {
        // The upper bits of a product mix all lower ones (Fibonacci hashing).
        let hash = mac.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (hash as usize * WAYS) & (self.table.len() - 1)
    }

    #[inline]
    fn set(&self, mac: u64) -> &[AtomicU64] {
        let first = self.first(mac);
        &self.table[first..first + WAYS]
    }

    #[inline]
    fn find(&self, mac: u64, tick: u8) -> Option<u8> {
        let found = self.set(mac).iter().map(|word| Station(word.load(Relaxed)));
        found.filter(|station| station.mac() == mac && station.is_valid(tick)).find_map(Station::port)
    }

    /// `mac` is at `port`: its station is renewed, or takes an empty word, or the oldest one's. Returns the word's index.
    fn learn(&self, mac: u64, port: u8, tick: u8) -> usize {
        let (mut place, mut found, mut oldest) = (0, false, 0);
        for (n, word) in self.set(mac).iter().enumerate() {
            let station = Station(word.load(Relaxed));
            let age = if station.is_valid(tick) { station.age(tick) } else { u8::MAX };
            if station.mac() == mac {
                if found {
                    let _ = word.compare_exchange(station.0, 0, Relaxed, Relaxed);
                } else {
                    (place, found) = (n, true);
                }
            } else if !found && age > oldest {
                (place, oldest) = (n, age);
            }
        }
        let index = self.first(mac) + place;
        self.table[index].store(Station::new(mac, tick, port).0, Relaxed);
        index
    }
}

fn tick(now_ns: u64) -> u8 {
    (now_ns / TICK_NS) as u8
}

impl<T: Deref<Target = [AtomicU64]> + Send + Sync> Forward for Bridge<T> {
    fn lookup(&self, source: &mut Source, now_ns: u64, frames: &mut [Frame]) {
        let tick = tick(now_ns);
        let (mut last, mut last_port) = (0, None);
        for frame in frames {
            // What this ring has last taught needs no second lesson within a tick, unless another port has taught
            // otherwise since (VALE's cache of the last source lets that pass, and the station is lost for a while).
            let from = frame.source();
            let lesson = Station::new(from, tick, source.port).0;
            let is_known = self.table[source.memory as usize & (self.table.len() - 1)].load(Relaxed) == lesson;
            if !is_known && frame.may_learn() && !is_group(from) && from != 0 {
                source.memory = self.learn(from, source.port, tick) as u64;
                last_port = None;
            }
            let to = frame.destination();
            if to != last || last_port.is_none() {
                (last, last_port) = (to, if is_group(to) { None } else { self.find(to, tick) });
            }
            frame.verdict = match last_port {
                Some(port) if port == source.port => Verdict::Drop,
                Some(port) => Verdict::To { port, ring: source.ring },
                None => Verdict::Broadcast,
            };
        }
    }

    fn port_left(&self, port: u8) {
        for word in self.table.iter() {
            let station = word.load(Relaxed);
            if Station(station).port() == Some(port) {
                let _ = word.compare_exchange(station, 0, Relaxed, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn frame(to: u64, from: u64) -> Frame {
        let mut bytes = [0; 60];
        bytes[..6].copy_from_slice(&to.to_be_bytes()[2..]);
        bytes[6..12].copy_from_slice(&from.to_be_bytes()[2..]);
        Frame::of(&bytes)
    }

    fn ask(bridge: &dyn Forward, port: u8, now_s: u64, to: u64, from: u64) -> Verdict {
        let mut frames = [frame(to, from)];
        bridge.lookup(&mut Source { port, ..Source::default() }, now_s * S, &mut frames);
        frames[0].verdict
    }

    const fn to(port: u8) -> Verdict {
        Verdict::To { port, ring: 0 }
    }

    #[test]
    fn stations_are_learnt_move_and_age() {
        let bridge = Bridge::new(1024);
        assert_eq!(ask(&bridge, 1, 0, 0xb, 0xa), Verdict::Broadcast);
        assert_eq!(ask(&bridge, 2, 0, 0xa, 0xb), to(1));
        assert_eq!(ask(&bridge, 1, 0, 0xb, 0xa), to(2));
        // It moves.
        assert_eq!(ask(&bridge, 3, 1, 0xb, 0xa), to(2));
        assert_eq!(ask(&bridge, 2, 1, 0xa, 0xb), to(3));
        assert_eq!(ask(&bridge, 3, 1, 0xa, 0xc), Verdict::Drop);
        // It is heard of for the last time at 1 s.
        assert_eq!(ask(&bridge, 2, 290, 0xa, 0xb), to(3));
        assert_eq!(ask(&bridge, 2, 305, 0xa, 0xb), Verdict::Broadcast);
        bridge.port_left(2);
        assert_eq!(ask(&bridge, 1, 305, 0xb, 0xa), Verdict::Broadcast);
    }

    #[test]
    fn groups_are_sent_to_all_and_never_learnt() {
        let bridge = Bridge::new(1024);
        let group = 0x0100_5e00_0001;
        assert_eq!(ask(&bridge, 1, 0, group, 0xa), Verdict::Broadcast);
        assert_eq!(ask(&bridge, 1, 0, 0xffff_ffff_ffff, group), Verdict::Broadcast);
        assert_eq!(ask(&bridge, 2, 0, group, 0xb), Verdict::Broadcast);
        assert_eq!(bridge.stations(0).map(|(mac, port, _)| (mac, port)).collect::<Vec<_>>().len(), 2);
    }

    #[test]
    fn who_is_not_to_be_learnt_is_not() {
        let bridge = Bridge::new(1024);
        let mut frames = [frame(0xb, 0xa)];
        frames[0].flags = ringway_mem::slot::NS_NO_LEARN;
        bridge.lookup(&mut Source { port: 1, ..Source::default() }, 0, &mut frames);
        assert_eq!(bridge.stations(0).count(), 0);
    }

    /// More stations than there is room for: the newest are known, and the table does not grow.
    #[test]
    fn a_full_table_forgets_the_oldest() {
        let bridge = Bridge::new(64);
        for mac in 1..=1000 {
            ask(&bridge, 1, mac / 10, 0xffff_ffff_ffff, mac);
        }
        assert!(bridge.stations(100 * S).count() <= 64);
        assert_eq!(ask(&bridge, 2, 100, 1000, 0xfffe), to(1));
    }

    /// Two ports that claim one station in turns: the last one has it, however quickly they do.
    #[test]
    fn a_station_that_moves_back_at_once_is_found() {
        let bridge = Bridge::new(64);
        let (mut one, mut two) = (Source { port: 1, ..Source::default() }, Source { port: 2, ..Source::default() });
        for _ in 0..3 {
            bridge.lookup(&mut one, 0, &mut [frame(0xb, 0xa)]);
            assert_eq!(bridge.find(0xa, 0), Some(1));
            bridge.lookup(&mut two, 0, &mut [frame(0xb, 0xa)]);
            assert_eq!(bridge.find(0xa, 0), Some(2));
        }
    }

    #[test]
    fn a_station_is_renewed_in_each_tick() {
        let (bridge, mut source) = (Bridge::new(64), Source { port: 1, ..Source::default() });
        for tick in 0..200 {
            bridge.lookup(&mut source, tick * TICK_NS, &mut [frame(0xb, 0xa)]);
            assert_eq!(bridge.stations(tick * TICK_NS).map(|(_, _, age_s)| age_s).collect::<Vec<_>>(), [0]);
        }
    }
}
