//! TIME-WAIT: what is left of a connection for 60 seconds, in a small record (RFC 9293 3.6.1, RFC 1337, RFC 6191).

use ringway_wire::tcp::{Flags as Bits, Options, Repr, Timestamps};
use ringway_wire::{SeqNumber, tcp};

use super::shared::{Reply, Shared, header_of};
use crate::conn::{Flags, Hot};
use crate::packet::Segment;
use crate::tables::FlowKey;
use crate::time::Instant;

/// Linux's `TCP_TIMEWAIT_LEN`; 2 MSL of RFC 9293 would be four minutes.
pub(super) const TIME_WAIT_US: u64 = 60_000_000;

/// The record.
#[derive(Clone, Debug, Default)]
pub(super) struct TimeWait {
    pub(super) key: FlowKey,
    snd_nxt: SeqNumber,
    rcv_nxt: SeqNumber,
    ts_recent: u32,
    ts_offset: u32,
    /// Window field of our acknowledgements.
    window: u16,
    timestamps: bool,
    pub(super) since: Instant,
    last_ack: Option<Instant>,
}

/// What becomes of a segment that arrives in TIME-WAIT.
pub(super) enum Disposition {
    /// Nothing more.
    Drop,
    /// The 60 seconds begin again.
    Restart,
    /// The record goes.
    End,
    /// The record goes, and the segment is a SYN for a new connection whose sequence numbers begin here.
    Reopen(SeqNumber),
}

impl TimeWait {
    pub(super) fn of(hot: &Hot, now: Instant) -> TimeWait {
        TimeWait {
            key: hot.key,
            snd_nxt: hot.snd_nxt,
            rcv_nxt: hot.rcv_nxt,
            ts_recent: hot.ts_recent,
            ts_offset: hot.ts_offset,
            window: (hot.receive_window() >> hot.rcv_wscale).min(65_535) as u16,
            timestamps: hot.flags.contains(Flags::TIMESTAMPS),
            since: now,
            last_ack: None,
        }
    }

    /// Acknowledges what the peer has sent.
    pub(super) fn acknowledge(&self, shared: &mut Shared) {
        let timestamps = self
            .timestamps
            .then(|| Timestamps { value: (shared.now.ms() as u32).wrapping_add(self.ts_offset), echo: self.ts_recent });
        let header = Repr {
            seq: self.snd_nxt,
            ack: self.rcv_nxt,
            flags: tcp::Flags::ACK,
            window: self.window,
            options: Options { timestamps, ..Options::NONE },
            ..header_of(&self.key)
        };
        shared.reply(Reply { key: self.key, header, traffic_class: 0 });
    }

    /// Linux's `tcp_tw_reuse`: a new connection of ours may take the ports over, as timestamps tell old from new.
    pub(super) fn may_be_taken_over(&self, shared: &Shared) -> bool {
        let config = &shared.config;
        let loopback = self.key.remote().address.is_loopback();
        let allowed = config.tcp_tw_reuse == 1 || config.tcp_tw_reuse == 2 && loopback;
        let age_ms = shared.now.since_us(self.since) / 1000;
        allowed && self.timestamps && age_ms >= u64::from(config.tcp_tw_reuse_delay)
    }

    /// Where a connection that takes over begins: beyond all that this one sent.
    pub(super) fn next_iss(&self) -> SeqNumber {
        self.snd_nxt + 65_537
    }

    /// A segment arrives (RFC 9293 3.10.7.4; Linux: `tcp_timewait_state_process`).
    pub(super) fn arrive(&mut self, segment: &Segment, shared: &mut Shared) -> Disposition {
        let timestamps = segment.options.timestamps.filter(|_| self.timestamps);
        let newer = timestamps.map(|t| t.value.wrapping_sub(self.ts_recent) as i32);
        let old = newer.is_some_and(|difference| difference < -1) && !segment.has(Bits::RST);
        let exact = segment.seq == self.rcv_nxt && (segment.seq_len() == 0 || segment.has(Bits::RST));
        if !old && exact {
            if segment.has(Bits::RST) {
                // RFC 1337 3: resets should be ignored in TIME-WAIT; Linux does that if told to.
                return if shared.config.tcp_rfc1337 { Disposition::Drop } else { Disposition::End };
            }
            if let Some(timestamps) = timestamps.filter(|_| newer >= Some(0)) {
                self.ts_recent = timestamps.value;
            }
            return Disposition::Restart;
        }
        // RFC 6191 2, RFC 9293 3.6.1 (MAY-2): a SYN beyond the old sequence space, or with a newer timestamp, opens a new
        // connection.
        let syn_alone = segment.flags & (Bits::SYN | Bits::RST | Bits::ACK) == Bits::SYN;
        if syn_alone && !old && (segment.seq > self.rcv_nxt || newer > Some(0)) {
            return Disposition::Reopen(self.next_iss());
        }
        if segment.has(Bits::RST) {
            return Disposition::Drop;
        }
        // RFC 9293 3.10.7.4: "The only thing that can arrive in this state is a retransmission of the remote FIN.
        // Acknowledge it, and restart the 2 MSL timeout."
        self.acknowledge_seldom(segment, shared);
        if old || segment.has(Bits::ACK) { Disposition::Restart } else { Disposition::Drop }
    }

    fn acknowledge_seldom(&mut self, segment: &Segment, shared: &mut Shared) {
        let pause_us = u64::from(shared.config.tcp_invalid_ratelimit) * 1000;
        let sends = segment.seq_len() > 0 && !segment.has(Bits::SYN);
        if sends || self.last_ack.is_none_or(|at| shared.now.since_us(at) >= pause_us) {
            self.last_ack = Some(shared.now);
            self.acknowledge(shared);
        }
    }
}
