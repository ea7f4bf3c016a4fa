//! `tap:NAME`: a TAP device. The host's stack is at its other end; each ring pair is one of its queues.
//!
//! ```text
//!   tx slots --writev--> | header | frame |  queue k of the device  --> the host receives
//!   rx slots <--readv--- | header | frame |                         <-- the host sends
//! ```
//! The kernel copies between the host's packets and the slots' buffers; nothing lies in between. The virtio-net header is
//! the user's business if he asked for it (`vnet_header`: then frames may lack checksums, and be 64 KiB long), and
//! otherwise ours: empty, since no offload is taken.

use std::os::fd::OwnedFd;

use ringway_mem::slot::{NETMAP_MAX_FRAGS, NS_MOREFRAG, Slot};
use rustix::event::PollFlags;
use rustix::io::Errno;

use crate::backend::{Backend, Wakers};
use crate::error::PortError;
use crate::kring::{RxKring, TxKring};
use crate::sys::buffers;
use crate::sys::device::iovecs::Frame;
use crate::sys::device::tun;

/// Shortest frame: a link header.
const FRAME_BYTES_MIN: usize = 14;
/// Longest frame with segmentation offload, with header and tag.
pub(crate) const OFFLOAD_BYTES_MAX: u32 = 65_536 + 18 + HEADER_BYTES as u32;
/// Bytes of the header before each frame.
pub(crate) const HEADER_BYTES: usize = tun::HEADER_BYTES;

/// The device's queues, by the number of the ring.
pub(crate) struct Tap {
    queues: Vec<OwnedFd>,
    /// The user sees the headers.
    vnet_header: bool,
    /// Longest frame that may come, header included where the user sees it.
    frame_bytes_max: u32,
}

impl Tap {
    pub(crate) fn new(queues: Vec<OwnedFd>, vnet_header: bool, frame_bytes_max: u32) -> Tap {
        Tap { queues, vnet_header, frame_bytes_max }
    }

    fn queue(&self, ring: usize) -> Result<&OwnedFd, PortError> {
        let rings = self.queues.len() as u32;
        self.queues.get(ring).ok_or(PortError::NoRing { ring: ring as u32, rings })
    }
}

impl Backend for Tap {
    fn sync_tx(&mut self, ring: usize, tx: &TxKring, _now_ns: u64) -> Result<(), PortError> {
        let queue = self.queue(ring)?;
        let pool = tx.ring().pool();
        let (pending, mut done, mut packets, mut bytes) = (tx.pending(), 0, 0, 0);
        while let Some(slots) = Some(done).filter(|i| *i < pending).and_then(|i| tx.packet_slots(i, pending)) {
            let mut header = [0; HEADER_BYTES];
            let mut frame = Frame::new(if self.vnet_header { &mut [] } else { &mut header });
            let shortest = FRAME_BYTES_MIN + HEADER_BYTES;
            let whole = (done..done + slots).all(|i| {
                let slot = tx.slot(i);
                frame.push(pool, slot.buf_idx, slot.len.into());
                pool.may_use(tx.ring().port(), slot.buf_idx) && u32::from(slot.len) <= pool.config().buffer_bytes
            });
            match if whole && frame.bytes() >= shortest { frame.write(queue) } else { Err(Errno::INVAL) } {
                Ok(written) => {
                    packets += 1;
                    bytes += written as u64;
                }
                Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => break,
                // The device is down, or the frame is none: as on a wire that is not plugged in.
                Err(_) => tx.count_dropped(slots),
            }
            done += slots;
        }
        tx.take(done);
        tx.count(packets, bytes);
        Ok(())
    }

    fn sync_rx(&mut self, ring: usize, rx: &RxKring, _released: u32, _now_ns: u64) -> Result<(), PortError> {
        let queue = self.queue(ring)?;
        let pool = rx.ring().pool();
        let buffer_bytes = pool.config().buffer_bytes;
        let longest = self.frame_bytes_max.div_ceil(buffer_bytes).min(NETMAP_MAX_FRAGS as u32);
        let (mut filled, mut packets, mut bytes) = (0, 0, 0);
        while rx.free() - filled >= longest {
            let mut header = [0; HEADER_BYTES];
            let header_bytes = if self.vnet_header { 0 } else { HEADER_BYTES };
            let mut frame = Frame::new(&mut header[..header_bytes]);
            for i in filled..filled + longest {
                let Some(buffer) = buffers::usable(rx, i) else { break };
                frame.push(pool, buffer, buffer_bytes as usize);
            }
            let room = frame.bytes();
            let len = match frame.read(queue) {
                Ok(len) => len,
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(errno) => return Err(PortError::os("read from the TAP device", errno)),
            };
            let needs_device = header[FLAGS] & NEEDS_CHECKSUM != 0 || header[SEGMENTATION] != 0;
            if len >= room && room < OFFLOAD_BYTES_MAX as usize || len <= header_bytes || needs_device {
                // Longer than the MTU was when the port was opened, or an offload that nobody took.
                rx.count_dropped(1);
                continue;
            }
            let slots = show(rx, filled, (len - header_bytes) as u32, buffer_bytes);
            filled += slots;
            packets += 1;
            bytes += (len - header_bytes) as u64;
        }
        rx.publish(filled);
        rx.count(packets, bytes);
        Ok(())
    }

    fn wakers(&self, wakers: &mut Wakers) {
        let copies = self.queues.iter().filter_map(|queue| queue.try_clone().ok());
        wakers.fds.extend(copies.map(|fd| (fd, PollFlags::IN)));
    }
}

/// Bytes of the virtio-net header: its flags, and how the frame is to be split.
const FLAGS: usize = 0;
const SEGMENTATION: usize = 1;
/// The checksum is left to the reader.
const NEEDS_CHECKSUM: u8 = 1;

/// Describes a frame of `len` bytes that lies in the buffers of slots from the i-th on; returns how many it takes.
fn show(rx: &RxKring, i: u32, len: u32, buffer_bytes: u32) -> u32 {
    let slots = len.div_ceil(buffer_bytes).max(1);
    for n in 0..slots {
        let part = (len - n * buffer_bytes).min(buffer_bytes) as u16;
        let flags = if n + 1 < slots { NS_MOREFRAG } else { 0 };
        rx.set_slot(i + n, Slot { buf_idx: rx.slot(i + n).buf_idx, len: part, flags, ptr: 0 });
    }
    slots
}
