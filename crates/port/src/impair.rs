//! A bad line around any port: loss, delay, reordering, duplication, corruption and a limited rate, as a seed has it.
//!
//! ```text
//!   user  <-- rings of a private pool -->  Impaired  <-- copies, held until they are due -->  inner port
//! ```
//! The same seed, times and packets give the same line. What waits is bounded by [`HELD_MAX`] packets each way; then the
//! line takes no more, and the sender's ring fills.

use std::collections::BTreeMap;

use ringway_mem::pool::Sharing;

use crate::backend::{Backend, Wakers};
use crate::error::PortError;
use crate::info::{Info, Transport};
use crate::kring::{RxKring, TxKring};
use crate::port::{Port, all_rings};

/// Packets that wait on the line, each way, at most.
pub const HELD_MAX: usize = 4096;

/// How often a wait looks at the inner port, in nanoseconds: its wake-ups do not reach the outer one's user.
const LOOK_NS: u64 = 500_000;

/// How bad the line is. Probabilities are of 0 to 1, for each packet on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Impairment {
    pub seed: u64,
    pub loss: f64,
    pub duplication: f64,
    /// One bit of the packet is inverted.
    pub corruption: f64,
    /// The packet does not wait for `delay_ns`, and so overtakes those that do.
    pub reordering: f64,
    pub delay_ns: u64,
    /// Up to so much more, evenly spread.
    pub jitter_ns: u64,
    /// Bytes a second; 0 for no limit.
    pub rate_bytes_per_s: u64,
}

/// One direction of the line.
pub struct Line {
    how: Impairment,
    state: u64,
    /// By the time at which they are due, and the order in which they came.
    held: BTreeMap<(u64, u64), Vec<u8>>,
    came: u64,
    /// When the last packet at the limited rate will have gone.
    busy_until_ns: u64,
}

impl Line {
    /// `direction` sets the lines of one seed apart.
    pub fn new(how: Impairment, direction: u64) -> Line {
        let state = how.seed.wrapping_mul(2).wrapping_add(direction);
        Line { how, state, held: BTreeMap::new(), came: 0, busy_until_ns: 0 }
    }

    /// SplitMix64 (Steele, Lea, Flood 2014).
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn happens(&mut self, probability: f64) -> bool {
        ((self.random() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    /// Whether it takes no more until some have been given.
    pub fn is_full(&self) -> bool {
        self.held.len() + 2 > HELD_MAX
    }

    /// Takes a packet, and decides what becomes of it. Returns how many will come out: none, one or two.
    pub fn take(&mut self, mut packet: Vec<u8>, now_ns: u64) -> usize {
        if self.happens(self.how.loss) {
            return 0;
        }
        if self.happens(self.how.corruption) && !packet.is_empty() {
            let bit = self.random() as usize % (packet.len() * 8);
            packet[bit / 8] ^= 1 << (bit % 8);
        }
        let copies = 1 + usize::from(self.happens(self.how.duplication));
        for packet in std::iter::repeat_n(packet, copies) {
            let due_ns = self.due_at(packet.len(), now_ns);
            self.came += 1;
            self.held.insert((due_ns, self.came), packet);
        }
        copies
    }

    /// When the next packet is due, if there is one.
    pub fn due_ns(&self) -> Option<u64> {
        self.held.keys().next().map(|(due_ns, _)| *due_ns)
    }

    fn due_at(&mut self, bytes: usize, now_ns: u64) -> u64 {
        let mut due_ns = now_ns;
        if self.how.rate_bytes_per_s > 0 {
            let takes_ns = u128::from(bytes as u64) * 1_000_000_000 / u128::from(self.how.rate_bytes_per_s);
            self.busy_until_ns = self.busy_until_ns.max(now_ns).saturating_add(takes_ns as u64);
            due_ns = self.busy_until_ns;
        }
        if self.happens(self.how.reordering) {
            return due_ns;
        }
        let jitter_ns = if self.how.jitter_ns > 0 { self.random() % self.how.jitter_ns } else { 0 };
        due_ns.saturating_add(self.how.delay_ns).saturating_add(jitter_ns)
    }

    /// Hands packets that are due to `give`, until it has no room.
    pub fn give(&mut self, now_ns: u64, mut give: impl FnMut(&[u8]) -> bool) {
        while let Some(first) = self.held.first_entry().filter(|first| first.key().0 <= now_ns) {
            if !give(first.get()) {
                return;
            }
            first.remove();
        }
    }
}

struct Impaired {
    inner: Port,
    tx: Vec<Line>,
    rx: Vec<Line>,
}

/// A port that is `inner` behind a bad line.
pub fn impaired(inner: Port, how: Impairment) -> Result<Port, PortError> {
    let info = inner.info();
    let config = inner.pool().config();
    let pool = ringway_mem::pool::Pool::create(config)?;
    let registration = pool.open("impaired", info.counts, Sharing::Exclusive)?;
    let limits = vec!["packets are copied, and wait and suffer as asked".to_owned()];
    let info = Info { transport: Transport::Copy, pool_id: pool.id(), limits, ..info.clone() };
    let lines = |n: usize, direction: u64| (0..n as u64).map(|ring| Line::new(how, ring << 1 | direction)).collect();
    let (tx, rx) = (lines(inner.tx_rings(), 0), lines(inner.rx_rings(), 1));
    let mut rings = all_rings(info.counts);
    rings.retain(|(kind, index)| (*index as usize) < if kind.sends() { inner.tx_rings() } else { inner.rx_rings() });
    Port::new(registration, &rings, Box::new(Impaired { inner, tx, rx }), info)
}

impl Backend for Impaired {
    fn sync_tx(&mut self, ring: usize, tx: &TxKring, now_ns: u64) -> Result<(), PortError> {
        let line = &mut self.tx[ring];
        let pending = tx.pending();
        let (mut at, mut packets, mut bytes) = (0, 0, 0);
        while let Some(n) = (at < pending && !line.is_full()).then(|| tx.packet_slots(at, pending)).flatten() {
            let mut packet = vec![];
            tx.copy_packet(at, n, &mut packet);
            (at, packets, bytes) = (at + n, packets + 1, bytes + packet.len() as u64);
            line.take(packet, now_ns);
        }
        tx.take(at);
        tx.count(packets, bytes);
        let mut batch = self.inner.tx(ring)?;
        let mut slots = 0;
        line.give(now_ns, |packet| {
            batch.put(slots, packet).is_some_and(|n| {
                slots += n;
                true
            })
        });
        batch.send(slots);
        self.inner.sync_tx_at(ring, now_ns).map(drop)
    }

    fn sync_rx(&mut self, ring: usize, rx: &RxKring, _released: u32, now_ns: u64) -> Result<(), PortError> {
        let line = &mut self.rx[ring];
        self.inner.sync_rx_at(ring, now_ns)?;
        let batch = self.inner.rx(ring)?;
        let mut at = 0;
        while let Some(n) = (at < batch.len() && !line.is_full()).then(|| batch.packet_slots(at)).flatten() {
            let mut packet = vec![];
            batch.copy_packet(at, n, &mut packet);
            line.take(packet, now_ns);
            at += n;
        }
        batch.release(at);
        let (mut slots, mut packets, mut bytes) = (0, 0, 0);
        line.give(now_ns, |packet| {
            rx.put(slots, packet).is_some_and(|n| {
                (slots, packets, bytes) = (slots + n, packets + 1, bytes + packet.len() as u64);
                true
            })
        });
        rx.publish(slots);
        rx.count(packets, bytes);
        Ok(())
    }

    fn wakers(&self, wakers: &mut Wakers) {
        let first = self.tx.iter().chain(&self.rx).filter_map(Line::due_ns);
        first.for_each(|due_ns| wakers.at(due_ns));
        wakers.at(crate::clock::monotonic_ns() + LOOK_NS);
        self.inner.backend.wakers(wakers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open;

    /// What comes out of the line, by the time at which it does, if `n` packets go in at time 0.
    fn through(name: &str, how: Impairment, n: u32, times_ns: &[u64]) -> Vec<(u64, Vec<u8>)> {
        let (a, mut b) = (open(&format!("netmap:{name}{{0")).unwrap(), open(&format!("netmap:{name}}}0")).unwrap());
        let mut a = impaired(a, how).unwrap();
        let mut batch = a.tx(0).unwrap();
        (0..n).for_each(|i| assert_eq!(batch.put(i, &i.to_be_bytes().repeat(25)), Some(1)));
        batch.send(n);
        let mut came = vec![];
        for at_ns in times_ns {
            a.sync_tx_at(0, *at_ns).unwrap();
            b.sync_rx_at(0, *at_ns).unwrap();
            let batch = b.rx(0).unwrap();
            came.extend((0..batch.len()).map(|i| (*at_ns, batch.bytes(i).to_vec())));
            let n = batch.len();
            batch.release(n);
        }
        came
    }

    fn numbers(came: &[(u64, Vec<u8>)]) -> Vec<u32> {
        came.iter().map(|(_, packet)| u32::from_be_bytes(packet[..4].try_into().unwrap())).collect()
    }

    #[test]
    fn a_good_line_changes_nothing_and_a_seed_repeats_itself() {
        assert_eq!(numbers(&through("good", Impairment::default(), 500, &[0])), (0..500).collect::<Vec<_>>());
        let bad = Impairment { seed: 7, loss: 0.2, duplication: 0.1, corruption: 0.1, ..Impairment::default() };
        let first = through("bad", bad, 1000, &[0, 0]);
        assert!(first == through("bad", bad, 1000, &[0, 0]));
        assert!(first != through("bad", Impairment { seed: 8, ..bad }, 1000, &[0, 0]));
        assert!((780..980).contains(&first.len()), "{} of 1000 came", first.len());
        let broken = first.iter().filter(|(_, packet)| packet[..4] != packet[4..8] || packet[..96] != packet[4..]);
        assert!((40..160).contains(&broken.count()));
    }

    #[test]
    fn delay_and_reordering() {
        let how = Impairment { delay_ns: 1000, reordering: 0.1, ..Impairment::default() };
        let came = through("late", how, 500, &[0, 999, 1000]);
        assert_eq!(came.len(), 500);
        let early = came.iter().filter(|(at, _)| *at == 0).count();
        assert!((20..90).contains(&early), "{early}");
        assert!(came.iter().all(|(at, _)| *at != 999));
        let late = numbers(&came[early..]);
        assert!(late.is_sorted());
    }

    #[test]
    fn a_limited_rate_lets_so_many_bytes_through() {
        let how = Impairment { rate_bytes_per_s: 1_000_000, ..Impairment::default() };
        let came = through("slow", how, 500, &[0, 10_000_000, 50_000_000]);
        let by = |time_ns| came.iter().filter(|(at, _)| *at <= time_ns).count();
        assert_eq!((by(0), by(10_000_000), by(50_000_000)), (0, 100, 500));
    }
}
