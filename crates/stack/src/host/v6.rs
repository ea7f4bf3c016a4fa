//! An IPv6 packet arrived.

use ringway_tcp::Instant;
use ringway_wire::ethernet::Frame;
use ringway_wire::icmp::Message;
use ringway_wire::ipv6::extensions::Upper;
use ringway_wire::ipv6::{self, Packet};
use ringway_wire::reassembly::Part;
use ringway_wire::{IpAddress, Protocol, Verify, icmpv6};

use super::Host;
use super::counters::DropReason;

/// RFC 4443 3.4, code 1: a next header that nobody knows.
const UNKNOWN_NEXT_HEADER: u8 = 1;

impl Host {
    /// Answers the packet if it is TCP's business. `to_all` if the frame went to a group.
    pub(super) fn arrive_v6<'f>(&mut self, now: Instant, frame: &Frame<'f>, to_all: bool) -> Option<&'f [u8]> {
        let bytes = frame.payload();
        self.sort_v6(now, bytes, to_all).then_some(bytes)
    }

    fn sort_v6(&mut self, now: Instant, bytes: &[u8], to_all: bool) -> bool {
        let packet = match Packet::new_checked(bytes) {
            Ok(packet) => packet,
            Err(error) => return self.refuse::<()>(error).is_some(),
        };
        let destination = IpAddress::V6(packet.destination());
        let is_ours = self.routes.is_ours(destination);
        if !is_ours && !destination.is_multicast() {
            return self.drop::<()>(DropReason::OtherAddress).is_some();
        }
        if self.is_martian(IpAddress::V6(packet.source())) {
            return self.drop::<()>(DropReason::Martian).is_some();
        }
        let upper = match packet.upper() {
            Ok(upper) => upper,
            Err(refused) => return self.refuse::<()>(refused.error).is_some(),
        };
        if upper.fragment.is_some() {
            self.arrive_fragment_v6(now, &packet, &upper);
            return false;
        }
        match upper.protocol {
            Protocol::ICMPV6 => self.arrive_icmp_v6(now, &packet, &upper, is_ours),
            _ if to_all || !is_ours => self.drop::<()>(DropReason::Broadcast).is_some(),
            Protocol::TCP => true,
            _ => self.refuse_protocol_v6(now, &packet, bytes, &upper),
        }
    }

    fn arrive_icmp_v6(&mut self, now: Instant, packet: &Packet, upper: &Upper, is_ours: bool) -> bool {
        let pseudo = packet.pseudo(Protocol::ICMPV6);
        let parsed = Message::new_checked(upper.payload)
            .and_then(|message| icmpv6::Repr::parse(&message, packet.hop_limit(), pseudo, Verify::Compute));
        match parsed {
            Ok(icmpv6::Repr::Nd(message)) => self.arrive_nd(now, packet.source(), message),
            Ok(icmpv6::Repr::EchoRequest { identification, sequence, data }) if is_ours => {
                if !self.outbox.may_answer(now) {
                    return self.drop::<()>(DropReason::AnswerLimit).is_some();
                }
                let reply = icmpv6::Repr::EchoReply { identification, sequence, data };
                self.say_icmp_v6(packet.destination(), packet.source(), &reply);
            }
            Ok(icmpv6::Repr::EchoRequest { .. } | icmpv6::Repr::EchoReply { .. }) => {
                self.counters.count(DropReason::Icmp)
            }
            Ok(_) => return is_ours,
            // Messages of kinds that we do not know, as those about multicast, are common.
            Err(ringway_wire::Error::IcmpType) => self.counters.count(DropReason::Icmp),
            Err(error) => self.counters.count_malformed(error),
        }
        false
    }

    fn refuse_protocol_v6(&mut self, now: Instant, packet: &Packet, bytes: &[u8], upper: &Upper) -> bool {
        let is_datagram = upper.protocol == Protocol::UDP;
        self.counters.count(if is_datagram { DropReason::Port } else { DropReason::Protocol });
        if !packet.source().is_unspecified() && self.outbox.may_answer(now) {
            self.refuse_v6(packet, bytes, |quoted| match is_datagram {
                true => icmpv6::Repr::DestinationUnreachable { code: icmpv6::unreachable::PORT, quoted },
                false => {
                    icmpv6::Repr::ParameterProblem { code: UNKNOWN_NEXT_HEADER, pointer: upper.protocol_at, quoted }
                }
            });
        }
        false
    }

    fn arrive_fragment_v6(&mut self, now: Instant, packet: &Packet, upper: &Upper) {
        let Some(part) = Part::v6(packet, upper) else { return };
        let whole = match self.fragments_v6.push(now.us(), &part) {
            Ok(Some(whole)) => whole,
            Ok(None) => return,
            Err(_) => return self.counters.count(DropReason::Fragment),
        };
        let mut repr = ipv6::Repr::new(packet.source(), packet.destination(), whole.protocol, whole.payload.len());
        (repr.hop_limit, repr.traffic_class) = (packet.hop_limit(), packet.traffic_class() & !3 | whole.ecn as u8);
        let mut bytes = vec![0; ipv6::HEADER_LEN + whole.payload.len()];
        match repr.emit(&mut bytes) {
            Ok(payload) => payload.copy_from_slice(whole.payload),
            Err(error) => return self.counters.count_malformed(error),
        }
        // A fragment within a fragment serves nobody but who wants us to dig.
        let is_nested =
            Packet::new_checked(&bytes).is_ok_and(|packet| packet.upper().is_ok_and(|u| u.fragment.is_some()));
        if is_nested {
            self.counters.count(DropReason::Fragment);
        } else if self.sort_v6(now, &bytes, false) {
            self.deliver(bytes);
        }
    }
}
