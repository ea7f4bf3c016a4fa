//! Rules from text; every error names the line and the key.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use ringway_wire::{EtherType, MacAddress, Protocol};

use super::{Action, Network, RULES_MAX, Rule};

/// What is wrong with which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// From 1 on.
    pub line: usize,
    pub what: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for RuleError {}

const KEYS: &str = "port, ether, vlan, smac, dmac, src, dst, proto, sport, dport";
const ETHER_TYPES: [(&str, u16); 4] = [("ipv4", 0x800), ("arp", 0x806), ("vlan", 0x8100), ("ipv6", 0x86dd)];
const PROTOCOLS: [(&str, u8); 6] = [("icmp", 1), ("tcp", 6), ("udp", 17), ("gre", 47), ("icmpv6", 58), ("sctp", 132)];

pub(super) fn rules(text: &str) -> Result<Vec<Rule>, RuleError> {
    let mut rules = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let at_line = |what: String| RuleError { line: n + 1, what };
        if rules.len() == RULES_MAX {
            return Err(at_line(format!("more than {RULES_MAX} rules")));
        }
        rules.push(rule(line).map_err(at_line)?);
    }
    Ok(rules)
}

fn rule(line: &str) -> Result<Rule, String> {
    let mut words = line.split_whitespace();
    let action = match words.next().unwrap_or_default() {
        "pass" => Action::Pass,
        "drop" => Action::Drop,
        "broadcast" => Action::Broadcast,
        "to" => Action::To(switch_port("to", words.next().unwrap_or_default())?),
        other => return Err(format!("unknown action `{other}`; use pass, drop, broadcast or to PORT")),
    };
    let mut rule = Rule::new(action);
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("`{word}` is not KEY=VALUE"))?;
        condition(&mut rule, key, value)?;
    }
    Ok(rule)
}

fn condition(rule: &mut Rule, key: &str, value: &str) -> Result<(), String> {
    match key {
        "port" => once(&mut rule.port, key, switch_port(key, value)?),
        "ether" => once(&mut rule.ether, key, ether_type(value)?),
        "vlan" => once(&mut rule.vlan, key, number(key, value, 0..=4095)?),
        "smac" => once(&mut rule.source_mac, key, mac(key, value)?),
        "dmac" => once(&mut rule.destination_mac, key, mac(key, value)?),
        "src" => once(&mut rule.source, key, network(key, value)?),
        "dst" => once(&mut rule.destination, key, network(key, value)?),
        "proto" => once(&mut rule.protocol, key, protocol(value)?),
        "sport" => once(&mut rule.source_ports, key, ports(key, value)?),
        "dport" => once(&mut rule.destination_ports, key, ports(key, value)?),
        _ => Err(format!("unknown key `{key}`; use {KEYS}")),
    }
}

fn once<T>(place: &mut Option<T>, key: &str, value: T) -> Result<(), String> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("`{key}` is there twice")),
    }
}

fn number<T: FromStr + PartialOrd + fmt::Display>(
    key: &str,
    value: &str,
    range: RangeInclusive<T>,
) -> Result<T, String> {
    let found = value.parse().ok().filter(|number| range.contains(number));
    found.ok_or_else(|| format!("{key}={value}: not a number from {} to {}", range.start(), range.end()))
}

fn switch_port(key: &str, value: &str) -> Result<u8, String> {
    number(key, value, 0..=253)
}

fn ether_type(value: &str) -> Result<EtherType, String> {
    if let Some((_, number)) = ETHER_TYPES.iter().find(|(name, _)| *name == value) {
        return Ok(EtherType(*number));
    }
    let number = value.strip_prefix("0x").and_then(|hex| u16::from_str_radix(hex, 16).ok());
    number.map(EtherType).ok_or_else(|| format!("ether={value}: not ipv4, arp, vlan, ipv6 or a number like 0x88cc"))
}

fn protocol(value: &str) -> Result<Protocol, String> {
    if let Some((_, number)) = PROTOCOLS.iter().find(|(name, _)| *name == value) {
        return Ok(Protocol(*number));
    }
    let unknown = || format!("proto={value}: not icmp, tcp, udp, gre, icmpv6, sctp or a number up to 255");
    value.parse().map(Protocol).map_err(|_| unknown())
}

fn mac(key: &str, value: &str) -> Result<MacAddress, String> {
    let bytes: Option<Vec<u8>> =
        value.split(':').map(|part| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2)).collect();
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.map(MacAddress).ok_or_else(|| format!("{key}={value}: not an address like 02:00:00:00:00:01"))
}

fn network(key: &str, value: &str) -> Result<Network, String> {
    let parsed = if value.contains(':') { value.parse().map(Network::V6) } else { value.parse().map(Network::V4) };
    parsed.map_err(|e| format!("{key}: {e}"))
}

fn ports(key: &str, value: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = value.split_once('-').unwrap_or((value, value));
    let first = number(key, first, 0..=u16::MAX)?;
    let last = number(key, last, 0..=u16::MAX)?;
    if first > last {
        return Err(format!("{key}={value}: the first port is above the last"));
    }
    Ok(first..=last)
}
