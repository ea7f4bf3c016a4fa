//! Frames written into slots of a tx ring: packets of the engine in place, with the link header before them.

use ringway_port as port;
use ringway_tcp::{Instant, TxBatch};
use ringway_wire::ethernet::{HEADER_LEN, Repr};
use ringway_wire::{EtherType, MacAddress};

use crate::host::{Host, Outgoing};

/// Slots being filled.
pub(crate) struct Frames<'a> {
    batch: port::TxBatch<'a>,
    host: &'a mut Host,
    now: Instant,
    used: u32,
    /// Bytes of the packet in the next slot, whose link header is still missing: the engine writes it after it was given
    /// the room.
    open: Option<usize>,
    /// The last IPv4 destination and the link header of frames to it: packets leave in trains.
    last_v4: ([u8; 4], [u8; HEADER_LEN]),
}

impl<'a> Frames<'a> {
    pub(crate) fn new(batch: port::TxBatch<'a>, host: &'a mut Host, now: Instant) -> Frames<'a> {
        Frames { batch, host, now, used: 0, open: None, last_v4: ([0; 4], [0; HEADER_LEN]) }
    }

    /// Writes what the host has to say, until the slots are full.
    pub(crate) fn fill_from_host(&mut self) {
        while let Some(outgoing) = self.host.outbox.pop() {
            let (bytes, header_len) = match &outgoing {
                Outgoing::Frame(frame) => (frame, 0),
                Outgoing::Packet(packet) => (packet, HEADER_LEN),
            };
            self.close();
            if self.used == self.batch.len() {
                return self.host.outbox.unpop(outgoing);
            }
            let slot = &mut self.batch.bytes_mut(self.used)[header_len..];
            slot[..bytes.len()].copy_from_slice(bytes);
            match outgoing {
                Outgoing::Frame(frame) => self.keep(frame.len()),
                Outgoing::Packet(packet) => self.open = Some(packet.len()),
            }
        }
    }

    /// Hands the frames over to the port's next sync; answers how many.
    pub(crate) fn finish(mut self) -> u32 {
        self.close();
        self.host.counters.frames_out += u64::from(self.used);
        self.batch.send(self.used);
        self.used
    }

    /// Writes the last packet's link header; a packet whose station is not known leaves its slot to the next.
    #[inline]
    fn close(&mut self) {
        let Some(bytes) = self.open.take() else { return };
        let slot = &mut self.batch.bytes_mut(self.used)[..HEADER_LEN + bytes];
        let Some((header, packet)) = slot.split_first_chunk_mut::<HEADER_LEN>() else { return };
        let v4 = packet.get(16..20).filter(|_| packet[0] >> 4 == 4).and_then(|octets| octets.first_chunk::<4>());
        match v4 {
            Some(octets) if *octets == self.last_v4.0 => *header = self.last_v4.1,
            _ => {
                let Some(destination) = self.host.station_for(self.now, packet) else { return };
                write_header(header, destination, self.host.mac, packet);
                self.last_v4 = v4.map_or(self.last_v4, |octets| (*octets, *header));
            }
        }
        self.keep(HEADER_LEN + bytes);
    }

    #[inline]
    fn keep(&mut self, frame_bytes: usize) {
        self.batch.set(self.used, frame_bytes as u16, 0);
        self.used += 1;
    }
}

impl TxBatch for Frames<'_> {
    #[inline]
    fn packet(&mut self, bytes: usize) -> Option<&mut [u8]> {
        self.close();
        if self.used == self.batch.len() {
            return None;
        }
        self.open = Some(bytes);
        Some(&mut self.batch.bytes_mut(self.used)[HEADER_LEN..HEADER_LEN + bytes])
    }
}

#[inline]
fn write_header(header: &mut [u8], destination: MacAddress, source: MacAddress, packet: &[u8]) {
    let ether_type = if packet[0] >> 4 == 4 { EtherType::IPV4 } else { EtherType::IPV6 };
    let written = Repr { destination, source, vlan: None, ether_type }.emit(header).map(drop);
    debug_assert!(written.is_ok(), "a header of {} bytes", header.len());
}
