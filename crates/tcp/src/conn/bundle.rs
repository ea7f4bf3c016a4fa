//! How many segments go together. Linux hands its device several at once (TSO); ours has no such device, but the last of
//! a bundle carries PSH, and that is seen on the wire.

use ringway_wire::SeqNumber;

use super::Conn;
use super::push::PIECE_BYTES_MAX;
use crate::pacing;

/// `sk_pacing_shift`: a bundle is about a millisecond of the rate.
const RATE_SHIFT: u32 = 10;
/// `tcp_tso_rtt_log`: and more on paths with round trips of less than half a millisecond.
const RTT_SHIFT: u32 = 9;
/// `GSO_MAX_SEGS`: segments that are looked at for those that leave together again.
const RESENDS_MAX: u32 = 65_535;

/// The new segments that go together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bundle {
    end: SeqNumber,
    /// There are several.
    several: bool,
    /// The last of the segments that are sent again together, by its number.
    resend_end: u32,
    resends_left: u16,
    resend_several: bool,
}

impl Bundle {
    pub(super) fn ends(&self, end: SeqNumber) -> bool {
        self.end <= end
    }

    pub(super) fn is_last_of_several(&self, end: SeqNumber) -> bool {
        self.several && self.end == end
    }
}

impl Conn<'_> {
    /// The lost segment `number` is about to leave again. Answers whether it is the last of several that left together
    /// before and do so again (Linux: `tcp_xmit_retransmit_queue`).
    pub(super) fn resend_ends_bundle(&mut self, number: u32) -> bool {
        let (bundle, recovery) = (&mut self.cold.bundle, &self.cold.recovery);
        if bundle.resends_left == 0 || bundle.resend_end.wrapping_sub(number) >= u32::from(bundle.resends_left) {
            let together = recovery.board.lost_together(number, recovery.room().clamp(1, RESENDS_MAX));
            (bundle.resend_end, bundle.resends_left) = (number.wrapping_add(together - 1), together as u16);
            bundle.resend_several = together > 1;
        }
        bundle.resends_left -= 1;
        bundle.resend_several && number == bundle.resend_end
    }

    /// New segments are about to leave: which of them go together (Linux: `tcp_write_xmit`).
    pub(super) fn plan_bundle(&mut self) {
        let from = self.hot.snd_nxt;
        if from < self.cold.bundle.end && self.cold.bundle.end <= self.hot.write_seq {
            return;
        }
        let mss = u32::from(self.hot.mss).max(1);
        if self.hot.write_seq - from <= mss as i32 {
            (self.cold.bundle.end, self.cold.bundle.several) = (self.hot.write_seq, false);
            return;
        }
        let quota = self.cold.recovery.room().min(self.bundle_segments(mss));
        let window = ((self.hot.snd_una + self.hot.snd_wnd) - from).max(0) as u32;
        let bytes = self.cold.push.piece_left(from, self.hot.write_seq).min(window).min(quota.saturating_mul(mss));
        let partial = bytes % mss;
        // `tcp_mss_split_point`: a small segment at the end comes along if it may go now.
        let whole = bytes == (self.hot.write_seq - from).max(0) as u32;
        let kept_back = if partial > 0 && (!whole || self.nagle_holds(partial)) { partial } else { 0 };
        let bytes = if self.has_urgent_in_flight() { bytes.min(mss) } else { bytes - kept_back };
        (self.cold.bundle.end, self.cold.bundle.several) = (from + bytes, bytes > mss);
    }

    /// Segments in a bundle at most: what the rate sends in a millisecond (`tcp_tso_autosize`), half the window so that two
    /// are in flight (`tcp_cwnd_test`).
    pub(super) fn bundle_segments(&self, mss: u32) -> u32 {
        let round_us = self.cold.recovery.rtt.min_rtt_us().unwrap_or(u32::MAX);
        let near = PIECE_BYTES_MAX.checked_shr(round_us >> RTT_SHIFT).unwrap_or(0);
        let rate = self.rate_bytes_per_s().unwrap_or(u64::MAX) >> RATE_SHIFT;
        let bytes = rate.saturating_add(u64::from(near)).min(u64::from(PIECE_BYTES_MAX));
        let half = (self.cold.recovery.congestion.window.cwnd() / 2).max(1);
        (bytes as u32 / mss).max(self.shared.config.tcp_min_tso_segs).min(half)
    }

    /// The rate that window and round-trip time ask for, or the application's bound; `None` before the first sample.
    pub(super) fn rate_bytes_per_s(&self) -> Option<u64> {
        let recovery = &self.cold.recovery;
        let (segments, mss) = (recovery.board.segments(), u32::from(self.hot.mss));
        let rate = pacing::rate_bytes_per_s(&recovery.congestion.window, segments, mss, self.srtt_us());
        let bound = Some(self.cold.options.pacing_rate_max).filter(|bound| *bound > 0);
        recovery.congestion.pacing_bytes_per_s().or(rate).into_iter().chain(bound).min()
    }
}
