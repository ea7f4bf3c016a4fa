//! What a library and the monitor say to each other.
//!
//! The socket is `AF_UNIX`/`SOCK_SEQPACKET`; every message is [`MESSAGE_BYTES`] long and may carry
//! descriptors (`SCM_RIGHTS`). Nothing here waits: a library offers a socket and goes on with TCP.
//!
//! ```text
//!   library                                          monitor
//!      | Hello {pid, profile}                           |
//!      |----------------------------------------------->|
//!      |        Welcome {connection = process id} + [process page]   or  Rejected {reason}
//!      |<-----------------------------------------------|
//!      | Offer {token} + [connected socket]             |  reads addresses and cookies itself,
//!      |----------------------------------------------->|  closes its copy at once
//!      |        Paired {token, connection, role} + [ring region, end region]
//!      |<-----------------------------------------------|  then bumps the process page's mailbox
//!      |        Refused {token, reason}                 |
//!      |<-----------------------------------------------|
//!      | Withdraw {token} | Closed {cookie} | Demoted {cookie, reason}
//!      |----------------------------------------------->|
//!      | Attach {token} + [connected socket]            |  after exec, SCM_RIGHTS or fork:
//!      |----------------------------------------------->|  the same regions again, by cookie
//!      |        Paired ... or Refused {UnknownConnection}
//!      |<-----------------------------------------------|
//! ```

use crate::reason::Reason;

/// Changes whenever a message or a shared layout changes.
pub const PROTOCOL_VERSION: u16 = 1;

/// First four bytes of each message: "RWG1".
pub const MAGIC: u32 = u32::from_le_bytes(*b"RWG1");

/// Length of every message, in bytes.
pub const MESSAGE_BYTES: usize = 64;

/// Descriptors that one message may carry at most.
pub const DESCRIPTORS_MAX: usize = 2;

/// What a message means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// Library: here I am (`pid`, `profile`). First message on a connection.
    Hello = 1,
    /// Monitor: accepted; `connection` is the process's id; carries the process page.
    Welcome = 2,
    /// Monitor: not accepted (`reason`); it closes the connection after this.
    Rejected = 3,
    /// Library: pair this socket if you can; `token` is echoed.
    Offer = 4,
    /// Monitor: paired; carries the ring region and the end region.
    Paired = 5,
    /// Monitor: will not be paired (`reason`).
    Refused = 6,
    /// Library: the offered socket `token` was closed before it was paired.
    Withdraw = 7,
    /// Library: I hold this socket (carried); give me its regions if it is upgraded.
    Attach = 8,
    /// Library: this process has closed its last descriptor of `cookie`.
    Closed = 9,
    /// Library: the connection `cookie` has gone back to TCP because of `reason`.
    Demoted = 10,
}

impl Kind {
    fn from_number(number: u16) -> Option<Kind> {
        [
            Kind::Hello,
            Kind::Welcome,
            Kind::Rejected,
            Kind::Offer,
            Kind::Paired,
            Kind::Refused,
            Kind::Withdraw,
            Kind::Attach,
            Kind::Closed,
            Kind::Demoted,
        ]
        .into_iter()
        .find(|k| *k as u16 == number)
    }
}

/// Which end of the connection a process holds: the ring region has one direction for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// Sends in direction 0, receives in direction 1.
    A = 0,
    /// Sends in direction 1, receives in direction 0.
    B = 1,
}

/// One message, decoded. Fields that a kind does not use are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub kind: Kind,
    /// The sender's protocol version.
    pub version: u16,
    /// The library's own name for an offered socket.
    pub token: u64,
    /// The monitor's number for a connection (or, in `Welcome`, for the process).
    pub connection: u64,
    /// `SO_COOKIE` of the socket.
    pub cookie: u64,
    pub reason: Reason,
    pub role: Role,
    /// Waiting profile of the process: 0 latency, 1 balanced, 2 efficient.
    pub profile: u8,
    pub pid: u32,
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Not exactly [`MESSAGE_BYTES`] bytes.
    Length(usize),
    /// The first four bytes are not [`MAGIC`].
    Magic(u32),
    /// The kind's number is unknown.
    Kind(u16),
    /// The reason's number is unknown.
    Reason(u16),
    /// The role is neither 0 nor 1.
    Role(u8),
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Malformed::Length(n) => write!(f, "message of {n} bytes, expected {MESSAGE_BYTES}"),
            Malformed::Magic(m) => write!(f, "message starts with {m:#010x}, expected {MAGIC:#010x}"),
            Malformed::Kind(k) => write!(f, "message of unknown kind {k}"),
            Malformed::Reason(r) => write!(f, "message with unknown reason {r}"),
            Malformed::Role(r) => write!(f, "message with role {r}, expected 0 or 1"),
        }
    }
}

impl std::error::Error for Malformed {}

impl Message {
    /// A message of this kind with every other field empty.
    pub fn new(kind: Kind) -> Message {
        Message {
            kind,
            version: PROTOCOL_VERSION,
            token: 0,
            connection: 0,
            cookie: 0,
            reason: Reason::None,
            role: Role::A,
            profile: 0,
            pid: 0,
        }
    }

    /// The bytes on the socket (little endian; offsets in the code).
    pub fn encode(&self) -> [u8; MESSAGE_BYTES] {
        let mut out = [0u8; MESSAGE_BYTES];
        out[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        out[4..6].copy_from_slice(&self.version.to_le_bytes());
        out[6..8].copy_from_slice(&(self.kind as u16).to_le_bytes());
        out[8..16].copy_from_slice(&self.token.to_le_bytes());
        out[16..24].copy_from_slice(&self.connection.to_le_bytes());
        out[24..32].copy_from_slice(&self.cookie.to_le_bytes());
        out[32..34].copy_from_slice(&(self.reason as u16).to_le_bytes());
        out[34] = self.role as u8;
        out[35] = self.profile;
        out[36..40].copy_from_slice(&self.pid.to_le_bytes());
        out
    }

    /// Reads a message; the version is not judged here, so that a receiver can answer with
    /// [`Reason::VersionMismatch`].
    pub fn decode(bytes: &[u8]) -> Result<Message, Malformed> {
        let bytes: &[u8; MESSAGE_BYTES] = bytes.try_into().map_err(|_| Malformed::Length(bytes.len()))?;
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        if u32_at(0) != MAGIC {
            return Err(Malformed::Magic(u32_at(0)));
        }
        Ok(Message {
            kind: Kind::from_number(u16_at(6)).ok_or(Malformed::Kind(u16_at(6)))?,
            version: u16_at(4),
            token: u64_at(8),
            connection: u64_at(16),
            cookie: u64_at(24),
            reason: Reason::from_number(u16_at(32)).ok_or(Malformed::Reason(u16_at(32)))?,
            role: match bytes[34] {
                0 => Role::A,
                1 => Role::B,
                other => return Err(Malformed::Role(other)),
            },
            profile: bytes[35],
            pid: u32_at(36),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn decode_inverts_encode(token: u64, connection: u64, cookie: u64, pid: u32, profile: u8) {
            let m = Message { token, connection, cookie, pid, profile, role: Role::B,
                reason: Reason::MemoryCap, ..Message::new(Kind::Paired) };
            prop_assert_eq!(Message::decode(&m.encode()), Ok(m));
        }

        #[test]
        fn decode_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Message::decode(&bytes);
        }
    }
}
