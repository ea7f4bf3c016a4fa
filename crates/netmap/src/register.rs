//! REGISTER: binds a descriptor to a port.

use std::sync::Arc;

use ringway_mem::pool::{Pool, RingCounts};
use ringway_port::Port;
use ringway_switch::{directory, open_any};
use rustix::io::Errno;

use crate::abi::{CsbOption, Offsets, Register, flag, option};
use crate::bound::Binding;
use crate::csb::Csb;
use crate::error::{errno, pool_errno};
use crate::note::Note;
use crate::request::Options;
use crate::{extra, name, offsets};

/// Extra buffers of one registration at most.
const EXTRA_BUFFERS_MAX: u32 = 1 << 16;

/// What the options of a registration can be.
const OPTIONS: [u32; 2] = [option::OFFSETS, option::CSB];

/// Opens the port that the request names and fills in what it got.
pub(crate) fn register(name: &str, request: &mut Register, options: &mut Options) -> Result<Binding, Errno> {
    options.check(&OPTIONS)?;
    let wanted = name::wanted(name, request)?;
    let port = open_any(&wanted).map_err(|e| errno(&e))?;
    let has_headers = directory::header_bytes(&wanted).is_some_and(|bytes| bytes > 0);
    if has_headers && request.nr_flags & flag::ACCEPT_VNET_HDR == 0 {
        return Err(Errno::IO);
    }
    let mut binding = bind(port, request)?;
    if let Some(found) = options.find(option::OFFSETS) {
        let result = found.array().and_then(|bytes| offsets::set(&binding, &Offsets::from_bytes(bytes)));
        options.settle(option::OFFSETS, result);
        result?;
    }
    if options.find(option::CSB).is_some() {
        enable_csb(&mut binding, options)?;
    }
    answer(&mut binding, request)?;
    Ok(binding)
}

/// Puts a binding into CSB mode, as the option says.
///
/// # Errors
/// `EINVAL` without the option, and see [`Csb::new`].
pub(crate) fn enable_csb(binding: &mut Binding, options: &mut Options) -> Result<(), Errno> {
    let found = options.find(option::CSB).ok_or(Errno::INVAL)?;
    let csb = found.array().and_then(|bytes| Csb::new(binding, &CsbOption::from_bytes(bytes)));
    options.settle(option::CSB, csb.map(|_| ()));
    binding.csb = Some(csb?);
    Ok(())
}

fn bind(port: Port, request: &Register) -> Result<Binding, Errno> {
    let mut binding = Binding::new(port, Note::of(request))?;
    let bits = binding.note.to_bits();
    binding.port.registration_mut().set_note(bits).map_err(|e| pool_errno(&e))?;
    Ok(binding)
}

/// What the program is told: where its interface object is, and what the port is like.
fn answer(binding: &mut Binding, request: &mut Register) -> Result<(), Errno> {
    let extra_buffers = request.nr_extra_bufs.min(EXTRA_BUFFERS_MAX);
    request.nr_extra_bufs = extra::hand_out(&mut binding.port, extra_buffers)?;
    let (offset, _) = binding.port.registration_mut().own_interface().map_err(|e| pool_errno(&e))?;
    request.nr_offset = offset as u64;
    request.nr_memsize = memory_bytes(binding.port.pool());
    request.nr_mem_id = binding.mem_id();
    let counts = binding.port.info().counts;
    (request.nr_tx_slots, request.nr_rx_slots) = (counts.tx_slots, counts.rx_slots);
    (request.nr_tx_rings, request.nr_rx_rings) = (counts.tx as u16, counts.rx as u16);
    (request.nr_host_tx_rings, request.nr_host_rx_rings) = host_rings(counts);
    Ok(())
}

/// What a program maps, in bytes.
pub(crate) fn memory_bytes(pool: &Arc<Pool>) -> u64 {
    pool.bytes() as u64
}

/// Numbers of host rings: sending, receiving.
pub(crate) fn host_rings(counts: RingCounts) -> (u16, u16) {
    (counts.host_tx as u16, counts.host_rx as u16)
}
