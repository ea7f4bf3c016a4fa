//! XDP sockets: a umem over the buffers of a pool, the rings, binding to a queue
//! (Documentation/networking/af_xdp.rst).

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use ringway_mem::pool::Pool;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::call;
use super::xsk_ring::{Consumer, Descriptor, Place, Producer};

/// Bytes that the kernel leaves free before a received frame in its chunk.
pub(crate) const HEADROOM_BYTES: u32 = 256;
/// Bounds of a chunk, in bytes.
pub(crate) const CHUNK_BYTES: std::ops::RangeInclusive<u32> = 2048..=4096;
/// Bytes before a frame to be sent that tell the device what to do with it (`struct xsk_tx_metadata`).
pub(crate) const METADATA_BYTES: u32 = 24;
/// Option of a descriptor: the frame goes on in the next one.
pub(crate) const CONTINUED: u32 = libc::XDP_PKT_CONTD;
/// Option of a descriptor: metadata stand before the frame.
pub(crate) const WITH_METADATA: u32 = libc::XDP_TX_METADATA;

/// Since Linux 6.17; unknown to libc.
const XDP_MAX_TX_SKB_BUDGET: c_int = 9;
const SO_PREFER_BUSY_POLL: c_int = 69;
const SO_BUSY_POLL_BUDGET: c_int = 70;
const BUSY_POLL_BUDGET: c_int = 64;

/// How the pool's buffers are registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Umem {
    pub(crate) chunk_bytes: u32,
    /// Chunks may begin anywhere.
    pub(crate) unaligned: bool,
    /// Frames to be sent have metadata before them.
    pub(crate) tx_metadata: bool,
}

/// What a bind asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bind {
    pub(crate) interface: u32,
    pub(crate) queue: u32,
    pub(crate) zero_copy: bool,
    /// Frames in several parts.
    pub(crate) multi_buffer: bool,
}

/// One queue's socket.
pub(crate) struct Socket {
    pub(crate) fill: Producer<u64>,
    pub(crate) completion: Consumer<u64>,
    pub(crate) rx: Consumer<Descriptor>,
    pub(crate) tx: Producer<Descriptor>,
    fd: OwnedFd,
    /// The umem's pages; the kernel holds them, too.
    _pool: Arc<Pool>,
}

/// A mapped ring.
struct Mapped {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: only a place and a length; what is done there is up to the ring's ends.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by us; the last ring over it is gone.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Which part of opening a socket was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Socket(Errno),
    Umem(Errno),
    Rings(Errno),
    Bind(Errno),
}

/// Whether this kernel has XDP sockets at all.
pub(crate) fn exists() -> bool {
    !matches!(call::socket(libc::AF_XDP, libc::SOCK_RAW), Err(Errno::AFNOSUPPORT))
}

impl Socket {
    /// A socket bound to a queue. With `sharing` it uses that socket's umem, and its way of binding.
    pub(crate) fn open(
        pool: &Arc<Pool>,
        umem: Umem,
        ring_entries: u32,
        bind: Bind,
        sharing: Option<&Socket>,
    ) -> Result<Socket, Refused> {
        let fd = call::socket(libc::AF_XDP, libc::SOCK_RAW).map_err(Refused::Socket)?;
        if sharing.is_none() {
            register(&fd, pool, umem).map_err(Refused::Umem)?;
        }
        let entries: c_int = ring_entries as c_int;
        for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING] {
            // SAFETY: these options read an int.
            unsafe { call::set(fd.as_fd(), libc::SOL_XDP, ring, &entries) }.map_err(Refused::Rings)?;
        }
        // Without it, a system call sends 32 frames at most. Kernels that do not know it live without.
        // SAFETY: an int.
        let _ = unsafe { call::set(fd.as_fd(), libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &entries) };
        let rings = map_rings(&fd, ring_entries).map_err(Refused::Rings)?;
        bind_to(&fd, bind, sharing).map_err(Refused::Bind)?;
        let (fill, completion, rx, tx) = rings;
        Ok(Socket { fill, completion, rx, tx, fd, _pool: pool.clone() })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Whether the driver moves frames itself: asked after binding, for what was wished may not be what is.
    pub(crate) fn is_zero_copy(&self) -> bool {
        // SAFETY: `struct xdp_options` is a number.
        let options = unsafe { call::get::<u32>(self.fd(), libc::SOL_XDP, libc::XDP_OPTIONS) };
        options.is_ok_and(|flags| flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// Frames that the kernel threw away: no room, or longer than a chunk.
    pub(crate) fn dropped(&self) -> u64 {
        // SAFETY: six numbers, `struct xdp_statistics`.
        let statistics = unsafe { call::get::<[u64; 6]>(self.fd(), libc::SOL_XDP, libc::XDP_STATISTICS) };
        statistics.map_or(0, |[dropped, _, _, rx_full, _, _]| dropped + rx_full)
    }

    /// Asks the kernel to poll the device in our system calls, `us` microseconds long.
    pub(crate) fn busy_poll(&self, us: u32) -> Result<(), Errno> {
        let values =
            [(SO_PREFER_BUSY_POLL, 1), (libc::SO_BUSY_POLL, us as c_int), (SO_BUSY_POLL_BUDGET, BUSY_POLL_BUDGET)];
        // SAFETY: ints.
        values.iter().try_for_each(|(option, value)| unsafe { call::set(self.fd(), libc::SOL_SOCKET, *option, value) })
    }

    /// Has the kernel take what is in the tx ring.
    pub(crate) fn kick_tx(&self) -> Result<(), Errno> {
        let (fd, none, flags) = (self.fd.as_raw_fd(), std::ptr::null::<u8>(), libc::MSG_DONTWAIT);
        // SAFETY: no memory is handed over.
        call::answer(unsafe { libc::syscall(libc::SYS_sendto, fd, none, 0, flags, none, 0) }).map(drop)
    }

    /// Has the kernel look at the fill ring again.
    pub(crate) fn kick_rx(&self) {
        let (fd, none, flags) = (self.fd.as_raw_fd(), std::ptr::null::<u8>(), libc::MSG_DONTWAIT);
        // SAFETY: no memory is handed over. "Nothing there yet" is an answer like any other.
        let _ = call::answer(unsafe { libc::syscall(libc::SYS_recvfrom, fd, none, 0, flags, none, none) });
    }
}

fn register(fd: &OwnedFd, pool: &Pool, umem: Umem) -> Result<(), Errno> {
    let buffers = pool.buffers();
    let flags = if umem.unaligned { libc::XDP_UMEM_UNALIGNED_CHUNK_FLAG } else { 0 };
    let metadata = if umem.tx_metadata { libc::XDP_UMEM_TX_METADATA_LEN } else { 0 };
    let request = libc::xdp_umem_reg {
        addr: buffers.as_ptr().cast::<u8>() as u64,
        len: buffers.len() as u64,
        chunk_size: umem.chunk_bytes,
        headroom: 0,
        flags: flags | metadata,
        tx_metadata_len: if umem.tx_metadata { METADATA_BYTES } else { 0 },
    };
    // SAFETY: the area is the pool's buffers, in shared memory that no reference covers as a whole. The kernel writes
    // only to chunks that the fill ring names, which are free slots' buffers.
    unsafe { call::set(fd.as_fd(), libc::SOL_XDP, libc::XDP_UMEM_REG, &request) }
}

type Rings = (Producer<u64>, Consumer<u64>, Consumer<Descriptor>, Producer<Descriptor>);

fn map_rings(fd: &OwnedFd, entries: u32) -> Result<Rings, Errno> {
    // SAFETY: numbers only.
    let offsets: libc::xdp_mmap_offsets = unsafe { call::get(fd.as_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS) }?;
    let (addresses, descriptors) = (size_of::<u64>(), size_of::<Descriptor>());
    let fill = map(fd, &offsets.fr, libc::XDP_UMEM_PGOFF_FILL_RING, entries, addresses)?;
    let completion = map(fd, &offsets.cr, libc::XDP_UMEM_PGOFF_COMPLETION_RING, entries, addresses)?;
    let rx = map(fd, &offsets.rx, libc::XDP_PGOFF_RX_RING as u64, entries, descriptors)?;
    let tx = map(fd, &offsets.tx, libc::XDP_PGOFF_TX_RING as u64, entries, descriptors)?;
    // SAFETY: each was mapped as a ring of these entries, whose other end is the kernel's.
    Ok(unsafe { (Producer::new(fill), Consumer::new(completion), Consumer::new(rx), Producer::new(tx)) })
}

fn map(
    fd: &OwnedFd,
    offsets: &libc::xdp_ring_offset,
    page: u64,
    entries: u32,
    entry_bytes: usize,
) -> Result<Place, Errno> {
    let bytes = offsets.desc as usize + entries as usize * entry_bytes;
    let flags = MapFlags::SHARED | MapFlags::POPULATE;
    // SAFETY: a new mapping at a place of the kernel's choice.
    let base = unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags, fd, page) }?;
    let base = NonNull::new(base.cast::<u8>()).ok_or(Errno::NOMEM)?;
    let mapping = Arc::new(Mapped { base, bytes });
    // SAFETY: the kernel says that the ring's words and entries lie here, inside the mapping.
    let at = |offset: u64| unsafe { base.add(offset as usize) };
    Ok(Place {
        producer: at(offsets.producer).cast(),
        consumer: at(offsets.consumer).cast(),
        flags: at(offsets.flags).cast(),
        entries: at(offsets.desc),
        size: entries,
        mapping,
    })
}

fn bind_to(fd: &OwnedFd, bind: Bind, sharing: Option<&Socket>) -> Result<(), Errno> {
    let copying = if bind.zero_copy { libc::XDP_ZEROCOPY } else { libc::XDP_COPY };
    let parts = if bind.multi_buffer { libc::XDP_USE_SG } else { 0 };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: if sharing.is_some() { libc::XDP_SHARED_UMEM } else { libc::XDP_USE_NEED_WAKEUP | copying | parts },
        sxdp_ifindex: bind.interface,
        sxdp_queue_id: bind.queue,
        sxdp_shared_umem_fd: sharing.map_or(0, |socket| socket.fd.as_raw_fd() as u32),
    };
    // SAFETY: the family's address, without padding.
    unsafe { call::bind(fd.as_fd(), &address) }
}
