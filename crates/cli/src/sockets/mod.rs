//! Sockets as `ringway ss` shows them.
//!
//! | module | what it does |
//! |---|---|
//! | `filter` | ss's filter language: words to a tree, a tree against a socket |
//! | `kernel` | `/proc/net/tcp` and `/proc/net/tcp6` |
//! | `owners` | which process holds which socket |
//! | `merge` | the monitor's knowledge added to the kernel's |
//! | `reasons` | why the others are on TCP, by what their programs are |

pub(crate) mod filter;
pub(crate) mod kernel;
pub(crate) mod merge;
pub(crate) mod owners;
pub(crate) mod reasons;
pub(crate) mod state;

use std::net::SocketAddr;

pub(crate) use state::State;

/// The path that a connection's bytes take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Via {
    Ring,
    Tcp,
    /// Other users' connection, of which the asked monitor says nothing.
    Unknown,
}

impl Via {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Via::Ring => "ring",
            Via::Tcp => "tcp",
            Via::Unknown => "unknown",
        }
    }
}

/// One TCP socket.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(crate) struct Socket {
    pub state: State,
    /// Bytes that the program has not read; of a listening socket, connections not yet accepted.
    pub recv_queue_bytes: u64,
    /// Bytes that the peer has not taken; of a listening socket, the limit of waiting connections.
    pub send_queue_bytes: u64,
    pub local: SocketAddr,
    pub peer: SocketAddr,
    pub uid: u32,
    pub inode: u64,
    pub via: Via,
    /// Why it is not on a ring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<owners::Owner>,
    /// What the monitor knows of an upgraded connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring: Option<merge::RingDetail>,
}

impl Socket {
    /// An established connection of which nothing else is known.
    pub(crate) fn between(local: SocketAddr, peer: SocketAddr) -> Socket {
        Socket {
            state: State::Established,
            recv_queue_bytes: 0,
            send_queue_bytes: 0,
            local,
            peer,
            uid: 0,
            inode: 0,
            via: Via::Tcp,
            reason: None,
            remedy: None,
            processes: Vec::new(),
            ring: None,
        }
    }
}
