//! RACK (RFC 8985): a segment is lost if one sent sufficiently later has been delivered.
//!
//! "Sufficiently" is the reordering window. It is nothing at all while the path has shown no reordering and as many
//! segments are SACKed as the duplicate threshold asks, or recovery has begun: then RACK marks what RFC 6675's
//! IsLost() would mark, and more (lost retransmissions, tails). So no second algorithm stands beside it.

use super::scoreboard::Scoreboard;
use super::segment::Segment;
use crate::span::Span;
use crate::time::Instant;

/// RFC 5681's duplicate threshold, Linux's `tcp_reordering`.
pub const DUP_THRESHOLD: u32 = 3;
/// Linux's `tcp_max_reordering`.
pub const DUP_THRESHOLD_MAX: u32 = 300;
// RFC 8985 6.2 step 4: "RACK.reo_wnd_persist = 16".
const WINDOW_PERSISTS_RECOVERIES: u8 = 16;
/// Looking for the last of the segments that may yet turn out lost ends after this many.
const LOOK_AHEAD_MAX: u32 = 64;

/// The round-trip times that the reordering window is made from.
#[derive(Clone, Copy, Debug)]
pub struct PathTimes {
    pub min_rtt_us: u32,
    pub srtt_us: u32,
}

/// How much reordering the path has shown.
#[derive(Clone, Copy, Debug)]
pub struct Reordering {
    /// Segments by which the latest may precede the earliest: the duplicate threshold (`tcpi_reordering`).
    pub degree: u32,
    /// How often reordering was seen (`tcpi_reord_seen`).
    pub seen: u32,
}

impl Default for Reordering {
    fn default() -> Reordering {
        Reordering { degree: DUP_THRESHOLD, seen: 0 }
    }
}

impl Reordering {
    /// A segment that begins at `low` arrived, on its first transmission, after one that ends at `high`.
    pub fn observe(&mut self, low: u64, high: u64, mss: u32) {
        if low >= high {
            return;
        }
        let segments = (high - low).div_ceil(u64::from(mss.max(1)));
        if segments > u64::from(self.degree) {
            self.degree = segments.min(u64::from(DUP_THRESHOLD_MAX)) as u32;
        }
        self.seen = self.seen.saturating_add(1);
    }
}

/// What a pass over the scoreboard found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Detection {
    /// Transmissions newly deemed lost.
    pub lost: u32,
    /// Of these, retransmissions.
    pub lost_retransmissions: u32,
    /// When to look again, if some may yet turn out lost: microseconds from now.
    pub again_in_us: Option<u32>,
}

/// RACK's state of one connection.
#[derive(Clone, Debug)]
pub struct Rack {
    /// RACK.xmit_ts and RACK.end_seq: the segment sent last of all that were delivered.
    sent: Instant,
    end: u64,
    /// RACK.rtt: the round-trip time of that segment.
    rtt_us: u32,
    /// Whether a delivery came in that was sent later than all before, since the last look.
    advanced: bool,
    dsack_seen: bool,
    /// RACK.reo_wnd_mult: the reordering window in quarters of the minimum RTT.
    quarters: u8,
    /// RACK.reo_wnd_persist: recoveries for which a widened window stays.
    persist: u8,
    /// Segments delivered when the window was last widened.
    widened_at: u32,
}

impl Default for Rack {
    fn default() -> Rack {
        Rack {
            sent: Instant::ZERO,
            end: 0,
            rtt_us: 0,
            advanced: false,
            dsack_seen: false,
            quarters: 1,
            persist: 0,
            widened_at: 0,
        }
    }
}

impl Rack {
    // RFC 8985 6.2 step 2: update the state for the most recently sent segment that has been delivered.
    /// A segment was acknowledged or SACKed.
    pub fn on_delivered(&mut self, now: Instant, segment: &Segment, end: u64, min_rtt_us: u32) {
        let rtt_us = now.since_us_u32(segment.sent());
        // "...if the ACK is for a retransmission sooner than the minimum RTT, it is for the original."
        if segment.was_retransmitted() && rtt_us < min_rtt_us {
            return;
        }
        self.advanced = true;
        self.rtt_us = rtt_us;
        if sent_after(segment.sent(), end, self.sent, self.end) {
            (self.sent, self.end) = (segment.sent(), end);
        }
    }

    /// A DSACK came in for something that was retransmitted.
    pub fn on_dsack(&mut self) {
        self.dsack_seen = true;
    }

    // RFC 8985 6.2 step 4: adapt the window to DSACKs, once a round trip.
    /// An ACK gave a delivery sample: `prior_delivered` segments had been delivered when the sampled one was sent.
    pub fn adapt_window(&mut self, prior_delivered: u32, delivered: u32) {
        if (prior_delivered.wrapping_sub(self.widened_at) as i32) < 0 {
            // Less than a round trip since the window was widened: this DSACK says nothing of the new width.
            self.dsack_seen = false;
        }
        if self.dsack_seen {
            self.quarters = self.quarters.saturating_add(1);
            self.dsack_seen = false;
            self.widened_at = delivered;
            self.persist = WINDOW_PERSISTS_RECOVERIES;
        } else if self.persist == 0 {
            self.quarters = 1;
        }
    }

    /// A recovery ended in which the losses were real.
    pub fn on_recovery_end(&mut self) {
        self.persist = self.persist.saturating_sub(1);
    }

    /// A recovery was undone: DSACKs showed that all its retransmissions were needless.
    pub fn on_dsack_undo(&mut self) {
        self.persist = (self.persist + 1).min(WINDOW_PERSISTS_RECOVERIES);
    }

    /// Look again at the next ACK, whatever it delivers.
    pub fn force(&mut self) {
        self.advanced = true;
    }

    /// Takes the flag that there is news since the last look.
    pub fn take_advanced(&mut self) -> bool {
        core::mem::take(&mut self.advanced)
    }

    // RFC 8985 6.2 step 4, RACK_update_reo_wnd().
    /// The reordering window in microseconds.
    pub fn window_us(&self, reordering: Reordering, in_recovery: bool, sacked_out: u32, times: PathTimes) -> u32 {
        if reordering.seen == 0 && (in_recovery || sacked_out >= reordering.degree) {
            return 0;
        }
        let window_us = (times.min_rtt_us / 4).saturating_mul(u32::from(self.quarters));
        window_us.min(times.srtt_us)
    }

    /// Microseconds until segment `number` may be deemed lost, 0 if it may be now.
    pub fn remaining_us(&self, segment: &Segment, now: Instant, window_us: u32) -> u32 {
        self.rtt_us.saturating_add(window_us).saturating_sub(now.since_us_u32(segment.sent()))
    }

    // RFC 8985 6.2 step 5, RACK_detect_loss().
    /// Marks on `board` what is lost. Cost: what it marks, and a bounded look at what it does not.
    pub fn detect(&self, board: &mut Scoreboard, now: Instant, window_us: u32) -> Detection {
        let mut found = Detection::default();
        let mut next = board.oldest_sent();
        let mut looked_ahead = 0;
        while let Some(number) = next.filter(|_| looked_ahead < LOOK_AHEAD_MAX) {
            let (segment, span) = (*board.segment(number), board.span(number));
            if !sent_after(self.sent, self.end, segment.sent(), span.end) {
                break;
            }
            next = board.sent_next(number);
            match self.remaining_us(&segment, now, window_us) {
                0 => {
                    found.lost += u32::from(board.mark_lost(number));
                    found.lost_retransmissions += u32::from(segment.was_retransmitted());
                }
                remaining_us => {
                    found.again_in_us = found.again_in_us.max(Some(remaining_us));
                    looked_ahead += 1;
                }
            }
        }
        found
    }

    /// The octets whose delivery RACK measures against, for tests and traces.
    pub fn newest_delivered(&self) -> Span {
        Span::new(self.end, self.end)
    }
}

/// RACK_sent_after(): segments sent in the same microsecond were sent in the order of their offsets.
fn sent_after(a: Instant, a_end: u64, b: Instant, b_end: u64) -> bool {
    (a, a_end) > (b, b_end)
}
