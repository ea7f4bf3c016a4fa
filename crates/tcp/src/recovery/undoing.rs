//! Taking back a reduction that was needless, and closing episodes that were not.

use super::ack::Ack;
use super::{Recovery, State};
use crate::time::Instant;

impl Recovery {
    /// The episode's mark is acknowledged: undoes it if it was needless, and opens. Answers whether the state stays,
    /// because without SACK the next ACK may yet belong to the episode.
    pub(super) fn undo_or_close(&mut self, ack: &Ack) -> bool {
        if self.undo.may(ack.ts_echo) {
            self.undo_reduction(ack.now, false);
        } else {
            self.rack.on_recovery_end();
        }
        if self.must_stay() {
            return true;
        }
        self.state = State::Open;
        self.reneged = false;
        false
    }

    // RFC 5682 3.1 step 3 (b), RFC 3522 3.2 step 6, RFC 4015 3: the timeout was spurious.
    /// Undoes a timeout if that is `proven` or timestamps or DSACKs show it. Answers whether it did.
    pub(super) fn undo_timeout(&mut self, ack: &Ack, proven: bool) -> bool {
        if !proven && !self.undo.may(ack.ts_echo) {
            return false;
        }
        self.undo_reduction(ack.now, true);
        self.timeouts = 0;
        if self.must_stay() {
            return true;
        }
        if proven || self.config.sack {
            self.state = State::Open;
            self.reneged = false;
        }
        true
    }

    // RFC 3522 3.2: a partial ACK that echoes a timestamp from before the first retransmission.
    /// Undoes fast recovery if a segment was only late. Answers whether the ACK has been dealt with.
    pub(super) fn undo_partly(&mut self, ack: &Ack) -> bool {
        if !self.undo.is_open() || !self.undo.was_delayed(ack.ts_echo) {
            return false;
        }
        self.reordering.observe(ack.ack, self.board.highest_sacked(), self.mss);
        // Retransmissions are on their way: send new data meanwhile, but repeat no more.
        if self.board.retransmitted_out() > 0 {
            return true;
        }
        if !self.any_retransmission_out() {
            self.undo.forget_retransmission();
        }
        self.undo_reduction(ack.now, true);
        self.keep_open();
        false
    }

    // RFC 3708 3: every retransmission was reported as a duplicate.
    pub(super) fn undo_by_dsack(&mut self, now: Instant) -> bool {
        if !self.undo.all_were_needless() {
            return false;
        }
        self.rack.on_dsack_undo();
        self.undo_reduction(now, false);
        true
    }

    // RFC 6582 3.2, 4.1: without SACK, duplicate ACKs of what was just acknowledged must not begin a new recovery.
    fn must_stay(&mut self) -> bool {
        let stay = !self.config.sack && self.board.una() == self.high;
        if stay && !self.any_retransmission_out() {
            self.undo.forget_retransmission();
        }
        stay
    }

    fn undo_reduction(&mut self, now: Instant, forget_losses: bool) {
        if forget_losses {
            self.board.forget_losses();
        }
        if let Some(ssthresh) = self.undo.prior_ssthresh() {
            self.congestion.on_undo(now, ssthresh);
            self.totals.undone += 1;
        }
        self.undo.end();
        // What is lost must be judged anew.
        self.rack.force();
    }
}
