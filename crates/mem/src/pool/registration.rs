//! A port opened: the descriptor by which the kernel knows that somebody is there.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::control::{Control, is_locked, lock_bytes};
use super::header::OPENED;
use super::interface::Interface;
use super::layout::RingCounts;
use super::ports::{PortId, domain};
use super::{Pool, PoolError};
use crate::slot::InterfaceHeader;
use crate::sync::Ordering::*;

/// Registrations of one port at most.
const SEATS: i64 = 64;
/// Bytes of the memfd that stand for seats begin here, `SEATS` for each port.
const SEAT_BYTES: i64 = 1 << 41;
/// Stands for all seats of a port.
const ALL_SEATS: u64 = SEATS as u64;

/// Who may get a registration's descriptor learns what it is from the file offset of its description:
///
/// ```text
///   bit 61   60 .... 32   31 ............ 15   14 .... 8   7 .... 0
///    1       opener's     first page of the    seat, or    number of
///            note         own interface + 1    all (64)    the port
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    port: u32,
    seat: u64,
    interface: Option<Interface>,
    note: u32,
}

const MARK: u64 = 1 << 61;
/// Bits of a registration's note.
pub const NOTE_BITS: u32 = 29;
const _: () = assert!(super::PORTS_MAX == 1 << 8 && ALL_SEATS < 1 << 7 && super::layout::OBJECT_PAGES_MAX < 1 << 17);

impl Mark {
    fn of(fd: &OwnedFd) -> Result<Mark, PoolError> {
        let word = rustix::fs::seek(fd, SeekFrom::Current(0))?;
        if word & MARK == 0 {
            return Err(PoolError::NoPort(0));
        }
        let bits = |from: u32, n: u32| (word >> from) as u32 & ((1 << n) - 1);
        Ok(Mark {
            port: bits(0, 8),
            seat: u64::from(bits(8, 7)).min(ALL_SEATS),
            interface: bits(15, 17).checked_sub(1).map(Interface),
            note: bits(32, NOTE_BITS),
        })
    }

    fn write(self, fd: &OwnedFd) -> Result<(), PoolError> {
        let page = self.interface.map_or(0, |interface| u64::from(interface.0) + 1);
        let note = u64::from(self.note) & ((1 << NOTE_BITS) - 1);
        let word = MARK | note << 32 | page << 15 | self.seat << 8 | u64::from(self.port);
        rustix::fs::seek(fd, SeekFrom::Start(word))?;
        Ok(())
    }

    /// The first byte of the memfd that stands for the registration, and how many do.
    fn seats(self) -> (i64, i64) {
        let first = seats_of(PortId(self.port));
        if self.seat == ALL_SEATS { (first, SEATS) } else { (first + self.seat as i64, 1) }
    }
}

/// Who else may have the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Up to 64 registrations.
    Shared,
    /// This one only.
    Exclusive,
}

/// A port in use. It ends with the last copy of its descriptor, across `fork`, `dup` and SCM_RIGHTS.
#[derive(Debug)]
pub struct Registration {
    /// None only while it is dropped.
    fd: Option<OwnedFd>,
    pool: Arc<Pool>,
    mark: Mark,
}

impl Pool {
    /// Opens the port of this name; makes it if there is none.
    pub fn open(self: &Arc<Pool>, name: &str, counts: RingCounts, sharing: Sharing) -> Result<Registration, PoolError> {
        let control = self.control()?;
        self.reap_under(&control, true);
        let port = match self.find(name) {
            Some(port) => port,
            None => self.make_port(name, counts)?,
        };
        self.register(port, sharing, &control)
    }

    /// Opens one end of a pipe; makes both if there are none. The other end gets as many rings, the other way round.
    pub fn open_pipe(
        self: &Arc<Pool>,
        name: &str,
        peer: &str,
        counts: RingCounts,
        sharing: Sharing,
    ) -> Result<Registration, PoolError> {
        let control = self.control()?;
        self.reap_under(&control, true);
        if let Some(port) = self.find(name) {
            return self.register(port, sharing, &control);
        }
        let ours = self.make_port(name, counts)?;
        let mirrored = RingCounts {
            tx: counts.rx,
            rx: counts.tx,
            tx_slots: counts.rx_slots,
            rx_slots: counts.tx_slots,
            ..RingCounts::default()
        };
        let theirs = self.make_port(peer, mirrored).inspect_err(|_| self.remove_port(ours))?;
        self.records()[ours.0 as usize].peer.store(theirs.0, Relaxed);
        self.records()[theirs.0 as usize].peer.store(ours.0, Relaxed);
        self.register(ours, sharing, &control)
    }

    /// Opens a port that exists.
    pub fn open_existing(self: &Arc<Pool>, port: PortId, sharing: Sharing) -> Result<Registration, PoolError> {
        let control = self.control()?;
        self.register(port, sharing, &control)
    }

    /// The registration that a received descriptor stands for.
    pub fn registration_of(self: &Arc<Pool>, fd: OwnedFd) -> Result<Registration, PoolError> {
        let mark = Mark::of(&fd)?;
        self.place(PortId(mark.port))?;
        Ok(Registration { fd: Some(fd), pool: self.clone(), mark })
    }

    pub(super) fn register(
        self: &Arc<Pool>,
        port: PortId,
        sharing: Sharing,
        _control: &Control,
    ) -> Result<Registration, PoolError> {
        let place = self.place(port)?;
        debug_assert!(place.counts.rings() > 0);
        let fd = self.new_description()?;
        let first = seats_of(port);
        let taken = match sharing {
            Sharing::Exclusive => lock_bytes(fd.as_fd(), first, SEATS)?.then_some(ALL_SEATS),
            Sharing::Shared => (0..ALL_SEATS)
                .map(|seat| Ok::<_, Errno>((seat, lock_bytes(fd.as_fd(), first + seat as i64, 1)?)))
                .find(|taken| !matches!(taken, Ok((_, false))))
                .transpose()?
                .map(|(seat, _)| seat),
        };
        let seat = taken.ok_or_else(|| PoolError::Busy(self.name(port).unwrap_or_default()))?;
        let mark = Mark { port: port.0, seat, ..Mark::default() };
        mark.write(&fd)?;
        let record = self.record(port.0)?;
        record.domain.store(domain(), Relaxed);
        record.state.store(OPENED, Release);
        Ok(Registration { fd: Some(fd), pool: self.clone(), mark })
    }

    /// Whether somebody has the port open.
    pub fn is_open(&self, port: PortId) -> bool {
        is_locked(self.fd(), seats_of(port), SEATS)
    }

    /// Whether somebody has any port of the pool open.
    pub fn is_in_use(&self) -> bool {
        is_in_use(self.fd())
    }
}

/// Whether somebody has any port open of the pool behind a descriptor; asks the kernel, not the memory.
pub fn is_in_use(pool: BorrowedFd<'_>) -> bool {
    is_locked(pool, SEAT_BYTES, SEATS * i64::from(super::PORTS_MAX))
}

fn seats_of(port: PortId) -> i64 {
    SEAT_BYTES + i64::from(port.0) * SEATS
}

impl Registration {
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    pub fn port(&self) -> PortId {
        PortId(self.mark.port)
    }

    /// Whether somebody else has the port open, too, through a registration of his own.
    pub fn is_shared(&self) -> bool {
        is_locked(self.fd(), seats_of(self.port()), SEATS)
    }

    /// What the opener noted for everybody who gets the descriptor: [`NOTE_BITS`] bits, 0 at first.
    pub fn note(&self) -> u32 {
        self.mark.note
    }

    pub fn set_note(&mut self, note: u32) -> Result<(), PoolError> {
        self.mark.note = note;
        self.write_mark()
    }

    /// Where the registration's own interface object begins, made if it has none yet.
    pub fn own_interface(&mut self) -> Result<(usize, &InterfaceHeader), PoolError> {
        let interface = match self.mark.interface {
            Some(interface) => interface,
            None => self.pool.add_interface(self.port())?,
        };
        self.mark.interface = Some(interface);
        self.write_mark()?;
        self.pool.interface_at(self.port(), interface).ok_or(PoolError::NoPort(self.mark.port))
    }

    fn write_mark(&self) -> Result<(), PoolError> {
        self.fd.as_ref().map_or(Ok(()), |fd| self.mark.write(fd))
    }

    /// The descriptor: mapping it gives the pool, and whoever holds a copy keeps the port open.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // It is there until the drop.
        self.fd.as_ref().map_or_else(|| self.pool.fd(), OwnedFd::as_fd)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        drop(self.fd.take());
        let (first, n) = self.mark.seats();
        if let Some(interface) = self.mark.interface.filter(|_| !is_locked(self.pool.fd(), first, n)) {
            // No copy of the descriptor is left anywhere.
            let _ = self.pool.remove_interface(self.port(), interface);
        }
        // If nobody else has the port, its things are set right now, else whenever somebody looks again.
        let _ = self.pool.reap();
    }
}
