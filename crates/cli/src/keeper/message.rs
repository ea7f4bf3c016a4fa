//! What is asked of the keeper, and what it answers.

use serde::{Deserialize, Serialize};

/// Version of the documents.
pub(crate) const SCHEMA: u32 = 1;
/// Longest line, in bytes.
pub(crate) const LINE_BYTES_MAX: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Request {
    /// Keep a port open.
    AddPort {
        port: String,
    },
    /// Keep a switch; an isolated one is served, to other users as well if `anyone`.
    AddSwitch {
        switch: String,
        isolated: bool,
        anyone: bool,
    },
    /// Pass packets on between two ports, both ways. It is known by the name of `port`.
    Attach {
        port: String,
        to: String,
    },
    /// Let go what is known by this name.
    Del {
        name: String,
    },
    Show,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) schema: u32,
    /// Why the request was refused.
    pub(crate) error: Option<String>,
    /// What is held, after the request.
    pub(crate) held: Vec<Held>,
    /// What the user should know of what was opened.
    #[serde(default)]
    pub(crate) limits: Vec<String>,
}

/// One thing that the keeper holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(crate) name: String,
    /// "port", "patch", "switch" or "isolated".
    pub(crate) kind: String,
    /// Of a patch: the other port.
    pub(crate) to: Option<String>,
    /// Of an isolated switch: its ports.
    #[serde(default)]
    pub(crate) ports: Vec<String>,
    /// Of a patch: what has gone from `name` to `to`, and back.
    #[serde(default)]
    pub(crate) forth: Traffic,
    #[serde(default)]
    pub(crate) back: Traffic,
    /// Why it does not work any more.
    pub(crate) failed: Option<String>,
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Traffic {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}
