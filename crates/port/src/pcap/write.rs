//! Writing packets into pcap and pcapng files, with time stamps in nanoseconds.

use std::io::{Result, Write};

use super::{ETHERNET, PACKET_BYTES_MAX};

/// A file being written.
#[derive(Debug)]
pub struct Writer<W: Write> {
    to: W,
    next_generation: bool,
}

impl<W: Write> Writer<W> {
    /// Writes the head of a pcap file.
    pub fn pcap(mut to: W) -> Result<Writer<W>> {
        let words = [0xa1b2_3c4d, 2 | 4 << 16, 0, 0, PACKET_BYTES_MAX as u32, ETHERNET];
        put_words(&mut to, &words)?;
        Ok(Writer { to, next_generation: false })
    }

    /// Writes the head of a pcapng file: a section with one Ethernet interface.
    pub fn pcapng(mut to: W) -> Result<Writer<W>> {
        // Section: length unknown (-1). Interface: if_tsresol (code 9, 1 byte) says nanoseconds.
        put_words(&mut to, &[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28])?;
        put_words(&mut to, &[1, 32, ETHERNET, PACKET_BYTES_MAX as u32, 9 | 1 << 16, 9, 0, 32])?;
        Ok(Writer { to, next_generation: true })
    }

    /// Appends a packet, of which `packet` may be the beginning only; `original_bytes` is its whole length.
    pub fn write(&mut self, time_ns: u64, packet: &[u8], original_bytes: usize) -> Result<()> {
        let packet = &packet[..packet.len().min(PACKET_BYTES_MAX)];
        let (len, original) = (packet.len() as u32, original_bytes as u32);
        if !self.next_generation {
            let (seconds, ns) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
            put_words(&mut self.to, &[seconds as u32, ns as u32, len, original])?;
            return self.to.write_all(packet);
        }
        let padding = packet.len().next_multiple_of(4) - packet.len();
        let block = 32 + (packet.len() + padding) as u32;
        put_words(&mut self.to, &[6, block, 0, (time_ns >> 32) as u32, time_ns as u32, len, original])?;
        self.to.write_all(packet)?;
        self.to.write_all(&[0; 3][..padding])?;
        put_words(&mut self.to, &[block])
    }

    pub fn flush(&mut self) -> Result<()> {
        self.to.flush()
    }
}

fn put_words(to: &mut impl Write, words: &[u32]) -> Result<()> {
    words.iter().try_for_each(|word| to.write_all(&word.to_le_bytes()))
}
