//! The ways that bytes can take from one process to another.

use serde::{Deserialize, Serialize};

/// One column of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Path {
    /// The kernel's loopback TCP.
    Tcp,
    /// A Unix stream socket.
    Unix,
    RingwayLatency,
    RingwayBalanced,
    RingwayEfficient,
    /// The shared memory itself, without sockets.
    Limit,
}

impl Path {
    /// All, in the order of columns.
    pub(crate) const ALL: [Path; 6] =
        [Path::Tcp, Path::Unix, Path::RingwayLatency, Path::RingwayBalanced, Path::RingwayEfficient, Path::Limit];

    /// As in JSON and in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Path::Tcp => "tcp",
            Path::Unix => "unix",
            Path::RingwayLatency => "ringway-latency",
            Path::RingwayBalanced => "ringway-balanced",
            Path::RingwayEfficient => "ringway-efficient",
            Path::Limit => "limit",
        }
    }

    /// The waiting profile, if the path is ours.
    pub(crate) fn profile(self) -> Option<&'static str> {
        self.name().strip_prefix("ringway-")
    }
}
