//! The short way out: all there is to send fits one segment, nothing is in flight and nothing is amiss. So leave requests
//! and their replies. It does what the long way does, and a test compares the two byte by byte.

use ringway_wire::tcp::{Flags as Bits, Timestamps};
use ringway_wire::usual::Headers;

use super::{Conn, Flags, Owed, State};
use crate::packet::{TxBatch, emit_usual};
use crate::stats::Counter;

impl Conn<'_> {
    /// Whether what is owed can go the short way.
    #[inline]
    pub(super) fn leaves_alone(&self) -> bool {
        let (hot, cold) = (&*self.hot, &*self.cold);
        let unsent = hot.write_seq - hot.snd_nxt;
        hot.state == State::Established
            && hot.owed - Owed::ACK == Owed::DATA
            && hot.snd_una == hot.snd_nxt
            && unsent > 0
            && unsent <= i32::from(hot.mss)
            && unsent as u32 <= hot.snd_wnd
            && hot.flags & (Flags::TIMESTAMPS | Flags::FIN_QUEUED) == Flags::TIMESTAMPS
            && hot.key.is_v4()
            && self.shared.config.fast_path
            && cold.recovery.is_idle()
            && !cold.ecn.is_agreed()
            && !cold.options.cork
            && !cold.more_follows
            && cold.options.pacing_rate_max == 0
            && cold.urgent_sent.is_none()
            && !self.has_sack_news()
    }

    /// Sends it; `false` if the batch is full.
    #[inline]
    pub(super) fn send_alone(&mut self, batch: &mut dyn TxBatch) -> bool {
        let now = self.shared.now;
        let Some((source, destination, ports)) = self.hot.key.as_v4() else { return false };
        let (seq, end) = (self.hot.snd_nxt, self.hot.write_seq);
        let len = end.offset_from(seq);
        let pushed = self.cold.push.is_due(end);
        let window = (self.select_window() >> self.hot.rcv_wscale).min(65_535) as u16;
        let headers = Headers {
            source,
            destination,
            ports,
            seq,
            ack: self.hot.rcv_nxt,
            flags: if pushed { Bits::ACK | Bits::PSH } else { Bits::ACK },
            window,
            timestamps: Timestamps { value: self.timestamp(), echo: self.hot.ts_recent },
            traffic_class: self.cold.options.traffic_class & !3,
            ttl: self.cold.options.ttl.unwrap_or(self.shared.config.ip_default_ttl as u8),
        };
        let payload = self.cold.tx.pieces(self.cold.tx_offset(seq), len as usize);
        if !emit_usual(batch, &headers, payload) {
            return false;
        }
        self.shared.count(Counter::SegmentsOut);
        let tally = &mut self.cold.tally;
        tally.segments_out = tally.segments_out.wrapping_add(1);
        tally.data_segments_out = tally.data_segments_out.wrapping_add(1);
        tally.bytes_sent += u64::from(len);
        self.told(window);
        self.on_answered();
        self.cold.push.on_sent(end);
        self.hot.snd_nxt = end;
        if len < u32::from(self.hot.mss) {
            self.cold.small_end = end;
        }
        self.on_data_sent();
        self.cold.pacer.set_max(None);
        self.cold.pacer.on_sent(now, u64::from(len), 1, None);
        self.cold.recovery.on_alone(now, len as u16, pushed);
        self.sync_alarm();
        self.hot.owed = Owed::empty();
        true
    }
}
