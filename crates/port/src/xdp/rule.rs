//! Rules that say which frames of an interface are for us.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Rules of an interface at most.
pub const RULES_MAX: usize = 16;

/// What a frame must be to be taken; what is None does not matter. Frames with a VLAN tag match by the tag's type only,
/// fragments of datagrams and IPv6 packets with extension headers never by port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub ether_type: Option<u16>,
    /// IP protocol.
    pub protocol: Option<u8>,
    /// Destination address.
    pub destination: Option<IpAddr>,
    /// Destination port of TCP or UDP.
    pub port: Option<u16>,
}

/// A rule's text that says nothing, or something impossible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    text: String,
    word: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no steering rule: {:?} does not fit; rules are words with commas between them, each once: \
             tcp or udp or icmp or proto=N, dst=ADDRESS, port=N (with tcp or udp), ether=0xN",
            self.text, self.word
        )
    }
}

impl std::error::Error for RuleError {}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Rule, RuleError> {
        let mut rule = Rule::default();
        let wrong = |word: &str| RuleError { text: text.to_owned(), word: word.to_owned() };
        for word in text.split(',') {
            rule.take(word).filter(|fresh| *fresh).ok_or_else(|| wrong(word))?;
        }
        let of_ip = rule.protocol.is_some() || rule.destination.is_some();
        let contradictory = rule.ether_type.is_some() && of_ip;
        let port_of_nothing = rule.port.is_some() && !matches!(rule.protocol, Some(6 | 17));
        if contradictory || port_of_nothing { Err(wrong(text)) } else { Ok(rule) }
    }
}

impl Rule {
    /// Takes one word; None if it is none, false if its like was there before.
    fn take(&mut self, word: &str) -> Option<bool> {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        Some(match key {
            "tcp" | "udp" | "icmp" if value.is_empty() => {
                let protocol = [("tcp", 6), ("udp", 17), ("icmp", 1)].iter().find(|(name, _)| *name == key)?.1;
                self.protocol.replace(protocol).is_none()
            }
            "proto" => self.protocol.replace(value.parse().ok()?).is_none(),
            "dst" => self.destination.replace(value.parse().ok()?).is_none(),
            "port" => self.port.replace(value.parse().ok()?).is_none(),
            "ether" => {
                let digits = value.strip_prefix("0x")?;
                self.ether_type.replace(u16::from_str_radix(digits, 16).ok()?).is_none()
            }
            _ => return None,
        })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            self.ether_type.map(|n| format!("ether={n:#06x}")),
            self.protocol.map(|n| match n {
                1 => "icmp".to_owned(),
                6 => "tcp".to_owned(),
                17 => "udp".to_owned(),
                n => format!("proto={n}"),
            }),
            self.destination.map(|address| format!("dst={address}")),
            self.port.map(|n| format!("port={n}")),
        ];
        f.write_str(&words.into_iter().flatten().collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_and_written() {
        for text in
            ["udp,dst=10.0.0.2,port=9000", "ether=0x88b5", "proto=89", "tcp,dst=fd00::1,port=80", "dst=10.0.0.1"]
        {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
        }
        for text in
            ["", "udp,udp", "port=80", "icmp,port=80", "ether=88b5", "ether=0x800,tcp", "udp,x", "dst=10.0.0", "tcp=6"]
        {
            let problem = text.parse::<Rule>().unwrap_err().to_string();
            assert!(problem.contains("steering rule") && problem.contains("ether=0xN"), "{problem}");
        }
    }
}
