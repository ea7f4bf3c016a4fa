//! Ports of a pool: made and removed under the control lock, and the handles to their rings.

use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use super::header::{CLEAN, NAME_BYTES, PORTS_MAX, UNUSED};
use super::layout::{Kind, PAGE_BYTES, PortLayout, RESERVED_BUFFERS, RingCounts};
use super::{Pool, PoolError, PortRecord};
use rustix::thread::futex;

use crate::bell;
use crate::kring::{BELL_FUTEX, BELL_SOCKET, Kring};
use crate::slot::{RingHeader, Slot, SlotCell};
use crate::sync::Ordering::*;

/// Number of a port in its pool, from 1 on; also what its buffers' owner words say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortId(pub u32);

/// A port's place, as read once and checked.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) counts: RingCounts,
    /// Offset of its pages in the region.
    pub(super) base: usize,
    pub(super) layout: PortLayout,
}

/// One ring of a port: the words its user sees, the words netmap's kernel would keep, and its slots.
#[derive(Clone, Debug)]
pub struct Ring {
    pool: Arc<Pool>,
    port: u32,
    kind: Kind,
    index: u32,
    num_slots: u32,
    kring: NonNull<Kring>,
    header: NonNull<RingHeader>,
    slots: NonNull<SlotCell>,
}

// SAFETY: the pointers lead into the pool's mapping, which the handle keeps; what they point to are atomics.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    #[inline]
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The port that the ring belongs to.
    #[inline]
    pub fn port(&self) -> PortId {
        PortId(self.port)
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its number among the port's rings of its kind.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Slots of the ring, as known to this process.
    #[inline]
    pub fn num_slots(&self) -> u32 {
        self.num_slots
    }

    #[inline]
    pub fn kring(&self) -> &Kring {
        // SAFETY: set by `Pool::ring` to a place inside the mapping that holds a Kring of atomics.
        unsafe { self.kring.as_ref() }
    }

    #[inline]
    pub fn header(&self) -> &RingHeader {
        // SAFETY: as for `kring`.
        unsafe { self.header.as_ref() }
    }

    #[inline]
    pub fn slots(&self) -> &[SlotCell] {
        // SAFETY: `Pool::ring` found room for `num_slots` of them behind the header.
        unsafe { std::slice::from_raw_parts(self.slots.as_ptr(), self.num_slots as usize) }
    }

    /// The `n` slots from `index` on, in two pieces where the ring goes round; both below the slot count.
    #[inline]
    pub fn stretch(&self, index: u32, n: u32) -> (&[SlotCell], &[SlotCell]) {
        let (before, from) = self.slots().split_at(index as usize);
        let first = from.len().min(n as usize);
        (&from[..first], &before[..(n as usize - first).min(before.len())])
    }

    /// What is known of the ring's port.
    #[inline]
    pub fn record(&self) -> &PortRecord {
        &self.pool.records()[self.port as usize]
    }

    /// After moving an index: wakes who sleeps for it.
    #[inline]
    pub fn wake(&self) {
        let bells = self.kring().waiters.take();
        if bells & BELL_FUTEX != 0 {
            self.wake_futex();
        }
        if bells & BELL_SOCKET != 0 {
            self.kring().waiters.take_callers().for_each(bell::ring);
        }
    }

    #[cold]
    fn wake_futex(&self) {
        let turn = &self.record().turn;
        turn.fetch_add(1, Release);
        let _ = futex::wake(turn, futex::Flags::empty(), i32::MAX as u32);
    }

    /// The index after `index`.
    #[inline]
    pub fn next(&self, index: u32) -> u32 {
        if index + 1 == self.num_slots { 0 } else { index + 1 }
    }

    /// The index before `index`.
    #[inline]
    pub fn previous(&self, index: u32) -> u32 {
        if index == 0 { self.num_slots - 1 } else { index - 1 }
    }

    /// Steps from `from` on to `to`, forwards.
    #[inline]
    pub fn distance(&self, from: u32, to: u32) -> u32 {
        if to >= from { to - from } else { to + self.num_slots - from }
    }

    /// The index `n` steps after `index`; `n` below the slot count.
    #[inline]
    pub fn advance(&self, index: u32, n: u32) -> u32 {
        let sum = index + n;
        if sum >= self.num_slots { sum - self.num_slots } else { sum }
    }
}

/// Random number of this family of processes: those that forked from the first to ask share it.
pub(super) fn domain() -> u64 {
    static DOMAIN: OnceLock<u64> = OnceLock::new();
    *DOMAIN.get_or_init(|| {
        let mut bytes = [0; 8];
        // Without randomness all are one family, which only loosens who may take whose buffer back.
        let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        u64::from_le_bytes(bytes) | 1
    })
}

impl Pool {
    /// A port's record; number 0 and numbers that do not exist have none.
    pub(super) fn record(&self, port: u32) -> Result<&PortRecord, PoolError> {
        let record = self.records().get(port as usize).filter(|_| port != 0);
        record.filter(|r| r.state.load(Acquire) != UNUSED).ok_or(PoolError::NoPort(port))
    }

    /// What is known of a port.
    pub fn port_record(&self, port: PortId) -> Result<&PortRecord, PoolError> {
        self.record(port.0)
    }

    /// Numbers of all ports.
    pub fn ports(&self) -> impl Iterator<Item = PortId> + '_ {
        (1..PORTS_MAX).filter(|port| self.record(*port).is_ok()).map(PortId)
    }

    /// The port of this name.
    pub fn find(&self, name: &str) -> Option<PortId> {
        self.ports().find(|port| self.name(*port).is_ok_and(|found| found == name))
    }

    pub fn name(&self, port: PortId) -> Result<String, PoolError> {
        Ok(self.record(port.0)?.name.get())
    }

    /// The other end of a pipe.
    pub fn peer(&self, port: PortId) -> Option<PortId> {
        let peer = self.record(port.0).ok()?.peer.load(Relaxed);
        (1..PORTS_MAX).contains(&peer).then_some(PortId(peer))
    }

    pub fn counts(&self, port: PortId) -> Result<RingCounts, PoolError> {
        Ok(self.place(port)?.counts)
    }

    /// A ring of a port; None if it has no such ring or does not exist.
    pub fn ring(self: &Arc<Pool>, port: PortId, kind: Kind, index: u32) -> Option<Ring> {
        let place = self.place(port).ok()?;
        let position = place.counts.position(kind, index)?;
        let (kring, ring) = (place.base + place.layout.kring(position), place.base + place.layout.ring(position));
        let at = |offset: usize| self.base().as_ptr().wrapping_add(offset);
        Some(Ring {
            pool: self.clone(),
            port: port.0,
            kind,
            index,
            num_slots: place.counts.slots(kind),
            kring: NonNull::new(at(kring).cast())?,
            header: NonNull::new(at(ring).cast())?,
            slots: NonNull::new(at(ring + size_of::<RingHeader>()).cast())?,
        })
    }

    /// All rings of a port.
    pub fn rings(self: &Arc<Pool>, port: PortId) -> Vec<Ring> {
        let Ok(counts) = self.counts(port) else { return vec![] };
        let each = Kind::ALL.into_iter().flat_map(|kind| (0..counts.of(kind)).map(move |index| (kind, index)));
        each.filter_map(|(kind, index)| self.ring(port, kind, index)).collect()
    }

    /// The owner word of a buffer: a port's number, 0 for free or for a buffer that does not exist.
    #[inline]
    pub fn owner(&self, buffer: u32) -> u32 {
        self.buffer_owners().of(buffer)
    }

    /// Says who owns a buffer from now on; for transfers between rings, by their protocol.
    #[inline]
    pub fn set_owner(&self, buffer: u32, owner: PortId) {
        self.buffer_owners().set(buffer, owner.0);
    }

    /// Whether the user of `port` may use a buffer: it is the port's, or of a port of the same domain.
    #[inline]
    pub fn may_use(&self, port: PortId, buffer: u32) -> bool {
        let owner = self.owner(buffer);
        owner == port.0 || (owner != 0 && self.same_domain(owner, port.0))
    }

    #[cold]
    pub(super) fn same_domain(&self, a: u32, b: u32) -> bool {
        let domain = |port: u32| self.records().get(port as usize).map_or(0, |r| r.domain.load(Relaxed));
        domain(a) != 0 && domain(a) == domain(b)
    }

    /// Takes a free buffer for a port; None if all are in use.
    pub fn take_buffer(&self, port: PortId) -> Option<u32> {
        self.buffer_owners().take(RESERVED_BUFFERS, port.0)
    }

    /// Gives a buffer back; false (and nothing changes) if the port's user may not use it.
    pub fn free_buffer(&self, port: PortId, buffer: u32) -> bool {
        let owner = self.owner(buffer);
        self.may_use(port, buffer) && self.buffer_owners().pass(buffer, owner, 0)
    }

    /// Reads where a port lies, and checks it.
    pub(super) fn place(&self, port: PortId) -> Result<Place, PoolError> {
        let record = self.record(port.0)?;
        let (counts, first) = (record.counts(), record.first_page.load(Relaxed));
        counts.check().map_err(|_| PoolError::NoPort(port.0))?;
        let layout = PortLayout::new(counts);
        if u64::from(first) + u64::from(layout.pages()) > u64::from(self.config().object_pages) {
            return Err(PoolError::NoPort(port.0));
        }
        Ok(Place { counts, base: self.layout.objects + first as usize * PAGE_BYTES, layout })
    }

    /// Makes a port with a buffer in each slot. Under the control lock.
    pub(super) fn make_port(self: &Arc<Pool>, name: &str, counts: RingCounts) -> Result<PortId, PoolError> {
        if name.is_empty() || name.len() > NAME_BYTES || name.contains('\0') {
            return Err(PoolError::Name(name.to_owned()));
        }
        counts.check()?;
        let free = (1..PORTS_MAX).find(|port| self.records()[*port as usize].state.load(Relaxed) == UNUSED);
        let port = PortId(free.ok_or(PoolError::PortsExhausted)?);
        // What a process that died here left under this number.
        self.free_all_of(port);
        let record = &self.records()[port.0 as usize];
        let layout = PortLayout::new(counts);
        let wanted_pages = layout.pages();
        let first = self.page_owners().take_run(wanted_pages, port.0);
        let first = first.ok_or(PoolError::ObjectsExhausted { wanted_pages })?;
        record.first_page.store(first, Relaxed);
        record.frozen.store(0, Relaxed);
        record.peer.store(0, Relaxed);
        record.pin(false);
        record.domain.store(0, Relaxed);
        record.watches.store(0, Relaxed);
        record.monitors.store(0, Relaxed);
        record.scratch.iter().for_each(|word| word.store(0, Relaxed));
        record.set_counts(counts);
        record.name.set(name);
        let base = self.layout.objects + first as usize * PAGE_BYTES;
        // SAFETY: these pages are the new port's alone, and inside the region.
        unsafe { self.base().as_ptr().add(base).write_bytes(0, layout.bytes) };
        record.state.store(CLEAN, Release);
        self.fill_port(port, counts, base, name).inspect_err(|_| self.remove_port(port))?;
        Ok(port)
    }

    /// Forgets a port. Under the control lock.
    pub(super) fn remove_port(&self, port: PortId) {
        self.records()[port.0 as usize].state.store(UNUSED, Release);
        self.free_all_of(port);
    }

    fn free_all_of(&self, port: PortId) {
        for owners in [self.buffer_owners(), self.page_owners()] {
            owners.all_of(port.0).for_each(|thing| {
                owners.pass(thing, port.0, 0);
            });
        }
    }

    /// Writes a new port's rings and interface object.
    fn fill_port(self: &Arc<Pool>, port: PortId, counts: RingCounts, base: usize, name: &str) -> Result<(), PoolError> {
        let layout = PortLayout::new(counts);
        let mut buffer = RESERVED_BUFFERS;
        for kind in Kind::ALL {
            for index in 0..counts.of(kind) {
                let ring = self.ring(port, kind, index).ok_or(PoolError::NoPort(port.0))?;
                let position = counts.position(kind, index).unwrap_or_default();
                buffer = self.fill_ring(&ring, index, base + layout.ring(position), buffer)?;
            }
        }
        self.write_interface(port, base + layout.interface, name)
    }

    /// Writes a ring's header, takes a buffer for each slot, and returns where to look for further ones.
    fn fill_ring(&self, ring: &Ring, index: u32, offset: usize, mut buffer: u32) -> Result<u32, PoolError> {
        let header = ring.header();
        header.buf_ofs.store((self.layout.buffers - offset) as u64, Relaxed);
        header.num_slots.store(ring.num_slots, Relaxed);
        header.buf_bytes.store(self.config().buffer_bytes, Relaxed);
        header.ringid_dir.store(index | u32::from(!ring.kind.sends()) << 16, Relaxed);
        header.buf_align.store(1, Relaxed);
        for cell in ring.slots() {
            let Some(taken) = self.buffer_owners().take(buffer, ring.port) else {
                let counts = self.counts(ring.port())?;
                let mine = self.buffer_owners().all_of(ring.port).count() as u32;
                let free = self.buffer_owners().all_of(0).count() as u32 + mine;
                return Err(PoolError::BuffersExhausted { wanted: counts.all_slots(), free });
            };
            cell.store(Slot { buf_idx: taken, ..Slot::default() });
            buffer = taken + 1;
        }
        // An empty rx ring; a tx ring whose slots are all the user's, but for the one that stays unused.
        let tail = if ring.kind.sends() { ring.num_slots - 1 } else { 0 };
        ring.kring().own.rtail.store(tail, Relaxed);
        ring.kring().hwtail.set(tail);
        header.tail.store(tail, Relaxed);
        Ok(buffer)
    }
}
