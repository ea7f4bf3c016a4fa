//! The useful part of ss's filter language.
//!
//! ```text
//! filter     = { ("state" | "exclude") STATE } [ or ]
//! or         = and { ("or" | "|" | "||") and }
//! and        = not { ["and" | "&" | "&&"] not }
//! not        = ("not" | "!") not | "(" or ")" | test
//! test       = ("src" | "dst") [OP] ADDRESS[/PREFIX][:PORT]     OP: = == eq != ne
//!            | ("sport" | "dport") [OP] [:]PORT                 and also > gt >= ge < lt <= le
//!            | "via" [OP] ("ring" | "tcp")                      ours
//!            | "reason" [OP] NAME                               ours
//! ```

mod lexer;
mod parser;

use std::net::IpAddr;

use super::state::States;
use super::{Socket, Via};

pub(crate) use parser::parse;

/// A filter, read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Filter {
    /// The states that the words ask for; `None` leaves the choice to the options.
    pub states: Option<States>,
    pub expression: Option<Expression>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    Or(Box<Expression>, Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
    Address { side: Side, network: Network, port: Option<u16>, equal: bool },
    Port { side: Side, comparison: Comparison, port: u16 },
    Via { via: Via, equal: bool },
    Reason { name: String, equal: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Source,
    Destination,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

/// Addresses that begin alike; `None` stands for every address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network(pub Option<(IpAddr, u8)>);

impl Network {
    fn contains(self, address: IpAddr) -> bool {
        let Some((network, prefix)) = self.0 else { return true };
        match (network.to_canonical(), address.to_canonical()) {
            (IpAddr::V4(n), IpAddr::V4(a)) => {
                // A prefix of a mapped address counts from the start of its IPv6 form.
                let prefix = if network.is_ipv6() { prefix.saturating_sub(96) } else { prefix };
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                u32::from(n) & mask == u32::from(a) & mask
            }
            (IpAddr::V6(n), IpAddr::V6(a)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
                u128::from(n) & mask == u128::from(a) & mask
            }
            _ => false,
        }
    }
}

impl Comparison {
    fn holds(self, left: u16, right: u16) -> bool {
        match self {
            Comparison::Equal => left == right,
            Comparison::NotEqual => left != right,
            Comparison::Greater => left > right,
            Comparison::GreaterOrEqual => left >= right,
            Comparison::Less => left < right,
            Comparison::LessOrEqual => left <= right,
        }
    }
}

impl Filter {
    /// Whether the socket is to be shown; the states are judged by the caller.
    pub(crate) fn matches(&self, socket: &Socket) -> bool {
        self.expression.as_ref().is_none_or(|e| e.matches(socket))
    }
}

impl Expression {
    fn matches(&self, socket: &Socket) -> bool {
        let end = |side: &Side| match side {
            Side::Source => socket.local,
            Side::Destination => socket.peer,
        };
        match self {
            Expression::Or(a, b) => a.matches(socket) || b.matches(socket),
            Expression::And(a, b) => a.matches(socket) && b.matches(socket),
            Expression::Not(a) => !a.matches(socket),
            Expression::Address { side, network, port, equal } => {
                let end = end(side);
                let same = network.contains(end.ip()) && port.is_none_or(|p| p == end.port());
                same == *equal
            }
            Expression::Port { side, comparison, port } => comparison.holds(end(side).port(), *port),
            Expression::Via { via, equal } => (socket.via == *via) == *equal,
            Expression::Reason { name, equal } => (socket.reason == Some(name)) == *equal,
        }
    }
}

#[cfg(test)]
mod tests;
