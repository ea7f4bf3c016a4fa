//! `packet:IF`: a packet socket, the last resort. It gets copies of what the interface receives (the host gets them as
//! well) and sends past the queueing discipline.
//!
//! Received frames pass through an inbox of our own, since what the kernel hands over may lack its checksum, be 64 KiB
//! long for a segmentation offload, or have its VLAN tag beside it. Unless the user asked for virtio-net headers, all
//! three are made good here.

use std::os::fd::OwnedFd;

use ringway_wire::offload;
use ringway_wire::virtio::{Header, Layout};
use rustix::event::PollFlags;
use rustix::io::Errno;

use crate::backend::{Backend, Wakers};
use crate::error::PortError;
use crate::kring::{RxKring, TxKring};
use crate::sys::device::iovecs::Frame;
use crate::sys::device::packet::{self, BATCH, HEADER_BYTES, Inbox};

/// Shortest frame: a link header.
const FRAME_BYTES_MIN: usize = 14;
/// Both MAC addresses; a tag goes behind them.
const ADDRESSES_BYTES: usize = 12;

pub(crate) struct Packet {
    fd: OwnedFd,
    inbox: Inbox,
    /// Frames of the inbox: the next to deliver, and how many there are.
    next: usize,
    received: usize,
    /// Segments of the frame being delivered, each with its length before it, and how far they were read.
    split: Split,
    vnet_header: bool,
}

/// Frames made of one, waiting for slots.
#[derive(Default)]
struct Split {
    bytes: Vec<u8>,
    /// Ends of the frames in `bytes`; the first `done` were delivered.
    ends: Vec<usize>,
    done: usize,
}

impl Split {
    fn next(&self) -> Option<&[u8]> {
        let end = *self.ends.get(self.done)?;
        let start = self.done.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start..end])
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.done = 0;
    }

    fn push(&mut self, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        self.ends.push(self.bytes.len());
    }
}

impl Packet {
    pub(crate) fn new(fd: OwnedFd, vnet_header: bool) -> Packet {
        Packet { fd, inbox: Inbox::new(), next: 0, received: 0, split: Split::default(), vnet_header }
    }

    /// Prepares the next frame of the inbox; false if there is none.
    fn prepare(&mut self) -> Result<bool, PortError> {
        if self.next == self.received {
            let received = self.inbox.receive(&self.fd).map_err(|e| PortError::os("receive packets", e));
            (self.next, self.received) = (0, received?);
        }
        if self.next == self.received {
            return Ok(false);
        }
        let (bytes, tag) = self.inbox.frame(self.next);
        self.next += 1;
        self.split.clear();
        // A frame that its header does not fit to is none; the kernel writes no such thing.
        let Ok((mut header, _)) = Header::parse(bytes, Layout::Short) else { return Ok(true) };
        if self.vnet_header {
            self.split.push(bytes);
            return Ok(true);
        }
        let frame = &mut bytes[HEADER_BYTES..];
        let split = &mut self.split;
        let mut push = |frame: &[u8]| match tag {
            Some(tag) if frame.len() >= ADDRESSES_BYTES => {
                split.push(&[&frame[..ADDRESSES_BYTES], &tag, &frame[ADDRESSES_BYTES..]].concat());
            }
            _ => split.push(frame),
        };
        match header.gso {
            Some(gso) if offload::split(frame, gso, &mut push).is_ok() => {}
            _ => {
                if header.finish_checksum(frame).is_ok() {
                    push(frame);
                }
            }
        }
        Ok(true)
    }
}

impl Backend for Packet {
    fn sync_tx(&mut self, _ring: usize, tx: &TxKring, _now_ns: u64) -> Result<(), PortError> {
        let mut blank = [[0; HEADER_BYTES]; BATCH];
        loop {
            let mut frames: Vec<Frame<'_>> = Vec::with_capacity(BATCH);
            let mut slots = [0; BATCH];
            let (pending, mut at) = (tx.pending(), 0);
            for header in &mut blank {
                let Some(n) = Some(at).filter(|i| *i < pending).and_then(|i| tx.packet_slots(i, pending)) else {
                    break;
                };
                let header: &mut [u8] = if self.vnet_header { &mut [] } else { header };
                let Some(frame) = gather(tx, at, n, header) else { break };
                slots[frames.len()] = n;
                frames.push(frame);
                at += n;
            }
            if frames.is_empty() {
                match Some(0).filter(|_| pending > 0).and_then(|_| tx.packet_slots(0, pending)) {
                    // No frame: impossible buffers, or shorter than a link header.
                    Some(n) => {
                        tx.take(n);
                        tx.count_dropped(n);
                        continue;
                    }
                    None => return Ok(()),
                }
            }
            match packet::send(&self.fd, &mut frames) {
                Ok(sent) => {
                    let bytes = frames[..sent].iter().map(|frame| (frame.bytes() - HEADER_BYTES) as u64).sum();
                    tx.take(slots[..sent].iter().sum());
                    tx.count(sent as u32, bytes);
                }
                Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => return Ok(()),
                // The first frame is refused: too long for the interface, or the interface is down.
                Err(_) => {
                    tx.take(slots[0]);
                    tx.count_dropped(slots[0]);
                }
            }
        }
    }

    fn sync_rx(&mut self, _ring: usize, rx: &RxKring, _released: u32, _now_ns: u64) -> Result<(), PortError> {
        let (mut filled, mut packets, mut bytes) = (0, 0, 0);
        loop {
            while let Some(frame) = self.split.next() {
                if frame.len().div_ceil(rx.ring().pool().config().buffer_bytes as usize)
                    >= rx.ring().num_slots() as usize
                {
                    rx.count_dropped(1);
                    self.split.done += 1;
                    continue;
                }
                let Some(slots) = rx.put(filled, frame) else {
                    rx.publish(filled);
                    rx.count(packets, bytes);
                    return Ok(());
                };
                filled += slots;
                packets += 1;
                bytes += frame.len() as u64;
                self.split.done += 1;
            }
            if !self.prepare()? {
                break;
            }
        }
        rx.publish(filled);
        rx.count(packets, bytes);
        rx.count_dropped(packet::dropped(&self.fd));
        Ok(())
    }

    fn wakers(&self, wakers: &mut Wakers) {
        wakers.fds.extend(self.fd.try_clone().ok().map(|fd| (fd, PollFlags::IN)));
    }
}

/// The frame in `n` slots from the i-th on; None if it is none.
fn gather<'a>(tx: &'a TxKring, i: u32, n: u32, header: &'a mut [u8]) -> Option<Frame<'a>> {
    let pool = tx.ring().pool();
    let mut frame = Frame::new(header);
    for slot in (i..i + n).map(|i| tx.slot(i)) {
        let usable = pool.may_use(tx.ring().port(), slot.buf_idx) && u32::from(slot.len) <= pool.config().buffer_bytes;
        frame.push(pool, usable.then_some(slot.buf_idx)?, slot.len.into());
    }
    (frame.bytes() >= FRAME_BYTES_MIN + HEADER_BYTES).then_some(frame)
}
