//! What each key of the policy file means: for `ringway config explain` and the manual.

use super::Policy;

/// One key of the policy file.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Dotted name; `allow.uid` stands for `deny.uid` too.
    pub name: &'static str,
    /// What it does and why one would change it.
    pub meaning: &'static str,
    /// Allowed values, with the unit.
    pub allowed: &'static str,
    /// The value without a policy file.
    pub default: &'static str,
    /// A valid value.
    pub example: &'static str,
}

/// Every key, in the order of the manual.
pub const KEYS: &[Key] = &[
    Key {
        name: "default",
        meaning: "Which pairs are upgraded when no rule speaks: ends of the same user, any, or none.",
        allowed: "\"same-uid\", \"any\", \"none\"",
        default: "\"same-uid\"",
        example: "\"any\"",
    },
    Key {
        name: "across_network_namespaces",
        meaning: "Pair ends in different network namespaces (containers) when their addresses are unique. \
                  Whoever controls a namespace chooses its addresses, so set this only if you trust them all.",
        allowed: "true, false",
        default: "false",
        example: "true",
    },
    Key {
        name: "memory_per_uid_bytes",
        meaning: "Shared memory that one user's connections may hold; beyond it new connections stay on TCP. \
                  What is really resident is counted, with a minimum for each connection.",
        allowed: "1048576 (1 MiB) to 1152921504606846976 (1 EiB), in bytes",
        default: "4294967296",
        example: "1073741824",
    },
    Key {
        name: "offer_timeout_s",
        meaning: "How long an offered socket waits for its other end.",
        allowed: "1 to 86400, in seconds",
        default: "60",
        example: "30",
    },
    Key {
        name: "allow",
        meaning: "Rules that allow pairs beyond the default. All conditions of a rule must hold, for both ends. \
                  To let users 33 and 1001 pair on port 8080: [[allow]] uid = [33, 1001] port = [8080]. \
                  Different users are paired in the monitor's own network namespace only: elsewhere it cannot \
                  check that a waiting socket is still open.",
        allowed: "[[allow]] entries with uid, gid, cgroup, netns, port",
        default: "none",
        example: "",
    },
    Key {
        name: "deny",
        meaning: "Rules that forbid pairs; they win over `allow`. One end that meets the conditions is enough.",
        allowed: "[[deny]] entries with uid, gid, cgroup, netns, port",
        default: "none",
        example: "",
    },
    Key {
        name: "allow.uid",
        meaning: "User ids.",
        allowed: "a list of numbers",
        default: "any user",
        example: "[33, 1001]",
    },
    Key {
        name: "allow.gid",
        meaning: "Primary group ids.",
        allowed: "a list of numbers",
        default: "any group",
        example: "[33]",
    },
    Key {
        name: "allow.cgroup",
        meaning: "Control groups: the path itself and all below it, as /proc/PID/cgroup shows them after `0::`.",
        allowed: "a list of paths",
        default: "any control group",
        example: "[\"/system.slice/nginx.service\"]",
    },
    Key {
        name: "allow.netns",
        meaning: "Network namespaces: the monitor's own, any other, or one by its cookie.",
        allowed: "a list of \"own\", \"foreign\", numbers",
        default: "any namespace",
        example: "[\"own\", 4097]",
    },
    Key {
        name: "allow.port",
        meaning: "Ports; one of the connection's two must be in the list.",
        allowed: "a list of 1 to 65535 or \"FIRST-LAST\"",
        default: "any port",
        example: "[80, \"8000-8999\"]",
    },
    Key {
        name: "limits.clients",
        meaning: "Processes that the monitor serves at once; one user gets three quarters of them at most. \
                  Takes effect at start.",
        allowed: "1 to 65536",
        default: "4096",
        example: "1024",
    },
    Key {
        name: "limits.connections",
        meaning: "Upgraded connections at once. The limit on open files bounds it too (`ringway status` shows the \
                  result). Raising it takes effect at start.",
        allowed: "1 to 1048576",
        default: "65536",
        example: "10000",
    },
    Key {
        name: "limits.offers",
        meaning: "Offered sockets that wait for their other end at once.",
        allowed: "1 to 1048576",
        default: "65536",
        example: "10000",
    },
    Key {
        name: "limits.offers_per_client",
        meaning: "The same for one process.",
        allowed: "1 to 1048576",
        default: "16384",
        example: "1000",
    },
    Key {
        name: "limits.replies_per_client",
        meaning: "Replies that wait for a process to read them; a process that lets more pile up is dropped.",
        allowed: "1 to 1048576",
        default: "16384",
        example: "1000",
    },
    Key {
        name: "limits.messages_per_s",
        meaning: "Messages taken from one process in a second; a faster one waits.",
        allowed: "1 to 10000000, per second",
        default: "100000",
        example: "1000",
    },
];

/// The key called `name`; `deny.uid` finds `allow.uid`.
pub fn key(name: &str) -> Option<&'static Key> {
    let name = name.strip_prefix("deny.").map_or_else(|| name.to_string(), |rest| format!("allow.{rest}"));
    KEYS.iter().find(|key| key.name == name)
}

impl Policy {
    /// The value of a key in this policy, as text; `None` for a key that does not exist.
    pub fn value(&self, name: &str) -> Option<String> {
        Some(match name {
            "default" => format!("\"{}\"", self.default.name()),
            "across_network_namespaces" => self.across_network_namespaces.to_string(),
            "memory_per_uid_bytes" => self.memory_per_uid_bytes.to_string(),
            "offer_timeout_s" => self.offer_timeout_s.to_string(),
            "limits.clients" => self.limits.clients.to_string(),
            "limits.connections" => self.limits.connections.to_string(),
            "limits.offers" => self.limits.offers.to_string(),
            "limits.offers_per_client" => self.limits.offers_per_client.to_string(),
            "limits.replies_per_client" => self.limits.replies_per_client.to_string(),
            "limits.messages_per_s" => self.limits.messages_per_s.to_string(),
            "allow" => format!("{} rules", self.allow.len()),
            "deny" => format!("{} rules", self.deny.len()),
            _ => return None,
        })
    }

    /// Meaning, allowed values, default and the value in force of a key, for people.
    pub fn explain(&self, name: &str) -> Option<String> {
        let key = key(name)?;
        let mut text = format!("{}\n  {}\n  allowed: {}\n  default: {}\n", name, key.meaning, key.allowed, key.default);
        if let Some(value) = self.value(name) {
            text += &format!("  in force: {value}\n");
        }
        Some(text)
    }
}
