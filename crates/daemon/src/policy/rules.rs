//! One `[[allow]]` or `[[deny]]` entry.

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _};

use super::Party;

/// Conditions; all that are given must hold. A condition on a user, group, cgroup or namespace must hold
/// for both ends to allow and for one end to deny; a port may be either of the connection's two.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "Conditions")]
pub struct Rule {
    conditions: Conditions,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Conditions {
    #[serde(deserialize_with = "list")]
    uid: Vec<u32>,
    #[serde(deserialize_with = "list")]
    gid: Vec<u32>,
    #[serde(deserialize_with = "list")]
    cgroup: Vec<String>,
    #[serde(deserialize_with = "list")]
    netns: Vec<Netns>,
    #[serde(deserialize_with = "list")]
    port: Vec<PortRange>,
}

/// A list, also of one: what stands without brackets is refused with the brackets around it.
fn list<'de, T: DeserializeOwned, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    match toml::Value::deserialize(from)? {
        toml::Value::Array(items) => {
            items.into_iter().map(|item| T::deserialize(item).map_err(|e| D::Error::custom(e.message()))).collect()
        }
        single => Err(D::Error::custom(format!("{single} is no list; write it as a list: [{single}]"))),
    }
}

impl TryFrom<Conditions> for Rule {
    type Error = &'static str;

    fn try_from(conditions: Conditions) -> Result<Rule, Self::Error> {
        // A rule without conditions would match everything, most likely by mistake.
        if conditions == Conditions::default() {
            return Err("a rule needs at least one of uid, gid, cgroup, netns, port");
        }
        // One that can match nothing is a mistake as well.
        if conditions.cgroup.iter().any(|path| !path.starts_with('/')) {
            return Err("a cgroup is a path that begins with `/`, as /proc/PID/cgroup shows it after `0::`");
        }
        Ok(Rule { conditions })
    }
}

/// A network namespace as rules name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Netns {
    /// The monitor's own.
    Own,
    /// Any but the monitor's own.
    Foreign,
    /// The one with this cookie (`ringway ss` shows it).
    Cookie(u64),
}

impl<'de> Deserialize<'de> for Netns {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Netns, D::Error> {
        match toml::Value::deserialize(from)? {
            toml::Value::Integer(n) if n > 0 => Ok(Netns::Cookie(n as u64)),
            toml::Value::String(s) if s == "own" => Ok(Netns::Own),
            toml::Value::String(s) if s == "foreign" => Ok(Netns::Foreign),
            other => {
                Err(D::Error::custom(format!("{other} is no namespace, allowed are \"own\", \"foreign\", a cookie")))
            }
        }
    }
}

/// Ports from `first` to `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    pub first: u16,
    pub last: u16,
}

impl<'de> Deserialize<'de> for PortRange {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<PortRange, D::Error> {
        let value = toml::Value::deserialize(from)?;
        let range = match &value {
            toml::Value::Integer(n) => u16::try_from(*n).ok().map(|port| (port, port)),
            toml::Value::String(s) => {
                s.split_once('-').and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)))
            }
            _ => None,
        };
        match range {
            Some((first, last)) if first > 0 && first <= last => Ok(PortRange { first, last }),
            Some(_) => Err(D::Error::custom(format!("{value}: the first port must be from 1 to the last one"))),
            None => Err(D::Error::custom(format!("{value} is no port, allowed are 1 to 65535 or \"FIRST-LAST\""))),
        }
    }
}

impl Rule {
    pub(super) fn allows(&self, a: &Party<'_>, b: &Party<'_>, ports: [u16; 2]) -> bool {
        self.conditions.touch_port(ports) && self.conditions.cover(a) && self.conditions.cover(b)
    }

    pub(super) fn denies(&self, a: &Party<'_>, b: &Party<'_>, ports: [u16; 2]) -> bool {
        self.conditions.touch_port(ports) && (self.conditions.cover(a) || self.conditions.cover(b))
    }
}

impl Conditions {
    fn touch_port(&self, ports: [u16; 2]) -> bool {
        let touched = |range: &PortRange| ports.iter().any(|port| (range.first..=range.last).contains(port));
        self.port.is_empty() || self.port.iter().any(touched)
    }

    fn cover(&self, party: &Party<'_>) -> bool {
        let netns = |n: &Netns| match *n {
            Netns::Own => party.netns_is_own,
            Netns::Foreign => !party.netns_is_own,
            Netns::Cookie(cookie) => party.netns == cookie,
        };
        (self.uid.is_empty() || self.uid.contains(&party.uid))
            && (self.gid.is_empty() || self.gid.contains(&party.gid))
            && (self.cgroup.is_empty() || self.cgroup.iter().any(|prefix| is_below(party.cgroup, prefix)))
            && (self.netns.is_empty() || self.netns.iter().any(netns))
    }
}

/// Whether `path` is `prefix` or lies below it; whole names only, `/a` does not cover `/ab`.
fn is_below(path: &str, prefix: &str) -> bool {
    let prefix = prefix.trim_end_matches('/');
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        toml::from_str(text).unwrap()
    }

    fn party(uid: u32, cgroup: &str, netns_is_own: bool) -> Party<'_> {
        Party { uid, gid: uid + 100, cgroup, netns: if netns_is_own { 1 } else { 9 }, netns_is_own }
    }

    #[test]
    fn to_allow_both_ends_must_match_to_deny_one_is_enough() {
        let rule = rule("uid = [1, 2]");
        let (one, two, three) = (party(1, "/", true), party(2, "/", true), party(3, "/", true));
        assert!(rule.allows(&one, &two, [5, 6]) && !rule.allows(&one, &three, [5, 6]));
        assert!(rule.denies(&one, &three, [5, 6]) && !rule.denies(&three, &three, [5, 6]));
    }

    #[test]
    fn all_given_conditions_must_hold() {
        let rule = rule("gid = [101]\ncgroup = [\"/system.slice\"]\nnetns = [\"own\"]\nport = [\"80-81\"]");
        let good = party(1, "/system.slice/web.service", true);
        assert!(rule.allows(&good, &good, [40000, 81]));
        assert!(!rule.allows(&good, &good, [40000, 82]));
        assert!(!rule.allows(&good, &party(1, "/system.slicer", true), [40000, 81]));
        assert!(!rule.allows(&good, &party(1, "/system.slice", false), [40000, 81]));
        assert!(!rule.allows(&good, &party(2, "/system.slice", true), [40000, 81]));
    }

    #[test]
    fn a_cgroup_that_is_no_path_is_refused() {
        let error = toml::from_str::<Rule>("cgroup = [\"/fine\", \"web.service\"]").unwrap_err();
        assert!(error.message().contains("begins with `/`"), "{error}");
    }

    #[test]
    fn namespaces_match_by_kind_or_cookie() {
        let foreign = party(1, "/", false);
        assert!(rule("netns = [\"foreign\"]").allows(&foreign, &foreign, [1, 2]));
        assert!(rule("netns = [9]").allows(&foreign, &foreign, [1, 2]));
        assert!(!rule("netns = [8]").allows(&foreign, &foreign, [1, 2]));
    }
}
