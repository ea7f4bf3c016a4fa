//! The states of a connection (RFC 9293 3.3.2) and what each allows.

/// LISTEN is a listener and TIME-WAIT a small record; the rest are these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    #[default]
    Closed,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
    Listen,
}

impl State {
    /// Both sides know each other's sequence numbers.
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, State::Closed | State::SynSent | State::SynReceived | State::Listen)
    }

    /// The peer may still send data.
    pub(crate) const fn may_receive(self) -> bool {
        matches!(self, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// Data of ours may still be sent, or sent again.
    pub(crate) const fn may_transmit(self) -> bool {
        matches!(self, State::Established | State::CloseWait | State::FinWait1 | State::Closing | State::LastAck)
    }

    /// The application may give us data to send.
    pub(crate) const fn takes_data(self) -> bool {
        matches!(self, State::SynSent | State::SynReceived | State::Established | State::CloseWait)
    }

    /// Linux's number (`include/net/tcp_states.h`), as TCP_INFO shows it.
    pub const fn linux_number(self) -> u8 {
        match self {
            State::Established => 1,
            State::SynSent => 2,
            State::SynReceived => 3,
            State::FinWait1 => 4,
            State::FinWait2 => 5,
            State::TimeWait => 6,
            State::Closed => 7,
            State::CloseWait => 8,
            State::LastAck => 9,
            State::Listen => 10,
            State::Closing => 11,
        }
    }
}
