//! A writer of pcapng files: section header, one interface, enhanced packets.
//!
//! Times are nanoseconds since 1970 (`if_tsresol` 9); packets begin with their IP header
//! (`LINKTYPE_RAW`). There is one interface for all connections: libpcap 1.10 refuses a second one of
//! this link type, because it compares the number in the file with its own for the first.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1A2B_3C4D;
const LINKTYPE_RAW: u16 = 101;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const OPTION_INTERFACE_NAME: u16 = 2;
const OPTION_INTERFACE_DESCRIPTION: u16 = 3;
const OPTION_SECTION_OS: u16 = 3;
const OPTION_SECTION_APPLICATION: u16 = 4;
const OPTION_INTERFACE_TIME_RESOLUTION: u16 = 9;

/// Longest text of an option, in bytes; the format allows 65,535.
const TEXT_BYTES_MAX: usize = 1024;

pub(crate) struct Writer<W: Write> {
    out: W,
    snap_bytes: u32,
}

impl<W: Write> Writer<W> {
    /// Begins a file. Packets are cut to `snap_bytes`.
    pub(crate) fn new(out: W, snap_bytes: u32) -> io::Result<Writer<W>> {
        let mut writer = Writer { out, snap_bytes };
        let mut body = Vec::new();
        body.extend_from_slice(&BYTE_ORDER_MAGIC.to_le_bytes());
        body.extend_from_slice(&[1, 0, 0, 0]); // version 1.0
        body.extend_from_slice(&u64::MAX.to_le_bytes()); // length of the section: not known
        option(&mut body, OPTION_SECTION_OS, b"Linux");
        option(&mut body, OPTION_SECTION_APPLICATION, concat!("ringway ", env!("CARGO_PKG_VERSION")).as_bytes());
        option(&mut body, OPTION_END, b"");
        writer.block(SECTION_HEADER, &body)?;
        writer.interface()?;
        Ok(writer)
    }

    /// The source of all packets; without one, an empty capture would be no capture.
    fn interface(&mut self) -> io::Result<()> {
        let mut body = Vec::new();
        body.extend_from_slice(&LINKTYPE_RAW.to_le_bytes());
        body.extend_from_slice(&[0, 0]);
        body.extend_from_slice(&self.snap_bytes.to_le_bytes());
        option(&mut body, OPTION_INTERFACE_NAME, b"ringway");
        option(&mut body, OPTION_INTERFACE_DESCRIPTION, b"connections over shared memory");
        option(&mut body, OPTION_INTERFACE_TIME_RESOLUTION, &[9]);
        option(&mut body, OPTION_END, b"");
        self.block(INTERFACE_DESCRIPTION, &body)
    }

    /// Adds a packet with its comments.
    pub(crate) fn packet(&mut self, at: SystemTime, packet: &[u8], comments: &[String]) -> io::Result<()> {
        let nanoseconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let captured = packet.len().min(self.snap_bytes as usize);
        let mut body = Vec::with_capacity(captured + 64);
        body.extend_from_slice(&0u32.to_le_bytes());
        body.extend_from_slice(&((nanoseconds >> 32) as u32).to_le_bytes());
        body.extend_from_slice(&(nanoseconds as u32).to_le_bytes());
        body.extend_from_slice(&(captured as u32).to_le_bytes());
        body.extend_from_slice(&(packet.len() as u32).to_le_bytes());
        body.extend_from_slice(&packet[..captured]);
        pad(&mut body);
        for comment in comments {
            option(&mut body, OPTION_COMMENT, comment.as_bytes());
        }
        if !comments.is_empty() {
            option(&mut body, OPTION_END, b"");
        }
        self.block(ENHANCED_PACKET, &body)
    }

    /// Hands everything to whoever reads along.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn block(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        debug_assert!(body.len().is_multiple_of(4));
        let total = (body.len() as u32 + 12).to_le_bytes();
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&total)?;
        self.out.write_all(body)?;
        self.out.write_all(&total)
    }
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(TEXT_BYTES_MAX)];
    body.extend_from_slice(&code.to_le_bytes());
    body.extend_from_slice(&(value.len() as u16).to_le_bytes());
    body.extend_from_slice(value);
    pad(body);
}

fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pcap_file::pcapng::{Block, PcapNgReader};

    use super::*;

    #[test]
    fn an_independent_reader_finds_what_was_written() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, 10).unwrap();
        let at = UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
        writer.packet(at, b"short", &[]).unwrap();
        writer.packet(at, b"longer than ten", &["3 bytes lost before".to_string()]).unwrap();
        writer.flush().unwrap();

        let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
        let (mut interfaces, mut packets) = (0, Vec::new());
        while let Some(block) = reader.next_block() {
            match block.unwrap() {
                Block::InterfaceDescription(interface) => {
                    assert_eq!(interface.snaplen, 10);
                    interfaces += 1;
                }
                Block::EnhancedPacket(p) => {
                    packets.push((p.interface_id, p.original_len, p.data.to_vec(), p.options.len()));
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(interfaces, 1);
        assert_eq!(packets, [(0, 5, b"short".to_vec(), 0), (0, 15, b"longer tha".to_vec(), 1)]);
    }
}
