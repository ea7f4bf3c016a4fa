//! Tail loss probes (RFC 8985 7): one segment, two round trips after the last, so that the loss of a flight's tail
//! is found by an ACK and not by the retransmission timer.

/// Linux's `TCP_TIMEOUT_MIN`: what a probe waits beyond two round trips, at least.
const SLACK_US: u32 = 2000;

/// What the ACK of a probe means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeVerdict {
    /// Nothing, or that nothing was lost.
    Unchanged,
    /// The probe repaired a loss that no SACK would have shown: congestion control must know.
    RepairedLoss,
}

/// What of an ACK matters to a probe.
#[derive(Clone, Copy, Debug)]
pub struct ProbeAck {
    pub ack: u64,
    /// A DSACK reported the probe itself.
    pub dsack_of_probe: bool,
    /// It acknowledged nothing, SACKed nothing, carried no data and left the window as it was.
    pub pure_duplicate: bool,
}

/// The probe in flight, if any.
#[derive(Clone, Debug, Default)]
pub struct Tlp {
    /// TLP.end_seq: the end of what was sent when the probe was.
    end: Option<u64>,
    /// TLP.is_retrans: whether the probe repeated the last segment rather than bring a new one.
    retransmitted: bool,
}

impl Tlp {
    // RFC 8985 7.2, TLP_calc_PTO().
    /// How long after the last segment to probe. `srtt_us` is `None` before the first sample; `max_ack_delay_us`
    /// guards against a receiver that delays the ACK of a lone segment.
    pub fn timeout_us(srtt_us: Option<u32>, segments: u32, max_ack_delay_us: u32) -> u32 {
        let Some(srtt_us) = srtt_us else { return crate::rtt::INITIAL_RTO_US };
        let slack_us = if segments == 1 { max_ack_delay_us } else { SLACK_US };
        srtt_us.saturating_mul(2).saturating_add(slack_us)
    }

    /// A probe was sent; `nxt` is the offset after all that was sent.
    pub fn on_sent(&mut self, nxt: u64, retransmitted: bool) {
        (self.end, self.retransmitted) = (Some(nxt), retransmitted);
    }

    /// The end of what was sent when the probe in flight was.
    pub fn end(&self) -> Option<u64> {
        self.end
    }

    /// Whether a probe in flight repeated a segment.
    pub fn is_retransmission_in_flight(&self) -> bool {
        self.end.is_some() && self.retransmitted
    }

    /// Recovery has begun: the probe has done its work.
    pub fn end_episode(&mut self) {
        self.end = None;
    }

    // RFC 8985 7.4.2, TLP_process_ack().
    /// Judges an ACK while a probe is in flight.
    pub fn on_ack(&mut self, probe_ack: ProbeAck) -> ProbeVerdict {
        let Some(end) = self.end.filter(|end| probe_ack.ack >= *end) else { return ProbeVerdict::Unchanged };
        if !self.retransmitted || probe_ack.dsack_of_probe {
            // New data was acknowledged, or both the original and the probe arrived.
            self.end = None;
        } else if probe_ack.ack > end {
            self.end = None;
            return ProbeVerdict::RepairedLoss;
        } else if probe_ack.pure_duplicate {
            self.end = None;
        }
        ProbeVerdict::Unchanged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(retransmitted: bool) -> Tlp {
        let mut tlp = Tlp::default();
        tlp.on_sent(1000, retransmitted);
        tlp
    }

    fn ack(ack: u64) -> ProbeAck {
        ProbeAck { ack, dsack_of_probe: false, pure_duplicate: false }
    }

    #[test]
    fn a_lone_segment_allows_for_a_delayed_ack() {
        assert_eq!(Tlp::timeout_us(Some(10_000), 4, 200_000), 22_000);
        assert_eq!(Tlp::timeout_us(Some(10_000), 1, 200_000), 220_000);
        assert_eq!(Tlp::timeout_us(None, 1, 200_000), 1_000_000);
    }

    #[test]
    fn new_data_as_a_probe_shows_no_loss() {
        let mut tlp = probe(false);
        assert_eq!(tlp.on_ack(ack(999)), ProbeVerdict::Unchanged);
        assert!(tlp.end().is_some());
        assert_eq!(tlp.on_ack(ack(1000)), ProbeVerdict::Unchanged);
        assert_eq!(tlp.end(), None);
    }

    #[test]
    fn original_and_probe_arrived() {
        let mut tlp = probe(true);
        assert_eq!(tlp.on_ack(ack(1000)), ProbeVerdict::Unchanged);
        assert!(tlp.end().is_some(), "the first ACK does not tell which of the two arrived");
        assert_eq!(tlp.on_ack(ProbeAck { pure_duplicate: true, ..ack(1000) }), ProbeVerdict::Unchanged);
        assert_eq!(tlp.end(), None);
        let mut tlp = probe(true);
        assert_eq!(tlp.on_ack(ProbeAck { dsack_of_probe: true, ..ack(2000) }), ProbeVerdict::Unchanged);
        assert_eq!(tlp.end(), None);
    }

    #[test]
    fn progress_without_a_duplicate_means_that_the_original_was_lost() {
        assert_eq!(probe(true).on_ack(ack(1001)), ProbeVerdict::RepairedLoss);
    }
}
