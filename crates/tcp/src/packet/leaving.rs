//! What leaves: a segment becomes the bytes of an IP packet, written once, straight into the caller's buffer.

use ringway_wire::checksum::{Fill, Sum};
use ringway_wire::tcp::{Flags, Repr};
use ringway_wire::{Ecn, IpAddress, Protocol, ipv4, ipv6, usual};

use crate::tables::FlowKey;

/// Where [`crate::Engine::poll_transmit`] puts packets: slots of a ring, or a vector.
pub trait TxBatch {
    /// Room for an IP packet of exactly `bytes`, which the engine fills at once; `None` if the batch is full.
    fn packet(&mut self, bytes: usize) -> Option<&mut [u8]>;
}

/// A batch of packets in one growing buffer: for tests and simple loops.
#[derive(Default)]
pub struct PacketBatch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    packets_max: usize,
}

impl PacketBatch {
    /// Holds up to `packets_max` packets.
    pub fn new(packets_max: usize) -> PacketBatch {
        PacketBatch { packets_max, ..PacketBatch::default() }
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = core::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[*start..*end])
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

impl TxBatch for PacketBatch {
    fn packet(&mut self, bytes: usize) -> Option<&mut [u8]> {
        if self.ends.len() == self.packets_max {
            return None;
        }
        let start = self.bytes.len();
        self.bytes.resize(start + bytes, 0);
        self.ends.push(start + bytes);
        Some(&mut self.bytes[start..])
    }
}

/// The fields of the IP header that a connection chooses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpFields {
    /// DSCP in the upper six bits.
    pub(crate) traffic_class: u8,
    pub(crate) ecn: Ecn,
    pub(crate) ttl: u8,
    pub(crate) identification: u16,
    pub(crate) dont_fragment: bool,
    pub(crate) flow_label: u32,
}

/// A segment to be written; its payload in two pieces, as it lies in a ring.
pub(crate) struct Leaving<'a> {
    pub(crate) key: &'a FlowKey,
    pub(crate) ip: IpFields,
    /// Ports are filled in from `key`.
    pub(crate) header: Repr,
    pub(crate) payload: (&'a [u8], &'a [u8]),
}

/// Writes the packet into `batch`; `false` if that is full.
#[inline]
pub(crate) fn emit(batch: &mut dyn TxBatch, leaving: &Leaving) -> bool {
    match usual_headers(leaving) {
        Some(headers) => emit_usual(batch, &headers, leaving.payload),
        None => emit_unusual(batch, leaving),
    }
}

/// The headers, if they are of the kind that nearly all packets have.
#[inline]
fn usual_headers(leaving: &Leaving) -> Option<usual::Headers> {
    let Leaving { key, ip, header, .. } = leaving;
    let timestamps = header.options.only_timestamps()?;
    let (source, destination, ports) = key.as_v4()?;
    let is_usual = ip.identification == 0 && ip.dont_fragment && !header.flags.contains(Flags::URG);
    is_usual.then_some(usual::Headers {
        source,
        destination,
        ports,
        seq: header.seq,
        ack: header.ack,
        flags: header.flags,
        window: header.window,
        timestamps,
        traffic_class: ip.traffic_class & !3 | ip.ecn as u8,
        ttl: ip.ttl,
    })
}

/// Writes a packet with these headers into `batch`; `false` if that is full.
#[inline]
pub(crate) fn emit_usual(batch: &mut dyn TxBatch, headers: &usual::Headers, payload: (&[u8], &[u8])) -> bool {
    let payload_len = payload.0.len() + payload.1.len();
    let Some(buffer) = batch.packet(usual::HEADERS_LEN + payload_len) else { return false };
    let Some((head, rest)) = buffer.split_first_chunk_mut() else {
        unreachable!("a buffer of the length that was asked for");
    };
    let (first, second) = rest.split_at_mut(payload.0.len());
    first.copy_from_slice(payload.0);
    if !payload.1.is_empty() {
        second.copy_from_slice(payload.1);
    }
    headers.emit(head, payload_len, Sum::of(rest));
    true
}

#[inline(never)]
fn emit_unusual(batch: &mut dyn TxBatch, leaving: &Leaving) -> bool {
    let payload_len = leaving.payload.0.len() + leaving.payload.1.len();
    let header_len = leaving.header.header_len();
    let ip_header_len = if leaving.key.is_v4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
    let Some(buffer) = batch.packet(ip_header_len + header_len + payload_len) else { return false };
    let (rest, pseudo) = match write_ip(buffer, leaving, header_len + payload_len) {
        Some(written) => written,
        None => unreachable!("a buffer of the length that was asked for, and a payload below 64 KiB"),
    };
    let (header, payload) = rest.split_at_mut(header_len);
    let (first, second) = payload.split_at_mut(leaving.payload.0.len());
    first.copy_from_slice(leaving.payload.0);
    second.copy_from_slice(leaving.payload.1);
    let written = leaving.header.emit_header(header, payload_len, Sum::of(payload), pseudo, Fill::Complete);
    assert!(written.is_ok(), "options are chosen to fit: {:?}", leaving.header.options);
    true
}

#[inline]
fn write_ip<'b>(
    buffer: &'b mut [u8],
    leaving: &Leaving,
    payload_len: usize,
) -> Option<(&'b mut [u8], ringway_wire::Pseudo)> {
    let ip = &leaving.ip;
    let traffic_class = ip.traffic_class & !3 | ip.ecn as u8;
    match (leaving.key.local().address, leaving.key.remote().address) {
        (IpAddress::V4(source), IpAddress::V4(destination)) => {
            let mut repr = ipv4::Repr::new(source, destination, Protocol::TCP, payload_len);
            repr.ttl = ip.ttl;
            repr.traffic_class = traffic_class;
            repr.identification = ip.identification;
            repr.dont_fragment = ip.dont_fragment;
            Some((repr.emit(buffer).ok()?, repr.pseudo()))
        }
        (IpAddress::V6(source), IpAddress::V6(destination)) => {
            let mut repr = ipv6::Repr::new(source, destination, Protocol::TCP, payload_len);
            repr.hop_limit = ip.ttl;
            repr.traffic_class = traffic_class;
            repr.flow_label = ip.flow_label & 0xf_ffff;
            Some((repr.emit(buffer).ok()?, repr.pseudo()))
        }
        _ => None,
    }
}
