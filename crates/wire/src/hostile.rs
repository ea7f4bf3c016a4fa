//! Bytes from somebody who means no good, and what must hold for them.
//!
//! Whatever the bytes are, no reader panics or reads without end; what a reader accepts is valid, so it can be written,
//! and reads back as the same value. Property tests and fuzz targets share these functions.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::net::{Ipv4Addr, Ipv6Addr};

use crate::checksum::{Fill, Pseudo, Sum, Verify};
use crate::ethernet::{EtherType, Frame};
use crate::icmp::{Message, Quoted};
use crate::ip::Protocol;
use crate::{Error, arp, ethernet, icmpv4, icmpv6, ipv4, ipv6, nd, tcp, udp, virtio};

mod fragments;

pub use fragments::{FragmentTally, fragments};

/// How often something was accepted: a run that accepted nothing has proved nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub frames: u64,
    pub arp: u64,
    pub ipv4: u64,
    pub ipv6: u64,
    pub fragments: u64,
    pub tcp: u64,
    pub udp: u64,
    pub icmpv4: u64,
    pub icmpv6: u64,
    pub nd: u64,
    pub quoted: u64,
    pub virtio: u64,
    pub refused: u64,
}

/// Reads `bytes` as a virtio-net header and a frame, layer by layer.
///
/// # Panics
/// Something was accepted that cannot be written or reads back as something else.
pub fn frame(bytes: &[u8], tally: &mut Tally) {
    if let Ok((header, packet)) = virtio::Header::parse(bytes, virtio::Layout::Short) {
        tally.virtio += 1;
        let mut again = bytes.to_vec();
        header.emit(&mut again, virtio::Layout::Short).expect("as long as before");
        assert_eq!(virtio::Header::parse(&again, virtio::Layout::Short), Ok((header, packet)));
        let mut packet = packet.to_vec();
        header.clone().finish_checksum(&mut packet).expect("judged by parse");
    }
    let Ok(frame) = Frame::new_checked(bytes) else { return tally.refused += 1 };
    if let Ok(repr) = ethernet::Repr::parse(&frame) {
        tally.frames += 1;
        let again = written(repr.header_len(), |buffer| repr.emit(buffer).map(|_| ()));
        let again = Frame::new_checked(&again).expect("just written");
        // A second tag cannot be told from a type.
        assert_eq!(ethernet::Repr::parse(&again), Ok(repr));
    }
    match frame.ether_type() {
        EtherType::ARP => arp(frame.payload(), tally),
        EtherType::IPV4 => ipv4(frame.payload(), tally),
        EtherType::IPV6 => ipv6(frame.payload(), tally),
        _ => {}
    }
}

fn written(len: usize, emit: impl FnOnce(&mut [u8]) -> Result<(), Error>) -> Vec<u8> {
    let mut bytes = vec![0xee; len];
    emit(&mut bytes).expect("what is accepted can be written");
    bytes
}

fn same<T: PartialEq + Debug>(again: Result<T, Error>, first: T) {
    assert_eq!(again, Ok(first), "reads back as something else");
}

fn arp(bytes: &[u8], tally: &mut Tally) {
    let Ok(repr) = arp::Packet::new_checked(bytes).and_then(|p| arp::Repr::parse(&p)) else {
        return tally.refused += 1;
    };
    tally.arp += 1;
    let again = written(arp::PACKET_LEN, |buffer| repr.emit(buffer));
    same(arp::Packet::new_checked(&again).and_then(|p| arp::Repr::parse(&p)), repr);
}

fn ipv4(bytes: &[u8], tally: &mut Tally) {
    let Ok(packet) = ipv4::Packet::new_checked(bytes) else { return tally.refused += 1 };
    assert!(ipv4::options::iter(packet.options()).count() <= packet.options().len());
    let Ok(repr) = ipv4::Repr::parse(&packet, Verify::Trust) else { return tally.refused += 1 };
    tally.ipv4 += 1;
    if repr.payload_len <= ipv4::PAYLOAD_LEN_MAX {
        let len = ipv4::HEADER_LEN + repr.payload_len;
        let again = written(len, |buffer| repr.emit(buffer).map(|p| p.copy_from_slice(packet.payload())));
        same(ipv4::Packet::new_checked(&again).and_then(|p| ipv4::Repr::parse(&p, Verify::Compute)), repr);
    }
    if packet.is_fragment() {
        tally.fragments += 1;
        return;
    }
    transport(packet.protocol(), packet.payload(), packet.pseudo(), packet.ttl(), tally);
}

fn ipv6(bytes: &[u8], tally: &mut Tally) {
    let Ok(packet) = ipv6::Packet::new_checked(bytes) else { return tally.refused += 1 };
    tally.ipv6 += 1;
    let repr = ipv6::Repr::parse(&packet);
    let len = ipv6::HEADER_LEN + repr.payload_len;
    let again = written(len, |buffer| repr.emit(buffer).map(|p| p.copy_from_slice(packet.payload())));
    same(ipv6::Packet::new_checked(&again).map(|p| ipv6::Repr::parse(&p)), repr);
    let upper = match packet.upper() {
        Ok(upper) => upper,
        Err(refused) => {
            let within = |pointer: u32| (pointer as usize) < len;
            assert!(refused.answer.is_none_or(|a| within(a.pointer)), "an answer that points beyond the packet");
            return tally.refused += 1;
        }
    };
    if upper.fragment.is_some() {
        tally.fragments += 1;
        return;
    }
    transport(upper.protocol, upper.payload, packet.pseudo(upper.protocol), packet.hop_limit(), tally);
}

/// Reads `bytes` as what an IP packet of `protocol` carries. Checksums count only as far as looking at them must not
/// panic: what they protect is judged without them.
pub fn transport(protocol: Protocol, bytes: &[u8], pseudo: Pseudo, hop_limit: u8, tally: &mut Tally) {
    match protocol {
        Protocol::TCP => tcp(bytes, pseudo, tally),
        Protocol::UDP => udp(bytes, pseudo, tally),
        Protocol::ICMP => icmpv4(bytes, tally),
        Protocol::ICMPV6 => icmpv6(bytes, pseudo, hop_limit, tally),
        _ => {}
    }
}

fn tcp(bytes: &[u8], pseudo: Pseudo, tally: &mut Tally) {
    let Ok(segment) = tcp::Segment::new_checked(bytes) else { return tally.refused += 1 };
    assert_eq!(
        segment.verify_checksum(pseudo),
        tcp::Repr::parse(&segment, pseudo, Verify::Compute) != Err(Error::TcpChecksum)
    );
    let Ok(mut repr) = tcp::Repr::parse(&segment, pseudo, Verify::Trust) else { return tally.refused += 1 };
    tally.tcp += 1;
    // Read only.
    (repr.options.authentication, repr.options.malformed) = (None, false);
    let mut again = vec![0xee; repr.header_len() + segment.payload().len()];
    again[repr.header_len()..].copy_from_slice(segment.payload());
    if repr.header_len() > tcp::HEADER_LEN_MAX {
        assert_eq!(repr.emit(&mut again, pseudo, Fill::Complete), Err(Error::TcpOptionsTooLong));
        return;
    }
    repr.emit(&mut again, pseudo, Fill::Complete).expect("what is accepted can be written");
    same(tcp::Segment::new_checked(&again).and_then(|s| tcp::Repr::parse(&s, pseudo, Verify::Compute)), repr);
}

fn udp(bytes: &[u8], pseudo: Pseudo, tally: &mut Tally) {
    let Ok(datagram) = udp::Datagram::new_checked(bytes) else { return tally.refused += 1 };
    let _ = datagram.verify_checksum(pseudo);
    let Ok(repr) = udp::Repr::parse(&datagram, pseudo, Verify::Trust) else { return tally.refused += 1 };
    tally.udp += 1;
    let mut again = vec![0xee; udp::HEADER_LEN + repr.payload_len];
    again[udp::HEADER_LEN..].copy_from_slice(datagram.payload());
    repr.emit(&mut again, pseudo, Fill::Complete).expect("what is accepted can be written");
    same(udp::Datagram::new_checked(&again).and_then(|d| udp::Repr::parse(&d, pseudo, Verify::Compute)), repr);
}

fn icmpv4(bytes: &[u8], tally: &mut Tally) {
    let Ok(message) = Message::new_checked(bytes) else { return tally.refused += 1 };
    assert_eq!(message.verify_checksum_v4(), Sum::of(bytes).is_valid());
    tally.quoted += u64::from(Quoted::v4(message.body()).is_ok());
    let Ok(repr) = icmpv4::Repr::parse(&message, Verify::Trust) else { return tally.refused += 1 };
    tally.icmpv4 += 1;
    let again = written(repr.message_len(), |buffer| repr.emit(buffer));
    same(Message::new_checked(&again).and_then(|m| icmpv4::Repr::parse(&m, Verify::Compute)), repr);
}

fn icmpv6(bytes: &[u8], pseudo: Pseudo, hop_limit: u8, tally: &mut Tally) {
    let Ok(message) = Message::new_checked(bytes) else { return tally.refused += 1 };
    tally.quoted += u64::from(Quoted::v6(message.body()).is_ok());
    let parse = |message: &Message| icmpv6::Repr::parse(message, hop_limit, pseudo, Verify::Compute).err();
    assert!(message.verify_checksum_v6(pseudo) || parse(&message) == Some(Error::IcmpChecksum));
    let Ok(repr) = icmpv6::Repr::parse(&message, hop_limit, pseudo, Verify::Trust) else { return tally.refused += 1 };
    tally.icmpv6 += 1;
    if let icmpv6::Repr::Nd(nd) = &repr {
        tally.nd += 1;
        nd_options(nd);
    }
    let again = written(repr.message_len(), |buffer| repr.emit(buffer, pseudo, Fill::Complete));
    let again = Message::new_checked(&again).expect("just written");
    same(icmpv6::Repr::parse(&again, hop_limit, pseudo, Verify::Compute), repr);
}

/// What is understood of the options is written and understood again.
fn nd_options(message: &nd::Repr) {
    let (nd::Repr::RouterSolicit { options }
    | nd::Repr::RouterAdvert { options, .. }
    | nd::Repr::NeighborSolicit { options, .. }
    | nd::Repr::NeighborAdvert { options, .. }
    | nd::Repr::Redirect { options, .. }) = message;
    for option in options.iter() {
        let again = written(option.wire_len(), |buffer| option.emit(buffer).map(|_| ()));
        let again = nd::Options::new_checked(&again).expect("just written");
        assert_eq!(again.iter().next(), Some(option));
    }
}

/// For [`transport`] without a packet around it.
pub fn some_pseudo(protocol: Protocol, v6: bool) -> Pseudo {
    match v6 {
        true => Pseudo::v6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, protocol),
        false => Pseudo::v4(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, protocol),
    }
}

#[cfg(test)]
mod tests;
