//! One rx ring of a port at the switch: the only place where frames are copied.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ringway_mem::fabric::Fabric;
use ringway_mem::lease::{Ends, Lease, Leases};
use ringway_mem::pool::{LINE_BYTES, Pool, Ring};
use ringway_mem::slot::{NETMAP_MAX_FRAGS, NS_MOREFRAG, Slot};

use crate::batch::Batch;
use crate::fanout::Delivered;
use crate::frame::Frame;
use crate::vnet;

/// How many slots ahead of the one that is written its buffer's memory is asked for.
const AHEAD: u32 = 4;

/// A ring to deliver into, as long as the epoch of its books stands.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    pub(crate) ring: Ring,
    fabric: Arc<Fabric>,
    port: u32,
    index: u32,
    epoch: u32,
    /// Bytes of the virtio-net header with which its frames begin.
    header_bytes: u32,
}

/// What to copy, and who does it.
pub(crate) struct Sending<'a> {
    pub(crate) batch: &'a Batch,
    /// The pool of the sender's buffers.
    pub(crate) pool: &'a Pool,
    /// The sender's number in the books.
    pub(crate) owner: u32,
    /// Bytes of the virtio-net header with which its frames begin. Then the batch's frames are what follows, and `whole`
    /// has the bytes of each.
    pub(crate) header_bytes: u32,
    pub(crate) whole: &'a [Vec<u8>],
}

/// Bytes of the header with which frames of a port begin; what is no such length counts as none.
pub(crate) fn header_bytes(fabric: &Fabric, port: u32) -> u32 {
    let seat = fabric.seats().get(port as usize);
    seat.map_or(0, |seat| seat.vnet_header_bytes.load(Relaxed)).min(vnet::HEADER_BYTES_MAX)
}

impl Receiver {
    pub(crate) fn new(fabric: &Arc<Fabric>, port: u32, index: u32, ring: Ring) -> Receiver {
        let epoch = fabric.leases(port, index).epoch();
        let header_bytes = header_bytes(fabric, port);
        Receiver { ring, fabric: fabric.clone(), port, index, epoch, header_bytes }
    }

    pub(crate) fn leases(&self) -> &Leases {
        self.fabric.leases(self.port, self.index)
    }

    pub(crate) fn ends(&self) -> Ends<'_> {
        let kring = self.ring.kring();
        Ends { hwcur: &kring.hwcur, hwtail: &kring.hwtail, num_slots: self.ring.num_slots() }
    }

    fn buffer_bytes(&self) -> usize {
        self.ring.pool().config().buffer_bytes as usize
    }

    /// Slots that a frame takes here: those that it was sent in, or more if buffers are smaller here.
    #[inline]
    fn slots_of(&self, batch: &Batch, frame: &Frame) -> u32 {
        if frame.len() <= self.buffer_bytes() && frame.fragments == 1 {
            return 1;
        }
        let bytes = self.buffer_bytes();
        batch.fragments_of(frame).iter().map(|fragment| usize::from(fragment.len).div_ceil(bytes).max(1) as u32).sum()
    }

    /// Copies frames into free slots and shows them; frames for which there is no room are dropped.
    pub(crate) fn deliver(
        &self,
        sending: &Sending<'_>,
        frames: impl ExactSizeIterator<Item = usize> + Clone,
    ) -> Delivered {
        if (self.header_bytes | sending.header_bytes) != 0 {
            return self.deliver_converted(sending, frames);
        }
        let sum = sending.batch.sum();
        let is_simple = !sum.has_fragments && sum.longest as usize <= self.buffer_bytes();
        let wanted = if is_simple { frames.len() as u32 } else { self.slots_wanted(sending, frames.clone()) };
        let wanted = wanted.min(self.leases().room(self.ends()));
        let mut done = Delivered::default();
        match self.leases().lease(self.ends(), self.epoch, sending.owner, wanted) {
            Err(_) => {
                done.dropped = frames.len() as u32;
                self.count(done);
            }
            Ok(lease) => {
                let filled = if is_simple {
                    self.fill_simply(sending, frames, &lease, &mut done)
                } else {
                    self.fill(sending, frames, &lease, &mut done)
                };
                self.blank(self.ring.advance(lease.first, filled), lease.slots - filled);
                self.count(done);
                self.finish(lease);
            }
        }
        done
    }

    /// Slots for all frames that there is room for: whole frames only, so that a lease is filled to its end unless
    /// others take the room meanwhile.
    fn slots_wanted(&self, sending: &Sending<'_>, frames: impl Iterator<Item = usize>) -> u32 {
        let room = self.leases().room(self.ends());
        let slots = frames.map(|n| self.slots_of(sending.batch, &sending.batch.frames()[n]));
        slots.fold(0, |sum, slots| if sum + slots <= room { sum + slots } else { sum })
    }

    /// Fills a lease with frames of one slot each; returns how many slots.
    #[inline]
    fn fill_simply(
        &self,
        sending: &Sending<'_>,
        frames: impl ExactSizeIterator<Item = usize>,
        lease: &Lease,
        done: &mut Delivered,
    ) -> u32 {
        done.dropped += (frames.len() as u32).saturating_sub(lease.slots);
        let mut at = lease.first;
        for n in frames.take(lease.slots as usize) {
            let frame = &sending.batch.frames()[n];
            match frame.line() {
                Some(line) => self.write_line(at, frame.len as u16, line),
                None => self.write(sending, frame, at, 1),
            }
            at = self.ring.next(at);
            done.frames += 1;
            done.bytes += u64::from(frame.len);
        }
        done.frames
    }

    /// Fills a lease with frames of any number of slots; returns how many slots.
    fn fill(
        &self,
        sending: &Sending<'_>,
        frames: impl Iterator<Item = usize>,
        lease: &Lease,
        done: &mut Delivered,
    ) -> u32 {
        let mut at = 0;
        for n in frames {
            let frame = &sending.batch.frames()[n];
            let slots = self.slots_of(sending.batch, frame);
            if at + slots > lease.slots || slots > NETMAP_MAX_FRAGS as u32 {
                done.dropped += 1;
                continue;
            }
            self.write(sending, frame, self.ring.advance(lease.first, at), slots);
            at += slots;
            done.frames += 1;
            done.bytes += u64::from(frame.len);
        }
        at
    }

    /// Like [`Receiver::deliver`], for frames that begin with a header here, or do at the sender's.
    #[cold]
    fn deliver_converted(&self, sending: &Sending<'_>, frames: impl Iterator<Item = usize>) -> Delivered {
        let mut done = Delivered::default();
        for n in frames {
            let packets = match sending.whole.get(n) {
                Some(whole) => vnet::converted(whole, sending.header_bytes, self.header_bytes),
                None => {
                    let plain = sending.batch.bytes_of(sending.pool, &sending.batch.frames()[n]);
                    vnet::converted(&plain, 0, self.header_bytes)
                }
            };
            if self.put_all(sending.owner, &packets) {
                done.frames += packets.len() as u32;
                done.bytes += packets.iter().map(|packet| packet.len() as u64).sum::<u64>();
            } else {
                done.dropped += 1;
            }
        }
        self.count(done);
        done
    }

    /// Copies packets into free slots and shows them: all of them or none.
    fn put_all(&self, owner: u32, packets: &[Vec<u8>]) -> bool {
        let buffer_bytes = self.buffer_bytes();
        let slots_of = |packet: &Vec<u8>| packet.len().div_ceil(buffer_bytes);
        let wanted: usize = packets.iter().map(slots_of).sum();
        let longest = packets.iter().map(slots_of).max().unwrap_or_default();
        let room = self.leases().room(self.ends()) as usize;
        if wanted == 0 || wanted > room || longest > NETMAP_MAX_FRAGS {
            return false;
        }
        let Ok(lease) = self.leases().lease(self.ends(), self.epoch, owner, wanted as u32) else { return false };
        let fits = lease.slots as usize == wanted;
        if !fits {
            self.blank(lease.first, lease.slots);
        }
        let mut at = lease.first;
        for packet in packets.iter().filter(|_| fits) {
            let slots = slots_of(packet);
            for (n, part) in packet.chunks(buffer_bytes).enumerate() {
                let buf_idx = self.usable_buffer(at);
                self.ring.pool().copy_in(buf_idx, 0, part);
                let more = if n + 1 < slots { NS_MOREFRAG } else { 0 };
                let flags = (slots as u16) << 8 | more;
                self.ring.slots()[at as usize].store(Slot { buf_idx, len: part.len() as u16, flags, ptr: 0 });
                at = self.ring.next(at);
            }
        }
        self.finish(lease);
        fits
    }

    /// Ends a lease whose slots are filled, and wakes the receiver if it can see more now.
    pub(crate) fn finish(&self, lease: Lease) {
        if self.leases().finish(self.ends(), lease) {
            self.ring.wake();
        }
    }

    /// Slots without bytes, which receivers pass over: those of a lease that could not be filled.
    pub(crate) fn blank(&self, first: u32, slots: u32) {
        for n in 0..slots {
            let cell = &self.ring.slots()[self.ring.advance(first, n) as usize];
            cell.store(Slot { len: 0, flags: 0, ptr: 0, ..cell.load_word() });
        }
    }

    /// Copies a short frame into one slot.
    #[inline]
    fn write_line(&self, at: u32, len: u16, line: &[u8; LINE_BYTES]) {
        self.fetch_ahead(at);
        let buf_idx = self.usable_buffer(at);
        self.ring.pool().copy_in_line(buf_idx, line);
        self.ring.slots()[at as usize].store(Slot { buf_idx, len, flags: 1 << 8, ptr: 0 });
    }

    /// Asks for the buffer of a later slot, which may not be ours: a hint harms nobody.
    #[inline]
    fn fetch_ahead(&self, at: u32) {
        let ahead = self.ring.advance(at, AHEAD.min(self.ring.num_slots() - 1));
        self.ring.pool().prefetch(self.ring.slots()[ahead as usize].load_word().buf_idx, 0);
    }

    /// Copies one frame into `slots` slots from `first` on. The head comes from the frame, which the module
    /// has judged, and not a second time from the sender's memory.
    #[inline]
    fn write(&self, sending: &Sending<'_>, frame: &Frame, first: u32, slots: u32) {
        let (pool, bytes) = (self.ring.pool(), self.buffer_bytes());
        let mut head = frame.head();
        let mut n = 0;
        for fragment in sending.batch.fragments_of(frame) {
            let mut offset = 0;
            loop {
                let at = self.ring.advance(first, n);
                self.fetch_ahead(at);
                let len = (usize::from(fragment.len) - offset).min(bytes);
                let buf_idx = self.usable_buffer(at);
                let (ours, rest) = head.split_at(head.len().min(len));
                pool.copy_in(buf_idx, 0, ours);
                if ours.len() < len {
                    let place = (buf_idx, ours.len());
                    sending.batch.copy(sending.pool, *fragment, offset + ours.len(), pool, place, len - ours.len());
                }
                head = rest;
                offset += len;
                n += 1;
                let more = if n < slots { NS_MOREFRAG } else { 0 };
                let flags = (slots as u16) << 8 | more;
                self.ring.slots()[at as usize].store(Slot { buf_idx, len: len as u16, flags, ptr: 0 });
                if offset >= usize::from(fragment.len) {
                    break;
                }
            }
        }
    }

    /// The buffer of a slot that the receiver gave back; another one if that is not the receiver's, and the reserved
    /// buffer 0, whose bytes are nobody's, if there is none.
    #[inline]
    fn usable_buffer(&self, at: u32) -> u32 {
        let buffer = self.ring.slots()[at as usize].load_word().buf_idx;
        let pool = self.ring.pool();
        if pool.may_use(self.ring.port(), buffer) {
            return buffer;
        }
        pool.take_buffer(self.ring.port()).unwrap_or(0)
    }

    fn count(&self, done: Delivered) {
        let own = &self.ring.kring().own;
        let counters =
            [(&own.packets, u64::from(done.frames)), (&own.bytes, done.bytes), (&own.dropped, done.dropped.into())];
        for (counter, n) in counters.into_iter().filter(|(_, n)| *n > 0) {
            counter.fetch_add(n, Relaxed);
        }
    }
}
