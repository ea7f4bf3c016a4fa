//! A port in the user's hands: rings, syncs, waiting.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ringway_mem::pool::{Kind, Pool, Registration, Ring, RingCounts};

use crate::backend::{Backend, Wakers};
use crate::batch::{RxBatch, TxBatch};
use crate::check;
use crate::clock;
use crate::error::PortError;
use crate::info::{Counters, Info};
use crate::kring::{RxKring, TxKring, append};
use crate::observe::{Direction, Observer};
use crate::pcap::{PACKET_BYTES_MAX, wall_clock_ns};
use crate::watched::Watched;

/// An open port. Dropping it closes it; what was sent but not synced is lost, as in netmap.
///
/// One thread uses it at a time (`Send`, not `Sync`); ports opened on other rings of the same name, in other
/// threads or processes, are independent of it.
pub struct Port {
    info: Info,
    tx: Vec<Sending>,
    rx: Vec<Receiving>,
    pub(crate) backend: Box<dyn Backend>,
    observers: Vec<Box<dyn Observer>>,
    registration: Registration,
    /// Dropped after the registration.
    kept: Vec<Box<dyn Send>>,
}

/// A ring from both sides: the user's handle, and the port's.
struct Sending {
    user: Ring,
    kring: TxKring,
    watched: Watched,
    /// For observers: the beginning of a packet whose end has not come.
    partial: Vec<u8>,
}

struct Receiving {
    user: Ring,
    kring: RxKring,
    watched: Watched,
    partial: Vec<u8>,
}

/// What to wait for, and what came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// A tx ring with free slots beyond its cur.
    pub tx: bool,
    /// An rx ring with slots beyond its cur.
    pub rx: bool,
}

impl Ready {
    pub const TX: Ready = Ready { tx: true, rx: false };
    pub const RX: Ready = Ready { tx: false, rx: true };
    pub const BOTH: Ready = Ready { tx: true, rx: true };

    fn any(self) -> bool {
        self.tx || self.rx
    }
}

/// Which rings of a port to use, by kind and number.
pub type Rings = Vec<(Kind, u32)>;

impl Port {
    /// A port over a registration: `rings` of it (in the order in which they get their numbers here), served by `backend`.
    pub fn new(
        registration: Registration,
        rings: &Rings,
        backend: Box<dyn Backend>,
        info: Info,
    ) -> Result<Port, PortError> {
        let (mut tx, mut rx) = (vec![], vec![]);
        for (kind, index) in rings {
            let ring = registration.pool().ring(registration.port(), *kind, *index);
            let rings = info.counts.of(*kind);
            let user = ring.ok_or(PortError::NoRing { ring: *index, rings })?;
            if kind.sends() {
                let kring = TxKring::new(user.clone());
                tx.push(Sending { kring, user, watched: Watched::default(), partial: vec![] });
            } else {
                let kring = RxKring::new(user.clone());
                rx.push(Receiving { kring, user, watched: Watched::default(), partial: vec![] });
            }
        }
        Ok(Port { info, tx, rx, backend, observers: vec![], registration, kept: vec![] })
    }

    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Says one more thing that the user should know before trusting results.
    pub fn add_limit(&mut self, limit: Option<String>) {
        self.info.limits.extend(limit);
    }

    /// Keeps a thing until the port is closed; it is dropped right after that.
    pub fn keep(&mut self, thing: impl Send + 'static) {
        self.kept.push(Box::new(thing));
    }

    /// How many tx rings can be used here; their numbers are 0 up to that.
    pub fn tx_rings(&self) -> usize {
        self.tx.len()
    }

    /// The same for rx rings.
    pub fn rx_rings(&self) -> usize {
        self.rx.len()
    }

    pub fn pool(&self) -> &Arc<Pool> {
        self.registration.pool()
    }

    pub fn registration(&self) -> &Registration {
        &self.registration
    }

    pub fn registration_mut(&mut self) -> &mut Registration {
        &mut self.registration
    }

    /// The user's side of a tx ring; its words are the user's to write.
    pub fn tx_ring(&self, ring: usize) -> Option<&Ring> {
        self.tx.get(ring).map(|sending| &sending.user)
    }

    /// The same for rx rings.
    pub fn rx_ring(&self, ring: usize) -> Option<&Ring> {
        self.rx.get(ring).map(|receiving| &receiving.user)
    }

    /// What ends a wait besides somebody moving the rings.
    pub fn wakers(&self) -> Wakers {
        let mut wakers = Wakers::default();
        self.backend.wakers(&mut wakers);
        wakers
    }

    /// The port's descriptor: mapping it gives the pool with the rings.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.registration.fd()
    }

    /// Has `observer` see all packets from now on, after those that observe already.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observers.push(observer);
    }

    /// Slots to fill of a tx ring.
    pub fn tx(&mut self, ring: usize) -> Result<TxBatch<'_>, PortError> {
        let rings = self.tx.len() as u32;
        let sending = self.tx.get_mut(ring).ok_or(PortError::NoRing { ring: ring as u32, rings })?;
        Ok(TxBatch::new(&mut sending.user))
    }

    /// Received slots of an rx ring.
    pub fn rx(&mut self, ring: usize) -> Result<RxBatch<'_>, PortError> {
        let rings = self.rx.len() as u32;
        let receiving = self.rx.get_mut(ring).ok_or(PortError::NoRing { ring: ring as u32, rings })?;
        Ok(RxBatch::new(&mut receiving.user))
    }

    /// Received slots and slots to fill together, to pass packets on within one port.
    pub fn both(&mut self, rx: usize, tx: usize) -> Result<(RxBatch<'_>, TxBatch<'_>), PortError> {
        let (rx_rings, tx_rings) = (self.rx.len() as u32, self.tx.len() as u32);
        let receiving = self.rx.get_mut(rx).ok_or(PortError::NoRing { ring: rx as u32, rings: rx_rings })?;
        let sending = self.tx.get_mut(tx).ok_or(PortError::NoRing { ring: tx as u32, rings: tx_rings })?;
        Ok((RxBatch::new(&mut receiving.user), TxBatch::new(&mut sending.user)))
    }

    /// Sends what was filled (netmap's NIOCTXSYNC for one ring); returns how many slots are free then.
    pub fn sync_tx(&mut self, ring: usize) -> Result<u32, PortError> {
        self.sync_tx_at(ring, clock::monotonic_ns())
    }

    /// Gives back what was released and receives (NIOCRXSYNC); returns how many slots there are then.
    pub fn sync_rx(&mut self, ring: usize) -> Result<u32, PortError> {
        self.sync_rx_at(ring, clock::monotonic_ns())
    }

    /// Like [`Port::sync_tx`], with the time as an argument.
    pub fn sync_tx_at(&mut self, ring: usize, now_ns: u64) -> Result<u32, PortError> {
        let rings = self.tx.len() as u32;
        let sending = self.tx.get_mut(ring).ok_or(PortError::NoRing { ring: ring as u32, rings })?;
        let Sending { user, kring, watched, partial } = sending;
        let held = user.kring().own.lock.lock().map_err(|_| PortError::Busy)?;
        if held.owner_died() {
            self.backend.sender_died(ring);
        }
        let before = user.kring().own.rhead.load(Relaxed);
        check::accept(user)?;
        let rhead = user.kring().own.rhead.load(Relaxed);
        if !self.observers.is_empty() {
            show(&mut self.observers, Direction::Sent, ring, user, (before, rhead), partial);
        }
        watched.passed(user, before, rhead);
        self.backend.sync_tx(ring, kring, now_ns)?;
        check::finish(user, user.kring().hwtail.get(user.num_slots()));
        Ok(user.distance(rhead, shown_tail(user)))
    }

    /// Like [`Port::sync_rx`], with the time as an argument.
    pub fn sync_rx_at(&mut self, ring: usize, now_ns: u64) -> Result<u32, PortError> {
        let rings = self.rx.len() as u32;
        let receiving = self.rx.get_mut(ring).ok_or(PortError::NoRing { ring: ring as u32, rings })?;
        let Receiving { user, kring, watched, partial } = receiving;
        let _held = user.kring().own.lock.lock().map_err(|_| PortError::Busy)?;
        check::accept(user)?;
        let hwcur = user.kring().hwcur.get(user.num_slots());
        let rhead = user.kring().own.rhead.load(Relaxed);
        watched.released(user, hwcur, rhead);
        user.kring().hwcur.set(rhead);
        self.backend.sync_rx(ring, kring, user.distance(hwcur, rhead), now_ns)?;
        let (before, hwtail) = (shown_tail(user), user.kring().hwtail.get(user.num_slots()));
        if !self.observers.is_empty() {
            show(&mut self.observers, Direction::Received, ring, user, (before, hwtail), partial);
        }
        watched.passed(user, before, hwtail);
        check::finish(user, hwtail);
        Ok(user.distance(rhead, shown_tail(user)))
    }

    /// Syncs all rings that `interest` names until one is ready or the time is over, sleeping in between. Like netmap's
    /// poll(): it does the I/O. None waits for ever.
    pub fn wait(&mut self, interest: Ready, timeout: Option<Duration>) -> Result<Ready, PortError> {
        let deadline_ns = timeout.map(|t| clock::monotonic_ns().saturating_add(t.as_nanos() as u64));
        loop {
            let ready = self.sync_for(interest)?;
            let now_ns = clock::monotonic_ns();
            if ready.any() || deadline_ns.is_some_and(|deadline| now_ns >= deadline) {
                return Ok(ready);
            }
            let turn = self.arm(interest);
            let ready = self.sync_for(interest)?;
            if ready.any() {
                return Ok(ready);
            }
            self.sleep(turn, deadline_ns, now_ns)?;
        }
    }

    /// Syncs and looks which rings have moved past their cur.
    pub fn sync_for(&mut self, interest: Ready) -> Result<Ready, PortError> {
        let now_ns = clock::monotonic_ns();
        let mut ready = Ready::default();
        for ring in 0..self.tx.len() {
            let user = &self.tx[ring].user;
            let unsent = user.header().head.load(Relaxed) != user.kring().hwcur.get(user.num_slots());
            if unsent || interest.tx {
                self.sync_tx_at(ring, now_ns)?;
            }
            ready.tx |= interest.tx && beyond_cur(&self.tx[ring].user);
        }
        for ring in 0..if interest.rx { self.rx.len() } else { 0 } {
            self.sync_rx_at(ring, now_ns)?;
            ready.rx |= beyond_cur(&self.rx[ring].user);
        }
        Ok(ready)
    }

    /// The user's rings, tx first.
    pub(crate) fn rings(&self, interest: Ready) -> impl Iterator<Item = &Ring> {
        let tx = self.tx.iter().filter(move |_| interest.tx).map(|sending| &sending.user);
        tx.chain(self.rx.iter().filter(move |_| interest.rx).map(|receiving| &receiving.user))
    }

    /// Slots of a tx ring that were handed over and that the port has not taken yet (netmap's `nm_tx_pending`).
    pub fn unsent(&self, ring: usize) -> Result<u32, PortError> {
        let rings = self.tx.len() as u32;
        let user = &self.tx.get(ring).ok_or(PortError::NoRing { ring: ring as u32, rings })?.user;
        let head = user.header().head.load(Relaxed).min(user.num_slots() - 1);
        Ok(user.distance(user.kring().hwcur.get(user.num_slots()), head))
    }

    pub fn tx_counters(&self, ring: usize) -> Counters {
        self.tx.get(ring).map_or_else(Counters::default, |sending| counters(&sending.user))
    }

    pub fn rx_counters(&self, ring: usize) -> Counters {
        self.rx.get(ring).map_or_else(Counters::default, |receiving| counters(&receiving.user))
    }
}

/// Shows the packets in slots `from..to` to the observers.
#[cold]
fn show(
    observers: &mut [Box<dyn Observer>],
    direction: Direction,
    number: usize,
    ring: &Ring,
    (from, to): (u32, u32),
    partial: &mut Vec<u8>,
) {
    let time_ns = wall_clock_ns();
    let mut at = from.min(ring.num_slots() - 1);
    for _ in 0..ring.distance(at, to) {
        let slot = ring.slots()[at as usize].load();
        append(ring.pool(), slot, partial);
        at = ring.next(at);
        if !slot.more_fragments() || partial.len() > PACKET_BYTES_MAX {
            observers.iter_mut().for_each(|observer| observer.packet(direction, number, time_ns, partial));
            partial.clear();
        }
    }
}

/// All rings of these counts, tx first, host rings after the others.
pub(crate) fn all_rings(counts: RingCounts) -> Rings {
    Kind::ALL.into_iter().flat_map(|kind| (0..counts.of(kind)).map(move |index| (kind, index))).collect()
}

fn shown_tail(ring: &Ring) -> u32 {
    ring.kring().own.rtail.load(Relaxed).min(ring.num_slots() - 1)
}

fn beyond_cur(ring: &Ring) -> bool {
    ring.kring().own.rcur.load(Relaxed) != shown_tail(ring)
}

fn counters(ring: &Ring) -> Counters {
    let own = &ring.kring().own;
    let read = |word: &std::sync::atomic::AtomicU64| word.load(Relaxed);
    Counters {
        packets: read(&own.packets),
        bytes: read(&own.bytes),
        dropped: read(&own.dropped),
        reinits: read(&own.reinits),
        syncs: read(&own.syncs),
    }
}
