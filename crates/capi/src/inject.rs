//! Rings as a program sees them in its mapping: filling the next slots with a packet, and finding received ones.

use std::ffi::c_void;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering::*;

use ringway_mem::slot::{InterfaceHeader, NETMAP_MAX_FRAGS, NS_MOREFRAG, RingHeader, Slot, SlotCell};

/// A ring in a program's own mapping.
#[derive(Clone, Copy)]
pub(crate) struct UserRing(pub(crate) *const RingHeader);

/// The `number`-th tx or rx ring of an interface object, host rings behind the others.
///
/// # Safety
/// `interface` is one that the device made, mapped; it has that ring.
pub(crate) unsafe fn ring(interface: *const InterfaceHeader, number: u16, receives: bool) -> UserRing {
    // SAFETY: the caller's promise: the offsets of the rings follow the object.
    unsafe {
        let header = &*interface;
        let before = match receives {
            true => header.tx_rings.load(Relaxed) + header.host_tx_rings.load(Relaxed),
            false => 0,
        };
        let offsets: *const i64 = interface.add(1).cast();
        let offset = offsets.add(before as usize + usize::from(number)).read();
        UserRing(interface.byte_offset(offset as isize).cast())
    }
}

/// A packet of the program's, which may name none of no bytes by a null pointer.
///
/// # Safety
/// `base` has so many bytes, which nobody changes meanwhile.
pub(crate) unsafe fn bytes_at<'a>(base: *const c_void, bytes: usize) -> &'a [u8] {
    match bytes {
        0 => &[],
        // SAFETY: the caller's promise.
        _ => unsafe { std::slice::from_raw_parts(base.cast(), bytes) },
    }
}

impl UserRing {
    pub(crate) fn header(&self) -> &RingHeader {
        // SAFETY: made by `ring`.
        unsafe { &*self.0 }
    }

    fn slots(&self) -> u32 {
        self.header().num_slots.load(Relaxed)
    }

    fn buffer_bytes(&self) -> usize {
        self.header().buf_bytes.load(Relaxed) as usize
    }

    /// Where in its buffer a slot's data begins (option OFFSETS; 0 without it).
    fn offset(&self, slot: &Slot) -> usize {
        (slot.ptr & self.header().offset_mask.load(Relaxed)) as usize
    }

    /// Where a slot's data begins.
    pub(crate) fn data(&self, slot: &Slot) -> *mut u8 {
        self.buffer(slot.buf_idx).wrapping_add(self.offset(slot))
    }

    pub(crate) fn next(&self, i: u32) -> u32 {
        if i + 1 >= self.slots() { 0 } else { i + 1 }
    }

    /// The user's slots from head to tail.
    pub(crate) fn space(&self) -> u32 {
        let (head, tail) = (self.header().head.load(Relaxed), self.header().tail.load(Acquire));
        if tail >= head { tail - head } else { tail + self.slots() - head }
    }

    pub(crate) fn slot(&self, i: u32) -> &SlotCell {
        // SAFETY: indices come from `next` and the ring's own head, which its user keeps below the slot count.
        unsafe { &*self.0.add(1).cast::<SlotCell>().add(i as usize) }
    }

    pub(crate) fn buffer(&self, index: u32) -> *mut u8 {
        let offset = self.header().buf_ofs.load(Relaxed) as isize + index as isize * self.buffer_bytes() as isize;
        self.0.cast_mut().cast::<u8>().wrapping_offset(offset)
    }

    /// Gives the slots before `i` to the port.
    pub(crate) fn give_before(&self, i: u32) {
        self.header().cur.store(i, Relaxed);
        self.header().head.store(i, Release);
    }
}

/// Copies a packet into the next ring of `rings`, from `first` on and round, that has slots enough; which one it was.
///
/// # Safety
/// As [`ring`], for all of them.
pub(crate) unsafe fn inject(
    interface: *const InterfaceHeader,
    rings: RangeInclusive<u16>,
    first: u16,
    packet: &[u8],
) -> Option<u16> {
    // SAFETY: the caller's promise.
    round(rings, first).find(|number| put(unsafe { ring(interface, *number, false) }, packet))
}

/// The numbers of a span of rings, from `first` on and round; none if the span is empty.
pub(crate) fn round(rings: RangeInclusive<u16>, first: u16) -> impl Iterator<Item = u16> {
    let first = if rings.contains(&first) { first } else { *rings.start() };
    rings.clone().skip_while(move |n| *n < first).chain(rings.take_while(move |n| *n < first))
}

/// Copies a packet into the next slots of a ring, as fragments if it is longer than a buffer; false if there is no room.
fn put(ring: UserRing, packet: &[u8]) -> bool {
    let most = ring.space().min(NETMAP_MAX_FRAGS as u32);
    let (mut at, mut rest, mut slots) = (ring.header().head.load(Relaxed), packet, 0);
    // Nothing is the port's before it is all there: until then, head stays.
    while slots == 0 || !rest.is_empty() {
        let mut slot = ring.slot(at).load();
        let room = ring.buffer_bytes().saturating_sub(ring.offset(&slot)).min(u16::MAX.into());
        if slots == most || room == 0 {
            return false;
        }
        let (part, after) = rest.split_at(rest.len().min(room));
        // SAFETY: the slot is the user's, and so is its buffer, which has that room behind the offset.
        unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), ring.data(&slot), part.len()) };
        (slot.len, slot.flags) = (part.len() as u16, if after.is_empty() { 0 } else { NS_MOREFRAG });
        ring.slot(at).store_word(slot);
        (at, rest, slots) = (ring.next(at), after, slots + 1);
    }
    ring.give_before(at);
    true
}
