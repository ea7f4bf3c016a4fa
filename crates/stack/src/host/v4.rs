//! An IPv4 packet arrived.

use std::net::Ipv4Addr;

use ringway_tcp::Instant;
use ringway_wire::icmp::Message;
use ringway_wire::ipv4::{self, Packet};
use ringway_wire::reassembly::Part;
use ringway_wire::{IpAddress, Protocol, Verify, icmpv4};

use super::Host;
use super::counters::DropReason;

impl Host {
    /// Answers the packet if it is TCP's business: a segment, or an ICMP error. `to_all` if the frame went to a group.
    #[inline]
    pub(super) fn arrive_v4<'f>(&mut self, now: Instant, bytes: &'f [u8], to_all: bool) -> Option<&'f [u8]> {
        let packet = match Packet::new_checked(bytes) {
            Ok(packet) => packet,
            Err(error) => return self.refuse(error),
        };
        let ends = (packet.source(), packet.destination());
        if self.proper_v4 != Some(ends) || to_all {
            if let Some(why) = self.judge_v4(ends.0, ends.1, to_all) {
                return self.drop(why);
            }
            self.proper_v4 = Some(ends);
        }
        if packet.is_fragment() {
            return self.arrive_fragment_v4(now, &packet);
        }
        match packet.protocol() {
            Protocol::TCP => Some(bytes),
            Protocol::ICMP => self.arrive_icmp_v4(now, &packet, bytes),
            _ => {
                self.refuse_protocol_v4(now, &packet, bytes);
                None
            }
        }
    }

    /// Why a packet with these addresses is dropped, if it is.
    fn judge_v4(&self, source: Ipv4Addr, destination: Ipv4Addr, to_all: bool) -> Option<DropReason> {
        let (source, destination) = (IpAddress::V4(source), IpAddress::V4(destination));
        if !self.routes.is_ours(destination) {
            let many = self.routes.is_broadcast(destination) || destination.is_multicast();
            return Some(if many { DropReason::Broadcast } else { DropReason::OtherAddress });
        }
        // RFC 1122 3.3.6: "A host SHOULD silently discard a datagram that is received via a link-layer broadcast... but does
        // not specify an IP multicast or broadcast destination address."
        if to_all {
            return Some(DropReason::Broadcast);
        }
        self.is_martian(source).then_some(DropReason::Martian)
    }

    /// RFC 1122 3.2.1.3: addresses that must not be a source.
    #[inline]
    pub(super) fn is_martian(&self, source: IpAddress) -> bool {
        source.is_multicast() || source.is_loopback() || self.routes.is_ours(source) || self.routes.is_broadcast(source)
    }

    fn arrive_icmp_v4<'f>(&mut self, now: Instant, packet: &Packet, bytes: &'f [u8]) -> Option<&'f [u8]> {
        let parsed = ipv4::Repr::parse(packet, Verify::Compute)
            .and_then(|_| Message::new_checked(packet.payload()))
            .and_then(|message| icmpv4::Repr::parse(&message, Verify::Compute));
        match parsed {
            Ok(icmpv4::Repr::EchoRequest { identification, sequence, data }) => {
                if !self.outbox.may_answer(now) {
                    return self.drop(DropReason::AnswerLimit);
                }
                let reply = icmpv4::Repr::EchoReply { identification, sequence, data };
                self.say_icmp_v4(packet.destination(), packet.source(), &reply);
                None
            }
            Ok(icmpv4::Repr::EchoReply { .. } | icmpv4::Repr::Redirect { .. }) => self.drop(DropReason::Icmp),
            Ok(_) => Some(bytes),
            Err(error) => self.refuse(error),
        }
    }

    fn refuse_protocol_v4(&mut self, now: Instant, packet: &Packet, bytes: &[u8]) {
        if let Err(error) = ipv4::Repr::parse(packet, Verify::Compute) {
            return self.counters.count_malformed(error);
        }
        let (why, code) = match packet.protocol() {
            Protocol::UDP => (DropReason::Port, icmpv4::unreachable::PORT),
            _ => (DropReason::Protocol, icmpv4::unreachable::PROTOCOL),
        };
        self.counters.count(why);
        if !packet.source().is_unspecified() && self.outbox.may_answer(now) {
            self.refuse_v4(packet, bytes, code);
        }
    }

    /// The datagram goes its way once it is whole.
    fn arrive_fragment_v4<'f>(&mut self, now: Instant, packet: &Packet) -> Option<&'f [u8]> {
        if let Err(error) = ipv4::Repr::parse(packet, Verify::Compute) {
            return self.refuse(error);
        }
        let part = Part::v4(packet)?;
        let whole = match self.fragments_v4.push(now.us(), &part) {
            Ok(Some(whole)) => whole,
            Ok(None) => return None,
            Err(_) => return self.drop(DropReason::Fragment),
        };
        let mut repr = ipv4::Repr::new(packet.source(), packet.destination(), whole.protocol, whole.payload.len());
        (repr.ttl, repr.traffic_class) = (packet.ttl(), packet.traffic_class() & !3 | whole.ecn as u8);
        let mut bytes = vec![0; ipv4::HEADER_LEN + whole.payload.len()];
        match repr.emit(&mut bytes) {
            Ok(payload) => payload.copy_from_slice(whole.payload),
            Err(error) => return self.refuse(error),
        }
        if self.arrive_v4(now, &bytes, false).is_some() {
            self.deliver(bytes);
        }
        None
    }
}
