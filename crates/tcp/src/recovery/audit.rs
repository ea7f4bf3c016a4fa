//! What must hold of the sender's side at any time, for simulations and fuzzing. Slow: looks at every segment.

use super::Recovery;
use super::scoreboard::Scoreboard;
use super::segment::{LISTED, LOST, RETRANSMITTED, SACKED};

impl Recovery {
    /// Says what does not hold, if anything does not.
    pub fn audit(&self) -> Result<(), &'static str> {
        self.board.audit()?;
        if self.board.segments() > 0 && self.alarm.is_none() {
            return Err("segments are in flight and no alarm is set");
        }
        if self.congestion.window.cwnd() == 0 {
            return Err("the congestion window is 0");
        }
        if self.high > self.board.nxt() {
            return Err("the episode ends behind what was sent");
        }
        Ok(())
    }
}

impl Scoreboard {
    /// Says what does not hold, if anything does not.
    pub fn audit(&self) -> Result<(), &'static str> {
        let segments = || self.numbers().map(|number| self.at(number));
        let count = |flag: u8| segments().filter(|segment| segment.has(flag)).count() as u32;
        let marked = segments().filter(|s| s.has(SACKED)).count() as u32;
        // Without SACK the count comes from duplicate ACKs, and no segment is marked.
        if marked > 0 && marked != self.sacked_out() || self.sacked_out() > self.segments() {
            return Err("sacked_out is not the number of SACKed segments");
        }
        if count(LOST) != self.lost_out() {
            return Err("lost_out is not the number of lost segments");
        }
        if count(RETRANSMITTED) != self.retransmitted_out() {
            return Err("retransmitted_out is not the number of retransmissions in flight");
        }
        if segments().any(|s| s.has(SACKED) && s.has(LOST)) {
            return Err("a segment is both SACKed and lost");
        }
        let waiting = segments().filter(|s| s.has(LOST) && !s.has(RETRANSMITTED)).count() as u32;
        if waiting != self.waiting_out() {
            return Err("waiting_out is not the number of segments that wait to be sent again");
        }
        let listed = segments().filter(|s| s.has(LISTED)).count() as u32;
        if listed != self.listed || listed + marked + waiting != self.segments() {
            return Err("a segment is neither listed, nor SACKed, nor waiting");
        }
        let mut offset = self.una();
        for number in self.numbers() {
            let span = self.span(number);
            if span.start != offset || span.is_empty() {
                return Err("segments do not follow each other");
            }
            offset = span.end;
        }
        if offset != self.nxt() { Err("segments do not reach what is sent next") } else { Ok(()) }
    }
}
