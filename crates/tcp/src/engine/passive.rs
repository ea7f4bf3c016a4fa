//! The passive side of a handshake: a SYN arrives at a listener, is answered, and becomes a connection.

use ringway_wire::SeqNumber;
use ringway_wire::tcp::{Flags as Bits, Timestamps};

use super::half_open::{Disposition, HalfOpen, SYN_ACK_TIMEOUT_US};
use super::{Engine, cookies, fast_open, kind};
use crate::conn::state::State;
use crate::conn::{Handshake, Peer};
use crate::event::{ConnId, Ready};
use crate::packet::Segment;
use crate::stats::Counter;
use crate::tables::FlowKey;

impl Engine {
    /// A segment arrives for which there is no connection (RFC 9293 3.10.7.2). `iss` is where to begin after a
    /// TIME-WAIT.
    pub(super) fn arrive_at_listener(&mut self, key: &FlowKey, segment: &Segment, iss: Option<SeqNumber>) {
        let Some(index) = self.ports.find(key.local()) else { return self.arrive_nowhere(key, segment) };
        // RFC 9293 3.10.7.2, first: "An incoming RST should be ignored."
        if segment.has(Bits::RST) {
            return;
        }
        // Second: "Any acknowledgment is bad if it arrives on a connection still in the LISTEN state."
        if segment.has(Bits::ACK) {
            if segment.has(Bits::SYN) || !self.take_cookie(index, key, segment) {
                self.arrive_nowhere(key, segment);
            }
            return;
        }
        // Third: check for a SYN. Fourth: anything else is dropped. A SYN with FIN is no way to begin.
        if segment.has(Bits::SYN) && !segment.has(Bits::FIN) {
            self.take_syn(index, key, segment, iss);
        }
    }

    fn take_syn(&mut self, index: u32, key: &FlowKey, segment: &Segment, iss: Option<SeqNumber>) {
        let listener = &self.listeners[index];
        if listener.is_accept_queue_full() {
            return self.shared.count(Counter::AcceptQueueFull);
        }
        let bound = listener.backlog.max(1).min(self.shared.config.tcp_max_syn_backlog);
        let full = listener.half_open >= bound;
        if full || self.shared.config.tcp_syncookies == 2 {
            if full {
                self.shared.count(Counter::SynQueueFull);
            }
            return self.send_cookie(index, key, segment);
        }
        let iss = iss.unwrap_or_else(|| self.shared.isn.choose(key, self.shared.now));
        let mut record = HalfOpen::of(*key, index, segment, iss, &listener.options, &self.shared);
        if self.may_open_fast(index, key, segment) {
            return self.open_fast(index, &record, segment);
        }
        // RFC 7413 4.1.1: a request, and a cookie that is not ours (any more), are answered with ours.
        let asked = segment.options.fast_open.filter(|_| self.grants_fast_open(index));
        record.fast_open = asked
            .and_then(|asked| self.shared.fast_open.ours(self.shared.config.tcp_fastopen_key, key, asked.experimental));
        let Some(slot) = self.half_open.take() else { return self.shared.count(Counter::SynQueueFull) };
        record.send_syn_ack(&mut self.shared);
        self.half_open[slot] = record;
        self.flows.insert(key.hash(self.flow_key), kind::HALF_OPEN | slot);
        self.listeners[index].half_open += 1;
        self.arm_half_open(slot);
    }

    fn grants_fast_open(&self, listener: u32) -> bool {
        let bits = self.shared.config.tcp_fastopen;
        bits & fast_open::SERVER != 0 && self.listeners[listener].options.fast_open_queue > 0
    }

    // RFC 7413 4.1.2, 5.1: data in a SYN are taken if its cookie is right and not too many such SYNs wait for the end of
    // their handshake.
    fn may_open_fast(&self, listener: u32, key: &FlowKey, segment: &Segment) -> bool {
        if !self.grants_fast_open(listener) {
            return false;
        }
        let brings_data = !segment.payload.is_empty();
        let without_cookie = brings_data && self.shared.config.tcp_fastopen & fast_open::SERVER_WITHOUT_COOKIE != 0;
        let given = segment.options.fast_open.filter(|cookie| !cookie.is_request());
        let ready = &self.listeners[listener].ready;
        let waiting = ready.iter().filter(|id| self.hot[id.index].state == State::SynReceived).count();
        let room = waiting < self.listeners[listener].options.fast_open_queue as usize;
        room && (without_cookie
            || given
                .is_some_and(|given| self.shared.fast_open.is_ours(self.shared.config.tcp_fastopen_key, key, &given)))
    }

    /// A SYN with a cookie: the connection is there at once, with the data that came along.
    fn open_fast(&mut self, listener: u32, record: &HalfOpen, segment: &Segment) {
        let options = self.listeners[listener].options.clone();
        let Some(index) = self.allocate(record.key) else { return self.shared.count(Counter::TableFull) };
        self.flows.insert(record.key.hash(self.flow_key), kind::CONNECTION | index);
        self.shared.count(Counter::FastOpens);
        self.cold[index].options = options;
        self.queue_for_accept(listener, index);
        self.with(index, |conn| conn.begin_fast(record.handshake(), segment));
    }

    /// RFC 4987 3.6: answers a SYN without keeping anything.
    fn send_cookie(&mut self, index: u32, key: &FlowKey, segment: &Segment) {
        if self.shared.config.tcp_syncookies == 0 {
            return;
        }
        let now = self.shared.now;
        self.cookies.note_overflow(now);
        let options = &self.listeners[index].options;
        let mut record = HalfOpen::of(*key, index, segment, SeqNumber(0), options, &self.shared);
        record.become_cookie(&self.cookies, now);
        record.send_syn_ack(&mut self.shared);
        self.shared.count(Counter::SynCookieSent);
    }

    /// An acknowledgement out of the blue: perhaps of a cookie. Answers whether it was.
    fn take_cookie(&mut self, index: u32, key: &FlowKey, segment: &Segment) -> bool {
        let now = self.shared.now;
        let expected = self.shared.config.tcp_syncookies == 2 || self.cookies.are_expected(now);
        if !expected || self.shared.config.tcp_syncookies == 0 {
            return false;
        }
        let (iss, irs) = (segment.ack - 1, segment.seq - 1);
        let Some(mss) = self.cookies.check(key, iss, irs, now) else {
            self.shared.count(Counter::SynCookieFailed);
            return false;
        };
        if self.listeners[index].is_accept_queue_full() {
            self.shared.count(Counter::AcceptQueueFull);
            return true;
        }
        self.shared.count(Counter::SynCookieReceived);
        let peer = self.peer_of_cookie(key, mss, segment);
        self.establish(index, *key, Handshake { peer, iss, irs, sent_at: None, resent: 0 }, segment);
        true
    }

    /// What a cookie's handshake agreed on.
    fn peer_of_cookie(&self, key: &FlowKey, mss: u16, segment: &Segment) -> Peer {
        let config = &self.shared.config;
        let timestamps = segment.options.timestamps.filter(|_| config.tcp_timestamps > 0);
        let offset = self.shared.isn.timestamp_offset(key, config);
        let ours = timestamps.map(|t| Timestamps { echo: t.echo.wrapping_sub(offset), ..t });
        Peer { timestamps, ..cookies::peer_from(mss, ours) }
    }

    fn arm_half_open(&mut self, slot: u32) {
        let record = &self.half_open[slot];
        let timeout_us = (SYN_ACK_TIMEOUT_US << record.retransmissions.min(7))
            .min(u64::from(self.shared.config.tcp_rto_max_ms) * 1000);
        self.half_open_wheel.arm(slot, (self.shared.now.us() + timeout_us).div_ceil(1000));
    }

    /// RFC 9293 3.8.1: the SYN-ACK was not answered in time.
    pub(super) fn on_half_open_timer(&mut self, slot: u32) {
        let record = &mut self.half_open[slot];
        if record.is_deferred && !record.is_deferral_over(self.shared.now) {
            // The peer has answered; only its data are missing.
            record.retransmissions += 1;
            return self.arm_half_open(slot);
        }
        if record.retransmissions >= self.shared.config.tcp_synack_retries {
            return self.end_half_open(slot);
        }
        record.retransmissions += 1;
        self.shared.count(Counter::Retransmitted);
        self.half_open[slot].send_syn_ack(&mut self.shared);
        self.arm_half_open(slot);
    }

    fn end_half_open(&mut self, slot: u32) {
        let hash = self.half_open[slot].key.hash(self.flow_key);
        self.flows.remove(hash, kind::HALF_OPEN | slot);
        self.release_half_open(slot);
    }

    /// A listener ends: so do its half-open connections. Seldom, so all records are looked at.
    pub(super) fn end_half_open_of(&mut self, listener: u32) {
        let mut slot = 0;
        while self.listeners[listener].half_open > 0 && self.half_open.get(slot).is_some() {
            if self.half_open_wheel.armed(slot).is_some() && self.half_open[slot].listener == listener {
                self.end_half_open(slot);
            }
            slot += 1;
        }
    }

    fn release_half_open(&mut self, slot: u32) {
        self.half_open_wheel.disarm(slot);
        let listener = self.half_open[slot].listener;
        self.listeners[listener].half_open -= 1;
        self.half_open.give_back(slot);
    }

    pub(super) fn arrive_half_open(&mut self, slot: u32, segment: &Segment) {
        let disposition = self.half_open[slot].arrive(segment, &self.shared);
        let record = &self.half_open[slot];
        match disposition {
            Disposition::Drop => {}
            Disposition::Answer => record.send_syn_ack(&mut self.shared),
            Disposition::Acknowledge => record.acknowledge(&mut self.shared),
            Disposition::Refuse => self.shared.reply_with_reset(&record.key, segment),
            Disposition::Reset => {
                self.shared.reply_with_reset(&record.key, segment);
                self.end_half_open(slot);
            }
            Disposition::End => {
                self.shared.count(Counter::ResetReceived);
                self.end_half_open(slot);
            }
            Disposition::Establish => self.establish_half_open(slot, segment),
        }
    }

    /// The third segment of the handshake: the record becomes a connection in its listener's queue.
    fn establish_half_open(&mut self, slot: u32, segment: &Segment) {
        let record = self.half_open[slot].clone();
        let listener = &self.listeners[record.listener];
        if listener.is_accept_queue_full() {
            self.shared.count(Counter::AcceptQueueFull);
            if self.shared.config.tcp_abort_on_overflow {
                self.shared.reply_with_reset(&record.key, segment);
                self.end_half_open(slot);
            }
            return;
        }
        self.end_half_open(slot);
        self.establish(record.listener, record.key, record.handshake(), segment);
    }

    /// The third segment of a handshake makes a connection, which waits to be accepted.
    fn establish(&mut self, listener: u32, key: FlowKey, handshake: Handshake, segment: &Segment) {
        let Some(index) = self.allocate(key) else { return self.shared.count(Counter::TableFull) };
        self.flows.insert(key.hash(self.flow_key), kind::CONNECTION | index);
        self.shared.count(Counter::PassiveOpens);
        self.cold[index].options = self.listeners[listener].options.clone();
        self.queue_for_accept(listener, index);
        self.with(index, |conn| {
            conn.begin_passive(handshake);
            conn.arrive(segment);
        });
    }

    /// The connection waits in the listener's queue.
    fn queue_for_accept(&mut self, listener: u32, index: u32) {
        let id = ConnId { index, generation: self.hot[index].generation };
        self.cold[index].waits_for_accept = true;
        self.listeners[listener].ready.push_back(id);
        self.tell_listener(listener);
    }

    fn tell_listener(&mut self, index: u32) {
        let listener = &mut self.listeners[index];
        if !listener.in_event_list {
            listener.in_event_list = true;
            self.listener_events.push_back(index);
        }
    }

    /// What a listener is ready for.
    pub(super) fn listener_readiness(&self, index: u32) -> Ready {
        if self.listeners[index].ready.is_empty() { Ready::empty() } else { Ready::READABLE }
    }
}
