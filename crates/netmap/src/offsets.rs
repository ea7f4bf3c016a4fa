//! The OFFSETS option: a part of each slot's `ptr` says where in its buffer the data begins.

use std::sync::atomic::Ordering::Relaxed;

use ringway_mem::slot::Slot;
use ringway_port::Transport;
use rustix::io::Errno;

use crate::abi::Offsets;
use crate::bound::Binding;

/// Prepares the bound rings.
///
/// # Errors
/// `EOPNOTSUPP` for ports other than pipes and null ports; `EINVAL` for an offset that does not fit into its bits or into a buffer, or an alignment that is no power of two.
pub(crate) fn set(binding: &Binding, wanted: &Offsets) -> Result<(), Errno> {
    // Elsewhere data is copied or handed to a device, from and to the beginning of a buffer.
    let pool = binding.port.pool();
    let id = binding.port.registration().port();
    let is_pipe = pool.peer(id).is_some() && pool.feed_of(id).is_none();
    if !is_pipe && binding.port.info().transport != Transport::None {
        return Err(Errno::OPNOTSUPP);
    }
    let mask = match wanted.nro_offset_bits {
        0 | 64 => u64::MAX,
        bits if bits < 64 => (1 << bits) - 1,
        _ => return Err(Errno::INVAL),
    };
    let buffer_bytes = u64::from(binding.port.info().buffer_bytes);
    let room = buffer_bytes.checked_sub(wanted.nro_min_gap);
    let align = wanted.nro_tx_align.max(1);
    let fits = wanted.nro_max_offset <= mask && room.is_some_and(|room| wanted.nro_max_offset <= room);
    if !fits || wanted.nro_initial_offset > wanted.nro_max_offset || !align.is_power_of_two() {
        return Err(Errno::INVAL);
    }
    for (_, ring) in binding.tx_rings().chain(binding.rx_rings()) {
        ring.header().offset_mask.store(mask, Relaxed);
        ring.header().buf_align.store(align, Relaxed);
        for cell in ring.slots() {
            let slot = cell.load();
            cell.store(Slot { ptr: slot.ptr & !mask | wanted.nro_initial_offset, ..slot });
        }
    }
    Ok(())
}
