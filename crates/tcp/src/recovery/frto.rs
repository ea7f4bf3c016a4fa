//! F-RTO (RFC 5682): after a timeout, find out from the next ACKs whether anything was lost at all.

/// Where detection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Frto {
    /// No timeout is being judged: recover as usual.
    #[default]
    Off,
    /// Segment `una` was sent again; the next ACKs decide.
    Judging,
}

/// What of an ACK matters, while the state is Loss.
#[derive(Clone, Copy, Debug)]
pub struct FrtoAck {
    /// The left edge moved.
    pub advanced: bool,
    /// All that was sent when the timer expired is acknowledged.
    pub recovered: bool,
    /// Data was acknowledged or SACKed that was never retransmitted and sent before the timeout.
    pub original_delivered: bool,
    /// SACKs for more data, or a duplicate ACK.
    pub duplicate: bool,
    /// New data has been sent since the timeout.
    pub sent_new: bool,
    /// There is new data, and the receiver's window has room for it.
    pub can_send_new: bool,
}

/// What to do about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrtoVerdict {
    /// Recover as usual.
    Proceed,
    /// The timeout was spurious: undo what it did.
    Spurious,
    /// Send new data before any retransmission, and judge by its ACK.
    SendNew,
}

impl Frto {
    // RFC 5682 3.1 step 1: judge this timeout, unless recovery was under way already.
    /// The retransmission timer expired.
    pub fn on_timeout(&mut self, judge: bool) {
        *self = if judge { Frto::Judging } else { Frto::Off };
    }

    /// Judges an ACK.
    pub fn on_ack(&mut self, ack: FrtoAck) -> FrtoVerdict {
        if *self == Frto::Off {
            return FrtoVerdict::Proceed;
        }
        // RFC 5682 3.1 step 3 (b): data that was not retransmitted has been acknowledged.
        if ack.original_delivered {
            *self = Frto::Off;
            return FrtoVerdict::Spurious;
        }
        if ack.sent_new {
            if ack.duplicate {
                // RFC 5682 3.1 step 3 (a): a duplicate ACK for the new data: the loss was real.
                *self = Frto::Off;
            }
        } else if ack.advanced && !ack.recovered {
            // RFC 5682 3.1 step 2 (b): send new data, or (b)'s last paragraph: without any, recover as usual.
            if ack.can_send_new {
                return FrtoVerdict::SendNew;
            }
            *self = Frto::Off;
        }
        FrtoVerdict::Proceed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: FrtoAck = FrtoAck {
        advanced: false,
        recovered: false,
        original_delivered: false,
        duplicate: false,
        sent_new: false,
        can_send_new: true,
    };

    #[test]
    fn a_late_ack_of_an_original_is_proof() {
        let mut frto = Frto::Judging;
        assert_eq!(frto.on_ack(FrtoAck { advanced: true, ..NOTHING }), FrtoVerdict::SendNew);
        let late = FrtoAck { advanced: true, original_delivered: true, sent_new: true, ..NOTHING };
        assert_eq!(frto.on_ack(late), FrtoVerdict::Spurious);
        assert_eq!(frto, Frto::Off);
    }

    #[test]
    fn a_duplicate_for_new_data_means_a_real_loss() {
        let mut frto = Frto::Judging;
        assert_eq!(frto.on_ack(FrtoAck { duplicate: true, sent_new: true, ..NOTHING }), FrtoVerdict::Proceed);
        assert_eq!(frto, Frto::Off);
    }

    #[test]
    fn without_new_data_it_recovers_as_usual() {
        let mut frto = Frto::Judging;
        assert_eq!(frto.on_ack(FrtoAck { advanced: true, can_send_new: false, ..NOTHING }), FrtoVerdict::Proceed);
        assert_eq!(frto, Frto::Off);
        frto.on_timeout(false);
        assert_eq!(frto.on_ack(FrtoAck { original_delivered: true, ..NOTHING }), FrtoVerdict::Proceed);
    }
}
