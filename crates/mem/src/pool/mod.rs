//! A pool: packet ports, their rings and their buffers in one sealed region that several processes map.
//!
//! ```text
//!  0        header: what this is, how large
//!  4096     256 port records: rings, name, peer, domain
//!           an owner word for each page of rings
//!           an owner word for each buffer
//!           pages of rings. A port's: | krings | interface object | tx rings | rx rings |
//!           buffers of 2 KiB, by index; 0 and 1 are never given out
//! ```
//! Nothing in the region is a pointer, and a program built against netmap's header finds the interface object,
//! the rings and the buffers where it expects them if it maps the whole region.
//!
//! **Ownership.** Every buffer has an owner word: a port's number, or 0 for free. Taking a free one is a compare
//! and exchange, so none is handed out twice; a zero-copy transfer changes the word with the slot; and when
//! a port's last user is gone, by `kill -9` at any instruction, everything with its number is found and either put
//! back into order or freed ([`Pool::reap`]). [`Pool::account`] counts.
//!
//! **Life.** Who opens a port holds a lock on a byte of the memfd through a description of his own
//! ([`Registration`]); the kernel drops it with the last copy of that descriptor, however its holders end. So
//! "is anybody there" is asked of the kernel, not of shared memory.
//!
//! **Trust.** Whoever maps the region may write all of it. Each process keeps the geometry for itself, reads a shared
//! word once and bounds it: a liar can spoil what passes through this pool, never memory outside. Who must
//! not trust each other use a pool each, and copy.

mod account;
mod control;
mod header;
mod interface;
mod layout;
mod monitor;
mod owners;
mod ports;
mod reap;
mod registration;
#[cfg(test)]
mod tests;
mod transfer;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::rand::GetRandomFlags;

pub use account::Account;
pub use header::{NAME_BYTES, PORTS_MAX, PortRecord};
pub use layout::{Kind, PAGE_BYTES, PoolConfig, RESERVED_BUFFERS, RING_SLOTS_MAX, RINGS_MAX, RingCounts};
pub use monitor::{Feed, Watch};
pub use ports::{PortId, Ring};
pub use registration::{NOTE_BITS, Registration, Sharing, is_in_use};
pub use transfer::{Transferred, resume, transfer};

use crate::region::{self, Region, RegionError};
use crate::sync::{AtomicU32, Ordering::*};
use header::{Header, MAGIC, VERSION};
use layout::Layout;
use owners::Owners;

/// Bytes of a cache line; every buffer begins with one.
pub const LINE_BYTES: usize = 64;

/// Why a pool or a port in it cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolError {
    /// The memory itself.
    Region(RegionError),
    /// A size out of bounds: which, its value, what is possible.
    Config(&'static str, u32, &'static str),
    /// The descriptor is a region, but not a pool of this version.
    NotAPool { found_version: u32 },
    /// All port records are taken.
    PortsExhausted,
    /// No room for so many pages of rings in a row.
    ObjectsExhausted { wanted_pages: u32 },
    /// So many buffers are not free.
    BuffersExhausted { wanted: u32, free: u32 },
    /// A name that is empty, too long or contains a zero byte.
    Name(String),
    /// No such port (any more).
    NoPort(u32),
    /// Somebody else has the port (exclusive), or 64 others share it.
    Busy(String),
    /// Another process has held the pool's control lock for too long.
    Stuck,
}

impl std::fmt::Display for PoolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PoolError::Region(e) => e.fmt(f),
            PoolError::Config(what, value, bounds) => write!(f, "a pool cannot have {what} = {value}; use {bounds}"),
            PoolError::NotAPool { found_version } => {
                write!(f, "the descriptor is no pool of version {VERSION} (it says {found_version})")
            }
            PoolError::PortsExhausted => write!(f, "the pool has {} ports already, its most", PORTS_MAX - 1),
            PoolError::ObjectsExhausted { wanted_pages } => {
                write!(
                    f,
                    "the pool has no {wanted_pages} pages in a row left for rings; use fewer slots or a larger pool"
                )
            }
            PoolError::BuffersExhausted { wanted, free } => {
                write!(f, "{wanted} buffers are wanted, {free} are free; use fewer slots or a larger pool")
            }
            PoolError::Name(name) => write!(f, "{name:?} is no port name: 1 to {NAME_BYTES} bytes, none of them zero"),
            PoolError::NoPort(port) => write!(f, "port {port} does not exist any more"),
            PoolError::Busy(name) => write!(f, "port {name} is in use; exclusive use needs it to be free"),
            PoolError::Stuck => write!(f, "another process keeps the pool locked"),
        }
    }
}

impl std::error::Error for PoolError {}

impl From<RegionError> for PoolError {
    fn from(e: RegionError) -> Self {
        PoolError::Region(e)
    }
}

impl From<rustix::io::Errno> for PoolError {
    fn from(e: rustix::io::Errno) -> Self {
        PoolError::Region(RegionError::Os(e))
    }
}

/// A mapped pool. See the module's text.
#[derive(Debug)]
pub struct Pool {
    region: Region,
    layout: Layout,
    id: u64,
    /// A description without locks: the kernel tells through it who else holds some.
    fd: OwnedFd,
}

impl Pool {
    /// Makes a pool without ports.
    pub fn create(config: PoolConfig) -> Result<Arc<Pool>, PoolError> {
        Pool::create_labelled("ringway-pool", config)
    }

    /// Like [`Pool::create`]; `label` shows as the memfd's name in `/proc/PID/fd`, 249 bytes at most.
    pub fn create_labelled(label: &str, config: PoolConfig) -> Result<Arc<Pool>, PoolError> {
        let layout = Layout::new(config)?;
        let fd = region::create_sealed(label, layout.bytes)?;
        let region = Region::open(&fd, layout.bytes, layout.bytes)?;
        let mut id = [0; 8];
        rustix::rand::getrandom(&mut id, GetRandomFlags::empty())?;
        let pool = Pool { region, layout, id: u64::from_le_bytes(id), fd };
        let header = pool.header();
        header.version.store(VERSION, Relaxed);
        header.buffers.store(config.buffers, Relaxed);
        header.buffer_bytes.store(config.buffer_bytes, Relaxed);
        header.object_pages.store(config.object_pages, Relaxed);
        header.id.store(pool.id, Relaxed);
        header.magic.store(MAGIC, Release);
        for reserved in 0..RESERVED_BUFFERS {
            pool.buffer_owners().0[reserved as usize].store(u32::MAX, Relaxed);
        }
        Ok(Arc::new(pool))
    }

    /// Maps a pool that another process made. Its geometry is read here and never again.
    pub fn attach(fd: OwnedFd) -> Result<Arc<Pool>, PoolError> {
        let bytes = rustix::fs::fstat(&fd)?.st_size as usize;
        if bytes < PAGE_BYTES {
            return Err(PoolError::NotAPool { found_version: 0 });
        }
        let first = Region::open(&fd, bytes, PAGE_BYTES)?;
        // SAFETY: the first page is mapped, page-aligned and holds a Header of atomics.
        let header: &Header = unsafe { first.base().cast().as_ref() };
        let found_version = header.version.load(Relaxed);
        if header.magic.load(Acquire) != MAGIC || found_version != VERSION {
            return Err(PoolError::NotAPool { found_version });
        }
        let config = PoolConfig {
            buffers: header.buffers.load(Relaxed),
            buffer_bytes: header.buffer_bytes.load(Relaxed),
            object_pages: header.object_pages.load(Relaxed),
        };
        let (layout, id) = (Layout::new(config)?, header.id.load(Relaxed));
        let region = Region::open(&fd, layout.bytes, layout.bytes)?;
        Ok(Arc::new(Pool { region, layout, id, fd }))
    }

    /// The sealed memfd, to hand to another process.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Random number that tells pools apart.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The name under which its users met; empty if nobody has said. Anybody who maps the pool may have written it.
    pub fn met_at(&self) -> String {
        self.header().met_at.get()
    }

    /// Says under which name it was found.
    pub fn set_met_at(&self, name: &str) {
        self.header().met_at.set(name);
    }

    /// Length of the region: what a program maps, in bytes.
    pub fn bytes(&self) -> usize {
        self.layout.bytes
    }

    pub fn config(&self) -> PoolConfig {
        self.layout.config
    }

    /// Where the pages for rings and interface objects begin in the region, in bytes; the buffers follow them.
    pub fn objects_offset(&self) -> usize {
        self.layout.objects
    }

    /// Start of the mapping.
    pub fn base(&self) -> NonNull<u8> {
        self.region.base()
    }

    /// `n` words, structures of atomics or the like, at `offset`.
    ///
    /// # Safety
    /// `T` must consist of atomics, `offset` be aligned for it, and `n` of it end within the region.
    unsafe fn slice<T>(&self, offset: usize, n: usize) -> &[T] {
        debug_assert!(offset.is_multiple_of(align_of::<T>()) && offset + n * size_of::<T>() <= self.layout.bytes);
        // SAFETY: inside the mapping and aligned, as the caller promises; atomics may change at any time.
        unsafe { std::slice::from_raw_parts(self.region.base().as_ptr().add(offset).cast(), n) }
    }

    fn header(&self) -> &Header {
        // SAFETY: the layout puts it first; it is checked to fit into the first page.
        unsafe { &self.slice::<Header>(0, 1)[0] }
    }

    fn records(&self) -> &[PortRecord] {
        // SAFETY: the layout reserves these pages; a page is aligned enough for a record.
        unsafe { self.slice(Layout::record(0), PORTS_MAX as usize) }
    }

    fn page_owners(&self) -> Owners<'_> {
        // SAFETY: the layout reserves a word for each page.
        Owners(unsafe { self.slice(self.layout.page_owners, self.layout.config.object_pages as usize) })
    }

    fn buffer_owners(&self) -> Owners<'_> {
        // SAFETY: the layout reserves a word for each buffer.
        Owners(unsafe { self.slice::<AtomicU32>(self.layout.buffer_owners, self.layout.config.buffers as usize) })
    }

    /// All buffers in one piece, for system calls that take addresses: buffer `i` begins at `i * buffer_bytes`.
    pub fn buffers(&self) -> NonNull<[u8]> {
        let bytes = self.layout.config.buffers as usize * self.layout.config.buffer_bytes as usize;
        // SAFETY: the layout puts the buffers inside the region.
        NonNull::slice_from_raw_parts(unsafe { self.region.base().add(self.layout.buffers) }, bytes)
    }

    /// Where buffer `index` begins; an index that does not exist is taken for the reserved buffer 0.
    #[inline]
    fn buffer(&self, index: u32) -> *mut u8 {
        let PoolConfig { buffers, buffer_bytes, .. } = self.layout.config;
        let index = if index < buffers { index } else { 0 };
        let offset = self.layout.buffers + index as usize * buffer_bytes as usize;
        self.region.base().as_ptr().wrapping_add(offset)
    }

    /// `len` bytes from `offset` on of buffer `index`, cut at the buffer's end.
    ///
    /// # Safety
    /// The buffer must be the caller's to read, by the protocol of slots, as long as the slice lives, and
    /// nothing in this process may write it meanwhile. Others that map the pool are trusted not to (see the
    /// module's text), or only for [`Pool::copy_out`].
    #[inline]
    pub unsafe fn bytes_of(&self, index: u32, offset: usize, len: usize) -> &[u8] {
        let (offset, len) = self.cut(offset, len);
        // SAFETY: the part lies within a buffer, which lies within the mapping; the rest is the caller's.
        unsafe { std::slice::from_raw_parts(self.buffer(index).add(offset), len) }
    }

    /// Like [`Pool::bytes_of`], to write.
    ///
    /// # Safety
    /// The buffer must be the caller's alone, by the protocol of slots, as long as the slice lives.
    #[inline]
    #[allow(clippy::mut_from_ref, reason = "the memory is shared; exclusive use is the caller's promise")]
    pub unsafe fn bytes_of_mut(&self, index: u32, offset: usize, len: usize) -> &mut [u8] {
        let (offset, len) = self.cut(offset, len);
        // SAFETY: as in `bytes_of`.
        unsafe { std::slice::from_raw_parts_mut(self.buffer(index).add(offset), len) }
    }

    /// Copies bytes of a buffer that anybody may be writing; returns how many there were.
    #[inline]
    pub fn copy_out(&self, index: u32, offset: usize, to: &mut [u8]) -> usize {
        let (offset, len) = self.cut(offset, to.len());
        // SAFETY: both places are valid for `len` bytes, and no reference to the shared one exists here; if
        // another process writes meanwhile, the copy is a mixture of bytes, each of which is valid.
        unsafe { std::ptr::copy_nonoverlapping(self.buffer(index).add(offset), to.as_mut_ptr(), len) };
        len
    }

    /// Copies bytes into a buffer that anybody may be reading; returns how many fitted.
    #[inline]
    pub fn copy_in(&self, index: u32, offset: usize, from: &[u8]) -> usize {
        let (offset, len) = self.cut(offset, from.len());
        // SAFETY: as in `copy_out`, the other way round.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.buffer(index).add(offset), len) };
        len
    }

    /// Copies the first line of a buffer, which every buffer has; anybody may be writing it.
    #[inline]
    pub fn copy_out_line(&self, index: u32, to: &mut [u8; LINE_BYTES]) {
        // SAFETY: as in `copy_out`; no buffer is shorter (`layout`).
        unsafe { std::ptr::copy_nonoverlapping(self.buffer(index).cast(), to, 1) };
    }

    /// Copies into the first line of a buffer; anybody may be reading it.
    #[inline]
    pub fn copy_in_line(&self, index: u32, from: &[u8; LINE_BYTES]) {
        // SAFETY: as in `copy_out_line`, the other way round.
        unsafe { std::ptr::copy_nonoverlapping(from, self.buffer(index).cast(), 1) };
    }

    /// Copies `len` bytes from `from_offset` on of buffer `from_index` of the pool `from` (or this one); anybody may be
    /// reading and writing both. Cut at the end of either buffer; returns how many there were.
    #[inline]
    pub fn copy_from(
        &self,
        (index, offset): (u32, usize),
        from: &Pool,
        (from_index, from_offset): (u32, usize),
        len: usize,
    ) -> usize {
        let (offset, len) = self.cut(offset, len);
        let (from_offset, len) = from.cut(from_offset, len);
        // SAFETY: both places are valid for `len` bytes, and no reference to either exists here; they may overlap
        // if somebody put one buffer into two slots.
        unsafe { std::ptr::copy(from.buffer(from_index).add(from_offset), self.buffer(index).add(offset), len) };
        len
    }

    /// Asks the processor to fetch the line at `offset` of a buffer, to be read or written soon.
    #[inline]
    pub fn prefetch(&self, index: u32, offset: usize) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch is a hint; it reads nothing and cannot fault, whatever the address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch(self.buffer(index).wrapping_add(offset).cast(), _MM_HINT_T0);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (index, offset);
    }

    #[inline]
    fn cut(&self, offset: usize, len: usize) -> (usize, usize) {
        let bytes = self.layout.config.buffer_bytes as usize;
        let offset = offset.min(bytes);
        (offset, len.min(bytes - offset))
    }
}
