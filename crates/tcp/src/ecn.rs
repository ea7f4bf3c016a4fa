//! Explicit congestion notification: agreeing on it, echoing marks, answering echoes (RFC 3168), and DCTCP's exact
//! echo (RFC 8257 3.2).

/// The two bits in the IP header (RFC 3168 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Codepoint {
    #[default]
    NotEct = 0b00,
    Ect1 = 0b01,
    Ect0 = 0b10,
    /// Congestion experienced.
    Ce = 0b11,
}

impl Codepoint {
    /// From the low two bits of the traffic class.
    pub fn from_bits(bits: u8) -> Codepoint {
        match bits & 0b11 {
            0b01 => Codepoint::Ect1,
            0b10 => Codepoint::Ect0,
            0b11 => Codepoint::Ce,
            _ => Codepoint::NotEct,
        }
    }
}

/// Linux's `tcp_ecn`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EcnMode {
    Off,
    /// Ask for it and agree to it.
    On,
    /// Agree to it.
    #[default]
    AcceptOnly,
}

/// The flags of a SYN or SYN-ACK that speak of ECN.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EcnFlags {
    pub ece: bool,
    pub cwr: bool,
}

impl EcnMode {
    // RFC 3168 6.1.1: an ECN-setup SYN has both flags.
    /// The flags of our SYN. `needed` if the congestion control cannot do without.
    pub fn syn(self, needed: bool) -> EcnFlags {
        let ask = self == EcnMode::On || needed;
        EcnFlags { ece: ask, cwr: ask }
    }

    // RFC 3168 6.1.1: an ECN-setup SYN-ACK has ECE only. 6.1.1.1: what a broken host reflects is not agreement.
    /// Whether a SYN-ACK with `flags` agrees to what our SYN asked.
    pub fn agreed_by_syn_ack(self, needed: bool, flags: EcnFlags) -> bool {
        self.syn(needed).ece && flags.ece && !flags.cwr
    }

    /// Whether we agree to a SYN with `flags`. RFC 3168 6.1.1: its IP header must not be ECN-capable, unless the peer
    /// speaks DCTCP too.
    pub fn agrees_to_syn(self, needed: bool, flags: EcnFlags, codepoint: Codepoint) -> bool {
        let asked = flags.ece && flags.cwr;
        asked && (needed || self != EcnMode::Off && codepoint == Codepoint::NotEct)
    }
}

/// What a received segment asks of the acknowledgement side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EchoAction {
    Nothing,
    /// Do not delay the next ACK.
    AckNow,
    /// First acknowledge what came before this segment, with the old echo; then treat this segment, and do not delay
    /// its ACK (RFC 8257 3.2).
    AckBeforeThis,
}

/// What a segment that leaves carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marking {
    pub codepoint: Codepoint,
    pub cwr: bool,
}

/// ECN on one connection that agreed on it.
#[derive(Clone, Debug, Default)]
pub struct Ecn {
    agreed: bool,
    /// Whether congestion control wants exact echoes and marks on everything (DCTCP).
    exact: bool,
    /// ECE is set on what we send: until CWR arrives (RFC 3168), or as the newest segment was marked (DCTCP.CE).
    echo: bool,
    /// The peer has sent an ECN-capable segment.
    seen: bool,
    /// The next new segment tells the peer that we have reduced.
    owe_cwr: bool,
}

impl Ecn {
    /// The handshake's outcome.
    pub fn new(agreed: bool, exact: bool) -> Ecn {
        Ecn { agreed, exact, ..Ecn::default() }
    }

    pub fn is_agreed(&self) -> bool {
        self.agreed
    }

    /// The peer has sent an ECN-capable segment (`TCPI_OPT_ECN_SEEN`).
    pub fn is_seen(&self) -> bool {
        self.seen
    }

    /// A segment with payload arrived.
    pub fn on_data(&mut self, codepoint: Codepoint, cwr: bool) -> EchoAction {
        if !self.agreed {
            return EchoAction::Nothing;
        }
        self.seen |= codepoint != Codepoint::NotEct;
        if self.exact { self.echo_exactly(codepoint == Codepoint::Ce) } else { self.echo_until_cwr(codepoint, cwr) }
    }

    /// Whether what we send carries ECE.
    pub fn ece(&self) -> bool {
        self.agreed && self.echo
    }

    /// Whether an ACK's ECE means anything.
    pub fn accepts_echo(&self, ece: bool) -> bool {
        self.agreed && ece
    }

    /// The window was reduced: tell the peer.
    pub fn owe_cwr(&mut self) {
        self.owe_cwr = self.agreed;
    }

    /// The reduction was undone.
    pub fn withdraw_cwr(&mut self) {
        self.owe_cwr = false;
    }

    /// What the next segment carries. `new_data`: it has payload that is sent for the first time.
    pub fn mark(&mut self, new_data: bool) -> Marking {
        if !self.agreed {
            return Marking::default();
        }
        // RFC 3168 6.1.4, 6.1.5: pure ACKs and retransmissions are not ECN-capable. RFC 8257 3.1 wants all to be.
        let codepoint = if new_data || self.exact { Codepoint::Ect0 } else { Codepoint::NotEct };
        let cwr = new_data && core::mem::take(&mut self.owe_cwr);
        Marking { codepoint, cwr }
    }

    // RFC 3168 6.1.3: from the first CE on, ECE is on every ACK until a segment with CWR arrives.
    fn echo_until_cwr(&mut self, codepoint: Codepoint, cwr: bool) -> EchoAction {
        let before = self.echo;
        if cwr {
            self.echo = false;
        }
        let marked = codepoint == Codepoint::Ce;
        self.echo |= marked;
        // The sender's window may be a single segment now: an ACK held back would stall it.
        let urgent = cwr || marked && !before || self.seen && codepoint == Codepoint::NotEct;
        if urgent { EchoAction::AckNow } else { EchoAction::Nothing }
    }

    // RFC 8257 3.2, figure 1: when CE changes, what came before is acknowledged with the old value.
    fn echo_exactly(&mut self, marked: bool) -> EchoAction {
        if self.echo == marked { EchoAction::Nothing } else { EchoAction::AckBeforeThis }
    }

    /// The ACK that [`EchoAction::AckBeforeThis`] asked for has been sent, or there was nothing to acknowledge.
    pub fn after_ack_before_this(&mut self) {
        self.echo = !self.echo;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: EcnFlags = EcnFlags { ece: true, cwr: true };
    const ECE: EcnFlags = EcnFlags { ece: true, cwr: false };

    #[test]
    fn agreeing_takes_both_ends() {
        assert_eq!(EcnMode::On.syn(false), BOTH);
        assert_eq!(EcnMode::AcceptOnly.syn(false), EcnFlags::default());
        assert_eq!(EcnMode::AcceptOnly.syn(true), BOTH);
        assert!(EcnMode::AcceptOnly.agrees_to_syn(false, BOTH, Codepoint::NotEct));
        assert!(!EcnMode::AcceptOnly.agrees_to_syn(false, ECE, Codepoint::NotEct));
        assert!(!EcnMode::On.agrees_to_syn(false, BOTH, Codepoint::Ect0));
        assert!(!EcnMode::Off.agrees_to_syn(false, BOTH, Codepoint::NotEct));
        assert!(EcnMode::On.agreed_by_syn_ack(false, ECE));
        assert!(!EcnMode::On.agreed_by_syn_ack(false, BOTH), "a host that reflects the flags");
        assert!(!EcnMode::AcceptOnly.agreed_by_syn_ack(false, ECE));
    }

    #[test]
    fn an_echo_lasts_until_cwr() {
        let mut ecn = Ecn::new(true, false);
        assert_eq!(ecn.on_data(Codepoint::Ect0, false), EchoAction::Nothing);
        assert_eq!(ecn.on_data(Codepoint::Ce, false), EchoAction::AckNow);
        assert!(ecn.ece());
        assert_eq!(ecn.on_data(Codepoint::Ce, false), EchoAction::Nothing);
        assert_eq!(ecn.on_data(Codepoint::Ect0, false), EchoAction::Nothing);
        assert!(ecn.ece());
        assert_eq!(ecn.on_data(Codepoint::Ect0, true), EchoAction::AckNow);
        assert!(!ecn.ece());
        ecn.on_data(Codepoint::Ce, true);
        assert!(ecn.ece(), "marked anew");
    }

    #[test]
    fn without_agreement_nothing_happens() {
        let mut ecn = Ecn::new(false, false);
        assert_eq!(ecn.on_data(Codepoint::Ce, false), EchoAction::Nothing);
        ecn.owe_cwr();
        assert!(!ecn.ece() && !ecn.accepts_echo(true));
        assert_eq!(ecn.mark(true), Marking::default());
    }

    #[test]
    fn cwr_goes_out_once_on_new_data() {
        let mut ecn = Ecn::new(true, false);
        ecn.owe_cwr();
        assert_eq!(ecn.mark(false), Marking::default());
        assert_eq!(ecn.mark(true), Marking { codepoint: Codepoint::Ect0, cwr: true });
        assert_eq!(ecn.mark(true), Marking { codepoint: Codepoint::Ect0, cwr: false });
    }

    #[test]
    fn dctcp_acknowledges_the_old_state_first() {
        let mut ecn = Ecn::new(true, true);
        assert_eq!(ecn.mark(false).codepoint, Codepoint::Ect0);
        assert_eq!(ecn.on_data(Codepoint::Ce, false), EchoAction::AckBeforeThis);
        assert!(!ecn.ece());
        ecn.after_ack_before_this();
        assert!(ecn.ece());
        assert_eq!(ecn.on_data(Codepoint::Ce, true), EchoAction::Nothing);
        assert_eq!(ecn.on_data(Codepoint::Ect0, false), EchoAction::AckBeforeThis);
        ecn.after_ack_before_this();
        assert!(!ecn.ece());
    }

    #[test]
    fn codepoints_are_the_low_bits() {
        for codepoint in [Codepoint::NotEct, Codepoint::Ect0, Codepoint::Ect1, Codepoint::Ce] {
            assert_eq!(Codepoint::from_bits(codepoint as u8 | 0xb8), codepoint);
        }
    }
}
