//! The engine: tables of connections, and the calls by which packets, time and the application come in.
//!
//! - `api`: what an application calls. `audit`: what must hold.
//! - `demux`: whose segment is this?
//! - `passive`: listeners, half-open connections, accepting.
//! - `cookies`: SYN cookies. `fast_open`: the cookies of TCP fast open.
//! - `listener`, `half_open`, `time_wait`: the records.
//! - `shared`: what all connections share.

mod api;
mod audit;
mod cookies;
mod demux;
pub(crate) mod fast_open;
mod half_open;
mod listener;
mod passive;
mod shared;
mod time_wait;

use std::collections::VecDeque;

use crate::config::Config;
use crate::conn::{Cold, Conn, Flags, Hot, Owed};
use crate::event::{ConnId, Event, ListenerId, Ready, Source};
use crate::hash::Key;
use crate::packet::TxBatch;
use crate::stats::{Counter, Stats};
use crate::tables::{FlowTable, Slab, Wheel};
use crate::time::Instant;
use cookies::Cookies;
use half_open::HalfOpen;
use listener::{Listener, Ports};
pub(crate) use shared::{Reply, Shared};
use time_wait::TimeWait;

/// What a value in the flow table names: its upper two bits.
mod kind {
    pub(super) const CONNECTION: u32 = 0;
    pub(super) const HALF_OPEN: u32 = 1 << 30;
    pub(super) const TIME_WAIT: u32 = 2 << 30;
    pub(super) const MASK: u32 = 3 << 30;
}

/// A TCP for one core. See the crate's documentation for its shape, and the methods for its calls.
pub struct Engine {
    shared: Shared,
    hot: Slab<Hot>,
    cold: Slab<Cold>,
    half_open: Slab<HalfOpen>,
    time_waits: Slab<TimeWait>,
    listeners: Slab<Listener>,
    ports: Ports,
    flows: FlowTable,
    flow_key: Key,
    wheel: Wheel,
    half_open_wheel: Wheel,
    time_wait_wheel: Wheel,
    listener_events: VecDeque<u32>,
    next_port: u32,
    cookies: Cookies,
}

impl Engine {
    /// An engine whose secrets follow from `seed`: draw it from a good source, and never use it twice in production.
    pub fn new(config: Config, seed: u64) -> Engine {
        let connections_max = config.connections_max as usize;
        Engine {
            hot: Slab::new(connections_max),
            cold: Slab::new(connections_max),
            half_open: Slab::new(connections_max),
            time_waits: Slab::new(config.tcp_max_tw_buckets as usize),
            listeners: Slab::new(config.listeners_max as usize),
            ports: Ports::default(),
            flows: FlowTable::new(),
            flow_key: Key::new(seed, 3),
            wheel: Wheel::new(),
            half_open_wheel: Wheel::new(),
            time_wait_wheel: Wheel::new(),
            listener_events: VecDeque::new(),
            cookies: Cookies::new(seed),
            next_port: Key::new(seed, 4).hash(&[0]) as u32,
            shared: Shared::new(config, seed),
        }
    }

    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Changes settings; connections that exist keep what they have begun with.
    pub fn config_mut(&mut self) -> &mut Config {
        &mut self.shared.config
    }

    pub fn stats(&self) -> &Stats {
        &self.shared.stats
    }

    /// Bytes that all buffers take now; at most `buffer_bytes_max`.
    pub fn buffer_bytes(&self) -> usize {
        self.shared.pool.bytes_in_use()
    }

    /// When [`Engine::on_timer`] should be called, at the latest; sooner does no harm.
    pub fn next_deadline(&self) -> Option<Instant> {
        [&self.wheel, &self.half_open_wheel, &self.time_wait_wheel]
            .into_iter()
            .filter_map(Wheel::next_tick)
            .min()
            .map(Instant::from_ms)
    }

    /// Does what is due at `now`.
    pub fn on_timer(&mut self, now: Instant) {
        self.shared.now = now;
        while let Some(index) = self.wheel.pop_due(now.ms()) {
            self.cold[index].timers.disarm();
            self.with(index, |conn| conn.on_timer());
        }
        while let Some(index) = self.half_open_wheel.pop_due(now.ms()) {
            self.on_half_open_timer(index);
        }
        while let Some(index) = self.time_wait_wheel.pop_due(now.ms()) {
            self.end_time_wait(index);
        }
    }

    /// Writes packets into `batch` until it is full or nothing is left to send at `now`; `true` if nothing is left.
    pub fn poll_transmit(&mut self, now: Instant, batch: &mut dyn TxBatch) -> bool {
        self.shared.now = now;
        if !self.shared.send_replies(batch) {
            return false;
        }
        while let Some(&index) = self.shared.tx_list.front() {
            let done = self.with(index, |conn| conn.poll_transmit(batch));
            if !done {
                return false;
            }
            self.shared.tx_list.pop_front();
            self.hot[index].flags -= Flags::IN_TX_LIST;
            self.with(index, |_| {});
        }
        !self.shared.has_replies() || self.shared.send_replies(batch)
    }

    /// Appends what is new for the application to `events`, at most `max` of them.
    pub fn poll_events(&mut self, events: &mut Vec<Event>, max: usize) {
        for _ in 0..max {
            if let Some(index) = self.listener_events.pop_front() {
                let listener = &mut self.listeners[index];
                listener.in_event_list = false;
                let id = ListenerId { index, generation: listener.generation };
                if !listener.ready.is_empty() {
                    events.push(Event { source: Source::Listener(id), ready: Ready::READABLE });
                }
            } else if let Some(index) = self.shared.event_list.pop_front() {
                let hot = &mut self.hot[index];
                hot.flags -= Flags::IN_EVENT_LIST;
                let (flags, ready) = (hot.flags, core::mem::take(&mut hot.news));
                if flags.contains(Flags::OPEN) && !ready.is_empty() {
                    let id = ConnId { index, generation: hot.generation };
                    events.push(Event { source: Source::Connection(id), ready });
                }
                if flags.contains(Flags::DONE) {
                    self.settle(index);
                }
            } else {
                return;
            }
        }
    }

    /// Does something to a connection, then sees to what follows from it.
    #[inline]
    fn with<T>(&mut self, index: u32, action: impl FnOnce(&mut Conn) -> T) -> T {
        let mut conn = Conn { hot: &mut self.hot[index], cold: &mut self.cold[index], shared: &mut self.shared };
        let result = action(&mut conn);
        if !conn.settles() {
            self.settle(index);
        }
        result
    }

    /// Puts a connection into the timers that it should be in, and takes it out of the tables that it should not.
    fn settle(&mut self, index: u32) {
        if self.hot[index].flags.contains(Flags::DONE | Flags::IN_TABLE) {
            self.leave_table(index);
        }
        self.shared.list_for_transmit(&mut self.hot[index]);
        // A deadline that moved back or was dropped stays in the wheel: when it goes off, the next one is armed.
        let timers = &mut self.cold[index].timers;
        if timers.is_unarmed
            && let Some(at) = timers.arm()
        {
            self.wheel.arm(index, at.us().div_ceil(1000));
        }
        let hot = &self.hot[index];
        let held = Flags::OPEN | Flags::IN_TX_LIST;
        if hot.flags.contains(Flags::DONE) && !hot.flags.intersects(held) {
            self.free(index);
        }
    }

    /// The protocol is done with a connection: the flow table forgets it, or remembers a TIME-WAIT.
    fn leave_table(&mut self, index: u32) {
        let hot = &mut self.hot[index];
        hot.flags -= Flags::IN_TABLE;
        let hash = hot.key.hash(self.flow_key);
        self.flows.remove(hash, kind::CONNECTION | index);
        if !hot.flags.contains(Flags::LINGERS) {
            hot.owed = Owed::empty();
            return;
        }
        let record = TimeWait::of(hot, self.shared.now);
        if core::mem::take(&mut hot.owed).contains(Owed::ACK) {
            record.acknowledge(&mut self.shared);
        }
        let Some(slot) = self.time_waits.take() else {
            self.shared.count(Counter::TimeWaitFull);
            return;
        };
        self.time_waits[slot] = record;
        self.flows.insert(hash, kind::TIME_WAIT | slot);
        self.start_time_wait(slot);
    }

    /// The 60 seconds begin, or begin again.
    fn start_time_wait(&mut self, slot: u32) {
        self.time_wait_wheel.arm(slot, (self.shared.now.us() + time_wait::TIME_WAIT_US).div_ceil(1000));
    }

    fn end_time_wait(&mut self, slot: u32) {
        self.time_wait_wheel.disarm(slot);
        self.flows.remove(self.time_waits[slot].key.hash(self.flow_key), kind::TIME_WAIT | slot);
        self.time_waits.give_back(slot);
    }

    /// A slot for a new connection that the flow table knows.
    fn allocate(&mut self, key: crate::tables::FlowKey) -> Option<u32> {
        let index = self.hot.take()?;
        let _ = self.cold.take();
        let Hot { generation, flags, .. } = self.hot[index];
        let flags = flags & Flags::IN_EVENT_LIST | Flags::OPEN | Flags::IN_TABLE;
        self.hot[index] = Hot { index, generation: generation.wrapping_add(1), key, flags, ..Hot::default() };
        self.cold[index] = Cold::default();
        Some(index)
    }

    fn free(&mut self, index: u32) {
        self.wheel.disarm(index);
        let cold = &mut self.cold[index];
        cold.rx.release(&mut self.shared.pool);
        cold.tx.release(&mut self.shared.pool);
        // The event list still names the slot, whoever has it next.
        self.hot[index].flags &= Flags::IN_EVENT_LIST;
        self.hot[index].news = Ready::empty();
        self.cold.give_back(index);
        self.hot.give_back(index);
    }
}
