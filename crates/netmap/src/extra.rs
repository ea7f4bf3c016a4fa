//! Extra buffers: handed out with a registration as a list that begins at `ni_bufs_head`, each holding the number of the
//! next in its first four bytes, 0 at the end. Whatever list is there at the close goes back to the pool.

use std::sync::atomic::Ordering::Relaxed;

use ringway_port::Port;
use rustix::io::Errno;

use crate::error::pool_errno;

/// Takes up to `wanted` buffers, as many as there are, and hangs them into the port's interface object. Returns
/// how many.
pub(crate) fn hand_out(port: &mut Port, wanted: u32) -> Result<u32, Errno> {
    let (pool, id) = (port.pool().clone(), port.registration().port());
    let mut head = 0u32;
    let mut taken = 0;
    while taken < wanted
        && let Some(buffer) = pool.take_buffer(id)
    {
        pool.copy_in(buffer, 0, &head.to_ne_bytes());
        head = buffer;
        taken += 1;
    }
    let (_, interface) = port.registration_mut().own_interface().map_err(|e| pool_errno(&e))?;
    interface.bufs_head.store(head, Relaxed);
    Ok(taken)
}
