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
    /// Of `bench tcp`: the kernel's TCP over a veth pair.
    Veth,
    /// smoltcp as the server, our TCP as the client, over a shared-memory pipe.
    Smoltcp,
    /// Our TCP at both ends of that pipe.
    Engine,
}

impl Path {
    /// All, in the order of columns.
    pub(crate) const ALL: [Path; 9] = [
        Path::Tcp,
        Path::Unix,
        Path::RingwayLatency,
        Path::RingwayBalanced,
        Path::RingwayEfficient,
        Path::Limit,
        Path::Veth,
        Path::Smoltcp,
        Path::Engine,
    ];
    /// Those of `bench tcp` alone.
    pub(crate) const TCP: [Path; 3] = [Path::Veth, Path::Smoltcp, Path::Engine];

    /// As in JSON and in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Path::Tcp => "tcp",
            Path::Unix => "unix",
            Path::RingwayLatency => "ringway-latency",
            Path::RingwayBalanced => "ringway-balanced",
            Path::RingwayEfficient => "ringway-efficient",
            Path::Limit => "limit",
            Path::Veth => "veth",
            Path::Smoltcp => "smoltcp",
            Path::Engine => "engine",
        }
    }

    /// The waiting profile, if the path is ours.
    pub(crate) fn profile(self) -> Option<&'static str> {
        self.name().strip_prefix("ringway-")
    }
}
