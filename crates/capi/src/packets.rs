//! Packets of `nm_*` descriptors: sent by `nm_inject`, received by `nm_dispatch` and `nm_nextpkt`.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering::Relaxed;

use ringway_mem::slot::{NETMAP_MAX_FRAGS, Slot};

use crate::inject::{self, UserRing};
use crate::layout::{NmDesc, PacketHeader};

/// `nm_dispatch` says so in the header of each packet but the last of a call.
const MORE_PKTS: u64 = 1;

type Callback = Option<unsafe extern "C" fn(*mut u8, *const PacketHeader, *const u8)>;

/// # Safety
/// `d` is an open descriptor, and `packet` has `bytes` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nm_inject(d: *mut NmDesc, packet: *const c_void, bytes: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let rings = (*d).first_tx_ring..=(*d).last_tx_ring;
        let packet = inject::bytes_at(packet, bytes);
        let Some(ring) = inject::inject((*d).nifp, rings, (*d).cur_tx_ring, packet) else { return 0 };
        (*d).cur_tx_ring = ring;
    }
    bytes as c_int
}

/// What lies in the first slots of a ring, and the index behind it.
type Found = (PacketHeader, u32);

/// The first slot of a ring.
fn first_slot(ring: UserRing, d: *mut NmDesc) -> Option<Found> {
    if ring.space() == 0 {
        return None;
    }
    let head = ring.header().head.load(Relaxed);
    let slot = ring.slot(head).load();
    Some((header_of(ring, d, head, slot), ring.next(head)))
}

/// The first packet of a ring, all its fragments; one whose end has not come is none.
fn first_packet(ring: UserRing, d: *mut NmDesc) -> Option<Found> {
    let (mut header, mut after) = first_slot(ring, d)?;
    let mut slot = ring.slot(ring.header().head.load(Relaxed)).load();
    let mut left = ring.space().min(NETMAP_MAX_FRAGS as u32) - 1;
    while slot.more_fragments() {
        left = left.checked_sub(1)?;
        slot = ring.slot(after).load();
        header.len += u32::from(slot.len);
        after = ring.next(after);
    }
    Some((header, after))
}

fn header_of(ring: UserRing, d: *mut NmDesc, at: u32, slot: Slot) -> PacketHeader {
    let ts = libc::timeval {
        tv_sec: ring.header().ts_s.load(Relaxed) as i64,
        tv_usec: ring.header().ts_us.load(Relaxed) as i64,
    };
    let (len, place) = (u32::from(slot.len), std::ptr::from_ref(ring.slot(at)).cast());
    PacketHeader { ts, caplen: len, len, flags: 0, d, slot: place, buf: ring.data(&slot) }
}

/// Takes what `first` finds in the next ring that has it, from the current ring on and round. Its slots are given back,
/// but the port touches them only in the next sync.
///
/// # Safety
/// `d` is an open descriptor.
unsafe fn take(d: *mut NmDesc, first: fn(UserRing, *mut NmDesc) -> Option<Found>) -> Option<PacketHeader> {
    // SAFETY: the caller's promise.
    unsafe {
        for number in inject::round((*d).first_rx_ring..=(*d).last_rx_ring, (*d).cur_rx_ring) {
            let ring = inject::ring((*d).nifp, number, true);
            if let Some((header, after)) = first(ring, d) {
                ring.give_before(after);
                (*d).cur_rx_ring = number;
                return Some(header);
            }
        }
    }
    None
}

/// # Safety
/// `d` is an open descriptor; the callback neither closes nor syncs it.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nm_dispatch(d: *mut NmDesc, count: c_int, callback: Callback, arg: *mut u8) -> c_int {
    let most = if count <= 0 { c_int::MAX } else { count };
    // SAFETY: the caller's promise.
    unsafe {
        let mut next = take(d, first_packet);
        let mut got = 0;
        while let Some(mut header) = next {
            got += 1;
            next = if got < most { take(d, first_packet) } else { None };
            header.flags = if next.is_some() { MORE_PKTS } else { 0 };
            (*d).hdr = header;
            if let Some(callback) = callback {
                callback(arg, &raw const (*d).hdr, header.buf);
            }
        }
        got
    }
}

/// # Safety
/// `d` is an open descriptor, `header` has room for a header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nm_nextpkt(d: *mut NmDesc, header: *mut PacketHeader) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(found) = take(d, first_slot) else { return std::ptr::null_mut() };
        header.write(found);
        (*d).hdr = found;
        found.buf
    }
}
