//! Reading an acknowledgement: what it takes off the scoreboard, and what else it says.

use super::segment::{APP_LIMITED, SACKED};
use super::{Recovery, State};
use crate::rate::Delivery;
use crate::rtt::RttEvidence;
use crate::span::Span;
use crate::time::Instant;

/// Most SACK blocks that a TCP header holds.
const BLOCKS_MAX: usize = 4;

/// An acknowledgement that arrived, as the engine has read and checked it: `ack` is at most what was sent.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    pub now: Instant,
    /// Everything before this offset has arrived. May lie before the left edge: an old ACK with news in its blocks.
    pub ack: u64,
    /// The SACK option's blocks in their order, not checked.
    pub sacks: &'a [Span],
    /// The echoed timestamp.
    pub ts_echo: Option<u32>,
    /// The round-trip time that it shows.
    pub ts_rtt_us: Option<u32>,
    /// The peer echoes a mark (and ECN was agreed on).
    pub ece: bool,
    /// No payload, and the same window as before: a duplicate ACK (RFC 5681 2) if it also acknowledges nothing new.
    pub plain: bool,
    /// There is new data, and the peer's window has room for it.
    pub can_send_new: bool,
}

/// What an acknowledgement changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckNews {
    /// The left edge moved.
    pub advanced: bool,
    /// Segments acknowledged cumulatively.
    pub acked: u32,
    /// Segments newly SACKed.
    pub sacked: u32,
    /// Segments that arrived as far as is newly known; those that DSACKs report counted.
    pub delivered: u32,
    /// Transmissions newly deemed lost.
    pub lost: u32,
    /// A DSACK came for something that was retransmitted.
    pub dsack: bool,
    /// ...and it was the tail loss probe.
    pub dsack_of_probe: bool,
    /// The receiver took back what it had SACKed.
    pub reneging: bool,
    /// A duplicate ACK, for receivers without SACK and for F-RTO.
    pub duplicate: bool,
    /// Segments from before the episode arrived that were never sent again.
    pub original_delivered: bool,
    /// Some of what was acknowledged had been retransmitted.
    pub retransmitted_acked: bool,
    /// A retransmission was found lost.
    pub retransmission_lost: bool,
    /// The retransmission timer begins anew.
    pub rearm: bool,
    /// The round-trip time that congestion control is told.
    pub rtt_us: Option<u32>,
    /// The receiver may have held the ACK back.
    pub maybe_delayed: bool,
    /// Offset of the lowest segment that arrived later than one sent after it.
    lowest_reordered: Option<u64>,
    acked_sent: Option<FirstAndLast>,
    sacked_sent: Option<FirstAndLast>,
}

/// When the first and the last of some segments were sent.
#[derive(Clone, Copy, Debug)]
struct FirstAndLast {
    first: Instant,
    last: Instant,
}

impl AckNews {
    fn saw_reordered(&mut self, start: u64) {
        self.lowest_reordered = Some(self.lowest_reordered.map_or(start, |lowest| lowest.min(start)));
    }
}

fn extend(sent: &mut Option<FirstAndLast>, at: Instant) {
    sent.get_or_insert(FirstAndLast { first: at, last: at }).last = at;
}

impl Recovery {
    /// Takes an acknowledgement in; afterwards the window, what to send again and the alarm are up to date.
    #[inline]
    pub fn on_ack(&mut self, ack: &Ack) -> AckNews {
        if !self.is_calm_ack(ack) {
            return self.on_any_ack(ack);
        }
        self.on_calm_ack(ack.now);
        AckNews { advanced: true, acked: 1, delivered: 1, ..AckNews::default() }
    }

    pub(super) fn on_any_ack(&mut self, ack: &Ack) -> AckNews {
        let prior_una = self.board.una();
        let prior_highest = self.board.highest_sacked();
        let prior_lost = self.totals.lost;
        let prior_sacked = self.board.sacked_out();
        let idle = self.board.segments() == 0;
        let mut news = AckNews { advanced: ack.ack > prior_una, ..AckNews::default() };
        self.hold = super::Hold::No;
        if news.advanced {
            self.timeouts = 0;
        }
        if self.config.sack {
            self.read_sacks(ack, &mut news);
        }
        self.drop_acknowledged(ack, &mut news);
        if self.config.sack {
            // A hole was filled by a segment that was never sent again: the path reorders.
            if let Some(low) = news.lowest_reordered.filter(|low| *low < prior_highest) {
                self.reordering.observe(low, prior_highest, self.mss);
            }
        } else if news.acked > 0 {
            self.drop_reno_sacks(&mut news);
        }
        self.take_rtt(ack, &mut news, prior_una, prior_sacked);
        if let Some(prior_delivered) = self.rate.sampled_prior_delivered() {
            self.rack.adapt_window(prior_delivered, self.rate.delivered().wrapping_add(news.delivered));
        }
        news.duplicate = ack.plain && !news.advanced && !news.dsack && self.board.segments() > 0;
        if !idle || news.dsack {
            self.judge(ack, &mut news);
        }
        news.lost = self.totals.lost.wrapping_sub(prior_lost);
        self.steer(ack, &news);
        news
    }

    // RFC 2018 5, RFC 6675 4 Update(): flags the segments that the blocks cover.
    fn read_sacks(&mut self, ack: &Ack, news: &mut AckNews) {
        let mut sorted = [Span::default(); BLOCKS_MAX];
        let mut count = 0;
        for (index, block) in ack.sacks.iter().take(BLOCKS_MAX).enumerate() {
            let valid = !block.is_empty() && block.end <= self.board.nxt();
            if valid && index == 0 && is_dsack(ack) {
                self.read_dsack(*block, news);
            } else if valid && block.start >= self.board.una() && block.end > ack.ack {
                sorted[count] = *block;
                count += 1;
            }
        }
        // The order of the blocks is that of their changes; read in the stream's order, it is not taken for reordering.
        sorted[..count].sort_unstable_by_key(|block| block.start);
        for block in &sorted[..count] {
            self.read_block(*block, ack.now, news);
        }
        if let Some(low) = news.lowest_reordered.take()
            && (self.state != State::Loss || self.undo.is_open())
        {
            self.reordering.observe(low, self.board.highest_sacked(), self.mss);
        }
    }

    fn read_block(&mut self, block: Span, now: Instant, news: &mut AckNews) {
        let mut number = self.board.first_from(block.start);
        let mut end = self.board.first_from(block.end);
        // A segment that is covered in part counts as missing.
        if end != number && self.board.span(end.wrapping_sub(1)).end > block.end {
            end = end.wrapping_sub(1);
        }
        while let Some(found) = self.board.next_missing(number, end) {
            self.on_sacked(found, now, news);
            number = found.wrapping_add(1);
        }
    }

    fn on_sacked(&mut self, number: u32, now: Instant, news: &mut AckNews) {
        let (segment, span) = (*self.board.segment(number), self.board.span(number));
        if !segment.was_retransmitted() {
            if span.start < self.board.highest_sacked() {
                news.saw_reordered(span.start);
            }
            news.original_delivered |= span.end <= self.high;
            extend(&mut news.sacked_sent, segment.sent());
        }
        self.deliver(number, now);
        self.board.mark_sacked(number);
        news.sacked += 1;
        news.delivered += 1;
    }

    // RFC 2883 5, RFC 3708: what the receiver has twice.
    fn read_dsack(&mut self, block: Span, news: &mut AckNews) {
        let segments = block.len().div_ceil(u64::from(self.mss)).min(u64::from(u32::MAX)) as u32;
        // More duplicates than retransmissions: the network duplicates, or the peer lies. Neither tells us anything.
        if self.totals.duplicates.saturating_add(segments) > self.totals.retransmitted {
            return;
        }
        self.totals.duplicates += segments;
        news.dsack = true;
        news.dsack_of_probe = self.tlp.end() == Some(block.end);
        news.delivered += segments;
        // RFC 8985 7.4.2 keeps the probe's own DSACK out of the reordering window; so does a path without reordering.
        if self.reordering.seen > 0 && !news.dsack_of_probe {
            self.rack.on_dsack();
        }
        if block.end <= self.board.una() {
            self.undo.on_dsack(block.end, segments);
            return;
        }
        let first = self.board.first_from(block.start);
        let last = self.board.first_from(block.end);
        for index in 0..segments.min(last.wrapping_sub(first)) {
            let number = first.wrapping_add(index);
            if self.board.segment(number).was_retransmitted() {
                self.undo.on_dsack(self.board.span(number).end, 1);
            }
            self.board.retransmission_arrived(number);
        }
    }

    // RFC 9293 3.10.7.4: "Any segments on the retransmission queue that are thereby entirely acknowledged are removed."
    fn drop_acknowledged(&mut self, ack: &Ack, news: &mut AckNews) {
        while let Some(number) = self.board.first() {
            let (segment, span) = (*self.board.segment(number), self.board.span(number));
            if span.end > ack.ack {
                if span.start < ack.ack {
                    self.board.trim_first(ack.ack);
                }
                // What is cumulatively next cannot have arrived.
                news.reneging = segment.has(SACKED) && news.advanced;
                break;
            }
            if segment.was_retransmitted() {
                news.retransmitted_acked = true;
            } else if !segment.has(SACKED) {
                extend(&mut news.acked_sent, segment.sent());
                news.saw_reordered(span.start);
                news.original_delivered |= span.end <= self.high;
            }
            if !segment.has(SACKED) {
                news.delivered += u32::from(self.config.sack);
                self.deliver(number, ack.now);
            }
            self.board.pop_first();
            news.acked += 1;
        }
    }

    /// Tells RACK and the rate estimator of a segment that has arrived.
    fn deliver(&mut self, number: u32, now: Instant) {
        let Recovery { board, rack, rate, rtt, .. } = self;
        let (segment, end) = (board.segment(number), board.span(number).end);
        rate.on_delivery(Delivery {
            snapshot: segment.snapshot,
            sent: segment.sent(),
            end,
            app_limited: segment.has(APP_LIMITED),
            retransmitted: segment.was_retransmitted(),
        });
        rack.on_delivered(now, segment, end, rtt.min_rtt_us().unwrap_or(0));
    }

    /// Without SACK: one of the segments filled the hole, the others had caused duplicate ACKs.
    fn drop_reno_sacks(&mut self, news: &mut AckNews) {
        news.delivered += news.acked.saturating_sub(self.board.sacked_out()).max(1);
        if self.board.remove_reno_sacks(news.acked) {
            self.saw_reno_reordering();
        }
        if news.retransmitted_acked {
            // Which of the acknowledged segments arrived late, only SACK could tell.
            news.original_delivered = false;
        }
    }

    fn take_rtt(&mut self, ack: &Ack, news: &mut AckNews, prior_una: u64, prior_sacked: u32) {
        let now = ack.now;
        let acked = news.acked_sent.filter(|_| !news.retransmitted_acked);
        let evidence = RttEvidence {
            acked_us: acked.map(|sent| now.since_us_u32(sent.first)),
            sacked_us: news.sacked_sent.map(|sent| now.since_us_u32(sent.first)),
            timestamp_us: ack.ts_rtt_us.filter(|_| news.acked > 0),
        };
        let newest = news.sacked_sent.or(acked).map(|sent| now.since_us_u32(sent.last));
        news.rtt_us = newest.or(evidence.sample_us());
        // A lone short segment is what receivers delay ACKs for.
        news.maybe_delayed =
            news.acked == 1 && prior_sacked == 0 && ack.ack.saturating_sub(prior_una) < u64::from(self.mss);
        if let Some(us) = news.rtt_us {
            self.rtt.on_min_rtt(ack.now, us, news.maybe_delayed);
        }
        let sample = evidence.sample_us();
        if let Some(us) = sample {
            self.rtt.on_sample(us, self.board.una(), self.board.nxt());
        }
        // RFC 6298 5.3. During recovery SACKs of data that left before the first segment was sent again do it too, and
        // others must not, or the timer would never expire.
        let head_age_us = self.board.first().map(|head| now.since_us_u32(self.board.segment(head).sent()));
        news.rearm = news.acked > 0 || evidence.sacked_us.zip(head_age_us).is_some_and(|(sacked, head)| sacked > head);
    }
}

/// RFC 2883 4: the first block is a duplicate if it lies before the acknowledgement, or within the second.
fn is_dsack(ack: &Ack) -> bool {
    match ack.sacks {
        [first, ..] if first.end <= ack.ack => true,
        [first, second, ..] => second.covers(*first),
        _ => false,
    }
}
