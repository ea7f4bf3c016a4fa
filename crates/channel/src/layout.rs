//! The memory that the two ends of one connection share.
//!
//! ```text
//!  ring region (one sealed memfd, mapped by both ends)
//!  0        header        magic, version, size, connection number; written once by the monitor
//!  128      direction 0   A sends, B receives    (four 128-byte lines, see `Direction`)
//!  640      direction 1   B sends, A receives
//!  4096     area of class 0, direction 0    16 KiB
//!  20480    area of class 0, direction 1    16 KiB
//!  36864    class 1: 64 KiB for each direction; then class 2: 256 KiB; class 3: 1 MiB
//!
//!  end region (one sealed memfd of 4 KiB per end, never given to the other end)
//!  0        this end's own indices, locks and socket options (`EndPage`)
//! ```
//!
//! The file is sparse: a connection that never needs a larger ring never touches the larger areas.
//! A sender grows or shrinks its ring by publishing an *epoch*: "from stream offset G on, byte `o`
//! lies at `(o - G) & (capacity - 1)` in the area of class c". It does so only when the receiver has
//! consumed up to the last epoch's offset, so at most one change is under way.

use std::mem::offset_of;

use ringway_mem::sync::{AtomicU32, AtomicU64};

/// First eight bytes of a ring region.
pub const RING_MAGIC: u64 = u64::from_le_bytes(*b"RINGWAY1");

/// Bytes of the page that precedes the areas.
pub const HEADER_BYTES: usize = 4096;

pub use ringway_mem::ring::{CLASS_BYTES, ConsumerLine, ProducerLine};

/// Length of a ring region, in bytes.
pub const RING_REGION_BYTES: usize = area_offset(CLASS_BYTES.len(), 0);

/// Length of an end region, in bytes.
pub const END_REGION_BYTES: usize = 4096;

/// Where the area of `class` begins for `direction` (0 or 1), in bytes from the region's start.
pub const fn area_offset(class: usize, direction: usize) -> usize {
    let mut offset = HEADER_BYTES;
    let mut c = 0;
    while c < class {
        offset += 2 * CLASS_BYTES[c];
        c += 1;
    }
    if class < CLASS_BYTES.len() {
        offset += direction * CLASS_BYTES[class];
    }
    offset
}

/// The start of a ring region. Everything in it may be scribbled on by the peer.
#[repr(C)]
pub struct RingHeader {
    /// [`RING_MAGIC`].
    pub magic: AtomicU64,
    /// [`crate::rendezvous::PROTOCOL_VERSION`].
    pub version: AtomicU32,
    /// [`RING_REGION_BYTES`].
    pub region_bytes: AtomicU32,
    /// The monitor's number for the connection.
    pub connection: AtomicU64,
    _reserved: [AtomicU64; 13],
    pub directions: [Direction; 2],
}

/// One direction's words, each group on lines of its own so that neither end's stores disturb what
/// the other end only reads. 128 bytes because adjacent lines are prefetched in pairs.
#[repr(C, align(128))]
pub struct Direction {
    pub producer: ProducerLine,
    pub consumer: ConsumerLine,
    pub wait: WaitLine,
    pub switch: SwitchLine,
}

/// Who sleeps, and how to wake them (see `wait.rs`). Rarely written, read on each publish.
#[repr(C, align(128))]
pub struct WaitLine {
    /// The receiver's sleep word: the sender rings after it published.
    pub receiver: AtomicU32,
    /// The sender's sleep word: the receiver rings after it made room.
    pub sender: AtomicU32,
    /// Bumped by the sender's end when the receiver should look at its kernel socket (close, shutdown).
    pub look: AtomicU32,
    /// Written by the sender's end before its FIN: [`crate::end::CLOSING_SENDING`] or
    /// [`crate::end::CLOSING_ALL`]. Tells an orderly end from a death.
    pub closing: AtomicU32,
}

/// The exact offsets at which the direction moves between TCP and the ring.
#[repr(C, align(128))]
pub struct SwitchLine {
    /// Sender's [`crate::state::TxPath`] as a number: 0 TCP, 1 ring, 2 TCP again (demoted).
    pub path: AtomicU32,
    /// Receiver: 1 once all its waits know the ring, so that the sender may switch.
    pub receiver_ready: AtomicU32,
    /// Receiver: asks the sender to go back to TCP ([`crate::Reason`] number, 0 = does not ask).
    pub demote_please: AtomicU32,
    /// Sender: TCP bytes before the ring begins (valid once `path` is 1 or 2).
    pub ring_begins_at: AtomicU64,
    /// Sender: ring bytes before TCP begins again (valid once `path` is 2).
    pub ring_ends_at: AtomicU64,
    /// Sender: TCP stream offset, doorbell bytes included, at which data begins again (`path` 2).
    pub tcp_resumes_at: AtomicU64,
}

const _: () = {
    assert!(size_of::<WaitLine>() == 128 && size_of::<SwitchLine>() == 128 && align_of::<Direction>() == 128);
    assert!(size_of::<Direction>() == 512);
    assert!(offset_of!(Direction, consumer) == 128);
    assert!(offset_of!(Direction, wait) == 256);
    assert!(offset_of!(Direction, switch) == 384);
    assert!(offset_of!(RingHeader, directions) == 128);
    assert!(size_of::<RingHeader>() <= HEADER_BYTES);
    assert!(area_offset(0, 0) == 4096 && area_offset(0, 1) == 20480 && area_offset(1, 0) == 36864);
    assert!(RING_REGION_BYTES.is_multiple_of(4096));
};
