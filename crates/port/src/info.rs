//! What a port is and what it cannot do, said aloud when it is opened.

use ringway_mem::pool::RingCounts;

/// How packets reach the port's other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Buffers change hands; no byte is copied.
    ZeroCopy,
    /// Each packet is copied once, between our buffers.
    Copy,
    /// The kernel copies, in the driver's own path (native XDP, TAP).
    KernelCopy,
    /// The kernel copies behind its generic receive path: works everywhere, slower.
    KernelGeneric,
    /// Packets end or begin here (null, files).
    None,
}

impl std::fmt::Display for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Transport::ZeroCopy => "zero copy",
            Transport::Copy => "one copy",
            Transport::KernelCopy => "copied by the kernel, native",
            Transport::KernelGeneric => "copied by the kernel, generic",
            Transport::None => "no transport",
        })
    }
}

/// A port's shape and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// The name in full, as the parser writes it.
    pub name: String,
    pub counts: RingCounts,
    /// Bytes of a buffer: the longest fragment.
    pub buffer_bytes: u32,
    pub transport: Transport,
    /// Longest packet that gets through, in bytes, all fragments together.
    pub packet_bytes_max: u32,
    /// A virtio-net header precedes each packet: this many bytes (0, 10 or 12).
    pub vnet_header_bytes: u32,
    /// Ports with the same number share a pool: buffers can move between their rings.
    pub pool_id: u64,
    /// What the user should know before trusting results: one sentence each.
    pub limits: Vec<String>,
}

/// What went through one ring since the port was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub packets: u64,
    pub bytes: u64,
    /// Slots thrown away: no room, or impossible buffer or length.
    pub dropped: u64,
    /// Syncs refused because of impossible ring words.
    pub reinits: u64,
    pub syncs: u64,
}
