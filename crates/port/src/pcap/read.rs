//! Reading packets out of pcap and pcapng files, one by one.

use std::io::{ErrorKind, Read};

use super::PACKET_BYTES_MAX;

/// Bytes of a block or of a header's options at most.
const BLOCK_BYTES_MAX: usize = 1 << 20;
/// Interfaces of a pcapng section at most.
const INTERFACES_MAX: usize = 1024;

/// One packet of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Time stamp: nanoseconds since 1970.
    pub time_ns: u64,
    pub bytes: Vec<u8>,
}

/// Why a file cannot be read on.
#[derive(Debug)]
pub enum FileError {
    /// Reading failed.
    Io(std::io::Error),
    /// Neither pcap nor pcapng: the first four bytes.
    Format(u32),
    /// The file is cut off or broken: what was being read.
    Broken(&'static str),
    /// A packet, block or table beyond its bound: which, its size, the bound.
    TooLong(&'static str, usize, usize),
}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FileError::Io(e) => e.fmt(f),
            FileError::Format(magic) => write!(f, "neither pcap nor pcapng: the file begins with {magic:#010x}"),
            FileError::Broken(what) => write!(f, "the file is cut off or broken in {what}"),
            FileError::TooLong(what, n, max) => write!(f, "{what} of {n}; at most {max} are read"),
        }
    }
}

impl std::error::Error for FileError {}

/// Packets of a file, in its order.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    big_endian: bool,
    /// Nanoseconds of one unit of a pcap file's second time word; None: a pcapng file.
    pcap_unit_ns: Option<u64>,
    /// Time units a second of each interface of the pcapng section.
    interfaces: Vec<u64>,
}

impl<R: Read> Reader<R> {
    /// Reads the file's head.
    pub fn new(mut from: R) -> Result<Reader<R>, FileError> {
        let mut magic = [0; 4];
        fill(&mut from, &mut magic, "its head")?;
        let magic = u32::from_le_bytes(magic);
        let (big_endian, unit) = match magic {
            0xa1b2_c3d4 => (false, Some(1000)),
            0xd4c3_b2a1 => (true, Some(1000)),
            0xa1b2_3c4d => (false, Some(1)),
            0x4d3c_b2a1 => (true, Some(1)),
            0x0a0d_0d0a => (false, None),
            _ => return Err(FileError::Format(magic)),
        };
        let mut reader = Reader { from, big_endian, pcap_unit_ns: unit, interfaces: vec![] };
        if unit.is_some() {
            reader.take(20, "its head")?;
        } else {
            reader.section()?;
        }
        Ok(reader)
    }

    /// The next packet; None at the end of the file.
    pub fn next_packet(&mut self) -> Result<Option<Packet>, FileError> {
        match self.pcap_unit_ns {
            Some(unit_ns) => self.record(unit_ns),
            None => self.block(),
        }
    }

    fn record(&mut self, unit_ns: u64) -> Result<Option<Packet>, FileError> {
        let Some(head) = self.head::<16>("a record's head")? else { return Ok(None) };
        let word = |i: usize| self.word(&head, i * 4);
        let (seconds, fraction, len) = (u64::from(word(0)), u64::from(word(1)), word(2) as usize);
        let bytes = self.packet(len)?;
        Ok(Some(Packet { time_ns: seconds * 1_000_000_000 + fraction * unit_ns, bytes }))
    }

    fn packet(&mut self, len: usize) -> Result<Vec<u8>, FileError> {
        if len > PACKET_BYTES_MAX {
            return Err(FileError::TooLong("a packet", len, PACKET_BYTES_MAX));
        }
        self.take(len, "a packet")
    }

    /// A pcapng section's head, behind its type: the byte order is told by a magic number in it.
    fn section(&mut self) -> Result<(), FileError> {
        let head = self.take(8, "a section's head")?;
        self.big_endian = match u32::from_le_bytes([head[4], head[5], head[6], head[7]]) {
            0x1a2b_3c4d => false,
            0x4d3c_2b1a => true,
            _ => return Err(FileError::Broken("a section's head")),
        };
        self.interfaces.clear();
        let len = self.word(&head, 0) as usize;
        self.take(rest_of_block(len, 12)?, "a section's head").map(drop)
    }

    fn block(&mut self) -> Result<Option<Packet>, FileError> {
        loop {
            let Some(kind) = self.head::<4>("a block's head")? else { return Ok(None) };
            let kind = self.word(&kind, 0);
            if kind == 0x0a0d_0d0a {
                self.section()?;
                continue;
            }
            let len = self.take(4, "a block's head")?;
            let len = self.word(&len, 0) as usize;
            let body = self.take(rest_of_block(len, 8)?, "a block")?;
            let body = &body[..body.len() - 4];
            match kind {
                1 => self.interface(body)?,
                3 => return self.simple_packet(body).map(Some),
                6 => return self.enhanced_packet(body).map(Some),
                _ => {}
            }
        }
    }

    fn interface(&mut self, body: &[u8]) -> Result<(), FileError> {
        if self.interfaces.len() == INTERFACES_MAX {
            return Err(FileError::TooLong("a number of interfaces", INTERFACES_MAX + 1, INTERFACES_MAX));
        }
        let mut options = body.get(8..).ok_or(FileError::Broken("an interface"))?;
        let mut units_per_s = 1_000_000;
        while let Some((head, rest)) = options.split_at_checked(4) {
            let (code, len) = (self.half(head, 0), usize::from(self.half(head, 2)));
            let Some(value) = rest.get(..len).filter(|_| code != 0) else { break };
            if let (9, [resolution, ..]) = (code, value) {
                units_per_s = units(*resolution).ok_or(FileError::Broken("an interface's time resolution"))?;
            }
            options = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        self.interfaces.push(units_per_s);
        Ok(())
    }

    fn enhanced_packet(&self, body: &[u8]) -> Result<Packet, FileError> {
        let (head, data) = body.split_at_checked(20).ok_or(FileError::Broken("a packet block"))?;
        let units_per_s = self.interfaces.get(self.word(head, 0) as usize);
        let units_per_s = *units_per_s.ok_or(FileError::Broken("a packet block's interface"))?;
        let time = u64::from(self.word(head, 4)) << 32 | u64::from(self.word(head, 8));
        let time_ns = u128::from(time) * 1_000_000_000 / u128::from(units_per_s);
        let bytes = bounded(data, self.word(head, 12) as usize)?;
        Ok(Packet { time_ns: u64::try_from(time_ns).unwrap_or(u64::MAX), bytes })
    }

    fn simple_packet(&self, body: &[u8]) -> Result<Packet, FileError> {
        let (head, data) = body.split_at_checked(4).ok_or(FileError::Broken("a packet block"))?;
        let len = (self.word(head, 0) as usize).min(data.len());
        Ok(Packet { time_ns: 0, bytes: bounded(data, len)? })
    }

    /// `N` bytes, or None if the file ends before the first.
    fn head<const N: usize>(&mut self, what: &'static str) -> Result<Option<[u8; N]>, FileError> {
        let mut head = [0; N];
        match self.from.read(&mut head[..1]) {
            Ok(0) => return Ok(None),
            Ok(_) => fill(&mut self.from, &mut head[1..], what)?,
            Err(e) if e.kind() == ErrorKind::Interrupted => fill(&mut self.from, &mut head, what)?,
            Err(e) => return Err(FileError::Io(e)),
        }
        Ok(Some(head))
    }

    fn take(&mut self, n: usize, what: &'static str) -> Result<Vec<u8>, FileError> {
        let mut bytes = vec![0; n];
        fill(&mut self.from, &mut bytes, what)?;
        Ok(bytes)
    }

    fn word(&self, bytes: &[u8], at: usize) -> u32 {
        let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    }

    fn half(&self, bytes: &[u8], at: usize) -> u16 {
        let half = [bytes[at], bytes[at + 1]];
        if self.big_endian { u16::from_be_bytes(half) } else { u16::from_le_bytes(half) }
    }
}

fn fill(from: &mut impl Read, bytes: &mut [u8], what: &'static str) -> Result<(), FileError> {
    from.read_exact(bytes).map_err(|e| match e.kind() {
        ErrorKind::UnexpectedEof => FileError::Broken(what),
        _ => FileError::Io(e),
    })
}

/// Bytes of a block of `len` after the first `read`, its trailing length included.
fn rest_of_block(len: usize, read: usize) -> Result<usize, FileError> {
    match len {
        _ if len > BLOCK_BYTES_MAX => Err(FileError::TooLong("a block", len, BLOCK_BYTES_MAX)),
        _ if len < read + 4 || !len.is_multiple_of(4) => Err(FileError::Broken("a block's length")),
        _ => Ok(len - read),
    }
}

fn bounded(data: &[u8], len: usize) -> Result<Vec<u8>, FileError> {
    if len > PACKET_BYTES_MAX {
        return Err(FileError::TooLong("a packet", len, PACKET_BYTES_MAX));
    }
    Ok(data.get(..len).ok_or(FileError::Broken("a packet block"))?.to_vec())
}

/// `if_tsresol`: units a second, a power of ten, or of two with the high bit.
fn units(resolution: u8) -> Option<u64> {
    let exponent = u32::from(resolution & 0x7f);
    if resolution & 0x80 == 0 { 10u64.checked_pow(exponent) } else { 1u64.checked_shl(exponent) }
}
