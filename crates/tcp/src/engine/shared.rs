//! What all connections of an engine share, and the segments that belong to none.

use std::collections::VecDeque;

use ringway_wire::tcp::{Flags as Bits, Repr};
use ringway_wire::{Ecn, SeqNumber};

use super::fast_open::FastOpenCookies;
use crate::buffer::Pool;
use crate::config::Config;
use crate::conn::{Flags, Hot};
use crate::isn::Isn;
use crate::packet::{IpFields, Leaving, Segment, TxBatch, emit};
use crate::stats::{Counter, Stats};
use crate::tables::FlowKey;
use crate::time::Instant;

/// Segments outside connections that may wait to be sent.
const REPLIES_MAX: usize = 1024;
/// Resets a second for segments that no connection is for, so that nobody makes us an amplifier.
const RESETS_PER_S: u32 = 10_000;

/// A segment that belongs to no connection, or to one that has ended.
pub(crate) struct Reply {
    pub(crate) key: FlowKey,
    pub(crate) header: Repr,
    pub(crate) traffic_class: u8,
}

/// So many a second and no more.
#[derive(Default)]
struct Limit {
    second: u64,
    used: u32,
}

impl Limit {
    fn take(&mut self, now: Instant, per_s: u32) -> bool {
        let second = now.us() / 1_000_000;
        if second != self.second {
            (self.second, self.used) = (second, 0);
        }
        self.used = self.used.saturating_add(1);
        self.used <= per_s
    }
}

pub(crate) struct Shared {
    pub(crate) config: Config,
    /// The time of the call that is being served.
    pub(crate) now: Instant,
    pub(crate) pool: Pool,
    pub(crate) isn: Isn,
    pub(crate) fast_open: FastOpenCookies,
    pub(crate) stats: Stats,
    /// Connections that may have something to send.
    pub(crate) tx_list: VecDeque<u32>,
    /// Connections with news for the application.
    pub(crate) event_list: VecDeque<u32>,
    replies: VecDeque<Reply>,
    challenges: Limit,
    resets: Limit,
}

impl Shared {
    pub(crate) fn new(config: Config, seed: u64) -> Shared {
        Shared {
            now: Instant::ZERO,
            pool: Pool::new(config.buffer_bytes_max as usize),
            isn: Isn::new(seed),
            fast_open: FastOpenCookies::new(seed),
            stats: Stats::default(),
            tx_list: VecDeque::new(),
            event_list: VecDeque::new(),
            replies: VecDeque::with_capacity(REPLIES_MAX),
            challenges: Limit::default(),
            resets: Limit::default(),
            config,
        }
    }

    #[inline]
    pub(crate) fn count(&mut self, counter: Counter) {
        self.stats.count(counter);
    }

    /// Puts a connection into the list of those that may have something to send, if it has.
    #[inline]
    pub(crate) fn list_for_transmit(&mut self, hot: &mut Hot) {
        if !hot.owed.is_empty() && !hot.flags.contains(Flags::IN_TX_LIST) {
            hot.flags |= Flags::IN_TX_LIST;
            self.tx_list.push_back(hot.index);
        }
    }

    pub(crate) fn now_s(&self) -> u32 {
        (self.now.us() / 1_000_000) as u32
    }

    // RFC 5961 7: "an implementation SHOULD include an ACK throttling mechanism".
    pub(crate) fn take_challenge(&mut self) -> bool {
        self.challenges.take(self.now, self.config.tcp_challenge_ack_limit)
    }

    pub(crate) fn reply(&mut self, reply: Reply) {
        if self.replies.len() == REPLIES_MAX {
            self.count(Counter::ReplyDropped);
            return;
        }
        if reply.header.flags.contains(Bits::RST) {
            self.count(Counter::ResetSent);
        }
        self.replies.push_back(reply);
    }

    /// RFC 9293 3.5.2 and 3.10.7.1: a reset in answer to a segment that no connection is for; never to a reset.
    pub(crate) fn reply_with_reset(&mut self, key: &FlowKey, segment: &Segment) {
        if segment.has(Bits::RST) {
            return;
        }
        if !self.resets.take(self.now, RESETS_PER_S) {
            self.count(Counter::RepliesRateLimited);
            return;
        }
        // "If the ACK bit is off, sequence number zero is used, <SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>. If the ACK bit
        // is on, <SEQ=SEG.ACK><CTL=RST>."
        let (seq, ack, flags) = match segment.has(Bits::ACK) {
            true => (segment.ack, SeqNumber(0), Bits::RST),
            false => (SeqNumber(0), segment.end(), Bits::RST | Bits::ACK),
        };
        let header = Repr { seq, ack, flags, ..header_of(key) };
        self.reply(Reply { key: *key, header, traffic_class: 0 });
    }

    /// Writes replies into `batch`; `false` if that is full.
    pub(crate) fn send_replies(&mut self, batch: &mut dyn TxBatch) -> bool {
        while let Some(reply) = self.replies.front() {
            let ip = IpFields {
                traffic_class: reply.traffic_class,
                ecn: Ecn::NotEct,
                ttl: self.config.ip_default_ttl as u8,
                identification: 0,
                dont_fragment: true,
                flow_label: 0,
            };
            let leaving = Leaving { key: &reply.key, ip, header: reply.header, payload: (&[], &[]) };
            if !emit(batch, &leaving) {
                return false;
            }
            self.replies.pop_front();
            self.count(Counter::SegmentsOut);
        }
        true
    }

    pub(crate) fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }
}

/// A header between the ends of `key`, all else zero.
pub(crate) fn header_of(key: &FlowKey) -> Repr {
    Repr {
        source_port: key.local().port,
        destination_port: key.remote().port,
        seq: SeqNumber(0),
        ack: SeqNumber(0),
        flags: Bits::NONE,
        window: 0,
        urgent: 0,
        options: Default::default(),
    }
}
