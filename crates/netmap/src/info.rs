//! PORT_INFO_GET and POOLS_INFO_GET: what a port and its memory are like, whether anybody has it open or not.

use std::sync::Arc;

use ringway_mem::pool::{PAGE_BYTES, Pool, PoolConfig, RingCounts};
use ringway_mem::slot::{InterfaceHeader, RingHeader, Slot};
use ringway_port::{PortName, name::RingsName, registry};
use ringway_switch::open_any;
use rustix::io::Errno;

use crate::abi::{PoolsInfo, PortInfo};
use crate::error::errno;
use crate::name;
use crate::register::{host_rings, memory_bytes};

/// PORT_INFO_GET.
pub(crate) fn port(port: &str, request: &mut PortInfo) -> Result<(), Errno> {
    let (pool, counts) = look(port)?;
    request.nr_memsize = memory_bytes(&pool);
    request.nr_mem_id = registry::region_of(&pool);
    (request.nr_tx_slots, request.nr_rx_slots) = (counts.tx_slots, counts.rx_slots);
    (request.nr_tx_rings, request.nr_rx_rings) = (counts.tx as u16, counts.rx as u16);
    (request.nr_host_tx_rings, request.nr_host_rx_rings) = host_rings(counts);
    Ok(())
}

/// POOLS_INFO_GET: of the memory region of the port.
pub(crate) fn pools(port: &str, request: &mut PoolsInfo) -> Result<(), Errno> {
    let (pool, counts) = look(port)?;
    let PoolConfig { buffers, buffer_bytes, object_pages } = pool.config();
    let slots = counts.tx_slots.max(counts.rx_slots);
    *request = PoolsInfo {
        nr_memsize: memory_bytes(&pool),
        nr_mem_id: registry::region_of(&pool),
        nr_if_pool_offset: pool.objects_offset() as u64,
        nr_if_pool_objtotal: object_pages,
        nr_if_pool_objsize: (size_of::<InterfaceHeader>() as u32 + counts.rings() * 8).next_multiple_of(64),
        nr_ring_pool_offset: pool.objects_offset() as u64,
        nr_ring_pool_objtotal: object_pages,
        nr_ring_pool_objsize: size_of::<RingHeader>() as u32 + slots * size_of::<Slot>() as u32,
        nr_buf_pool_offset: pool.objects_offset() as u64 + u64::from(object_pages) * PAGE_BYTES as u64,
        nr_buf_pool_objtotal: buffers,
        nr_buf_pool_objsize: buffer_bytes,
    };
    Ok(())
}

/// Whether the system has a network interface of this name.
pub(crate) fn is_interface(name: &str) -> bool {
    std::path::Path::new("/sys/class/net").join(name).exists()
}

/// # Errors
/// `ENXIO` if nobody has such a port open, and there is no such interface.
pub(crate) fn exists(name: &PortName) -> Result<(), Errno> {
    let is_known = registry::known(&name.pool_name()).is_some_and(|pool| pool.find(&name_in_pool(name)).is_some());
    if is_known || is_interface(&name.port) { Ok(()) } else { Err(Errno::NXIO) }
}

/// The port as it is, or as it would be if it were opened now.
fn look(port: &str) -> Result<(Arc<Pool>, RingCounts), Errno> {
    let name = name::parse(port)?;
    if let Some(pool) = registry::known(&name.pool_name())
        && let Some(found) = pool.find(&name_in_pool(&name))
        && let Ok(counts) = pool.counts(found)
    {
        return Ok((pool, counts));
    }
    let opened = open_any(&name).map_err(|e| errno(&e))?;
    Ok((opened.pool().clone(), opened.info().counts))
}

fn name_in_pool(name: &PortName) -> String {
    match &name.rings {
        RingsName::Master(id) => format!("{}{{{id}", name.port),
        RingsName::Slave(id) => format!("{}}}{id}", name.port),
        _ => name.port_name(),
    }
}
