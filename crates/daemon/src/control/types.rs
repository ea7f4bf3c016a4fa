//! The documents on the control socket. Each carries `"schema": 1`; keys name their unit.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Version of the documents.
pub const SCHEMA: u32 = 1;

/// What a tool may ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    Status,
    /// Connections numbered `from` and up, as many as fit into one answer.
    Connections {
        #[serde(default)]
        from: u64,
    },
    Processes,
    Offers,
    /// Names at which packet ports meet, of the caller's (of everybody's, for root and the monitor's own user).
    Meetings,
    /// What the processes of one `ringway run` have counted together.
    Run {
        run_id: u64,
    },
    Metrics,
    /// Root, or the monitor's own user.
    Reload,
    /// The owner of an end, or root. The answer carries the ring region.
    Tap {
        connection: u64,
    },
    /// A successor asks for everything (root, or the monitor's own user). The answer carries the socket
    /// on which records of this format follow.
    Takeover {
        format: u32,
    },
}

/// A request that was not fulfilled.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    pub schema: u32,
    pub error: String,
}

/// A request that needs no answer but that it was done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    pub schema: u32,
    pub done: bool,
}

/// The monitor and its tables.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    pub schema: u32,
    /// Release of the monitor.
    pub version: String,
    pub protocol_version: u16,
    pub pid: u32,
    pub uid: u32,
    pub uptime_s: u64,
    /// The libraries' socket.
    pub socket: PathBuf,
    /// The policy file in force; none = built-in policy.
    pub policy_file: Option<PathBuf>,
    pub clients: u64,
    pub clients_max: u64,
    pub offers: u64,
    pub offers_max: u64,
    pub connections: u64,
    pub connections_max: u64,
    /// Memory charged to the caller (to everybody, for root and the monitor's own user).
    pub memory_bytes: u64,
    pub memory_per_uid_bytes: u64,
    /// The limit on open files, and whether it bounds programs and connections more than the policy does.
    #[serde(default)]
    pub open_files_max: u64,
    #[serde(default)]
    pub short_of_open_files: bool,
    pub offers_total: u64,
    pub pairs_total: u64,
    pub attaches_total: u64,
    pub clients_dropped_total: u64,
    /// Refused offers since the start, by reason.
    pub refusals_total: BTreeMap<String, u64>,
}

/// One page of connections.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Connections {
    pub schema: u32,
    pub connections: Vec<Connection>,
    /// Ask again from this number; none = that was all.
    pub next: Option<u64>,
}

/// Names at which packet ports meet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Meetings {
    pub schema: u32,
    pub meetings: Vec<Meeting>,
}

/// The memory behind a name of a switch or of pipes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Meeting {
    pub name: String,
    pub uid: u32,
    /// Whether it is a switch.
    pub is_switch: bool,
    /// Memory in use.
    pub memory_bytes: u64,
}

/// An upgraded connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Connection {
    pub connection: u64,
    /// Shared memory charged to it.
    pub memory_bytes: u64,
    /// Ends A and B.
    pub ends: [End; 2],
    /// A to B, B to A.
    pub directions: [Direction; 2],
}

/// One end of a connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct End {
    /// "a" or "b".
    pub role: String,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Cookie of the network namespace.
    pub netns: u64,
    /// Cookie of the socket.
    pub cookie: u64,
    pub uid: u32,
    /// "held", "suspect" (no connected process holds it) or "gone".
    pub state: String,
    /// Why it went back to TCP.
    pub demoted: Option<String>,
    /// Connected processes that hold it.
    pub processes: Vec<ProcessName>,
}

/// A process in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessName {
    pub pid: u32,
    pub comm: String,
}

/// One direction of a connection, as the shared memory shows it (the ends could write anything there).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Direction {
    /// "tcp", "ring" or "demoted".
    pub path: String,
    /// Bytes published to the ring so far.
    pub tail: u64,
    /// Bytes taken from the ring so far.
    pub head: u64,
    pub queued_bytes: u64,
    pub capacity_bytes: u64,
    /// TCP bytes before the ring began.
    pub tcp_bytes_before: u64,
    /// Why the receiver wants TCP back.
    pub demote_please: Option<String>,
}

/// Connected processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Processes {
    pub schema: u32,
    pub processes: Vec<Process>,
}

/// A connected process and what it counts about itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Process {
    /// The monitor's number for it.
    pub process: u64,
    pub pid: u32,
    pub uid: u32,
    pub gid: u32,
    pub comm: String,
    pub cgroup: String,
    /// "latency", "balanced", "efficient".
    pub profile: String,
    /// Upgraded ends that it holds.
    pub connections: u64,
    /// Sockets that wait for their other end.
    pub offers: u64,
    /// Replies that it has not read yet.
    pub replies_queued: u64,
    pub counters: BTreeMap<String, u64>,
    /// Connections on plain TCP, by reason; reasons that never occurred are left out.
    pub refusals: BTreeMap<String, u64>,
}

/// The processes of one `ringway run`, taken together.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    pub schema: u32,
    pub run_id: u64,
    /// Processes that ever said hello, each exec counted again.
    pub processes_total: u64,
    pub counters: BTreeMap<String, u64>,
    /// Connections on plain TCP, by reason; reasons that never occurred are left out.
    pub refusals: BTreeMap<String, u64>,
}

/// Sockets that wait for their other end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Offers {
    pub schema: u32,
    pub offers: Vec<Offer>,
    /// What was decided about sockets that wait no longer; the addresses may be a newer socket's by now.
    #[serde(default)]
    pub verdicts: Vec<Verdict>,
    /// Further ones that did not fit into the answer.
    pub left_out: u64,
}

/// A waiting socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Offer {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub netns: u64,
    pub cookie: u64,
    pub uid: u32,
    pub age_ms: u64,
    /// Why it is not upgraded.
    pub reason: String,
    pub processes: Vec<ProcessName>,
}

/// A socket that stays on TCP.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verdict {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub netns: u64,
    pub cookie: u64,
    pub uid: u32,
    /// Why.
    pub reason: String,
}

/// What `tap` answers beside the descriptor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tap {
    pub schema: u32,
    pub connection: Connection,
}

/// Metrics in Prometheus' text format.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Metrics {
    pub schema: u32,
    pub text: String,
}
