//! What a descriptor is bound to: a port, and which of its rings.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;

use ringway_mem::pool::Ring;
use ringway_port::{Port, PortError, clock, registry};
use ringway_switch::adopt;
use rustix::io::Errno;

use crate::abi::{flag, mode};
use crate::csb::Csb;
use crate::error::errno;
use crate::note::Note;

/// See the module's text.
pub(crate) struct Binding {
    pub(crate) port: Port,
    pub(crate) note: Note,
    /// The port's tx rings that the descriptor syncs, by their numbers in the port.
    pub(crate) tx: Range<usize>,
    pub(crate) rx: Range<usize>,
    /// In CSB mode the program makes no calls for its I/O.
    pub(crate) csb: Option<Csb>,
}

impl Binding {
    /// Binds to a port that was opened as `note` says.
    ///
    /// # Errors
    /// `EINVAL` for a ring that the port does not have.
    pub(crate) fn new(port: Port, note: Note) -> Result<Binding, Errno> {
        let counts = port.info().counts;
        // A port that was opened for all its rings, though one is meant.
        let one = |rings: usize, all: u32| {
            let ring = usize::from(note.ringid);
            if note.mode != mode::ONE_NIC || rings < all as usize { 0..rings } else { ring..ring + 1 }
        };
        let (mut tx, mut rx) = (one(port.tx_rings(), counts.tx), one(port.rx_rings(), counts.rx));
        if note.has(flag::MONITOR_TX | flag::MONITOR_RX | flag::ZCOPY_MON) {
            // It has one for the form's sake, whichever ring is monitored.
            tx = 0..port.tx_rings();
        }
        if tx.end > port.tx_rings() || rx.end > port.rx_rings() {
            return Err(Errno::INVAL);
        }
        if note.has(flag::RX_RINGS_ONLY) {
            tx = 0..0;
        }
        if note.has(flag::TX_RINGS_ONLY) {
            rx = 0..0;
        }
        Ok(Binding { port, note, tx, rx, csb: None })
    }

    /// Goes on with what a descriptor from elsewhere is bound to.
    pub(crate) fn adopt(fd: OwnedFd) -> Result<Binding, Errno> {
        let port = adopt(fd).map_err(|e| errno(&e))?;
        let note = Note::from_bits(port.registration().note());
        Binding::new(port, note)
    }

    pub(crate) fn mem_id(&self) -> u16 {
        registry::region_of(self.port.pool())
    }

    pub(crate) fn tx_rings(&self) -> impl Iterator<Item = (usize, &Ring)> {
        self.tx.clone().filter_map(|i| Some((i, self.port.tx_ring(i)?)))
    }

    pub(crate) fn rx_rings(&self) -> impl Iterator<Item = (usize, &Ring)> {
        self.rx.clone().filter_map(|i| Some((i, self.port.rx_ring(i)?)))
    }

    /// Syncs a ring with the head and cur that the program's cell says; whether that moved anything.
    pub(crate) fn sync_as_told(&mut self, sends: bool, ring: usize, (head, cur): (u32, u32), now_ns: u64) -> bool {
        let user = if sends { self.port.tx_ring(ring) } else { self.port.rx_ring(ring) };
        let Some(user) = user.cloned() else { return false };
        let state = || (user.kring().hwcur.get(user.num_slots()), user.kring().own.rtail.load(Relaxed));
        let before = state();
        user.header().head.store(head, Relaxed);
        user.header().cur.store(cur, Relaxed);
        // Impossible words start the ring over, and are counted.
        let _ = if sends { self.port.sync_tx_at(ring, now_ns) } else { self.port.sync_rx_at(ring, now_ns) };
        state() != before
    }

    /// NIOCTXSYNC: all bound tx rings.
    ///
    /// # Errors
    /// `EINVAL` if a ring's head or cur was impossible; that ring starts over, the others are synced. `EBUSY` in CSB mode.
    pub(crate) fn sync_tx(&mut self) -> Result<(), Errno> {
        self.refuse_csb()?;
        let now_ns = clock::monotonic_ns();
        self.tx.clone().map(|i| self.port.sync_tx_at(i, now_ns)).fold(Ok(()), first_error)
    }

    /// NIOCRXSYNC: all bound rx rings. Errors as for [`Binding::sync_tx`].
    pub(crate) fn sync_rx(&mut self) -> Result<(), Errno> {
        self.refuse_csb()?;
        let now_ns = clock::monotonic_ns();
        self.rx.clone().map(|i| self.port.sync_rx_at(i, now_ns)).fold(Ok(()), first_error)
    }

    fn refuse_csb(&self) -> Result<(), Errno> {
        self.csb.map_or(Ok(()), |_| Err(Errno::BUSY))
    }
}

fn first_error(before: Result<(), Errno>, result: Result<u32, PortError>) -> Result<(), Errno> {
    before.and(result.map(|_| ()).map_err(|e| errno(&e)))
}
