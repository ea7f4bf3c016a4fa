//! Frames between ports whose frames begin with virtio-net headers of different lengths (PORT_HDR_SET).
//!
//! ```text
//!   header   ->  header    the same bytes; 10 and 12 bytes differ in the number of buffers at the end
//!   none     ->  header    an empty header: nothing is left to do
//!   header   ->  none      what it leaves to the receiver (checksum, segmentation) is done here
//! ```
//! After VALE's `bdg_mismatch_datapath`. All of it is off the fast path, which is for ports without headers.

use ringway_wire::offload;
use ringway_wire::virtio::{Header, Layout};

/// Bytes of a header at most.
pub(crate) const HEADER_BYTES_MAX: u32 = 12;

/// What a receiver whose frames have headers of `to` bytes gets for a frame that begins with one of `from` bytes: nothing if
/// the header says what cannot be.
pub(crate) fn converted(frame: &[u8], from: u32, to: u32) -> Vec<Vec<u8>> {
    let Some(packet) = frame.get(from as usize..) else { return vec![] };
    match (layout(from), layout(to)) {
        (None, None) => vec![packet.to_vec()],
        (None, Some(to)) => vec![headed(&Header::default(), to, packet)],
        (Some(from), Some(to)) => match Header::parse(frame, from) {
            Ok((header, packet)) => vec![headed(&header, to, packet)],
            Err(_) => vec![],
        },
        (Some(from), None) => Header::parse(frame, from).map_or(vec![], |(header, packet)| finished(header, packet)),
    }
}

fn layout(bytes: u32) -> Option<Layout> {
    [Layout::Short, Layout::Full].into_iter().find(|layout| layout.header_len() == bytes as usize)
}

fn headed(header: &Header, layout: Layout, packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; layout.header_len()];
    bytes.extend_from_slice(packet);
    let written = header.emit(&mut bytes, layout);
    debug_assert!(written.is_ok(), "there is room for the header");
    bytes
}

/// Does what a device would: splits the packet, or fills in its checksum.
fn finished(mut header: Header, packet: &[u8]) -> Vec<Vec<u8>> {
    let mut packets = vec![];
    let result = match header.gso {
        Some(gso) => offload::split(packet, gso, |segment| packets.push(segment.to_vec())),
        None => {
            let mut packet = packet.to_vec();
            header.finish_checksum(&mut packet).map(|()| packets.push(packet))
        }
    };
    if result.is_err() {
        packets.clear();
    }
    packets
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;

    use ringway_mem::fabric::Fabric;
    use ringway_mem::pool::{Pool, PoolConfig, RingCounts};
    use ringway_port::Port;
    use ringway_wire::virtio::{Checksum, Gso, GsoKind};

    use super::*;
    use crate::modules::hub::Hub;
    use crate::{Switch, vale};

    fn exchange(from: u32, to: u32, frame: &[u8]) -> Vec<Vec<u8>> {
        let pool = Pool::create(PoolConfig { buffers: 1024, buffer_bytes: 256, object_pages: 64 }).unwrap();
        let switch = Switch::new(Fabric::create().unwrap(), Arc::new(Hub));
        let open = |name: &str| vale::open(&switch, &pool, name, RingCounts::pairs(1, 64)).unwrap();
        let (mut a, mut b) = (open("a"), open("b"));
        for (number, bytes) in [(0, from), (1, to)] {
            switch.fabric().seats()[number].vnet_header_bytes.store(bytes, Relaxed);
        }
        switch.fabric().changed();
        let mut batch = a.tx(0).unwrap();
        let slots = batch.put(0, frame).unwrap();
        batch.send(slots);
        a.sync_tx(0).unwrap();
        receive(&mut b)
    }

    fn receive(port: &mut Port) -> Vec<Vec<u8>> {
        port.sync_rx(0).unwrap();
        let batch = port.rx(0).unwrap();
        let (mut packets, mut at) = (vec![], 0);
        while at < batch.len() {
            let slots = batch.packet_slots(at).unwrap();
            let mut packet = vec![];
            batch.copy_packet(at, slots, &mut packet);
            packets.push(packet);
            at += slots;
        }
        packets
    }

    /// An Ethernet frame with a UDP datagram whose checksum field holds the pseudo-header's sum.
    fn datagram(payload: usize) -> Vec<u8> {
        let len = 8 + payload as u16;
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0]);
        frame.extend((20 + len).to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 7, 0, 8]);
        frame.extend(len.to_be_bytes());
        frame.extend([0, 0]);
        frame.extend((0..payload).map(|n| n as u8));
        let partial = offload::Transport::of(&frame).unwrap().partial();
        frame[40..42].copy_from_slice(&partial.to_be_bytes());
        frame
    }

    fn with_header(header: Header, layout: Layout, packet: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; layout.header_len()];
        bytes.extend_from_slice(packet);
        header.emit(&mut bytes, layout).unwrap();
        bytes
    }

    const NEEDED: Header = Header { checksum: Checksum::Needed { start: 34, offset: 6 }, gso: None };

    #[test]
    fn headers_are_kept_added_taken_away_and_made_longer() {
        let plain = datagram(700);
        for (from, to) in [(0, 10), (0, 12)] {
            let got = exchange(from, to, &plain);
            assert_eq!(got, [with_header(Header::default(), layout(to).unwrap(), &plain)]);
        }
        for (from, to) in [(10, 10), (12, 12), (10, 12), (12, 10)] {
            let [from_layout, to_layout] = [from, to].map(|bytes| layout(bytes).unwrap());
            let got = exchange(from, to, &with_header(NEEDED, from_layout, &plain));
            assert_eq!(got, [with_header(NEEDED, to_layout, &plain)], "{from} to {to}");
        }
    }

    #[test]
    fn who_has_no_headers_gets_whole_checksums() {
        let plain = datagram(701);
        let got = exchange(12, 0, &with_header(NEEDED, Layout::Full, &plain));
        assert_eq!(got.len(), 1);
        let mut completed = plain.clone();
        offload::Transport::of(&plain).unwrap().complete(&mut completed).unwrap();
        assert_eq!(got[0], completed);
        assert_ne!(got[0], plain);
    }

    #[test]
    fn who_has_no_headers_gets_segments() {
        let gso = Gso { kind: GsoKind::UdpSegments, ecn: false, header_len: 42, size: 500 };
        let plain = datagram(1800);
        let got = exchange(12, 0, &with_header(Header { gso: Some(gso), ..NEEDED }, Layout::Full, &plain));
        let mut expected = vec![];
        offload::split(&plain, gso, |segment| expected.push(segment.to_vec())).unwrap();
        assert_eq!(got.len(), 4);
        assert_eq!(got, expected);
    }

    #[test]
    fn impossible_headers_and_frames_go_nowhere() {
        let mut beyond = with_header(NEEDED, Layout::Full, &datagram(10));
        beyond[6..8].copy_from_slice(&5000_u16.to_le_bytes());
        for frame in [with_header(NEEDED, Layout::Full, &[1; 3]), beyond] {
            assert!(exchange(12, 0, &frame).is_empty() && exchange(12, 10, &frame).is_empty());
        }
    }
}
