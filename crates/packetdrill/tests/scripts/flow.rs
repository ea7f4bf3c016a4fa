//! The connection under test: its ends, and how the script's numbers become those on the wire.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::icmp::IcmpError;
use crate::segment::{Opt, Segment};

/// The peer's first sequence number on the wire, which scripts call 0; near the end, so that numbers wrap.
pub(crate) const PEER_ISN: u32 = 0xffff_f000;
pub(crate) const PORT: u16 = 8080;
/// The peer's port if it connects.
const PEER_PORT: u16 = 40_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V4,
    V6,
}

impl Version {
    /// Our address and the peer's.
    fn addresses(self) -> (IpAddr, IpAddr) {
        match self {
            Version::V4 => (Ipv4Addr::new(192, 168, 44, 5).into(), Ipv4Addr::new(192, 0, 2, 1).into()),
            Version::V6 => (
                Ipv6Addr::new(0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0x2c, 5).into(),
                Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
            ),
        }
    }

    pub(crate) fn domain(self) -> i32 {
        if self == Version::V4 { libc::AF_INET } else { libc::AF_INET6 }
    }

    /// The peer's address as a `sockaddr`, or ours.
    pub(crate) fn socket_address(self, peer: bool) -> Vec<u8> {
        let (ours, theirs) = self.addresses();
        let mut bytes = (self.domain() as u16).to_ne_bytes().to_vec();
        bytes.extend(PORT.to_be_bytes());
        match if peer { theirs } else { ours } {
            IpAddr::V4(v4) => bytes.extend(v4.octets().iter().chain(&[0; 8])),
            IpAddr::V6(v6) => bytes.extend([0; 4].iter().chain(&v6.octets()).chain(&[0; 4])),
        }
        bytes
    }
}

/// The bytes of a stream from `offset` on.
pub(crate) fn pattern(offset: u32, len: u32) -> Vec<u8> {
    (0..len).map(|n| offset.wrapping_add(n)).map(|at| (at ^ at >> 8).wrapping_mul(31) as u8).collect()
}

/// One flow as the peer sees it.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    local: (IpAddr, u16),
    remote: (IpAddr, u16),
    /// Our side's first sequence number, once it was seen.
    isn: Option<u32>,
    /// Timestamps of the script and those on the wire, as they were seen.
    clock: BTreeMap<u32, u32>,
}

impl Flow {
    /// The peer connects.
    pub(crate) fn to_server(version: Version) -> Flow {
        let (ours, theirs) = version.addresses();
        Flow { local: (ours, PORT), remote: (theirs, PEER_PORT), isn: None, clock: BTreeMap::new() }
    }

    /// We connect; this is the first packet.
    pub(crate) fn of_client(packet: &[u8]) -> Flow {
        let (local, remote) = Flow::ends(packet);
        Flow { local, remote, isn: None, clock: BTreeMap::new() }
    }

    /// A segment of the script as it goes onto the wire.
    pub(crate) fn to_wire(&self, said: &Segment) -> Segment {
        let ours = self.isn.unwrap_or(0);
        let translate = |option: &Opt| match option {
            Opt::Sack(blocks) => {
                Opt::Sack(blocks.iter().map(|(l, r)| (ours.wrapping_add(*l), ours.wrapping_add(*r))).collect())
            }
            Opt::Timestamps(value, echo) => Opt::Timestamps(*value, self.clock_of(*echo)),
            other => other.clone(),
        };
        let options = said.options.as_ref().map(|options| options.iter().map(translate).collect());
        let ack = if said.has('.') { ours.wrapping_add(said.ack) } else { 0 };
        Segment { seq: PEER_ISN.wrapping_add(said.seq), ack, options, ..said.clone() }
    }

    /// The timestamp on the wire for one of the script: as seen, or as far behind the nearest seen before it.
    fn clock_of(&self, said: u32) -> u32 {
        let nearest = self.clock.range(..=said).next_back().or_else(|| self.clock.iter().next());
        nearest.map_or(said, |(script, wire)| wire.wrapping_add(said.wrapping_sub(*script)))
    }

    /// A segment from the wire in the script's numbers; its own timestamp is taken for the one that was expected.
    pub(crate) fn as_script_says(&mut self, found: &Segment, said: &Segment) -> Segment {
        if found.has('S') {
            self.isn = Some(found.seq.wrapping_sub(said.seq));
        }
        let ours = self.isn.unwrap_or(0);
        let expected = said.options.iter().flatten().find_map(|option| match option {
            Opt::Timestamps(value, _) => Some(*value),
            _ => None,
        });
        let clock = &mut self.clock;
        let mut translate = |option: &Opt| match option {
            Opt::Sack(blocks) => {
                Opt::Sack(blocks.iter().map(|(l, r)| (l.wrapping_sub(PEER_ISN), r.wrapping_sub(PEER_ISN))).collect())
            }
            Opt::Timestamps(value, echo) => {
                if let Some(expected) = expected {
                    clock.insert(expected, *value);
                }
                Opt::Timestamps(expected.unwrap_or(*value), *echo)
            }
            other => other.clone(),
        };
        let options = found.options.as_ref().map(|options| options.iter().map(&mut translate).collect());
        let bare_reset = found.has('R') && !found.has('.') && self.isn.is_none();
        // A reset of what is not ours takes its numbers from the segment that it answers.
        let seq = if bare_reset || found.has('R') && found.seq == 0 { found.seq } else { found.seq.wrapping_sub(ours) };
        let ack = if found.has('.') { found.ack.wrapping_sub(PEER_ISN) } else { 0 };
        Segment { seq, ack, options, ..found.clone() }
    }

    /// An IP packet with `body` from the peer.
    fn packet(&self, protocol: u8, body: &[u8], ecn: u8) -> Vec<u8> {
        self.packet_between(self.remote.0, self.local.0, protocol, body, ecn)
    }

    fn packet_between(&self, from: IpAddr, to: IpAddr, protocol: u8, body: &[u8], ecn: u8) -> Vec<u8> {
        let mut packet = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let mut header = vec![0x45, ecn, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0];
                header[2..4].copy_from_slice(&((20 + body.len()) as u16).to_be_bytes());
                header.extend(from.octets().iter().chain(&to.octets()));
                let sum = !sum(0, &header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
                header
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let mut header = vec![0x60, ecn << 4, 0, 0, 0, 0, protocol, 64];
                header[4..6].copy_from_slice(&(body.len() as u16).to_be_bytes());
                header.extend(from.octets().iter().chain(&to.octets()));
                header
            }
            _ => unreachable!("both ends of one family"),
        };
        packet.extend(body);
        packet
    }

    /// A TCP segment with its payload and checksum, as a packet.
    pub(crate) fn tcp(&self, wire: &Segment, payload: &[u8]) -> Vec<u8> {
        let mut body = wire.header((self.remote.1, self.local.1));
        body.extend(payload);
        let sum = !pseudo_sum(self.remote.0, self.local.0, 6, &body);
        body[16..18].copy_from_slice(&sum.to_be_bytes());
        self.packet(6, &body, wire.ecn.unwrap_or(0))
    }

    /// An ICMP error with what it quotes of our segment.
    pub(crate) fn icmp(&self, error: &IcmpError) -> Vec<u8> {
        let IcmpError { kind, code, rest, seq } = *error;
        let mut quoted = Vec::new();
        quoted.extend(self.local.1.to_be_bytes());
        quoted.extend(self.remote.1.to_be_bytes());
        quoted.extend(self.isn.unwrap_or(0).wrapping_add(seq).to_be_bytes());
        quoted.extend([0; 12]);
        let quoted = self.packet_between(self.local.0, self.remote.0, 6, &quoted, 0);
        let mut body = vec![kind, code, 0, 0];
        body.extend(rest.to_be_bytes());
        body.extend(quoted);
        let v6 = self.remote.0.is_ipv6();
        let sum = if v6 { !pseudo_sum(self.remote.0, self.local.0, 58, &body) } else { !sum(0, &body) };
        body[2..4].copy_from_slice(&sum.to_be_bytes());
        self.packet(if v6 { 58 } else { 1 }, &body, 0)
    }

    /// Reads a packet of this flow; `Err` says what is wrong with its checksums or addresses.
    pub(crate) fn read(&self, packet: &[u8]) -> Result<(Segment, Vec<u8>), String> {
        let (from, to, body, ecn) = match packet[0] >> 4 {
            4 => {
                let ends: [u8; 8] = packet[12..20].try_into().unwrap();
                let address = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&ends[at..at + 4]).unwrap());
                if sum(0, &packet[..20]) != 0xffff {
                    return Err("the IP header's checksum is wrong".into());
                }
                (address(0), address(4), &packet[20..], packet[1] & 3)
            }
            _ => {
                let address = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&packet[at..at + 16]).unwrap());
                (address(8), address(24), &packet[40..], packet[1] >> 4 & 3)
            }
        };
        if pseudo_sum(from, to, 6, body) != 0xffff {
            return Err("the segment's checksum is wrong".into());
        }
        let ports = (u16::from_be_bytes([body[0], body[1]]), u16::from_be_bytes([body[2], body[3]]));
        if (to, ports.1) != self.remote || (from, ports.0) != self.local {
            return Err(format!("a packet of another flow: {from}:{} to {to}:{}", ports.0, ports.1));
        }
        Ok(Segment::read(body, ecn))
    }

    /// The ends of a packet that leaves: local, remote.
    fn ends(packet: &[u8]) -> ((IpAddr, u16), (IpAddr, u16)) {
        let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
        if packet[0] >> 4 == 4 {
            let address = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&packet[at..at + 4]).unwrap());
            ((address(12), port(20)), (address(16), port(22)))
        } else {
            let address = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&packet[at..at + 16]).unwrap());
            ((address(8), port(40)), (address(24), port(42)))
        }
    }
}

/// Ones' complement sum of 16-bit words, folded.
fn sum(start: u32, bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut total = start + words.sum::<u32>();
    while total > 0xffff {
        total = (total >> 16) + (total & 0xffff);
    }
    total as u16
}

fn pseudo_sum(from: IpAddr, to: IpAddr, protocol: u8, body: &[u8]) -> u16 {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let mut head = octets(from);
    head.extend(octets(to));
    head.extend((body.len() as u32).to_be_bytes());
    head.extend(u32::from(protocol).to_be_bytes());
    sum(u32::from(sum(0, &head)), body)
}
