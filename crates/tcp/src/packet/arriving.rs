//! What arrives: an IP packet's bytes become the ends of a flow and a segment.

use ringway_wire::tcp::{self, Flags, Options};
use ringway_wire::{Ecn, Endpoint, Error, IpAddress, Protocol, Pseudo, SeqNumber, Verify, ipv4, ipv6, usual};

use super::PathError;
use crate::tables::FlowKey;

/// A segment as it arrived; nothing of it has been judged against a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) seq: SeqNumber,
    /// Means something only with [`Flags::ACK`].
    pub(crate) ack: SeqNumber,
    pub(crate) flags: Flags,
    /// Not scaled.
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    pub(crate) options: Options,
    pub(crate) payload: &'a [u8],
    pub(crate) ecn: Ecn,
}

impl Segment<'_> {
    /// Sequence space that it takes: payload, SYN and FIN.
    #[inline]
    pub(crate) fn seq_len(&self) -> u32 {
        self.payload.len() as u32 + self.flags.seq_len()
    }

    /// The sequence number behind its last.
    #[inline]
    pub(crate) fn end(&self) -> SeqNumber {
        self.seq + self.seq_len()
    }

    #[inline]
    pub(crate) fn has(&self, flags: Flags) -> bool {
        self.flags.contains(flags)
    }
}

/// What an IP packet turned out to be.
pub(crate) enum Arriving<'a> {
    Tcp(FlowKey, Segment<'a>),
    /// An ICMP error about a TCP segment.
    Icmp(PathError),
    /// Neither, or a fragment; not for this engine.
    Other,
}

/// Reads a packet. Addresses that no connection can have are refused as `Other`.
#[inline]
pub(crate) fn parse(bytes: &[u8], verify: Verify) -> Result<Arriving<'_>, Error> {
    match bytes.first().map(|first| first >> 4) {
        Some(4) => parse_v4(bytes, verify),
        Some(6) => parse_v6(bytes, verify),
        Some(_) => Err(Error::Ipv4Version),
        None => Err(Error::Ipv4Truncated),
    }
}

/// A segment of a packet with the headers that nearly all have, as small as it can be kept.
#[derive(Clone, Copy)]
pub(crate) struct Usual<'a> {
    headers: usual::Headers,
    payload: &'a [u8],
}

impl<'a> Usual<'a> {
    /// `None` leaves the packet to [`parse`].
    #[inline]
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Usual<'a>> {
        usual::Headers::parse(bytes).map(|(headers, payload)| Usual { headers, payload })
    }

    /// Ours is the end that the packet goes to.
    #[inline]
    pub(crate) fn key(&self) -> FlowKey {
        FlowKey::v4(self.headers.destination, self.headers.source, self.headers.ports.rotate_left(16))
    }

    #[inline]
    pub(crate) fn segment(&self) -> Segment<'a> {
        Segment {
            seq: self.headers.seq,
            ack: self.headers.ack,
            flags: self.headers.flags,
            window: self.headers.window,
            urgent: 0,
            options: Options { timestamps: Some(self.headers.timestamps), ..Options::NONE },
            payload: self.payload,
            ecn: self.headers.ecn(),
        }
    }
}

#[inline]
fn parse_v4(bytes: &[u8], verify: Verify) -> Result<Arriving<'_>, Error> {
    let packet = ipv4::Packet::new_checked(bytes)?;
    let ip = ipv4::Repr::parse(&packet, verify)?;
    if packet.is_fragment() {
        return Ok(Arriving::Other);
    }
    let (source, destination) = (IpAddress::V4(ip.source), IpAddress::V4(ip.destination));
    match ip.protocol {
        Protocol::TCP if is_unicast(source) && is_unicast(destination) => {
            segment(packet.payload(), source, destination, ip.pseudo(), packet.ecn(), verify)
        }
        Protocol::ICMP => {
            let error = PathError::of_v4(packet.payload(), verify);
            Ok(error.map_or(Arriving::Other, Arriving::Icmp))
        }
        _ => Ok(Arriving::Other),
    }
}

fn parse_v6(bytes: &[u8], verify: Verify) -> Result<Arriving<'_>, Error> {
    let packet = ipv6::Packet::new_checked(bytes)?;
    let Ok(upper) = packet.upper() else { return Ok(Arriving::Other) };
    if upper.fragment.is_some() {
        return Ok(Arriving::Other);
    }
    let (source, destination) = (IpAddress::V6(packet.source()), IpAddress::V6(packet.destination()));
    let pseudo = packet.pseudo(upper.protocol);
    match upper.protocol {
        Protocol::TCP if is_unicast(source) && is_unicast(destination) => {
            segment(upper.payload, source, destination, pseudo, packet.ecn(), verify)
        }
        Protocol::ICMPV6 => {
            let error = PathError::of_v6(upper.payload, packet.hop_limit(), pseudo, verify);
            Ok(error.map_or(Arriving::Other, Arriving::Icmp))
        }
        _ => Ok(Arriving::Other),
    }
}

#[inline]
fn segment<'a>(
    bytes: &'a [u8],
    source: IpAddress,
    destination: IpAddress,
    pseudo: Pseudo,
    ecn: Ecn,
    verify: Verify,
) -> Result<Arriving<'a>, Error> {
    let view = tcp::Segment::new_checked(bytes)?;
    let header = tcp::Repr::parse(&view, pseudo, verify)?;
    let local = Endpoint::new(destination, header.destination_port);
    let remote = Endpoint::new(source, header.source_port);
    let segment = Segment {
        seq: header.seq,
        ack: header.ack,
        flags: header.flags,
        window: header.window,
        urgent: header.urgent,
        options: header.options,
        payload: view.payload(),
        ecn,
    };
    Ok(Arriving::Tcp(FlowKey::new(local, remote), segment))
}

/// RFC 9293 3.9.2.3 (MUST-57, MUST-63): connections have two single, specified ends.
#[inline]
fn is_unicast(address: IpAddress) -> bool {
    let broadcast = matches!(address, IpAddress::V4(v4) if v4.is_broadcast());
    !address.is_multicast() && !address.is_unspecified() && !broadcast
}
