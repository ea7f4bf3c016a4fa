//! Packet files as ports: `pcap:FILE` gives the packets of a file, `pcap:FILE/T` writes what is sent into one.
//!
//! Both formats are read, told apart by their first bytes: pcap (micro- and nanoseconds, either byte order) and
//! pcapng (section, interface, enhanced and simple packet blocks; other blocks are skipped). Files are written as pcapng
//! if their name ends so, else as pcap with nanoseconds. Formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.

mod port;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use port::{Sink, Source, wall_clock_ns};
pub use read::{FileError, Packet, Reader};
pub use write::Writer;

/// Bytes of a packet at most: what 64 buffers of the default size hold. Longer ones are refused by name.
pub const PACKET_BYTES_MAX: usize = 64 * 2048;

/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;
