//! ICMP errors: what a router or the remote host says of a segment that we sent.

use ringway_wire::icmp::{Message, Quoted};
use ringway_wire::{Endpoint, Protocol, Pseudo, SeqNumber, Verify, icmpv4, icmpv6};

use crate::error::Error;
use crate::tables::FlowKey;

/// An error that concerns a TCP segment of ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathError {
    pub(crate) key: FlowKey,
    /// Sequence number of the segment.
    pub(crate) seq: SeqNumber,
    pub(crate) what: What,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// The next link takes packets of so many bytes; 0 if the router does not say.
    TooBig(u32),
    Unreachable(Error),
}

impl PathError {
    /// Reads an ICMP message; `None` if it is no error about a TCP segment.
    pub(crate) fn of_v4(bytes: &[u8], verify: Verify) -> Option<PathError> {
        let message = Message::new_checked(bytes).ok()?;
        let (what, quoted) = match icmpv4::Repr::parse(&message, verify).ok()? {
            icmpv4::Repr::DestinationUnreachable { code: icmpv4::unreachable::FRAGMENTATION_NEEDED, mtu, quoted } => {
                (What::TooBig(mtu.into()), quoted)
            }
            icmpv4::Repr::DestinationUnreachable { code, quoted, .. } => (What::Unreachable(error_v4(code)), quoted),
            icmpv4::Repr::TimeExceeded { quoted, .. } => (What::Unreachable(Error::HostUnreachable), quoted),
            icmpv4::Repr::ParameterProblem { quoted, .. } => (What::Unreachable(Error::ProtocolError), quoted),
            _ => return None,
        };
        PathError::about(Quoted::v4(quoted).ok()?, what)
    }

    /// The same for IPv6; `hop_limit` and `pseudo` are the packet's.
    pub(crate) fn of_v6(bytes: &[u8], hop_limit: u8, pseudo: Pseudo, verify: Verify) -> Option<PathError> {
        let message = Message::new_checked(bytes).ok()?;
        let (what, quoted) = match icmpv6::Repr::parse(&message, hop_limit, pseudo, verify).ok()? {
            icmpv6::Repr::PacketTooBig { mtu, quoted } => (What::TooBig(mtu), quoted),
            icmpv6::Repr::DestinationUnreachable { code, quoted } => (What::Unreachable(error_v6(code)), quoted),
            icmpv6::Repr::TimeExceeded { quoted, .. } => (What::Unreachable(Error::HostUnreachable), quoted),
            icmpv6::Repr::ParameterProblem { quoted, .. } => (What::Unreachable(Error::ProtocolError), quoted),
            _ => return None,
        };
        PathError::about(Quoted::v6(quoted).ok()?, what)
    }

    fn about(quoted: Quoted, what: What) -> Option<PathError> {
        let ours = Endpoint::new(quoted.source, quoted.source_port());
        let theirs = Endpoint::new(quoted.destination, quoted.destination_port());
        let key = FlowKey::new(ours, theirs);
        (quoted.protocol == Protocol::TCP).then(|| PathError { key, seq: quoted.tcp_seq(), what })
    }
}

/// Linux's `icmp_err_convert`.
fn error_v4(code: u8) -> Error {
    match code {
        0 | 6 | 9 | 11 => Error::NetworkUnreachable,
        2 => Error::ProtocolUnreachable,
        3 => Error::ConnectionRefused,
        _ => Error::HostUnreachable,
    }
}

/// Linux's `tab_unreach`.
fn error_v6(code: u8) -> Error {
    match code {
        0 => Error::NetworkUnreachable,
        4 => Error::ConnectionRefused,
        _ => Error::HostUnreachable,
    }
}
