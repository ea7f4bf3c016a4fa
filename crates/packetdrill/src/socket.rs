//! One socket of a script: what it was told, and what of the engine it stands for.

use std::collections::VecDeque;

use ringway_tcp::{ConnId, Instant, ListenerId, SocketOptions};
use ringway_wire::Endpoint;

use crate::address::Family;

/// What a socket is at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Fresh,
    Listening(ListenerId),
    /// `connecting` until a call has learnt how the connect ended.
    Open {
        id: ConnId,
        connecting: bool,
    },
}

/// Data sent with `MSG_ZEROCOPY`, of which the sender wants to know when they are acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lent {
    pub(crate) number: u32,
    /// Bytes sent on this connection up to and with these.
    pub(crate) end: u64,
}

pub(crate) struct Socket {
    pub(crate) family: Family,
    pub(crate) role: Role,
    pub(crate) nonblocking: bool,
    pub(crate) local: Option<Endpoint>,
    /// What was set before there was a connection; afterwards the engine has them.
    pub(crate) options: SocketOptions,
    /// `SO_RCVTIMEO` and `SO_SNDTIMEO`, microseconds.
    pub(crate) receive_timeout_us: Option<u64>,
    pub(crate) send_timeout_us: Option<u64>,
    /// `SO_RCVLOWAT`.
    pub(crate) receive_least: usize,
    pub(crate) v6_only: bool,
    /// `TCP_INQ`: each receive says how much is left.
    pub(crate) tells_unread: bool,
    /// `SO_ZEROCOPY`: sends may ask for a notice.
    pub(crate) tells_sent: bool,
    /// Bytes given to the engine.
    pub(crate) sent: u64,
    pub(crate) lent: VecDeque<Lent>,
    pub(crate) lent_next: u32,
    /// The notice at the head of the queue that epoll was told of.
    pub(crate) lent_told: Option<u32>,
    /// Values that mean nothing here, kept so that they can be asked for: level, name, value.
    pub(crate) kept: Vec<(i32, i32, Vec<u8>)>,
}

impl Socket {
    pub(crate) fn new(family: Family, nonblocking: bool) -> Socket {
        Socket {
            family,
            role: Role::Fresh,
            nonblocking,
            local: None,
            options: SocketOptions::default(),
            receive_timeout_us: None,
            send_timeout_us: None,
            receive_least: 1,
            v6_only: false,
            tells_unread: false,
            tells_sent: false,
            sent: 0,
            lent: VecDeque::new(),
            lent_next: 0,
            lent_told: None,
            kept: Vec::new(),
        }
    }

    pub(crate) fn connection(&self) -> Option<ConnId> {
        match self.role {
            Role::Open { id, .. } => Some(id),
            _ => None,
        }
    }
}

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    None,
    Until(Instant),
    Forever,
}

impl Patience {
    pub(crate) fn of(timeout_us: Option<u64>, now: Instant) -> Patience {
        timeout_us.map_or(Patience::Forever, |us| Patience::Until(now + us))
    }

    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Patience::Until(at) => Some(at),
            Patience::None | Patience::Forever => None,
        }
    }

    pub(crate) fn is_over(self, now: Instant) -> bool {
        match self {
            Patience::None => true,
            Patience::Until(at) => at <= now,
            Patience::Forever => false,
        }
    }
}
