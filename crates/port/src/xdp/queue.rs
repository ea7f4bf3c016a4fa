//! One XDP socket and the slots whose buffers it has.
//!
//! Both directions keep a list of the buffers that the kernel has, in the order of their slots, in memory of our own.
//! The kernel may give them back in another order: a received buffer is put into the next slot, which gives its own
//! in exchange; a sent slot is the user's again once all before it are.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use ringway_mem::pool::{Pool, RESERVED_BUFFERS};
use ringway_mem::slot::{NETMAP_MAX_FRAGS, NS_MOREFRAG, Slot};
use ringway_wire::Sum;
use ringway_wire::offload::Transport;
use rustix::io::Errno;

use crate::error::PortError;
use crate::kring::{RxKring, TxKring};
use crate::sys::buffers;
use crate::sys::device::xsk::{CONTINUED, HEADROOM_BYTES, METADATA_BYTES, Socket, Umem, WITH_METADATA};
use crate::sys::device::xsk_ring::Descriptor;

/// Shortest frame: a link header.
const FRAME_BYTES_MIN: u32 = 14;
/// System calls of one sync that sends. Kernels without a settable budget send 32 frames in each.
const KICKS_MAX: u32 = 64;
/// The low bits of an address with unaligned chunks; the rest is to be added.
const ADDRESS_BITS: u32 = 48;
/// `struct xsk_tx_metadata`: complete the checksum.
const COMPLETE_CHECKSUM: u64 = 1 << 1;

/// Bytes at the end of each buffer that are not the user's where frames have metadata before them.
pub(super) const TAIL_BYTES: u32 = METADATA_BYTES.next_multiple_of(32);

/// How one socket is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) umem: Umem,
    /// Parts of a frame at most; 1 without multi-buffer.
    pub(super) parts_max: u32,
    /// Longest frame to be sent, in bytes.
    pub(super) frame_bytes_max: u32,
    /// The driver moves frames itself.
    pub(super) zero_copy: bool,
    /// Received frames may lack their checksum: they come from a stack on this host.
    pub(super) completes_rx: bool,
}

pub(super) struct Queue {
    socket: Socket,
    pool: Arc<Pool>,
    shape: Shape,
    /// Buffers in the fill and rx rings.
    posted: VecDeque<u32>,
    /// Buffers in the tx and completion rings, and whether they came back.
    sent: VecDeque<(u32, bool)>,
    /// Frames that the kernel threw away, as far as they were counted.
    dropped: u64,
}

impl Queue {
    pub(super) fn new(socket: Socket, pool: Arc<Pool>, shape: Shape) -> Queue {
        Queue { socket, pool, shape, posted: VecDeque::new(), sent: VecDeque::new(), dropped: 0 }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Whether frames are on their way out.
    pub(super) fn is_sending(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Posts buffers that belong to no slot: some drivers send nothing while their fill ring is empty.
    pub(super) fn post_spares(&mut self, spares: &[u32]) {
        for (i, buffer) in spares.iter().enumerate() {
            let chunk = self.chunk(*buffer);
            self.socket.fill.put(i as u32, chunk);
        }
        self.socket.fill.show(spares.len() as u32);
    }

    /// Where the chunk of a buffer begins, such that a received frame begins with the buffer, if chunks may overlap.
    fn chunk(&self, buffer: u32) -> u64 {
        let start = u64::from(buffer) * u64::from(self.pool.config().buffer_bytes);
        if self.shape.umem.unaligned { start - u64::from(HEADROOM_BYTES) } else { start }
    }

    /// The buffer at an address, and the offset in it.
    fn buffer_at(&self, address: u64) -> (u32, u32) {
        let place = (address & ((1 << ADDRESS_BITS) - 1)) + (address >> ADDRESS_BITS);
        let buffer_bytes = u64::from(self.pool.config().buffer_bytes);
        ((place / buffer_bytes) as u32, (place % buffer_bytes) as u32)
    }

    /// Posts the buffers of free slots, and fills slots with what came.
    pub(super) fn receive(&mut self, rx: &RxKring) {
        self.post(rx);
        let available = self.socket.rx.available().min(self.posted.len() as u32);
        let (mut filled, mut packets, mut bytes) = (0, 0, 0);
        while let Some(parts) = self.whole_frame(filled, available) {
            for i in filled..filled + parts {
                bytes += u64::from(self.fill_slot(rx, i));
            }
            if self.shape.completes_rx {
                self.complete_checksum(rx, filled, parts);
            }
            filled += parts;
            packets += 1;
        }
        self.posted.drain(..filled as usize);
        self.socket.rx.release(filled);
        rx.publish(filled);
        rx.count(packets, bytes);
        if packets == 0 {
            // Asked rarely: only when nothing came, which is when somebody may be looking for the reason.
            let dropped = self.socket.dropped();
            rx.count_dropped(dropped.saturating_sub(self.dropped) as u32);
            self.dropped = dropped;
        }
        self.post(rx);
        if self.socket.fill.wants_kick() {
            self.socket.kick_rx();
        }
    }

    /// Buffers of free slots go to the kernel, in the order of the slots.
    fn post(&mut self, rx: &RxKring) {
        let (free, room) = (rx.free(), self.socket.fill.free());
        let mut shown = 0;
        while (self.posted.len() as u32) < free && shown < room {
            let Some(buffer) = buffers::usable(rx, self.posted.len() as u32) else { break };
            let chunk = self.chunk(buffer);
            self.socket.fill.put(shown, chunk);
            self.posted.push_back(buffer);
            shown += 1;
        }
        self.socket.fill.show(shown);
    }

    /// Parts of the frame that begins at the i-th of `available` descriptors; None if its end is not there.
    fn whole_frame(&self, i: u32, available: u32) -> Option<u32> {
        let most = (available - i).min(NETMAP_MAX_FRAGS as u32);
        let end = (0..most).find(|n| self.socket.rx.get(i + n).options & CONTINUED == 0);
        end.map(|n| n + 1).or((most == NETMAP_MAX_FRAGS as u32).then_some(most))
    }

    /// Puts the i-th received part into the i-th free slot; returns its length.
    fn fill_slot(&mut self, rx: &RxKring, i: u32) -> u32 {
        let Descriptor { address, len, options } = self.socket.rx.get(i);
        let (buffer, offset) = self.buffer_at(address);
        let at = i as usize;
        if self.posted[at] != buffer
            && let Some(other) = (at + 1..self.posted.len()).find(|other| self.posted[*other] == buffer)
        {
            self.posted.swap(at, other);
            let slot = rx.slot(other as u32);
            rx.set_slot(other as u32, Slot { buf_idx: self.posted[other], ..slot });
        }
        let len = len.min(self.pool.config().buffer_bytes - offset);
        if offset != 0 {
            buffers::change(&self.pool, buffer, |bytes| bytes.copy_within(offset as usize..(offset + len) as usize, 0));
        }
        let flags = if options & CONTINUED != 0 { NS_MOREFRAG } else { 0 };
        rx.set_slot(i, Slot { buf_idx: buffer, len: len as u16, flags, ptr: 0 });
        len
    }

    /// A sender on this host may have left the checksum to its device, which is none.
    fn complete_checksum(&self, rx: &RxKring, i: u32, parts: u32) {
        let first = rx.slot(i);
        let found = buffers::change(&self.pool, first.buf_idx, |bytes| {
            let frame = &bytes[..usize::from(first.len)];
            Transport::of(frame).filter(|transport| transport.is_partial(frame))
        });
        let Some(transport) = found else { return };
        let (mut sum, mut left, mut from) = (Sum::ZERO, transport.len, transport.start);
        for slot in (i..i + parts).map(|i| rx.slot(i)) {
            buffers::change(&self.pool, slot.buf_idx, |bytes| {
                let end = usize::from(slot.len).min(from + left);
                sum += Sum::of(&bytes[from.min(end)..end]);
                left -= end.saturating_sub(from);
            });
            from = 0;
        }
        let at = transport.start + transport.offset;
        self.pool.copy_in(first.buf_idx, at, &transport.finish(sum));
    }

    /// Sends what is pending, as far as there is room, and gives back what was sent.
    pub(super) fn send(&mut self, tx: &TxKring) -> Result<(), PortError> {
        self.collect();
        let (pending, room) = (tx.pending(), self.socket.tx.free());
        let (mut done, mut shown, mut packets, mut bytes) = (0, 0, 0, 0);
        while let Some(slots) = Some(done).filter(|i| *i < pending).and_then(|i| tx.packet_slots(i, pending)) {
            if shown + slots > room {
                break;
            }
            match self.frame_bytes(tx, done, slots) {
                Some(len) => {
                    self.show_frame(tx, done, slots, shown);
                    shown += slots;
                    packets += 1;
                    bytes += u64::from(len);
                }
                None => {
                    self.sent.extend((done..done + slots).map(|i| (tx.slot(i).buf_idx, true)));
                    tx.count_dropped(slots);
                }
            }
            done += slots;
        }
        tx.take_for_later(done);
        self.socket.tx.show(shown);
        tx.count(packets, bytes);
        let kicked = self.kick();
        self.collect();
        let whole = self.sent.iter().take_while(|(_, is_back)| *is_back).count();
        self.sent.drain(..whole);
        tx.complete(whole as u32);
        kicked
    }

    /// Length of the frame in these slots; None if the kernel would refuse it: then its buffers never came back.
    fn frame_bytes(&self, tx: &TxKring, i: u32, slots: u32) -> Option<u32> {
        let (config, port) = (self.pool.config(), tx.ring().port());
        let reserved = if self.shape.umem.tx_metadata { TAIL_BYTES } else { 0 };
        let usable = |slot: &Slot| {
            let possible = (RESERVED_BUFFERS..config.buffers).contains(&slot.buf_idx);
            let fits = (1..=config.buffer_bytes - reserved).contains(&slot.len.into());
            possible && fits && self.pool.may_use(port, slot.buf_idx)
        };
        let lens = (i..i + slots).map(|i| Some(tx.slot(i)).filter(usable).map(|slot| u32::from(slot.len)));
        let len = lens.sum::<Option<u32>>()?;
        let possible = (FRAME_BYTES_MIN..=self.shape.frame_bytes_max).contains(&len);
        (possible && slots <= self.shape.parts_max).then_some(len)
    }

    /// Writes the descriptors of a frame in slots `i..i + slots`, from the `shown`-th on.
    fn show_frame(&mut self, tx: &TxKring, i: u32, slots: u32, shown: u32) {
        for n in 0..slots {
            let slot = tx.slot(i + n);
            let more = if n + 1 < slots { CONTINUED } else { 0 };
            let with_metadata = n == 0 && self.shape.umem.tx_metadata && self.put_metadata(slot);
            let options = more | if with_metadata { WITH_METADATA } else { 0 };
            let address = u64::from(slot.buf_idx) * u64::from(self.pool.config().buffer_bytes);
            self.socket.tx.put(shown + n, Descriptor { address, len: slot.len.into(), options });
            self.sent.push_back((slot.buf_idx, false));
        }
    }

    /// Asks for the checksum of the frame that begins in `slot`, in the bytes before its buffer. False if there is
    /// nothing to be completed.
    fn put_metadata(&self, slot: Slot) -> bool {
        let found = buffers::change(&self.pool, slot.buf_idx, |bytes| {
            let frame = &bytes[..usize::from(slot.len)];
            Transport::of(frame).filter(|transport| transport.is_partial(frame))
        });
        let Some(transport) = found else { return false };
        let mut metadata = [0; METADATA_BYTES as usize];
        metadata[..8].copy_from_slice(&COMPLETE_CHECKSUM.to_ne_bytes());
        metadata[8..10].copy_from_slice(&(transport.start as u16).to_ne_bytes());
        metadata[10..12].copy_from_slice(&(transport.offset as u16).to_ne_bytes());
        let before = (self.pool.config().buffer_bytes - METADATA_BYTES) as usize;
        self.pool.copy_in(slot.buf_idx - 1, before, &metadata) == metadata.len()
    }

    /// Tells the kernel to send, as long as it takes frames.
    fn kick(&mut self) -> Result<(), PortError> {
        let mut left = self.socket.tx.untaken();
        for _ in 0..KICKS_MAX {
            // A driver that moves frames itself may have to be told to look at sent ones, too.
            let waiting = left > 0 || self.shape.zero_copy && self.is_sending();
            if !waiting || !self.socket.tx.wants_kick() {
                return Ok(());
            }
            match self.socket.kick_tx() {
                Ok(()) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => {}
                // The interface is down: frames wait until it is up.
                Err(Errno::NETDOWN | Errno::NXIO) => return Ok(()),
                Err(errno) => return Err(PortError::os("send from an XDP socket", errno)),
            }
            let now = self.socket.tx.untaken();
            if now == 0 || now >= left {
                return Ok(());
            }
            left = now;
        }
        Ok(())
    }

    /// Marks what the kernel has given back.
    fn collect(&mut self) {
        let back = self.socket.completion.available();
        for i in 0..back {
            let (buffer, _) = self.buffer_at(self.socket.completion.get(i));
            if let Some(sent) = self.sent.iter_mut().find(|(sent, is_back)| *sent == buffer && !is_back) {
                sent.1 = true;
            }
        }
        self.socket.completion.release(back);
    }
}
