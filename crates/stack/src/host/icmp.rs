//! ICMP's answers: echoes, and errors for what we cannot take.

use std::net::{Ipv4Addr, Ipv6Addr};

use ringway_wire::ip::Fragment;
use ringway_wire::{Fill, Protocol, icmpv4, icmpv6, ipv4, ipv6};

use super::Host;
use super::counters::DropReason;
use super::outbox::Outgoing;

/// RFC 1812 4.3.2.3: an error quotes as much as fits into 576 bytes.
const ERROR_BYTES_V4: usize = 576;
/// RFC 4443 2.4(c): and in IPv6 into the smallest MTU.
const ERROR_BYTES_V6: usize = 1280;
const ICMP_HEADER_BYTES: usize = 8;

impl Host {
    /// Sends an ICMP message, in fragments if it is longer than a packet.
    pub(super) fn say_icmp_v4(&mut self, source: Ipv4Addr, destination: Ipv4Addr, message: &icmpv4::Repr) {
        let mut bytes = vec![0; message.message_len()];
        if message.emit(&mut bytes).is_err() {
            return;
        }
        let room = (self.mtu - ipv4::HEADER_LEN) & !7;
        let whole = bytes.len() <= self.mtu - ipv4::HEADER_LEN;
        let identification = self.next_identification();
        for (n, part) in bytes.chunks(if whole { self.mtu } else { room }).enumerate() {
            let mut repr = ipv4::Repr::new(source, destination, Protocol::ICMP, part.len());
            repr.dont_fragment = false;
            repr.identification = identification;
            repr.fragment_offset = (n * room) as u16;
            repr.more_fragments = !whole && n * room + part.len() < bytes.len();
            let mut packet = vec![0; ipv4::HEADER_LEN + part.len()];
            if let Ok(payload) = repr.emit(&mut packet) {
                payload.copy_from_slice(part);
                self.say(Outgoing::Packet(packet));
            }
        }
    }

    pub(super) fn say_icmp_v6(&mut self, source: Ipv6Addr, destination: Ipv6Addr, message: &icmpv6::Repr) {
        let len = message.message_len();
        let room = (self.mtu - ipv6::HEADER_LEN - ipv6::extensions::FRAGMENT_LEN) & !7;
        let repr = ipv6::Repr::new(source, destination, Protocol::ICMPV6, len);
        let mut bytes = vec![0; len];
        if message.emit(&mut bytes, repr.pseudo(), Fill::Complete).is_err() {
            return;
        }
        if len <= self.mtu - ipv6::HEADER_LEN {
            return self.say_v6(repr, |body| body.copy_from_slice(&bytes));
        }
        let identification = u32::from(self.next_identification());
        for (n, part) in bytes.chunks(room).enumerate() {
            let offset = n * room;
            let fragment = Fragment { identification, offset: offset as u16, more: offset + part.len() < len };
            let payload_len = ipv6::extensions::FRAGMENT_LEN + part.len();
            let repr = ipv6::Repr::new(source, destination, Protocol::FRAGMENT, payload_len);
            self.say_v6(repr, |body| {
                if let Ok(rest) = ipv6::extensions::emit_fragment(fragment, Protocol::ICMPV6, body) {
                    rest.copy_from_slice(part);
                }
            });
        }
    }

    fn say_v6(&mut self, repr: ipv6::Repr, fill: impl FnOnce(&mut [u8])) {
        let mut packet = vec![0; ipv6::HEADER_LEN + repr.payload_len];
        match repr.emit(&mut packet) {
            Ok(body) => fill(body),
            Err(_) => return self.counters.count(DropReason::AnswerTooLong),
        }
        self.say(Outgoing::Packet(packet));
    }

    /// Tells the sender of `packet` that nobody here wants it (RFC 1122, 3.2.2.1: port and protocol unreachable).
    pub(super) fn refuse_v4(&mut self, packet: &ipv4::Packet, whole: &[u8], code: u8) {
        let quoted = &whole[..whole.len().min(ERROR_BYTES_V4 - ipv4::HEADER_LEN - ICMP_HEADER_BYTES)];
        let message = icmpv4::Repr::DestinationUnreachable { code, mtu: 0, quoted };
        self.say_icmp_v4(packet.destination(), packet.source(), &message);
    }

    pub(super) fn refuse_v6(
        &mut self,
        packet: &ipv6::Packet,
        whole: &[u8],
        message: impl FnOnce(&[u8]) -> icmpv6::Repr,
    ) {
        let quoted = &whole[..whole.len().min(ERROR_BYTES_V6 - ipv6::HEADER_LEN - ICMP_HEADER_BYTES)];
        self.say_icmp_v6(packet.destination(), packet.source(), &message(quoted));
    }

    /// Fragments of one datagram have one number, and others' another for long.
    fn next_identification(&mut self) -> u16 {
        self.identification = self.identification.wrapping_add(1);
        self.identification
    }
}

/// What a router would say of a packet of ours whose next station does not answer (RFC 1122, 3.3.2.1 counts us as one).
pub(super) fn unreachable_neighbour(packet: &[u8]) -> Option<Vec<u8>> {
    if packet.first()? >> 4 == 4 {
        let sent = ipv4::Packet::new_checked(packet).ok()?;
        let quoted = &packet[..packet.len().min(sent.header_len() + 8)];
        let message = icmpv4::Repr::DestinationUnreachable { code: icmpv4::unreachable::HOST, mtu: 0, quoted };
        let repr = ipv4::Repr::new(sent.source(), sent.source(), Protocol::ICMP, message.message_len());
        let mut error = vec![0; ipv4::HEADER_LEN + message.message_len()];
        return repr.emit(&mut error).and_then(|body| message.emit(body)).ok().map(|()| error);
    }
    let sent = ipv6::Packet::new_checked(packet).ok()?;
    let quoted = &packet[..packet.len().min(ipv6::HEADER_LEN + 8)];
    let message = icmpv6::Repr::DestinationUnreachable { code: icmpv6::unreachable::ADDRESS, quoted };
    let repr = ipv6::Repr::new(sent.source(), sent.source(), Protocol::ICMPV6, message.message_len());
    let mut error = vec![0; ipv6::HEADER_LEN + message.message_len()];
    let written = repr.emit(&mut error).and_then(|body| message.emit(body, repr.pseudo(), Fill::Complete));
    written.ok().map(|()| error)
}
