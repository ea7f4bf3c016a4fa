//! ECN in the connection's terms: agreeing on it, taking marks in, marking what leaves (RFC 3168, RFC 8257).

use ringway_wire::tcp::Flags as Bits;

use super::{Conn, Owed, Peer};
use crate::config::Config;
use crate::congestion::Algorithm;
use crate::ecn::{Codepoint, EchoAction, Ecn, EcnFlags, EcnMode};
use crate::engine::Reply;
use crate::packet::Segment;

/// What the configuration says of ECN.
fn mode(config: &Config) -> EcnMode {
    match config.tcp_ecn {
        0 => EcnMode::Off,
        1 => EcnMode::On,
        _ => EcnMode::AcceptOnly,
    }
}

fn flags_of(segment: &Segment) -> EcnFlags {
    EcnFlags { ece: segment.has(Bits::ECE), cwr: segment.has(Bits::CWR) }
}

impl Peer {
    /// A SYN arrived at a listener: whether ECN is agreed on.
    pub(crate) fn agree_on_ecn(&mut self, segment: &Segment, config: &Config, algorithm: Algorithm) {
        let codepoint = Codepoint::from_bits(segment.ecn as u8);
        self.ecn = mode(config).agrees_to_syn(algorithm.needs_ecn(), flags_of(segment), codepoint);
    }
}

impl Conn<'_> {
    fn algorithm(&self) -> Algorithm {
        self.cold.options.congestion_control.unwrap_or(self.shared.config.tcp_congestion_control)
    }

    /// The ECN flags of our SYN or SYN-ACK.
    pub(super) fn syn_marks(&self, answers: bool) -> Bits {
        if answers {
            // RFC 3168 6.1.1: an ECN-setup SYN-ACK has ECE and not CWR.
            return if self.cold.peer.ecn { Bits::ECE } else { Bits::NONE };
        }
        let asked = mode(&self.shared.config).syn(self.algorithm().needs_ecn());
        // RFC 3168 6.1.1.1: a SYN that is sent again may do without, for the sake of broken paths.
        let given_up = self.cold.timeouts > 0 && self.shared.config.tcp_ecn_fallback;
        if asked.ece && !given_up { Bits::ECE | Bits::CWR } else { Bits::NONE }
    }

    /// A SYN-ACK arrived: whether it agrees to what we asked.
    pub(super) fn agree_by_syn_ack(&mut self, segment: &Segment) {
        let needed = self.algorithm().needs_ecn();
        self.cold.peer.ecn = mode(&self.shared.config).agreed_by_syn_ack(needed, flags_of(segment));
        self.begin_ecn();
    }

    pub(super) fn begin_ecn(&mut self) {
        self.cold.ecn = Ecn::new(self.cold.peer.ecn, self.algorithm().needs_ecn());
    }

    /// A segment with payload arrived: its mark is echoed.
    pub(super) fn take_mark(&mut self, segment: &Segment) {
        match self.cold.ecn.on_data(Codepoint::from_bits(segment.ecn as u8), segment.has(Bits::CWR)) {
            EchoAction::Nothing => {}
            EchoAction::AckNow => self.owe(Owed::ACK),
            EchoAction::AckBeforeThis => {
                // RFC 8257 3.2: "Immediately send an ACK... for all prior unacknowledged packets", with the old echo.
                if self.hot.rcv_nxt != self.hot.rcv_wup {
                    let header = self.header();
                    self.remember_told(&header);
                    self.shared.reply(Reply {
                        key: self.hot.key,
                        header,
                        traffic_class: self.cold.options.traffic_class,
                    });
                }
                self.cold.ecn.after_ack_before_this();
                self.owe(Owed::ACK);
            }
        }
    }
}
