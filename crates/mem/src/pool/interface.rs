//! Interface objects: what a program built for netmap finds first in a port's memory.
//!
//! Each port has one; each program that opens it through netmap's interface gets another, because its list of extra
//! buffers hangs there.

use std::mem::size_of;

use super::layout::{Kind, PAGE_BYTES};
use super::ports::PortId;
use super::{Pool, PoolError};
use crate::slot::{InterfaceHeader, NETMAP_API};
use crate::sync::{AtomicU64, Ordering::*};

/// An interface object of a registration's own, by its first page. It ends with the registration, at the latest
/// with its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interface(pub(super) u32);

impl Pool {
    /// Where a port's own interface object begins in the region, and the object.
    pub fn interface(&self, port: PortId) -> Result<(usize, &InterfaceHeader), PoolError> {
        let place = self.place(port)?;
        let offset = place.base + place.layout.interface;
        // SAFETY: `place` checked that the port's pages lie within the region.
        Ok((offset, unsafe { &self.slice::<InterfaceHeader>(offset, 1)[0] }))
    }

    /// Makes a further interface object of a port.
    pub(super) fn add_interface(&self, port: PortId) -> Result<Interface, PoolError> {
        let _control = self.control()?;
        let name = self.name(port)?;
        let wanted_pages = self.interface_pages(port)?;
        let first = self.page_owners().take_run(wanted_pages, port.0);
        let interface = Interface(first.ok_or(PoolError::ObjectsExhausted { wanted_pages })?);
        let offset = self.interface_offset(interface);
        // SAFETY: these pages are the new object's alone, and inside the region.
        unsafe { self.base().as_ptr().add(offset).write_bytes(0, wanted_pages as usize * PAGE_BYTES) };
        self.write_interface(port, offset, &name)?;
        Ok(interface)
    }

    /// Frees the extra buffers and the pages of a further interface object. Pages that are not the port's are left alone.
    pub(super) fn remove_interface(&self, port: PortId, interface: Interface) -> Result<(), PoolError> {
        let _control = self.control()?;
        if let Some((_, header)) = self.interface_at(port, interface) {
            self.free_list_of(port, header);
        }
        for page in interface.0..interface.0.saturating_add(self.interface_pages(port)?) {
            self.page_owners().pass(page, port.0, 0);
        }
        Ok(())
    }

    /// A further interface object, and where it begins; None if it is not one of the port's.
    pub(super) fn interface_at(&self, port: PortId, interface: Interface) -> Option<(usize, &InterfaceHeader)> {
        let offset = self.interface_offset(interface);
        let is_the_ports = self.page_owners().of(interface.0) == port.0;
        // SAFETY: the page exists, because it has an owner, and an object fits into a page.
        is_the_ports.then(|| (offset, unsafe { &self.slice::<InterfaceHeader>(offset, 1)[0] }))
    }

    fn interface_offset(&self, interface: Interface) -> usize {
        self.layout.objects + interface.0 as usize * PAGE_BYTES
    }

    fn interface_pages(&self, port: PortId) -> Result<u32, PoolError> {
        let bytes = size_of::<InterfaceHeader>() + self.counts(port)?.rings() as usize * 8;
        Ok(bytes.div_ceil(PAGE_BYTES) as u32)
    }

    /// Fills the interface object at `offset`.
    pub(super) fn write_interface(&self, port: PortId, offset: usize, name: &str) -> Result<(), PoolError> {
        let place = self.place(port)?;
        // SAFETY: the caller has reserved the place, the offsets of the rings behind the object included.
        let interface = unsafe { &self.slice::<InterfaceHeader>(offset, 1)[0] };
        let mut bytes = [0; 16];
        let shown = name.len().min(15);
        bytes[..shown].copy_from_slice(&name.as_bytes()[..shown]);
        for (word, chunk) in interface.name.iter().zip(bytes.as_chunks::<8>().0) {
            word.store(u64::from_le_bytes(*chunk), Relaxed);
        }
        interface.version.store(NETMAP_API, Relaxed);
        for (word, kind) in [
            (&interface.tx_rings, Kind::Tx),
            (&interface.rx_rings, Kind::Rx),
            (&interface.host_tx_rings, Kind::HostTx),
            (&interface.host_rx_rings, Kind::HostRx),
        ] {
            word.store(place.counts.of(kind), Relaxed);
        }
        // SAFETY: as above.
        let offsets =
            unsafe { self.slice::<AtomicU64>(offset + size_of::<InterfaceHeader>(), place.counts.rings() as usize) };
        for (position, word) in offsets.iter().enumerate() {
            let ring = place.base + place.layout.ring(position as u32);
            // Signed: a program's own object may lie behind the rings.
            word.store((ring as u64).wrapping_sub(offset as u64), Relaxed);
        }
        Ok(())
    }
}
