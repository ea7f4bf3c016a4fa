//! tcpdump's filter expressions: tcpdump itself translates them, so the language is the one that people know, in full.
//!
//! `tcpdump -y EN10MB -ddd EXPR` opens no device and needs no privilege. It prints a program of the classic BPF machine,
//! which [`machine`] runs on each packet.

mod machine;

use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};

use machine::Program;

/// Whether a packet is wanted.
#[derive(Debug)]
pub(crate) struct Expression {
    /// None: all are.
    program: Option<Program>,
}

impl Expression {
    /// # Errors
    /// tcpdump is not there, or what it says about the expression.
    pub(crate) fn new(text: &str) -> Result<Expression> {
        if text.trim().is_empty() {
            return Ok(Expression { program: None });
        }
        let tcpdump = Command::new("tcpdump")
            // What follows `--` is the expression, whatever it begins with.
            .args(["-y", "EN10MB", "-ddd", "--", text])
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::null())
            .output()
            .context("expressions are translated by tcpdump, which cannot be run; install it (apt install tcpdump), or leave EXPR out and filter later")?;
        if !tcpdump.status.success() {
            let said = String::from_utf8_lossy(&tcpdump.stderr);
            bail!("{text:?} is no expression (pcap-filter(7)): {}", said.trim().trim_start_matches("tcpdump: "));
        }
        let listing = String::from_utf8_lossy(&tcpdump.stdout);
        let program = Program::parse(&listing).map_err(|e| anyhow!("what tcpdump made of {text:?}: {e}"))?;
        Ok(Expression { program: Some(program) })
    }

    /// `packet` begins with its Ethernet header.
    pub(crate) fn matches(&self, packet: &[u8]) -> bool {
        self.program.as_ref().is_none_or(|program| program.run(packet) > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use ringway_wire::MacAddress;

    use super::*;
    use crate::packets::frame::{Addresses, Tag, Template};

    fn packet() -> Vec<u8> {
        let end = |host, port| (Ipv4Addr::new(10, 0, 0, host), port);
        let addresses = Addresses {
            source_mac: MacAddress([2; 6]),
            destination_mac: MacAddress([4; 6]),
            source: end(1, 1024),
            destination: end(2, 80),
        };
        Template::new(&addresses, 100, 1).unwrap().number(Tag { number: 0, sent_ns: 0 }).to_vec()
    }

    /// Without tcpdump this says so and shows nothing; the machine has tests of its own.
    #[test]
    fn expressions_mean_what_they_mean_to_tcpdump() {
        if Command::new("tcpdump").arg("--version").output().is_err() {
            return println!("SKIP expressions_mean_what_they_mean_to_tcpdump: needs tcpdump");
        }
        let packet = packet();
        for (text, matches) in [
            ("", true),
            ("udp", true),
            ("tcp", false),
            ("ip and udp dst port 80", true),
            ("udp src port 80", false),
            ("host 10.0.0.2 and not net 10.1.0.0/16", true),
            ("src 10.0.0.2", false),
            ("portrange 70-90", true),
            ("ether src 02:02:02:02:02:02", true),
            ("ether host 02:02:02:02:02:03", false),
            ("ip6 or arp or vlan", false),
            ("greater 100 and less 100", true),
            ("ip[8] > 10 and udp[2:2] = 80", true),
        ] {
            assert_eq!(Expression::new(text).unwrap().matches(&packet), matches, "{text}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused_by_name() {
        let error = format!("{:#}", Expression::new("prot 80 and").unwrap_err());
        assert!(error.contains("prot 80 and") || error.contains("install"), "{error}");
    }
}
