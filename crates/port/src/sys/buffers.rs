//! Bytes of buffers in slots that are the user's.
//!
//! Batches borrow their ring mutably and hand out one slice at a time, tied to that borrow; indices leave a ring only
//! by swapping, so two slots of this process never name the same buffer.

use ringway_mem::pool::Ring;

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
