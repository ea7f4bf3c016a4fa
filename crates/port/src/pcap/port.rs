//! Packet files behind rings.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;

use super::{FileError, Packet, Reader, Writer};
use crate::backend::Backend;
use crate::error::PortError;
use crate::kring::{RxKring, TxKring};

/// Gives the packets of a file as fast as there is room, and after the last one nothing.
pub(crate) struct Source {
    path: String,
    /// None at the end of the file.
    reader: Option<Reader<BufReader<File>>>,
    /// Read, but there was no room.
    waiting: Option<Packet>,
    /// Why the file cannot be read on; told once everything before it has been given.
    broken: Option<PortError>,
}

/// Writes what is sent into a file.
pub(crate) struct Sink {
    path: String,
    writer: Writer<BufWriter<File>>,
}

impl Source {
    pub(crate) fn open(path: &str) -> Result<Source, PortError> {
        let file = File::open(path).map_err(|e| failed("open", path, &e))?;
        let reader = Reader::new(BufReader::new(file)).map_err(|e| unreadable(path, e))?;
        Ok(Source { path: path.to_owned(), reader: Some(reader), waiting: None, broken: None })
    }

    fn next(&mut self) -> Option<Packet> {
        if let Some(packet) = self.waiting.take() {
            return Some(packet);
        }
        let found = self.reader.as_mut()?.next_packet();
        if !matches!(found, Ok(Some(_))) {
            self.reader = None;
        }
        found.unwrap_or_else(|error| {
            self.broken = Some(unreadable(&self.path, error));
            None
        })
    }
}

impl Sink {
    pub(crate) fn create(path: &str) -> Result<Sink, PortError> {
        let to = BufWriter::new(File::create(path).map_err(|e| failed("create", path, &e))?);
        let writer = if path.ends_with(".pcapng") { Writer::pcapng(to) } else { Writer::pcap(to) };
        Ok(Sink { path: path.to_owned(), writer: writer.map_err(|e| failed("write", path, &e))? })
    }
}

fn failed(what: &str, path: &str, error: &std::io::Error) -> PortError {
    PortError::os(format!("{what} {path}"), Errno::from_io_error(error).unwrap_or(Errno::IO))
}

fn unreadable(path: &str, error: FileError) -> PortError {
    PortError::refused(format!("pcap:{path}"), error.to_string())
}

/// Nanoseconds since 1970: what time stamps in files are.
pub(crate) fn wall_clock_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

impl Backend for Source {
    fn sync_tx(&mut self, _ring: usize, _tx: &TxKring, _now_ns: u64) -> Result<(), PortError> {
        Ok(())
    }

    fn sync_rx(&mut self, _ring: usize, rx: &RxKring, _released: u32, _now_ns: u64) -> Result<(), PortError> {
        let (mut slots, mut packets, mut bytes) = (0, 0, 0);
        while let Some(packet) = self.next() {
            let Some(taken) = rx.put(slots, &packet.bytes) else {
                self.waiting = Some(packet);
                break;
            };
            (slots, packets, bytes) = (slots + taken, packets + 1, bytes + packet.bytes.len() as u64);
        }
        rx.publish(slots);
        rx.count(packets, bytes);
        self.broken.take_if(|_| slots == 0).map_or(Ok(()), Err)
    }
}

impl Backend for Sink {
    fn sync_tx(&mut self, _ring: usize, tx: &TxKring, _now_ns: u64) -> Result<(), PortError> {
        let (pending, time_ns) = (tx.pending(), wall_clock_ns());
        let (mut at, mut packets, mut bytes, mut packet) = (0, 0, 0, vec![]);
        while let Some(n) = (at < pending).then(|| tx.packet_slots(at, pending)).flatten() {
            packet.clear();
            tx.copy_packet(at, n, &mut packet);
            let written = self.writer.write(time_ns, &packet, packet.len());
            written.map_err(|e| failed("write", &self.path, &e))?;
            (at, packets, bytes) = (at + n, packets + 1, bytes + packet.len() as u64);
        }
        tx.take(at);
        tx.count(packets, bytes);
        self.writer.flush().map_err(|e| failed("write", &self.path, &e))
    }

    fn sync_rx(&mut self, _ring: usize, _rx: &RxKring, _released: u32, _now_ns: u64) -> Result<(), PortError> {
        Ok(())
    }
}
