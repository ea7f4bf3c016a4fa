//! Bytes of buffers in slots that are the user's.
//!
//! Batches borrow their ring mutably and hand out one slice at a time, tied to that borrow; indices leave a ring only
//! by swapping, so two slots of this process never name the same buffer.

use ringway_mem::pool::{Pool, RESERVED_BUFFERS, Ring};
use ringway_mem::slot::Slot;

use crate::kring::RxKring;

/// The first `len` bytes of a buffer in one of the user's slots.
pub(crate) fn of_user(ring: &Ring, buffer: u32, len: usize) -> &[u8] {
    // SAFETY: the slot is the user's, so by the protocol of slots its buffer is, and the caller is the batch that
    // borrows the ring.
    unsafe { ring.pool().bytes_of(buffer, 0, len) }
}

/// A whole buffer of one of the user's slots.
pub(crate) fn of_user_mut(ring: &mut Ring, buffer: u32) -> &mut [u8] {
    let bytes = ring.pool().config().buffer_bytes as usize;
    // SAFETY: as above; the ring is borrowed mutably as long as the slice lives.
    unsafe { ring.pool().bytes_of_mut(buffer, 0, bytes) }
}

/// Lets `change` work on a buffer on the port's side of its ring: pending in a tx ring, or free in an rx ring.
pub(crate) fn change<T>(pool: &Pool, buffer: u32, change: impl FnOnce(&mut [u8]) -> T) -> T {
    let bytes = pool.config().buffer_bytes as usize;
    // SAFETY: by the protocol of slots the buffer is the port's between the user's syncs, and the caller is its back
    // end, which has one such slice at a time.
    change(unsafe { pool.bytes_of_mut(buffer, 0, bytes) })
}

/// The buffer of the i-th free slot, for the kernel to write to. A slot that its user gave back with another's buffer, or
/// none, gets a new one; None if there is none left.
pub(crate) fn usable(rx: &RxKring, i: u32) -> Option<u32> {
    let (pool, port, slot) = (rx.ring().pool(), rx.ring().port(), rx.slot(i));
    let possible = (RESERVED_BUFFERS..pool.config().buffers).contains(&slot.buf_idx);
    if possible && pool.may_use(port, slot.buf_idx) {
        return Some(slot.buf_idx);
    }
    let buf_idx = pool.take_buffer(port)?;
    rx.set_slot(i, Slot { buf_idx, ..slot });
    Some(buf_idx)
}
