//! Monitors: ports that get copies of the frames that pass another port of the pool.
//!
//! ```text
//!   watched port              feed: a port that nobody opens     monitor
//!   syncs of ring i --copy--> tx ring i, and n + i if both  ---> rx ring i: its user's syncs swap the buffers over
//!                             ways are watched
//! ```
//! Whoever syncs a ring of the watched port holds its lock, so each ring of the feed has one writer at a time; the monitor's
//! side is the other end of a pipe. Nobody waits for a monitor: what its feed has no room for is dropped and counted.

use std::sync::Arc;

use super::control::Control;
use super::layout::{Kind, RingCounts};
use super::ports::{PortId, Ring};
use super::registration::{Registration, Sharing};
use super::{Pool, PoolError};
use crate::slot::{NETMAP_MAX_FRAGS, NS_BUF_CHANGED, NS_INDIRECT, NS_MOREFRAG, NS_REPORT, NS_TXMON, Slot};
use crate::sync::{Ordering::*, fence};
use crate::user;

/// Slots of a monitor's tx ring, which sends nothing.
const TX_SLOTS: u32 = 64;
/// Bytes of the watched port's name that a monitor's repeats.
const NAME_SHOWN: usize = 40;

/// What of a port is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    pub tx: bool,
    pub rx: bool,
    /// Received frames are seen when their user gives them back, not when they come.
    pub after_release: bool,
}

impl Watch {
    const SET: u32 = 1 << 31;

    /// As kept in a feed's record: with the watched port, 0 once that is gone.
    fn word(self, port: u32) -> u32 {
        Watch::SET | port | u32::from(self.tx) << 16 | u32::from(self.rx) << 17 | u32::from(self.after_release) << 18
    }

    fn of_word(word: u32) -> Option<(Watch, u32)> {
        let bit = |n: u32| word >> n & 1 != 0;
        let watch = Watch { tx: bit(16), rx: bit(17), after_release: bit(18) };
        (word & Watch::SET != 0).then_some((watch, word & 0xffff))
    }

    /// The first of the feed's rings for the watched port's rings of this kind.
    fn first_ring(self, sends: bool, rings: u32) -> Option<u32> {
        match (sends, self.tx, self.rx) {
            (true, true, _) => Some(0),
            (false, tx, true) => Some(if tx { rings } else { 0 }),
            _ => None,
        }
    }
}

/// Where frames of one ring of a watched port go.
#[derive(Debug)]
pub struct Feed {
    /// The feed's ring, of which the watched port's syncs are the user.
    tx: Ring,
    /// The monitor's ring that is filled from it.
    rx: Ring,
    pub after_release: bool,
}

impl Pool {
    /// Opens a new monitor of a port. `slots` of its rx rings: 0 for as many as the port's have.
    ///
    /// # Errors
    /// [`PoolError::NoPort`] if nobody has the port, or its other end, open.
    pub fn open_monitor(self: &Arc<Pool>, port: PortId, watch: Watch, slots: u32) -> Result<Registration, PoolError> {
        let control = self.control()?;
        self.reap_under(&control, true);
        let watched = self.counts(port)?;
        let in_use = self.is_open(port) || self.peer(port).is_some_and(|peer| self.is_open(peer));
        if !in_use || self.watch_of(port).is_some() || self.feed_of(port).is_some() {
            return Err(PoolError::NoPort(port.0));
        }
        let rings = watched.tx.max(watched.rx);
        let slots = if slots > 0 { slots } else { watched.rx_slots };
        let counts = RingCounts { tx: 1, rx: rings, tx_slots: TX_SLOTS, rx_slots: slots, ..RingCounts::default() };
        let feeds = RingCounts {
            tx: rings * (u32::from(watch.tx) + u32::from(watch.rx)),
            tx_slots: slots,
            rx_slots: slots,
            ..RingCounts::default()
        };
        let (name, feed_name) = self.monitor_names(port, watch)?;
        let monitor = self.make_port(&name, counts)?;
        let feed = self.make_port(&feed_name, feeds).inspect_err(|_| self.remove_port(monitor))?;
        self.records()[monitor.0 as usize].peer.store(feed.0, Relaxed);
        self.records()[feed.0 as usize].peer.store(monitor.0, Relaxed);
        let registration = self.register(monitor, Sharing::Shared, &control).inspect_err(|_| {
            self.remove_port(feed);
            self.remove_port(monitor);
        })?;
        self.records()[feed.0 as usize].watches.store(watch.word(port.0), Release);
        self.recount_feeds(port);
        Ok(registration)
    }

    fn monitor_names(&self, port: PortId, watch: Watch) -> Result<(String, String), PoolError> {
        let mut shown = self.name(port)?;
        shown.truncate((0..=NAME_SHOWN).rev().find(|at| shown.is_char_boundary(*at)).unwrap_or(0));
        let letters: String = [(watch.after_release, 'z'), (watch.rx, 'r'), (watch.tx, 't')]
            .iter()
            .filter(|(set, _)| *set)
            .map(|(_, letter)| letter)
            .collect();
        let numbered = |n: u32| format!("{shown}/{letters}#{n}");
        let free = (1..=super::PORTS_MAX).map(numbered).find(|name| self.find(name).is_none());
        let name = free.ok_or(PoolError::PortsExhausted)?;
        Ok((name.clone(), format!("{name} feed")))
    }

    /// What a feed watches, and whose port number it is (0 once that port is gone).
    fn watch_of(&self, feed: PortId) -> Option<(Watch, u32)> {
        self.record(feed.0).ok().and_then(|record| Watch::of_word(record.watches.load(Acquire)))
    }

    /// The feed of a monitor; None for any other port.
    pub fn feed_of(&self, monitor: PortId) -> Option<PortId> {
        self.peer(monitor).filter(|feed| self.watch_of(*feed).is_some())
    }

    /// Whether the port that a monitor watches is still there.
    pub fn is_watching(&self, monitor: PortId) -> bool {
        self.feed_of(monitor).and_then(|feed| self.watch_of(feed)).is_some_and(|(_, port)| port != 0)
    }

    fn feeds_of(&self, port: PortId) -> impl Iterator<Item = (PortId, Watch)> + '_ {
        self.ports().filter_map(move |feed| {
            let (watch, watched) = self.watch_of(feed)?;
            (watched == port.0).then_some((feed, watch))
        })
    }

    /// Tells those who sync the port's rings that its feeds are others now. Under the control lock.
    fn recount_feeds(&self, port: PortId) {
        let word = &self.records()[port.0 as usize].monitors;
        let generation = (word.load(Relaxed) >> 8).wrapping_add(1);
        word.store(generation << 8 | self.feeds_of(port).count().min(0xff) as u32, SeqCst);
        fence(SeqCst);
    }

    /// Where the frames of a ring go.
    pub fn feeds_for(self: &Arc<Pool>, ring: &Ring) -> Vec<Feed> {
        let feed = |(feed, watch): (PortId, Watch)| {
            let monitor = self.peer(feed)?;
            let rings = self.counts(monitor).ok()?.rx;
            let first = watch.first_ring(ring.kind().sends(), rings)?;
            let index = ring.index();
            let tx = self.ring(feed, Kind::Tx, first + index)?;
            let rx = self.ring(monitor, Kind::Rx, index).filter(|_| index < rings)?;
            Some(Feed { tx, rx, after_release: watch.after_release && !ring.kind().sends() })
        };
        if matches!(ring.kind(), Kind::Tx | Kind::Rx) {
            self.feeds_of(ring.port()).filter_map(feed).collect()
        } else {
            vec![]
        }
    }

    /// The rings out of which a monitor's rx ring is filled.
    pub fn feeding(self: &Arc<Pool>, rx: &Ring) -> Vec<Ring> {
        let Some(feed) = self.feed_of(rx.port()) else { return vec![] };
        let rings = self.counts(rx.port()).map_or(0, |counts| counts.rx);
        let all = self.counts(feed).map_or(0, |counts| counts.tx);
        let indices = (rx.index()..all).step_by(rings.max(1) as usize);
        indices.filter_map(|index| self.ring(feed, Kind::Tx, index)).collect()
    }

    /// Before a monitor or its feed is removed: has nobody write to them any more. False if somebody may still do so, or if
    /// that cannot be known without waiting. Under the control lock.
    pub(super) fn stop_feeding(self: &Arc<Pool>, port: PortId, may_wait: bool) -> bool {
        let feed = if self.watch_of(port).is_some() { Some(port) } else { self.feed_of(port) };
        let Some((feed, (watch, watched))) = feed.and_then(|feed| Some((feed, self.watch_of(feed)?))) else {
            return true;
        };
        if watched == 0 {
            return true;
        }
        if !may_wait {
            return false;
        }
        let watched_port = PortId(watched);
        self.records()[feed.0 as usize].watches.store(watch.word(0), Release);
        self.recount_feeds(watched_port);
        let is_quiet = self.rings(watched_port).iter().all(|ring| ring.kring().own.lock.wait_until_free());
        if !is_quiet {
            self.records()[feed.0 as usize].watches.store(watch.word(watched), Release);
            self.recount_feeds(watched_port);
        }
        is_quiet
    }

    /// A port is going: its monitors learn that nothing will come any more. Under the control lock.
    pub(super) fn leave_monitors(self: &Arc<Pool>, port: PortId, _control: &Control) {
        let feeds: Vec<(PortId, Watch)> = self.feeds_of(port).collect();
        for (feed, watch) in feeds {
            self.records()[feed.0 as usize].watches.store(watch.word(0), Release);
            self.peer(feed).map_or(vec![], |monitor| self.rings(monitor)).iter().for_each(Ring::wake);
        }
    }
}

impl Feed {
    /// Copies the whole frames in slots `from..to` of a watched ring, whose lock the caller holds. Returns where the first
    /// frame begins whose end is not among them.
    pub fn copy(&self, ring: &Ring, from: u32, to: u32) -> u32 {
        let own = &self.tx.kring().own;
        let (mut first, mut left) = (from, ring.distance(from, to));
        let before = own.rhead.load(Relaxed).min(self.tx.num_slots() - 1);
        let (mut at, mut dropped) = (before, 0);
        while let Some(slots) = frame_slots(ring, first, left) {
            let free = self.tx.distance(at, self.tx.kring().hwtail.get(self.tx.num_slots()));
            let is_blank = slots == 1 && ring.slots()[first as usize].load_word().len == 0;
            if !is_blank && slots <= free && (0..slots).all(|n| self.copy_slot(ring, first, at, n)) {
                at = self.tx.advance(at, slots);
            } else if !is_blank {
                dropped += slots;
            }
            (first, left) = (ring.advance(first, slots), left - slots);
        }
        if dropped > 0 {
            self.rx.kring().own.dropped.fetch_add(dropped.into(), Relaxed);
        }
        if at != before {
            own.rhead.store(at, Release);
            self.rx.wake();
        }
        first
    }

    /// Copies the `n`-th slot after `first` to the `n`-th after `at`; false if one of them has no usable buffer.
    fn copy_slot(&self, ring: &Ring, first: u32, at: u32, n: u32) -> bool {
        let (from, to) = (ring.pool(), self.tx.pool());
        let cell = &self.tx.slots()[self.tx.advance(at, n) as usize];
        let (slot, empty) = (ring.slots()[ring.advance(first, n) as usize].load(), cell.load_word());
        if !to.may_use(self.tx.port(), empty.buf_idx) {
            return false;
        }
        let len = usize::from(slot.len);
        if ring.kind().sends() && slot.flags & NS_INDIRECT != 0 {
            let mut bytes = vec![0; len];
            if user::read(slot.ptr, &mut bytes).is_err() || to.copy_in(empty.buf_idx, 0, &bytes) < len {
                return false;
            }
        } else {
            let offset = slot.ptr & ring.header().offset_mask.load(Relaxed);
            let offset = usize::try_from(offset).unwrap_or(usize::MAX);
            if to.copy_from((empty.buf_idx, 0), from, (slot.buf_idx, offset), len) < len {
                return false;
            }
        }
        let kept = slot.flags & !(NS_INDIRECT | NS_BUF_CHANGED | NS_REPORT);
        let flags = if ring.kind().sends() { kept | NS_TXMON } else { kept };
        cell.store(Slot { buf_idx: empty.buf_idx, len: slot.len, flags, ptr: 0 });
        true
    }
}

/// Slots of the frame that begins at `first`, of which `left` are there; None without its end.
fn frame_slots(ring: &Ring, first: u32, left: u32) -> Option<u32> {
    let is_last = |n: &u32| ring.slots()[ring.advance(first, *n) as usize].load_word().flags & NS_MOREFRAG == 0;
    let most = left.min(NETMAP_MAX_FRAGS as u32);
    let end = (0..most).find(is_last).map(|n| n + 1);
    end.or((most == NETMAP_MAX_FRAGS as u32).then_some(most))
}
