//! SYN-RECEIVED on the passive side: a record in a listener's bounded queue, no connection yet
//! (Linux: `tcp_check_req`).

use ringway_wire::SeqNumber;
use ringway_wire::tcp::{FastOpen, Flags as Bits, Options, Repr, Timestamps};

use super::cookies::{self, Cookies};
use super::shared::{Reply, Shared, header_of};
use crate::conn::{Handshake, Peer, ReceiveWindow};
use crate::options::SocketOptions;
use crate::packet::Segment;
use crate::tables::FlowKey;
use crate::time::Instant;

/// RFC 6298 2.1: the time-out before the first sample.
pub(super) const SYN_ACK_TIMEOUT_US: u64 = 1_000_000;

/// The record of a half-open connection.
#[derive(Clone, Debug, Default)]
pub(super) struct HalfOpen {
    pub(super) key: FlowKey,
    /// Index of the listener.
    pub(super) listener: u32,
    iss: SeqNumber,
    irs: SeqNumber,
    peer: Peer,
    window: u32,
    window_scale: u8,
    advertised_mss: u16,
    ts_offset: u32,
    traffic_class: u8,
    /// Our fast-open cookie, for a peer that asked.
    pub(super) fast_open: Option<FastOpen>,
    /// The clock of our timestamps, where it holds a cookie's options.
    cookie_clock: Option<u32>,
    sent_at: Instant,
    pub(super) retransmissions: u32,
    /// Microseconds for which an acknowledgement without data is not enough (`TCP_DEFER_ACCEPT`).
    defer_us: u64,
    /// Such a one has come.
    pub(super) is_deferred: bool,
    last_ack: Option<Instant>,
}

/// What becomes of a segment that arrives for a half-open connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Disposition {
    Drop,
    /// The SYN-ACK goes out again.
    Answer,
    /// An acknowledgement tells the peer where we are.
    Acknowledge,
    /// A reset, and the record goes back to nothing.
    Reset,
    /// The record goes.
    End,
    /// A reset for the segment; the record stays.
    Refuse,
    /// The handshake is over.
    Establish,
}

impl HalfOpen {
    /// Answers a SYN.
    pub(super) fn of(
        key: FlowKey,
        listener: u32,
        segment: &Segment,
        iss: SeqNumber,
        options: &SocketOptions,
        shared: &Shared,
    ) -> HalfOpen {
        let config = &shared.config;
        let largest = crate::conn::mss_for(config.mtu as u16, &key);
        let advertised_mss = options.mss_bytes.map_or(largest, |chosen| chosen.min(largest));
        let mut peer = Peer::of(segment, config, 536);
        peer.agree_on_ecn(segment, config, options.congestion_control.unwrap_or(config.tcp_congestion_control));
        let (window, window_scale) =
            ReceiveWindow::open(config, options.receive_buffer_bytes, options.window_clamp_bytes, advertised_mss);
        HalfOpen {
            key,
            listener,
            iss,
            irs: segment.seq,
            peer,
            window: window.threshold,
            window_scale,
            advertised_mss,
            ts_offset: shared.isn.timestamp_offset(&key, config),
            traffic_class: options.traffic_class,
            fast_open: None,
            cookie_clock: None,
            sent_at: shared.now,
            retransmissions: 0,
            defer_us: u64::from(options.defer_accept_s) * 1_000_000,
            is_deferred: false,
            last_ack: None,
        }
    }

    pub(super) fn handshake(&self) -> Handshake {
        let (peer, iss, irs) = (self.peer, self.iss, self.irs);
        Handshake { peer, iss, irs, sent_at: Some(self.sent_at), resent: self.retransmissions }
    }

    /// The answer to a SYN for which no record is kept.
    pub(super) fn become_cookie(&mut self, cookies: &Cookies, now: Instant) {
        if self.peer.timestamps.is_none() {
            (self.peer.window_scale, self.peer.sack, self.peer.ecn) = (None, false, false);
        }
        self.iss = cookies.make(&self.key, self.irs, &self.peer, now);
        self.cookie_clock = Some(cookies::timestamp_with_options(now.ms() as u32, &self.peer));
    }

    fn timestamps(&self, now: Instant) -> Option<Timestamps> {
        let theirs = self.peer.timestamps?;
        let clock = self.cookie_clock.unwrap_or(now.ms() as u32);
        Some(Timestamps { value: clock.wrapping_add(self.ts_offset), echo: theirs.value })
    }

    pub(super) fn send_syn_ack(&self, shared: &mut Shared) {
        let header = Repr {
            seq: self.iss,
            ack: self.irs + 1,
            // RFC 3168 6.1.1: an ECN-setup SYN-ACK has ECE and not CWR.
            flags: Bits::SYN | Bits::ACK | if self.peer.ecn { Bits::ECE } else { Bits::NONE },
            window: self.window.min(65_535) as u16,
            options: Options {
                mss: Some(self.advertised_mss),
                window_scale: self.peer.window_scale.map(|_| self.window_scale),
                sack_permitted: self.peer.sack,
                timestamps: self.timestamps(shared.now),
                fast_open: self.fast_open,
                ..Options::NONE
            },
            ..header_of(&self.key)
        };
        shared.reply(Reply { key: self.key, header, traffic_class: self.traffic_class });
    }

    pub(super) fn acknowledge(&self, shared: &mut Shared) {
        let scale = if self.peer.window_scale.is_some() { self.window_scale } else { 0 };
        let header = Repr {
            seq: self.iss + 1,
            ack: self.irs + 1,
            flags: Bits::ACK,
            window: (self.window >> scale).min(65_535) as u16,
            options: Options { timestamps: self.timestamps(shared.now), ..Options::NONE },
            ..header_of(&self.key)
        };
        shared.reply(Reply { key: self.key, header, traffic_class: self.traffic_class });
    }

    /// A segment arrives (RFC 9293 3.10.7.4, SYN-RECEIVED).
    pub(super) fn arrive(&mut self, segment: &Segment, shared: &Shared) -> Disposition {
        let old = match (segment.options.timestamps, self.peer.timestamps) {
            // RFC 7323 5.3 R1.
            (Some(now), Some(then)) => (now.value.wrapping_sub(then.value) as i32) < 0,
            _ => false,
        };
        let rcv_nxt = self.irs + 1;
        if segment.flags & (Bits::SYN | Bits::ACK | Bits::RST) == Bits::SYN && segment.seq == self.irs && !old {
            // The SYN again: our answer was lost.
            return self.seldom(shared, Disposition::Answer);
        }
        // RFC 9293 3.10.7.4, first: check sequence number.
        let acceptable = segment.end() >= rcv_nxt && segment.seq <= rcv_nxt + self.window;
        if old || !acceptable {
            return match segment.has(Bits::RST) {
                true => Disposition::Drop,
                false => self.seldom(shared, Disposition::Acknowledge),
            };
        }
        if segment.has(Bits::RST) {
            // RFC 9293 3.10.7.4, second: "If this connection was initiated with a passive OPEN, then return this connection
            // to the LISTEN state"; RFC 5961 3.2: for the exact number only.
            return match segment.seq == rcv_nxt {
                true => Disposition::End,
                false => self.seldom(shared, Disposition::Acknowledge),
            };
        }
        let crossing = segment.has(Bits::SYN) && segment.seq == self.irs;
        if segment.has(Bits::SYN) && !crossing {
            // Fourth: "SYN-RECEIVED STATE: If the connection was initiated with a passive OPEN, then return this connection to
            // the LISTEN state and return." With a reset, as Linux does.
            return Disposition::Reset;
        }
        // Fifth: "if the ACK bit is off, drop the segment and return."
        if !segment.has(Bits::ACK) {
            return Disposition::Drop;
        }
        // "If the segment acknowledgment is not acceptable, form a reset segment, <SEQ=SEG.ACK><CTL=RST>, and send it."
        if segment.ack != self.iss + 1 {
            return Disposition::Refuse;
        }
        if segment.seq_len() == 0 && !self.is_deferral_over(shared.now) {
            self.is_deferred = true;
            return Disposition::Drop;
        }
        Disposition::Establish
    }

    /// Whether the listener has waited long enough for data.
    pub(super) fn is_deferral_over(&self, now: Instant) -> bool {
        now.since_us(self.sent_at) >= self.defer_us
    }

    fn seldom(&mut self, shared: &Shared, disposition: Disposition) -> Disposition {
        let pause_us = u64::from(shared.config.tcp_invalid_ratelimit) * 1000;
        if self.last_ack.is_some_and(|at| shared.now.since_us(at) < pause_us) {
            return Disposition::Drop;
        }
        self.last_ack = Some(shared.now);
        disposition
    }
}
