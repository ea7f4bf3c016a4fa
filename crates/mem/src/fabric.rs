//! What the senders of a switch share: who is attached, the books of every ring, the stations a bridge has learnt.
//!
//! ```text
//!  0        header: what this is, control lock, generation
//!  4096     254 seats: which port of which pool
//!  20480    8192 words for the forwarding module
//!  86016    254 x 16 books of leases
//! ```
//! A region of its own, beside the pools of the ports. Whoever maps it may write all of it: the senders of one fabric
//! trust each other, or one process alone has it (the monitor) and serves the others.
//!
//! The generation grows with each port that comes or goes; senders keep what they know of the ports until it moves.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::kring::LockWord;
use crate::lease::Leases;
use crate::lock::{Held, Stuck};
use crate::pool::{PAGE_BYTES, PortId};
use crate::region::{self, Region, RegionError};
use crate::sync::{AtomicU32, AtomicU64, Ordering::*};

/// Ports of a switch at most; the numbers 254 and 255 mean "all" and "none" in netmap.
pub const SWITCH_PORTS_MAX: u32 = 254;
/// Rings of each kind that a switch uses of a port.
pub const SWITCH_RINGS_MAX: u32 = 16;
/// Words that a forwarding module may use as it likes.
pub const MODULE_WORDS: usize = 8192;

const MAGIC: u64 = u64::from_le_bytes(*b"ringfabr");
const VERSION: u64 = 1;
const SEATS: usize = PAGE_BYTES;
const WORDS: usize = SEATS + (SWITCH_PORTS_MAX as usize * size_of::<Seat>()).next_multiple_of(PAGE_BYTES);
const BOOKS: usize = WORDS + MODULE_WORDS * 8;
const BYTES: usize =
    (BOOKS + (SWITCH_PORTS_MAX * SWITCH_RINGS_MAX) as usize * size_of::<Leases>()).next_multiple_of(PAGE_BYTES);

#[repr(C, align(128))]
struct Header {
    magic: AtomicU64,
    version: AtomicU64,
    control: LockWord,
    generation: AtomicU32,
}

/// One port's place at a switch. Written under the control lock; zeroed is free.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Seat {
    /// The pool's number, and the port's in it (0: nobody).
    pool: AtomicU64,
    port: AtomicU32,
    /// Bytes of the virtio-net header before each frame: 0, 10 or 12.
    pub vnet_header_bytes: AtomicU32,
}

const _: () = assert!(size_of::<Seat>() == 64 && size_of::<Header>() == 128);

impl Seat {
    /// Who sits here: the pool's number and the port.
    pub fn occupant(&self) -> Option<(u64, PortId)> {
        let port = self.port.load(Acquire);
        (port != 0).then(|| (self.pool.load(Relaxed), PortId(port)))
    }

    pub fn take(&self, pool: u64, port: PortId) {
        self.pool.store(pool, Relaxed);
        self.port.store(port.0, Release);
    }

    pub fn leave(&self) {
        self.port.store(0, Release);
    }
}

/// Why a descriptor is no fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FabricError {
    Region(RegionError),
    /// A region, but not a fabric of this version.
    NotAFabric,
}

impl std::fmt::Display for FabricError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FabricError::Region(e) => e.fmt(f),
            FabricError::NotAFabric => write!(f, "the descriptor is no switch of version {VERSION}"),
        }
    }
}

impl std::error::Error for FabricError {}

impl From<RegionError> for FabricError {
    fn from(e: RegionError) -> Self {
        FabricError::Region(e)
    }
}

/// A mapped fabric.
#[derive(Debug)]
pub struct Fabric {
    region: Region,
    fd: OwnedFd,
}

impl Fabric {
    /// Makes one without ports.
    pub fn create() -> Result<Arc<Fabric>, FabricError> {
        Fabric::create_labelled("ringway-fabric")
    }

    /// Like [`Fabric::create`]; `label` shows as the memfd's name in `/proc/PID/fd`, 249 bytes at most.
    pub fn create_labelled(label: &str) -> Result<Arc<Fabric>, FabricError> {
        let fd = region::create_sealed(label, BYTES)?;
        let fabric = Fabric { region: Region::open(&fd, BYTES, BYTES)?, fd };
        fabric.header().version.store(VERSION, Relaxed);
        fabric.header().magic.store(MAGIC, Release);
        Ok(Arc::new(fabric))
    }

    /// Maps one that another process made.
    pub fn attach(fd: OwnedFd) -> Result<Arc<Fabric>, FabricError> {
        let fabric = Fabric { region: Region::open(&fd, BYTES, BYTES)?, fd };
        let header = fabric.header();
        if header.magic.load(Acquire) != MAGIC || header.version.load(Relaxed) != VERSION {
            return Err(FabricError::NotAFabric);
        }
        Ok(Arc::new(fabric))
    }

    /// The sealed memfd, to hand to another process.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// `n` structures of atomics at `offset`.
    ///
    /// # Safety
    /// `T` must consist of atomics, `offset` be aligned for it, and `n` of it end within [`BYTES`].
    unsafe fn slice<T>(&self, offset: usize, n: usize) -> &[T] {
        debug_assert!(offset.is_multiple_of(align_of::<T>()) && offset + n * size_of::<T>() <= BYTES);
        // SAFETY: inside the mapping and aligned, as the caller promises; atomics may change at any time.
        unsafe { std::slice::from_raw_parts(self.region.base().as_ptr().add(offset).cast(), n) }
    }

    fn header(&self) -> &Header {
        // SAFETY: the first page is the header's; a page is aligned enough.
        unsafe { &self.slice(0, 1)[0] }
    }

    /// The places of the ports, by number.
    pub fn seats(&self) -> &[Seat] {
        // SAFETY: the layout reserves these pages for so many seats.
        unsafe { self.slice(SEATS, SWITCH_PORTS_MAX as usize) }
    }

    /// Words of the forwarding module; all zero at first.
    pub fn module_words(&self) -> &[AtomicU64] {
        // SAFETY: the layout reserves these pages for so many words.
        unsafe { self.slice(WORDS, MODULE_WORDS) }
    }

    /// The books of a port's rx ring; both numbers below their bounds.
    pub fn leases(&self, port: u32, ring: u32) -> &Leases {
        assert!(port < SWITCH_PORTS_MAX && ring < SWITCH_RINGS_MAX, "port {port}, ring {ring}");
        let n = (port * SWITCH_RINGS_MAX + ring) as usize;
        // SAFETY: the layout reserves room for the books of all ports and rings; the offset is a multiple of 128.
        unsafe { &self.slice::<Leases>(BOOKS + n * size_of::<Leases>(), 1)[0] }
    }

    /// Grows with each port that comes or goes.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.header().generation.load(Acquire)
    }

    /// After a port came or went.
    pub fn changed(&self) {
        self.header().generation.fetch_add(1, AcqRel);
    }

    /// Ports come and go one at a time.
    ///
    /// # Errors
    /// Another process holds the lock for too long.
    pub fn control(&self) -> Result<Held<'_>, Stuck> {
        self.header().control.lock()
    }

    /// Like [`Fabric::control`]; none if the lock is held.
    pub fn try_control(&self) -> Option<Held<'_>> {
        self.header().control.try_lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_see_one_fabric_and_refuse_another_region() {
        let made = Fabric::create().unwrap();
        let mapped = Fabric::attach(made.fd().try_clone_to_owned().unwrap()).unwrap();
        made.seats()[253].take(7, PortId(3));
        assert_eq!(mapped.seats()[253].occupant(), Some((7, PortId(3))));
        mapped.module_words()[MODULE_WORDS - 1].store(9, Relaxed);
        assert_eq!(made.module_words()[MODULE_WORDS - 1].load(Relaxed), 9);
        made.changed();
        assert_eq!(mapped.generation(), 1);
        let _ = made.leases(253, 15);
        let other = region::create_sealed("other", BYTES).unwrap();
        assert_eq!(Fabric::attach(other).unwrap_err(), FabricError::NotAFabric);
    }
}
