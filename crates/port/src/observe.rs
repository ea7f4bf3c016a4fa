//! Looking at the packets of any port as they pass: as lines of text, or as a packet file.

use std::io::Write;

use crate::pcap::Writer;

/// Which way a packet goes, seen from the port's user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Sent,
    Received,
}

/// Sees each whole packet once: sent ones when a sync takes them over from the user, received ones before the
/// user does. `time_ns` is the wall clock (nanoseconds since 1970) of the sync.
pub trait Observer: Send {
    fn packet(&mut self, direction: Direction, ring: usize, time_ns: u64, packet: &[u8]);
}

/// One line for each packet: time, direction, ring, length, first bytes.
pub struct Trace<W> {
    to: W,
}

/// Bytes of a packet that a [`Trace`] shows.
const SHOWN_BYTES: usize = 32;

impl<W: Write + Send> Trace<W> {
    pub fn new(to: W) -> Trace<W> {
        Trace { to }
    }
}

impl<W: Write + Send> Observer for Trace<W> {
    fn packet(&mut self, direction: Direction, ring: usize, time_ns: u64, packet: &[u8]) {
        let word = if direction == Direction::Sent { "tx" } else { "rx" };
        let bytes: String = packet.iter().take(SHOWN_BYTES).map(|byte| format!(" {byte:02x}")).collect();
        let (s, ns) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        // A reader who went away does not stop the traffic.
        let _ = writeln!(self.to, "{s}.{ns:09} {word} {ring} {} bytes{bytes}", packet.len());
    }
}

/// Writes each packet, or its beginning, into a packet file.
pub struct PcapTap<W: Write> {
    writer: Writer<W>,
    snap_bytes: usize,
}

impl<W: Write + Send> PcapTap<W> {
    /// `snap_bytes` of each packet are kept.
    pub fn new(writer: Writer<W>, snap_bytes: usize) -> PcapTap<W> {
        PcapTap { writer, snap_bytes }
    }
}

impl<W: Write + Send> Observer for PcapTap<W> {
    fn packet(&mut self, _direction: Direction, _ring: usize, time_ns: u64, packet: &[u8]) {
        // As above.
        let _ = self.writer.write(time_ns, &packet[..packet.len().min(self.snap_bytes)], packet.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open;
    use std::sync::mpsc::{Sender, channel};

    struct Report(Sender<(Direction, Vec<u8>)>);

    impl Observer for Report {
        fn packet(&mut self, direction: Direction, _ring: usize, _time_ns: u64, packet: &[u8]) {
            self.0.send((direction, packet.to_vec())).unwrap();
        }
    }

    #[test]
    fn every_packet_is_seen_once_whole_and_before_the_receiver_can_change_it() {
        let (mut a, mut b) = (open("netmap:observe{0").unwrap(), open("netmap:observe}0").unwrap());
        let (reports, seen) = channel();
        a.observe(Box::new(Report(reports.clone())));
        b.observe(Box::new(Report(reports)));
        for n in 0..300u32 {
            let packet = vec![n as u8; n as usize * 17];
            let mut batch = a.tx(0).unwrap();
            let slots = batch.put(0, &packet).unwrap();
            batch.send(slots);
            a.sync_tx(0).unwrap();
            a.sync_tx(0).unwrap();
            b.sync_rx(0).unwrap();
            b.sync_rx(0).unwrap();
            let batch = b.rx(0).unwrap();
            let len = batch.len();
            batch.release(len);
            assert_eq!(
                seen.try_iter().collect::<Vec<_>>(),
                [(Direction::Sent, packet.clone()), (Direction::Received, packet)]
            );
        }
    }

    #[test]
    fn a_trace_is_a_line() {
        let mut line = vec![];
        Trace::new(&mut line).packet(Direction::Sent, 2, 5_000_000_007, &[1, 255]);
        assert_eq!(String::from_utf8(line).unwrap(), "5.000000007 tx 2 2 bytes 01 ff\n");
    }
}
