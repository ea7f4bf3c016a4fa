//! The short way (header prediction, Van Jacobson 1988): a segment that is just what was expected skips the checks that
//! it would pass. It does what the long way does, and a test compares the two byte by byte.

use ringway_wire::SeqNumber;
use ringway_wire::tcp::Flags as Bits;

use super::{Conn, Flags, State};
use crate::event::Ready;
use crate::packet::Segment;
use crate::stats::Counter;

impl Conn<'_> {
    /// Takes the segment in if it is the expected one; `false` if the long way must judge it.
    #[inline]
    pub(super) fn take_predicted(&mut self, segment: &Segment) -> bool {
        if !self.is_predicted(segment) {
            return false;
        }
        self.shared.count(Counter::FastPath);
        if let Some(timestamps) = segment.options.timestamps.filter(|_| segment.seq <= self.hot.rcv_wup) {
            self.store_timestamp(timestamps.value);
        }
        self.hot.snd_wl1 = segment.seq;
        self.cold.last_ack_received = self.shared.now;
        self.cold.probes = 0;
        self.cold.more_follows = false;
        if segment.ack != self.hot.snd_una {
            let before = self.hot.snd_una;
            self.hot.snd_una = segment.ack;
            self.take_predicted_ack(segment, before);
            self.drop_acknowledged();
        }
        self.check_window_probe();
        if !segment.payload.is_empty() {
            self.cold.tally.data_segments_in = self.cold.tally.data_segments_in.wrapping_add(1);
            self.receive_predicted(segment);
        }
        self.owe_data();
        self.check_answer();
        true
    }

    /// Whether the segment is the next in order, in a connection where nothing is odd.
    #[inline]
    fn is_predicted(&self, segment: &Segment) -> bool {
        let hot = &self.hot;
        let acks = segment.ack != hot.snd_una;
        hot.state == State::Established
            && self.shared.config.fast_path
            && segment.flags - Bits::PSH == Bits::ACK
            && segment.seq == hot.rcv_nxt
            && segment.ack >= hot.snd_una
            && segment.ack <= hot.snd_nxt
            // An acknowledgement of nothing new matters to recovery while something is in flight.
            && (acks || (hot.snd_una == hot.snd_nxt && !segment.payload.is_empty()))
            && u32::from(segment.window) << hot.snd_wscale == hot.snd_wnd
            && hot.snd_wnd > 0
            && segment.payload.len() <= hot.receive_window() as usize
            && !hot.flags.intersects(Flags::LONG_WAY | Flags::READ_SHUTDOWN)
            && self.has_predicted_options(segment)
            && self.cold.early.is_empty()
            && !self.cold.ecn.is_agreed()
            && self.cold.fin_at.is_none()
    }

    #[inline]
    fn has_predicted_options(&self, segment: &Segment) -> bool {
        let options = &segment.options;
        let timestamps = match options.timestamps {
            Some(timestamps) => {
                self.hot.flags.contains(Flags::TIMESTAMPS)
                    && timestamps.value.wrapping_sub(self.hot.ts_recent) as i32 >= 0
            }
            None => !self.hot.flags.contains(Flags::TIMESTAMPS),
        };
        timestamps && options.sack.is_empty()
    }

    /// What was in flight is acknowledged from `before` on.
    #[inline]
    fn take_predicted_ack(&mut self, segment: &Segment, before: SeqNumber) {
        if segment.ack != self.hot.snd_nxt || !self.cold.recovery.is_calm() {
            return self.on_ack(segment, before, false);
        }
        (self.cold.timeouts, self.cold.retransmitting_since) = (0, None);
        self.cold.recovery.on_calm_ack(self.shared.now);
        self.owe_data();
        self.sync_alarm();
    }

    /// Payload that is next in order and fits, with nothing early behind it.
    fn receive_predicted(&mut self, segment: &Segment) {
        if !self.place(segment.payload) {
            return;
        }
        self.join(segment.payload.len());
        self.cold.tally.bytes_received += segment.payload.len() as u64;
        self.measure_receive_rtt(segment);
        self.on_data_received(segment.payload.len());
        self.grow_window(segment.payload.len() as u32);
        self.tell(Ready::READABLE);
    }
}
