//! Where things lie in a pool's region: a function of three numbers, which the region's header repeats.

use std::mem::size_of;

use super::PoolError;
use super::header::{Header, PORTS_MAX, PortRecord};
use crate::kring::KRING_BYTES;
use crate::slot::{InterfaceHeader, RingHeader, Slot};

/// Unit in which room for rings is handed out, and alignment of the buffers, in bytes.
pub const PAGE_BYTES: usize = 4096;
/// Buffers 0 and 1 are never given out: 0 ends lists, both catch impossible indices.
pub const RESERVED_BUFFERS: u32 = 2;
/// Slots of a ring at most.
pub const RING_SLOTS_MAX: u32 = 16_384;
/// Rings of a port at most, of each of the four kinds.
pub const RINGS_MAX: u32 = 256;

const BUFFERS_MAX: u32 = 1 << 20;
const BUFFER_BYTES: std::ops::RangeInclusive<u32> = 256..=65_536;
pub(super) const OBJECT_PAGES_MAX: u32 = 1 << 16;

/// Size of a pool. Memory is used as it is touched, so generous numbers cost address space only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Buffers, the two reserved ones included; at most 2^20.
    pub buffers: u32,
    /// Bytes of a buffer: 256 to 65536, a multiple of 64.
    pub buffer_bytes: u32,
    /// Pages of 4 KiB for rings and interface objects; at most 2^16.
    pub object_pages: u32,
}

impl Default for PoolConfig {
    /// 64 MiB of buffers, 8 MiB of rings: 32 ports with four rings of 1024 slots, or four pairs of large pipes.
    fn default() -> Self {
        PoolConfig { buffers: 32_768, buffer_bytes: 2048, object_pages: 2048 }
    }
}

/// Offsets in the region, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) config: PoolConfig,
    pub(super) page_owners: usize,
    pub(super) buffer_owners: usize,
    pub(super) objects: usize,
    pub(super) buffers: usize,
    /// Of the whole region.
    pub(super) bytes: usize,
}

impl Layout {
    pub(super) fn new(config: PoolConfig) -> Result<Layout, PoolError> {
        let PoolConfig { buffers, buffer_bytes, object_pages } = config;
        if !(RESERVED_BUFFERS + 1..=BUFFERS_MAX).contains(&buffers) {
            return Err(PoolError::Config("buffers", buffers, "3 to 1048576"));
        }
        if !BUFFER_BYTES.contains(&buffer_bytes) || !buffer_bytes.is_multiple_of(64) {
            return Err(PoolError::Config("buffer_bytes", buffer_bytes, "256 to 65536, a multiple of 64"));
        }
        if !(1..=OBJECT_PAGES_MAX).contains(&object_pages) {
            return Err(PoolError::Config("object_pages", object_pages, "1 to 65536"));
        }
        let page_owners = PAGE_BYTES + (PORTS_MAX as usize * size_of::<PortRecord>()).next_multiple_of(PAGE_BYTES);
        let buffer_owners = page_owners + (object_pages as usize * 4).next_multiple_of(PAGE_BYTES);
        let objects = buffer_owners + (buffers as usize * 4).next_multiple_of(PAGE_BYTES);
        let first_buffer = objects + object_pages as usize * PAGE_BYTES;
        let bytes = (first_buffer + buffers as usize * buffer_bytes as usize).next_multiple_of(PAGE_BYTES);
        Ok(Layout { config, page_owners, buffer_owners, objects, buffers: first_buffer, bytes })
    }

    pub(super) fn record(port: u32) -> usize {
        PAGE_BYTES + port as usize * size_of::<PortRecord>()
    }
}

const _: () = assert!(size_of::<Header>() <= PAGE_BYTES);

/// Which of a port's rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Tx,
    HostTx,
    Rx,
    HostRx,
}

impl Kind {
    /// In the order of `ring_ofs`.
    pub const ALL: [Kind; 4] = [Kind::Tx, Kind::HostTx, Kind::Rx, Kind::HostRx];

    /// Does the user send on it?
    pub fn sends(self) -> bool {
        matches!(self, Kind::Tx | Kind::HostTx)
    }
}

/// How many rings of each kind a port has, and how long they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounts {
    pub tx: u32,
    pub host_tx: u32,
    pub rx: u32,
    pub host_rx: u32,
    pub tx_slots: u32,
    pub rx_slots: u32,
}

impl RingCounts {
    /// `rings` pairs of `slots` slots each, without host rings.
    pub fn pairs(rings: u32, slots: u32) -> RingCounts {
        RingCounts { tx: rings, rx: rings, tx_slots: slots, rx_slots: slots, ..RingCounts::default() }
    }

    pub fn of(&self, kind: Kind) -> u32 {
        match kind {
            Kind::Tx => self.tx,
            Kind::HostTx => self.host_tx,
            Kind::Rx => self.rx,
            Kind::HostRx => self.host_rx,
        }
    }

    /// All rings together.
    pub fn rings(&self) -> u32 {
        self.tx + self.host_tx + self.rx + self.host_rx
    }

    /// Slots of a ring of this kind.
    pub fn slots(&self, kind: Kind) -> u32 {
        if kind.sends() { self.tx_slots } else { self.rx_slots }
    }

    /// All slots together: so many buffers the rings hold.
    pub fn all_slots(&self) -> u32 {
        (self.tx + self.host_tx) * self.tx_slots + (self.rx + self.host_rx) * self.rx_slots
    }

    /// Position among all rings, in the order of `ring_ofs`; None if there is no such ring.
    pub(super) fn position(&self, kind: Kind, ring: u32) -> Option<u32> {
        let before = Kind::ALL.iter().take_while(|k| **k != kind).map(|k| self.of(*k)).sum::<u32>();
        (ring < self.of(kind)).then_some(before + ring)
    }

    pub(super) fn check(&self) -> Result<(), PoolError> {
        for kind in Kind::ALL {
            if self.of(kind) > RINGS_MAX {
                return Err(PoolError::Config("rings", self.of(kind), "0 to 256 of a kind"));
            }
        }
        for slots in [self.tx_slots, self.rx_slots] {
            if !(2..=RING_SLOTS_MAX).contains(&slots) {
                return Err(PoolError::Config("slots", slots, "2 to 16384"));
            }
        }
        if self.rings() == 0 {
            return Err(PoolError::Config("rings", 0, "at least one"));
        }
        Ok(())
    }
}

/// Offsets inside a port's pages, in bytes: krings, interface object, rings.
#[derive(Clone, Copy)]
pub(super) struct PortLayout {
    counts: RingCounts,
    pub(super) interface: usize,
    rings: usize,
    pub(super) bytes: usize,
}

impl PortLayout {
    pub(super) fn new(counts: RingCounts) -> PortLayout {
        let rings = counts.rings() as usize;
        let interface = rings * KRING_BYTES;
        let first_ring = (interface + size_of::<InterfaceHeader>() + rings * 8).next_multiple_of(128);
        let sending = (counts.tx + counts.host_tx) as usize * ring_bytes(counts.tx_slots);
        let receiving = (counts.rx + counts.host_rx) as usize * ring_bytes(counts.rx_slots);
        PortLayout { counts, interface, rings: first_ring, bytes: first_ring + sending + receiving }
    }

    pub(super) fn pages(&self) -> u32 {
        self.bytes.div_ceil(PAGE_BYTES) as u32
    }

    /// The kring of the ring at `position`.
    pub(super) fn kring(&self, position: u32) -> usize {
        position as usize * KRING_BYTES
    }

    /// The ring at `position`.
    pub(super) fn ring(&self, position: u32) -> usize {
        let sending = position.min(self.counts.tx + self.counts.host_tx);
        let receiving = position - sending;
        self.rings
            + sending as usize * ring_bytes(self.counts.tx_slots)
            + receiving as usize * ring_bytes(self.counts.rx_slots)
    }
}

fn ring_bytes(slots: u32) -> usize {
    (size_of::<RingHeader>() + slots as usize * size_of::<Slot>()).next_multiple_of(128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_without_overlap() {
        let layout = Layout::new(PoolConfig::default()).unwrap();
        assert!(layout.page_owners >= Layout::record(PORTS_MAX));
        assert_eq!(layout.objects % PAGE_BYTES, 0);
        assert_eq!(layout.buffers, layout.objects + 2048 * PAGE_BYTES);
        assert_eq!(layout.bytes, layout.buffers + 32_768 * 2048);
        let counts = RingCounts { tx: 2, host_tx: 1, rx: 3, host_rx: 1, tx_slots: 100, rx_slots: 200 };
        let port = PortLayout::new(counts);
        assert_eq!(counts.position(Kind::HostRx, 0), Some(6));
        assert_eq!(counts.position(Kind::Rx, 3), None);
        assert_eq!(port.ring(3) - port.ring(2), ring_bytes(100));
        assert_eq!(port.ring(6) + ring_bytes(200), port.bytes);
        assert!(port.kring(7) <= port.interface && port.interface + 56 + 7 * 8 <= port.ring(0));
    }

    #[test]
    fn sizes_out_of_bounds_are_refused_by_name() {
        let config = PoolConfig { buffers: 2, ..PoolConfig::default() };
        let problem = Layout::new(config).unwrap_err();
        assert_eq!(problem.to_string(), "a pool cannot have buffers = 2; use 3 to 1048576");
        assert!(Layout::new(PoolConfig { buffer_bytes: 1000, ..PoolConfig::default() }).is_err());
        assert!(Layout::new(PoolConfig { object_pages: 0, ..PoolConfig::default() }).is_err());
        assert!(RingCounts::pairs(1, 1).check().is_err());
        assert!(RingCounts::pairs(257, 1024).check().is_err());
        assert!(RingCounts::pairs(0, 1024).check().is_err());
    }
}
