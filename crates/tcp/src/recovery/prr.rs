//! Proportional Rate Reduction (RFC 6937, RFC 9937): how much to send for each ACK while the window is being
//! reduced, so that the flight glides to `ssthresh` instead of stopping.

/// The reduction under way. All amounts are segments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prr {
    /// RecoverFS: the window when the reduction began.
    prior_cwnd: u32,
    /// prr_delivered: delivered since.
    delivered: u32,
    /// prr_out: sent since.
    out: u32,
}

/// What PRR needs to know of one ACK.
#[derive(Clone, Copy, Debug)]
pub struct PrrAck {
    /// Segments newly acknowledged or SACKed (DeliveredData).
    pub delivered: u32,
    /// Segments deemed in flight, after the ACK.
    pub pipe: u32,
    pub ssthresh: u32,
    /// SafeACK: the left edge moved and nothing more was found lost.
    pub safe: bool,
}

impl Prr {
    // RFC 9937 6: initialise prr_delivered, prr_out and RecoverFS. Linux takes the window for the flight size.
    /// A reduction begins with the window at `cwnd`.
    pub fn begin(&mut self, cwnd: u32) {
        *self = Prr { prior_cwnd: cwnd, delivered: 0, out: 0 };
    }

    /// `segments` were sent, new or again, during the reduction.
    pub fn on_sent(&mut self, segments: u32) {
        self.out = self.out.saturating_add(segments);
    }

    /// The window after an ACK, or `None` if the ACK delivered nothing and so changes nothing.
    pub fn on_ack(&mut self, ack: PrrAck) -> Option<u32> {
        if ack.delivered == 0 || self.prior_cwnd == 0 {
            return None;
        }
        self.delivered = self.delivered.saturating_add(ack.delivered);
        let to_send = if ack.pipe > ack.ssthresh {
            // RFC 6937 3.1: reduce in proportion, rounding up.
            let target = u64::from(ack.ssthresh) * u64::from(self.delivered);
            (target.div_ceil(u64::from(self.prior_cwnd)) as u32).saturating_sub(self.out)
        } else {
            // RFC 9937 6: with too little in flight conserve packets (CRB); a SafeACK allows one more for each ACK, as
            // slow start does (SSRB).
            let conserved = self.delivered.saturating_sub(self.out).max(ack.delivered);
            (conserved + u32::from(ack.safe)).min(ack.ssthresh - ack.pipe)
        };
        // RFC 9937 6: "Force a fast retransmit upon entering recovery".
        let at_least = u32::from(self.out == 0);
        Some(ack.pipe + to_send.max(at_least))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_flight_glides_to_ssthresh() {
        // RFC 6937 4, first example: 20 in flight, one lost, ssthresh 10: one sent for every two ACKs.
        let (mut prr, mut pipe) = (Prr::default(), 19u32);
        prr.begin(20);
        let mut sent = Vec::new();
        for _ in 0..18 {
            pipe -= 1;
            let cwnd = prr.on_ack(PrrAck { delivered: 1, pipe, ssthresh: 10, safe: false }).unwrap();
            let now = cwnd.saturating_sub(pipe);
            prr.on_sent(now);
            pipe += now;
            sent.push(now);
        }
        assert_eq!(pipe, 10);
        assert_eq!(sent[..6], [1, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn after_heavy_losses_it_conserves_or_grows_as_slow_start() {
        let mut prr = Prr::default();
        prr.begin(20);
        prr.on_sent(1);
        let ack = PrrAck { delivered: 1, pipe: 3, ssthresh: 10, safe: false };
        assert_eq!(prr.on_ack(ack), Some(4));
        prr.on_sent(1);
        assert_eq!(prr.on_ack(PrrAck { safe: true, ..ack }), Some(5));
        assert_eq!(prr.on_ack(PrrAck { delivered: 0, ..ack }), None);
    }

    #[test]
    fn the_first_ack_always_lets_the_retransmission_out() {
        let mut prr = Prr::default();
        prr.begin(100);
        assert_eq!(prr.on_ack(PrrAck { delivered: 0, pipe: 99, ssthresh: 1, safe: false }), None);
        prr.begin(u32::MAX);
        assert_eq!(prr.on_ack(PrrAck { delivered: 1, pipe: 99, ssthresh: 0, safe: false }), Some(100));
    }

    proptest! {
        // RFC 6937 3: never more than `ssthresh` in flight at the end, and no more sent than delivered plus one for
        // each SafeACK, while above ssthresh.
        #[test]
        fn never_exceeds_its_bounds(
            cwnd in 4u32..500,
            lost in 0u32..100,
            acks in prop::collection::vec((1u32..4, any::<bool>()), 1..300),
        ) {
            let ssthresh = (cwnd * 7 / 10).max(2);
            let mut prr = Prr::default();
            prr.begin(cwnd);
            let mut pipe = cwnd.saturating_sub(lost);
            let (mut delivered, mut sent, mut safe_acks) = (0, 0, 0);
            for (newly, safe) in acks {
                let newly = newly.min(pipe);
                if newly == 0 {
                    break;
                }
                pipe -= newly;
                delivered += newly;
                safe_acks += u32::from(safe);
                let window = prr.on_ack(PrrAck { delivered: newly, pipe, ssthresh, safe }).unwrap();
                let now = window.saturating_sub(pipe);
                prr.on_sent(now);
                pipe += now;
                sent += now;
                prop_assert!(sent <= delivered + safe_acks + 1);
                prop_assert!(pipe <= ssthresh.max(cwnd));
            }
        }
    }
}
