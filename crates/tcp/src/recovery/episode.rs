//! Episodes: from the first doubt, over the reduction of the window, to the end of recovery or its undoing.

use super::ack::{Ack, AckNews};
use super::frto::{Frto, FrtoAck, FrtoVerdict};
use super::rack::{DUP_THRESHOLD, DUP_THRESHOLD_MAX};
use super::tlp::{ProbeAck, ProbeVerdict};
use super::{Hold, Recovery, State};
use crate::congestion::AckSample;
use crate::congestion::window::SSTHRESH_INFINITE;
use crate::time::Instant;

impl Recovery {
    /// Decides what an ACK means for the state, and marks what is lost.
    pub(super) fn judge(&mut self, ack: &Ack, news: &mut AckNews) {
        let probe_ack = ProbeAck {
            ack: ack.ack,
            dsack_of_probe: news.dsack_of_probe,
            pure_duplicate: ack.plain && !news.advanced && news.sacked == 0,
        };
        if self.tlp.on_ack(probe_ack) == ProbeVerdict::RepairedLoss {
            self.on_tail_loss(ack.now);
        }
        let doubtful = news.duplicate || news.sacked > 0 || news.dsack || ack.ece || self.state != State::Open;
        if ack.ece {
            self.undo.forbid();
        }
        if doubtful {
            if self.on_reneging(ack.now, news) {
                return;
            }
            self.judge_episode(ack, news);
        }
        if news.rearm {
            self.set_alarm(ack.now);
        }
    }

    fn judge_episode(&mut self, ack: &Ack, news: &mut AckNews) {
        if self.state == State::Open {
            self.undo.forget_retransmission();
        } else if self.board.una() >= self.high && self.end_of_episode(ack) {
            return;
        }
        match self.state {
            State::Recovery => self.in_recovery(ack, news),
            State::Loss => {
                self.in_loss(ack, news);
                self.find_losses(ack.now, news);
                if self.state != State::Open && !news.retransmission_lost {
                    return;
                }
                self.recover_or_open(ack);
            }
            _ => {
                self.count_reno_sacks(news);
                if self.state <= State::Disorder {
                    self.undo_by_dsack(ack.now);
                }
                self.find_losses(ack.now, news);
                self.recover_or_open(ack);
            }
        }
    }

    /// What was sent when the episode began is acknowledged. Answers whether the ACK has been dealt with.
    fn end_of_episode(&mut self, ack: &Ack) -> bool {
        match self.state {
            // The reduction lasts until something *above* the mark is acknowledged.
            State::Cwr if self.board.una() != self.high => {
                self.end_reduction(ack.now);
                self.state = State::Open;
            }
            State::Recovery => {
                if !self.config.sack {
                    self.board.reset_reno_sacks();
                }
                if self.undo_or_close(ack) {
                    return true;
                }
                self.end_reduction(ack.now);
            }
            _ => {}
        }
        false
    }

    /// An ACK during fast recovery.
    fn in_recovery(&mut self, ack: &Ack, news: &mut AckNews) {
        if !news.advanced {
            self.count_reno_sacks(news);
        } else if self.undo_partly(ack) {
            return;
        }
        if self.undo_by_dsack(ack.now) {
            self.keep_open();
        }
        self.find_losses(ack.now, news);
        if self.state != State::Recovery {
            self.recover_or_open(ack);
        }
    }

    /// An ACK after a timeout.
    fn in_loss(&mut self, ack: &Ack, news: &mut AckNews) {
        let recovered = self.board.una() >= self.high;
        if news.advanced && self.undo_timeout(ack, false) {
            return;
        }
        let verdict = self.frto.on_ack(FrtoAck {
            advanced: news.advanced,
            recovered,
            original_delivered: news.original_delivered,
            duplicate: news.sacked > 0 || news.duplicate,
            sent_new: self.board.nxt() > self.high,
            can_send_new: ack.can_send_new,
        });
        match verdict {
            FrtoVerdict::Spurious => {
                self.undo_timeout(ack, true);
            }
            FrtoVerdict::SendNew => {
                self.high = self.board.nxt();
                self.hold = Hold::UntilNewData;
            }
            FrtoVerdict::Proceed if recovered => {
                self.undo_or_close(ack);
            }
            FrtoVerdict::Proceed if !self.config.sack => {
                if self.board.nxt() > self.high && news.duplicate {
                    self.count_reno_sacks(news);
                } else if news.advanced {
                    self.board.reset_reno_sacks();
                }
            }
            FrtoVerdict::Proceed => {}
        }
    }

    // RFC 6675 5, RFC 6582 3.2: recovery begins as soon as something is lost; else the state follows the scoreboard.
    fn recover_or_open(&mut self, ack: &Ack) {
        if self.board.lost_out() > 0 {
            self.enter_recovery(ack.ece);
            return;
        }
        if !self.any_retransmission_out() {
            self.undo.forget_retransmission();
        }
        if ack.ece {
            self.enter_cwr();
        }
        if self.state != State::Cwr {
            self.keep_open();
        }
    }

    /// Fast recovery begins: RFC 6675 5 steps (4) to (4.3), with RACK's losses and PRR's window.
    pub(super) fn enter_recovery(&mut self, ece: bool) {
        self.undo.forbid();
        let probe_in_flight = u32::from(self.tlp.is_retransmission_in_flight());
        self.undo.begin(self.board.una(), self.board.retransmitted_out() + probe_in_flight);
        if !self.is_reducing() {
            if !ece {
                self.undo.remember_ssthresh(self.current_ssthresh());
            }
            self.congestion.on_loss();
            self.begin_reduction();
        }
        self.state = State::Recovery;
    }

    // RFC 3168 6.1.2: the window is reduced once a round trip, however many echoes come in.
    fn enter_cwr(&mut self) {
        self.undo.forbid();
        if self.state < State::Cwr {
            self.undo.end();
            self.congestion.on_ecn();
            self.begin_reduction();
            self.state = State::Cwr;
        }
    }

    /// A tail loss probe repaired a loss (RFC 8985 7.4.2): the window is reduced at once.
    fn on_tail_loss(&mut self, now: Instant) {
        self.congestion.on_loss();
        self.begin_reduction();
        self.state = State::Cwr;
        self.end_reduction(now);
        self.keep_open();
    }

    fn begin_reduction(&mut self) {
        self.high = self.board.nxt();
        self.tlp.end_episode();
        self.prr.begin(self.congestion.window.prior_cwnd());
    }

    // RFC 6937 3.1: "at the end of recovery, cwnd = ssthresh", unless the reduction was undone meanwhile.
    fn end_reduction(&mut self, now: Instant) {
        let window = &mut self.congestion.window;
        if window.ssthresh() < SSTHRESH_INFINITE && (self.state == State::Cwr || self.undo.is_open()) {
            let ssthresh = window.ssthresh();
            window.set_cwnd(ssthresh);
            window.touch(now);
        }
    }

    /// The retransmission timer expired: all that is not SACKed is deemed lost (RFC 5681 3.1, RFC 6675 5.1).
    pub(super) fn enter_loss(&mut self, now: Instant) {
        let began = self.state < State::Recovery;
        self.mark_all_lost(now);
        let first_of_window = self.state <= State::Disorder || self.board.una() >= self.high;
        if first_of_window || self.state == State::Loss && self.timeouts == 0 {
            self.undo.remember_ssthresh(self.current_ssthresh());
            self.congestion.on_rto();
            self.undo.begin(self.board.una(), self.board.retransmitted_out());
        }
        // RFC 5681 3.1, equation (4)'s paragraph: "cwnd MUST be set to no more than the loss window", one segment.
        self.congestion.window.set_cwnd(self.board.pipe() + 1);
        self.congestion.window.touch(now);
        // A timeout despite many SACKs: reordering was overestimated.
        if self.state <= State::Disorder && self.board.sacked_out() >= DUP_THRESHOLD {
            self.reordering.degree = self.reordering.degree.min(self.config.reordering);
        }
        self.state = State::Loss;
        self.high = self.board.nxt();
        self.tlp.end_episode();
        self.hold = Hold::No;
        self.frto.on_timeout(self.config.frto && (began || self.timeouts > 0));
    }

    fn mark_all_lost(&mut self, now: Instant) {
        let head = self.board.first();
        // RFC 6675 5.1: "SACK information may be unreliable": it is if the first segment is SACKed.
        let reneged = head.is_some_and(|head| self.board.segment(head).has(super::segment::SACKED));
        if reneged {
            self.board.forget_sacks();
            self.reneged = true;
            self.totals.reneged += 1;
        } else if !self.config.sack {
            self.board.reset_reno_sacks();
        }
        for number in self.board.numbers() {
            // RFC 8985 6.3: what was sent less than a round trip ago is not lost yet.
            let young = !reneged
                && self.config.sack
                && Some(number) != head
                && self.rack.remaining_us(self.board.segment(number), now, 0) > 0;
            if !young {
                self.mark_lost(number);
            }
        }
    }

    /// The path's MTU fell: what is too large is sent again in smaller pieces, and the window stays.
    pub(super) fn resend_without_reduction(&mut self) {
        if self.state != State::Loss {
            self.high = self.board.nxt();
            let ssthresh = self.current_ssthresh();
            self.congestion.window.set_ssthresh(ssthresh);
            self.undo.forbid();
            self.undo.end();
            self.state = State::Loss;
            self.frto = Frto::Off;
        }
    }

    /// RFC 8985 6.2 step 5, or without SACK RFC 6582 3.2: duplicate ACKs, then partial ones, mark the first segment.
    fn find_losses(&mut self, now: Instant, news: &mut AckNews) {
        if self.board.segments() == 0 {
            return;
        }
        if self.config.sack {
            if !self.rack.take_advanced() {
                return;
            }
            let found = self.detect_losses(now);
            news.retransmission_lost |= found.lost_retransmissions > 0;
            if let Some(us) = found.again_in_us {
                self.set_reordering_alarm(now, us);
                news.rearm = false;
            }
            return;
        }
        let enough = self.state < State::Recovery && self.board.sacked_out() >= self.reordering.degree;
        let partial = self.state == State::Recovery && news.advanced;
        if (enough || partial)
            && let Some(head) = self.board.first()
            && !self.board.segment(head).has(super::segment::LOST)
        {
            self.mark_lost(head);
        }
    }

    fn count_reno_sacks(&mut self, news: &mut AckNews) {
        if self.config.sack {
            return;
        }
        if news.advanced && self.state < State::Recovery {
            self.board.reset_reno_sacks();
        }
        let before = self.board.sacked_out();
        if news.duplicate && self.board.add_reno_sacks(1) {
            self.saw_reno_reordering();
        }
        news.delivered += self.board.sacked_out().saturating_sub(before);
    }

    pub(super) fn saw_reno_reordering(&mut self) {
        let degree = self.board.segments().min(DUP_THRESHOLD_MAX);
        self.reordering.degree = self.reordering.degree.max(degree);
        self.reordering.seen = self.reordering.seen.saturating_add(1);
    }

    // RFC 2018 8: the receiver may renege; wait a little for it to correct itself, then begin anew.
    fn on_reneging(&mut self, now: Instant, news: &AckNews) -> bool {
        if news.reneging {
            let us = (self.rtt.srtt_us().unwrap_or(0) / 2).max(10_000);
            self.set_timeout(now, us);
        }
        news.reneging
    }

    pub(super) fn keep_open(&mut self) {
        let left_out = self.board.sacked_out() + self.board.lost_out();
        let state = if left_out > 0 || self.any_retransmission_out() { State::Disorder } else { State::Open };
        if state != self.state {
            self.state = state;
            self.high = self.board.nxt();
        }
    }

    pub(super) fn any_retransmission_out(&self) -> bool {
        let head = self.board.first().is_some_and(|head| self.board.segment(head).was_retransmitted());
        self.board.retransmitted_out() > 0 || head
    }

    pub(super) fn current_ssthresh(&self) -> u32 {
        let window = &self.congestion.window;
        if self.is_reducing() { window.ssthresh() } else { window.equivalent_ssthresh() }
    }

    /// Moves the window by what the ACK delivered: PRR while it is being reduced, else the algorithm.
    pub(super) fn steer(&mut self, ack: &Ack, news: &AckNews) {
        let times = self.times();
        let rate = self.rate.on_ack_end(ack.now.into(), news.delivered, times.min_rtt_us, self.reneged);
        let reducing = self.is_reducing();
        if reducing {
            self.reduce(news.delivered, news.advanced && news.lost == 0);
        }
        // With much reordering SACKs are progress too; else the window waits for the left edge.
        let progress = news.acked > 0 || news.sacked > 0 && self.reordering.degree > self.config.reordering;
        self.congestion.on_ack(&AckSample {
            now: ack.now,
            delivered: news.delivered,
            marked: if ack.ece { news.delivered } else { 0 },
            una: self.board.una(),
            nxt: self.board.nxt(),
            rtt_us: news.rtt_us,
            rate,
            may_grow: progress && !reducing,
        });
    }
}
