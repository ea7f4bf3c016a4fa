//! Who may be paired with whom, and how much they may use: one small TOML file.
//!
//! ```toml
//! default = "same-uid"                  # or "any", "none"
//! across_network_namespaces = false
//! memory_per_uid_bytes = 4294967296
//!
//! [[deny]]                              # deny wins over allow, allow over default
//! port = [5432]
//!
//! [[allow]]                             # both ends must be in the lists
//! uid = [33, 1001]
//! port = ["8000-8999"]
//!
//! [limits]
//! connections = 65536
//! ```

mod keys;
mod rules;

use std::path::{Path, PathBuf};

use ringway_channel::Reason;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use crate::peer::Peer;

pub use keys::{KEYS, Key, key};
pub use rules::{Netns, PortRange, Rule};

/// What is decided when no rule speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// Pair ends of the same user.
    SameUid,
    /// Pair everybody.
    Any,
    /// Pair nobody.
    None,
}

impl Fallback {
    /// As the policy file has it.
    pub fn name(self) -> &'static str {
        match self {
            Fallback::SameUid => "same-uid",
            Fallback::Any => "any",
            Fallback::None => "none",
        }
    }
}

/// The policy in force. See [`KEYS`] for each key's meaning, unit and bounds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    pub default: Fallback,
    pub across_network_namespaces: bool,
    #[serde(deserialize_with = "bounded::<1048576, 1152921504606846976, _>")]
    pub memory_per_uid_bytes: u64,
    #[serde(deserialize_with = "bounded::<1, 86400, _>")]
    pub offer_timeout_s: u64,
    pub allow: Vec<Rule>,
    pub deny: Vec<Rule>,
    pub limits: Limits,
}

/// Bounds of the monitor's tables.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    #[serde(deserialize_with = "bounded::<1, 65536, _>")]
    pub clients: u64,
    #[serde(deserialize_with = "bounded::<1, 1048576, _>")]
    pub connections: u64,
    #[serde(deserialize_with = "bounded::<1, 1048576, _>")]
    pub offers: u64,
    #[serde(deserialize_with = "bounded::<1, 1048576, _>")]
    pub offers_per_client: u64,
    #[serde(deserialize_with = "bounded::<1, 1048576, _>")]
    pub replies_per_client: u64,
    #[serde(deserialize_with = "bounded::<1, 10000000, _>")]
    pub messages_per_s: u64,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            default: Fallback::SameUid,
            across_network_namespaces: false,
            memory_per_uid_bytes: 4 << 30,
            offer_timeout_s: 60,
            allow: Vec::new(),
            deny: Vec::new(),
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            clients: 4096,
            connections: 65536,
            offers: 65536,
            offers_per_client: 16384,
            replies_per_client: 16384,
            messages_per_s: 100_000,
        }
    }
}

fn bounded<'de, const MIN: u64, const MAX: u64, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    match toml::Value::deserialize(from)? {
        toml::Value::Integer(n) if n >= 0 && (MIN..=MAX).contains(&(n as u64)) => Ok(n as u64),
        toml::Value::Integer(n) => Err(D::Error::custom(format!("{n} is out of range, allowed are {MIN} to {MAX}"))),
        other => Err(D::Error::custom(format!(
            "{other} is no number; write one without quotes or unit, allowed are {MIN} to {MAX}"
        ))),
    }
}

/// Why a policy file cannot be used; the text names the file, the line, the key and what is allowed.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    #[error("the policy file {} cannot be read ({source}); correct its path or permissions, or name no file for the \
             built-in policy", .path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{}:{line}: `{text}`: {problem}", .path.display())]
    Invalid { path: PathBuf, line: usize, text: String, problem: String },
}

/// Largest policy file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// One end of a pair, as the policy sees it.
#[derive(Clone, Copy, Debug)]
pub struct Party<'a> {
    pub uid: u32,
    pub gid: u32,
    /// Path in the unified cgroup hierarchy, as `/proc/PID/cgroup` shows it.
    pub cgroup: &'a str,
    /// The network namespace's cookie.
    pub netns: u64,
    /// Whether that is the monitor's own namespace.
    pub netns_is_own: bool,
}

impl<'a> Party<'a> {
    /// A process that offers no socket, so that it counts as one of the monitor's own namespace.
    pub(crate) fn here(peer: &'a Peer, own_netns: u64) -> Party<'a> {
        Party { uid: peer.uid, gid: peer.gid, cgroup: &peer.cgroup, netns: own_netns, netns_is_own: true }
    }
}

impl Policy {
    /// Reads a policy file.
    ///
    /// # Errors
    /// [`PolicyError`], for people to read.
    pub fn load(path: &Path) -> Result<Policy, PolicyError> {
        let unreadable = |source| PolicyError::Unreadable { path: path.to_path_buf(), source };
        let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
        if bytes > FILE_BYTES_MAX {
            let problem = format!("{bytes} bytes long, allowed are {FILE_BYTES_MAX}");
            return Err(unreadable(std::io::Error::other(problem)));
        }
        Policy::parse(&std::fs::read_to_string(path).map_err(unreadable)?, path)
    }

    /// Reads a policy from text; `path` is for the error message only.
    pub fn parse(text: &str, path: &Path) -> Result<Policy, PolicyError> {
        toml::from_str(text).map_err(|e| {
            let at = e.span().map_or(0, |span| span.start).min(text.len());
            let line = text.as_bytes()[..at].iter().filter(|b| **b == b'\n').count();
            PolicyError::Invalid {
                path: path.to_path_buf(),
                line: line + 1,
                text: text.lines().nth(line).unwrap_or("").trim().to_string(),
                problem: e.message().replace('\n', " "),
            }
        })
    }

    /// Whether `a` and `b` may be paired; `ports` are the two ports of their connection.
    ///
    /// # Errors
    /// The reason to tell both ends.
    pub fn judge(&self, a: &Party<'_>, b: &Party<'_>, ports: [u16; 2]) -> Result<(), Reason> {
        if self.deny.iter().any(|rule| rule.denies(a, b, ports)) {
            return Err(Reason::PolicyDenied);
        }
        if a.netns != b.netns && !self.across_network_namespaces {
            return Err(Reason::ForeignNamespace);
        }
        if self.allow.iter().any(|rule| rule.allows(a, b, ports)) {
            return Ok(());
        }
        match self.default {
            Fallback::Any => Ok(()),
            Fallback::SameUid if a.uid == b.uid => Ok(()),
            Fallback::SameUid => Err(Reason::ForeignUid),
            Fallback::None => Err(Reason::PolicyDenied),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Policy, PolicyError> {
        Policy::parse(text, Path::new("policy.toml"))
    }

    fn party(uid: u32) -> Party<'static> {
        Party { uid, gid: uid, cgroup: "/user.slice/app.service", netns: 1, netns_is_own: true }
    }

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(parse("").unwrap(), Policy::default());
    }

    #[test]
    fn errors_name_file_line_key_and_allowed_values() {
        let cases = [
            ("default = \"all\"", "policy.toml:1", "same-uid"),
            ("\nmemory = 3", "policy.toml:2: `memory = 3`", "memory_per_uid_bytes"),
            ("[limits]\nclients = 0", "policy.toml:2: `clients = 0`", "1 to 65536"),
            ("[limits]\nclients = -4", "policy.toml:2", "-4 is out of range"),
            ("[[allow]]\nport = [70000]", "policy.toml:2", "65535"),
            ("[[allow]]\nport = [\"9-3\"]", "policy.toml:2", "first port"),
            ("[[allow]]\nnetns = [\"host\"]", "policy.toml:2", "own"),
            ("[[allow]]\nuids = [3]", "policy.toml:2", "uid"),
            ("memory_per_uid_bytes = \"1G\"", "policy.toml:1", "\"1G\" is no number; write one without quotes"),
            ("[[allow]]\nuid = 33", "policy.toml:2: `uid = 33`", "a list: [33]"),
            ("[[allow]]\nport = \"80-90\"", "policy.toml:2", "a list: [\"80-90\"]"),
            ("[[allow]]\nuid = [-1]", "policy.toml:2", "-1"),
            ("[[deny]]", "policy.toml:1", "at least one"),
            ("default = ", "policy.toml:1", ""),
        ];
        for (text, place, allowed) in cases {
            let said = parse(text).unwrap_err().to_string();
            assert!(said.contains(place) && said.contains(allowed), "{text:?} gave {said:?}");
        }
    }

    #[test]
    fn values_are_shown_as_the_file_has_them() {
        for name in ["same-uid", "any", "none"] {
            let policy = parse(&format!("default = \"{name}\"")).unwrap();
            assert_eq!(policy.value("default").unwrap(), format!("\"{name}\""));
        }
    }

    #[test]
    fn same_uid_is_the_default() {
        let policy = Policy::default();
        assert_eq!(policy.judge(&party(5), &party(5), [1, 2]), Ok(()));
        assert_eq!(policy.judge(&party(5), &party(6), [1, 2]), Err(Reason::ForeignUid));
    }

    #[test]
    fn deny_wins_over_allow_and_allow_over_default() {
        let policy = parse("default = \"none\"\n[[allow]]\nuid = [5, 6]\n[[deny]]\nport = [80, \"90-99\"]").unwrap();
        assert_eq!(policy.judge(&party(5), &party(6), [1, 2]), Ok(()));
        assert_eq!(policy.judge(&party(5), &party(7), [1, 2]), Err(Reason::PolicyDenied));
        assert_eq!(policy.judge(&party(5), &party(6), [1, 80]), Err(Reason::PolicyDenied));
        assert_eq!(policy.judge(&party(5), &party(6), [95, 2]), Err(Reason::PolicyDenied));
    }

    #[test]
    fn namespaces_are_kept_apart_unless_the_file_says_otherwise() {
        let other = Party { netns: 2, netns_is_own: false, ..party(5) };
        assert_eq!(Policy::default().judge(&party(5), &other, [1, 2]), Err(Reason::ForeignNamespace));
        let policy = parse("across_network_namespaces = true").unwrap();
        assert_eq!(policy.judge(&party(5), &other, [1, 2]), Ok(()));
    }

    #[test]
    fn every_key_is_explained_and_every_explained_key_exists() {
        for key in KEYS {
            let text = match key.name {
                "allow" | "deny" => format!("[[{}]]\nport = [1]", key.name),
                "limits" => "[limits]".into(),
                name => match name.split_once('.') {
                    Some(("allow", condition)) => format!("[[allow]]\n{condition} = {}", key.example),
                    Some((table, field)) => format!("[{table}]\n{field} = {}", key.example),
                    None => format!("{name} = {}", key.example),
                },
            };
            assert!(parse(&text).is_ok(), "{}: {:?}", key.name, parse(&text).unwrap_err().to_string());
        }
    }
}
