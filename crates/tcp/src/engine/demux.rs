//! Whose segment is this: a connection's, a half-open one's, a TIME-WAIT's, a listener's, or nobody's.

use ringway_wire::tcp::Flags as Bits;
use ringway_wire::{Error, Verify};

use super::{Engine, kind, time_wait};
use crate::packet::{Arriving, PathError, Segment, Usual, parse};
use crate::stats::Counter;
use crate::tables::FlowKey;
use crate::time::Instant;

/// How many packets are looked up together.
const BATCH: usize = 32;

impl Engine {
    /// An IP packet arrived, in one piece and for this host. What it causes to be sent or told is polled for.
    pub fn on_packet(&mut self, now: Instant, packet: &[u8]) {
        self.on_packets(now, &[packet]);
    }

    /// IP packets arrived, in this order. All are looked up before any is processed, so that what they need is in the
    /// cache when its turn comes.
    pub fn on_packets(&mut self, now: Instant, packets: &[&[u8]]) {
        self.shared.now = now;
        let mut usual: [Option<(Usual, u64)>; BATCH] = [const { None }; BATCH];
        for batch in packets.chunks(BATCH) {
            for (place, packet) in usual.iter_mut().zip(batch) {
                *place = Usual::read(packet).map(|found| (found, self.touch(&found.key())));
            }
            for (place, packet) in usual.iter().zip(batch) {
                match place {
                    Some((found, hash)) => {
                        self.shared.count(Counter::SegmentsIn);
                        self.dispatch(&found.key(), &found.segment(), *hash);
                    }
                    None => self.arrive_unusual(packet),
                }
            }
        }
    }

    /// The hash of `key`; brings what its segment will need into the cache.
    #[inline]
    fn touch(&self, key: &FlowKey) -> u64 {
        let hash = key.hash(self.flow_key);
        if let Some(value) = self.flows.touch(hash).filter(|value| value & kind::MASK == kind::CONNECTION) {
            self.hot[value].warm();
            self.cold[value].warm();
        }
        hash
    }

    #[inline(never)]
    fn arrive_unusual(&mut self, packet: &[u8]) {
        if let Some((key, segment)) = self.read_unusual(packet) {
            self.shared.count(Counter::SegmentsIn);
            self.dispatch(&key, &segment, key.hash(self.flow_key));
        }
    }

    fn read_unusual<'p>(&mut self, packet: &'p [u8]) -> Option<(FlowKey, Segment<'p>)> {
        match parse(packet, Verify::Compute) {
            Ok(Arriving::Tcp(key, segment)) => Some((key, segment)),
            Ok(Arriving::Icmp(error)) => {
                self.on_path_error(&error);
                None
            }
            Ok(Arriving::Other) => self.refuse(Counter::NotForUs),
            Err(error) => self.refuse_malformed(error),
        }
    }

    fn refuse<T>(&mut self, why: Counter) -> Option<T> {
        self.shared.count(why);
        None
    }

    fn refuse_malformed<T>(&mut self, error: Error) -> Option<T> {
        self.shared.stats.count_malformed(error);
        self.refuse(Counter::Malformed)
    }

    /// What the flow table knows under `key`.
    pub(super) fn find_flow(&self, key: &FlowKey, hash: u64) -> Option<u32> {
        self.flows.find(hash, |value| {
            let index = value & !kind::MASK;
            *key == match value & kind::MASK {
                kind::CONNECTION => self.hot[index].key,
                kind::HALF_OPEN => self.half_open[index].key,
                _ => self.time_waits[index].key,
            }
        })
    }

    fn dispatch(&mut self, key: &FlowKey, segment: &Segment, hash: u64) {
        let Some(value) = self.find_flow(key, hash) else { return self.arrive_at_listener(key, segment, None) };
        let index = value & !kind::MASK;
        match value & kind::MASK {
            kind::CONNECTION => self.with(index, |conn| conn.arrive(segment)),
            kind::HALF_OPEN => self.arrive_half_open(index, segment),
            _ => self.arrive_in_time_wait(index, key, segment),
        }
    }

    fn arrive_in_time_wait(&mut self, slot: u32, key: &FlowKey, segment: &Segment) {
        use time_wait::Disposition;
        match self.time_waits[slot].arrive(segment, &mut self.shared) {
            Disposition::Drop => {}
            Disposition::End => self.end_time_wait(slot),
            Disposition::Restart => self.start_time_wait(slot),
            Disposition::Reopen(iss) => {
                if self.ports.find(key.local()).is_some() {
                    self.shared.count(Counter::TimeWaitReused);
                    self.end_time_wait(slot);
                    self.arrive_at_listener(key, segment, Some(iss));
                }
            }
        }
    }

    /// RFC 9293 3.10.7.1: no connection, and perhaps no listener.
    pub(super) fn arrive_nowhere(&mut self, key: &FlowKey, segment: &Segment) {
        self.shared.count(Counter::NoConnection);
        // "If the state is CLOSED... An incoming segment containing a RST is discarded. An incoming segment not containing
        // a RST causes a RST to be sent in response."
        if !segment.has(Bits::RST) {
            self.shared.reply_with_reset(key, segment);
        }
    }

    /// A router or the remote host could not deliver something that we sent.
    fn on_path_error(&mut self, error: &PathError) {
        match self.find_flow(&error.key, error.key.hash(self.flow_key)) {
            Some(value) if value & kind::MASK == kind::CONNECTION => {
                self.with(value & !kind::MASK, |conn| conn.on_path_error(error));
            }
            _ => self.shared.count(Counter::IcmpIgnored),
        }
    }
}
