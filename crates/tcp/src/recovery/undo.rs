//! What it takes to undo a window reduction that turns out needless: by timestamps (Eifel, RFC 3522), or because
//! DSACKs (RFC 2883, RFC 3708) report every retransmission as a duplicate.

use crate::time::Instant;

/// The episode that may be undone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Undo {
    /// The left edge of the window when the episode began; `None` if there is nothing to undo.
    marker: Option<u64>,
    /// Retransmissions not yet reported as duplicates; `None` before the first.
    retransmissions: Option<u32>,
    /// `ssthresh` before the reduction; 0 if the reduction must stay (ECN).
    prior_ssthresh: u32,
    /// When the first retransmission of the episode was sent, and its timestamp.
    first_retransmission: Option<(Instant, u32)>,
}

impl Undo {
    /// An episode begins at `una` with `in_flight` retransmissions that may cause DSACKs later.
    pub fn begin(&mut self, una: u64, in_flight: u32) {
        self.marker = Some(una);
        self.retransmissions = (in_flight > 0).then_some(in_flight);
    }

    /// Nothing of the past can be undone any more.
    pub fn end(&mut self) {
        self.marker = None;
    }

    pub fn is_open(&self) -> bool {
        self.marker.is_some()
    }

    /// Remembers what to return to.
    pub fn remember_ssthresh(&mut self, ssthresh: u32) {
        self.prior_ssthresh = ssthresh;
    }

    /// The reduction has a cause that cannot turn out wrong: marks of ECN.
    pub fn forbid(&mut self) {
        self.prior_ssthresh = 0;
    }

    /// What `ssthresh` was, unless the reduction must stay.
    pub fn prior_ssthresh(&self) -> Option<u32> {
        Some(self.prior_ssthresh).filter(|s| *s > 0)
    }

    /// `segments` were sent again at `now`, with the timestamp `tsval`.
    pub fn on_retransmit(&mut self, now: Instant, tsval: u32, segments: u32) {
        self.first_retransmission.get_or_insert((now, tsval));
        self.retransmissions = Some(self.retransmissions.unwrap_or(0) + segments);
    }

    /// A DSACK reported `segments` that end after the episode's beginning as arrived twice.
    pub fn on_dsack(&mut self, end: u64, segments: u32) {
        if self.marker.is_some_and(|marker| end > marker)
            && let Some(left) = &mut self.retransmissions
        {
            *left = left.saturating_sub(segments);
        }
    }

    /// No retransmission is outstanding: the next one begins a new reckoning.
    pub fn forget_retransmission(&mut self) {
        self.first_retransmission = None;
    }

    /// When the first retransmission of the episode was sent.
    pub fn first_retransmission(&self) -> Option<Instant> {
        self.first_retransmission.map(|(at, _)| at)
    }

    // RFC 3522 3.2 step 5: the ACK echoes a timestamp older than the first retransmission, so it acknowledges the
    // original. With no retransmission sent yet there is nothing else that it could acknowledge.
    /// Whether an ACK that echoes `ts_echo` shows that a segment was only late.
    pub fn was_delayed(&self, ts_echo: Option<u32>) -> bool {
        match (self.first_retransmission, ts_echo) {
            (None, _) => true,
            (Some((_, tsval)), Some(echo)) => (echo.wrapping_sub(tsval) as i32) < 0,
            (Some(_), None) => false,
        }
    }

    /// Whether DSACKs have reported every retransmission.
    pub fn all_were_needless(&self) -> bool {
        self.is_open() && self.retransmissions == Some(0)
    }

    /// Whether an ACK that echoes `ts_echo` allows undoing.
    pub fn may(&self, ts_echo: Option<u32>) -> bool {
        self.is_open() && (self.all_were_needless() || self.was_delayed(ts_echo))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_echo_or_a_dsack_for_each_retransmission_allows_it() {
        let mut undo = Undo::default();
        assert!(!undo.may(Some(1)));
        undo.begin(100, 0);
        undo.on_retransmit(Instant::from_ms(9), 50, 1);
        undo.on_retransmit(Instant::from_ms(10), 51, 1);
        assert!(!undo.may(Some(50)) && !undo.may(None));
        assert!(undo.may(Some(49)));
        undo.on_dsack(100, 1);
        undo.on_dsack(200, 1);
        assert!(!undo.may(Some(50)), "one was not reported, and one lies before the episode");
        undo.on_dsack(300, 1);
        assert!(undo.may(Some(50)));
        undo.end();
        assert!(!undo.may(Some(49)));
    }

    #[test]
    fn echoes_wrap() {
        let mut undo = Undo::default();
        undo.begin(0, 0);
        undo.on_retransmit(Instant::ZERO, 3, 1);
        assert!(undo.may(Some(u32::MAX)));
    }
}
