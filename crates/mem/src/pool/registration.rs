//! A port opened: the descriptor by which the kernel knows that somebody is there.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::SeekFrom;

use super::control::{Control, is_locked, lock_bytes};
use super::header::OPENED;
use super::layout::RingCounts;
use super::ports::{PortId, domain};
use super::{Pool, PoolError};
use crate::sync::Ordering::*;

/// Registrations of one port at most.
const SEATS: i64 = 64;
/// Bytes of the memfd that stand for seats begin here, `SEATS` for each port.
const SEAT_BYTES: i64 = 1 << 41;
/// File offset of a registration's description: this and the port's number, for whoever gets the descriptor.
const MARK: u64 = 1 << 42;

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
    port: PortId,
}

impl Pool {
    /// Opens the port of this name; makes it if there is none.
    pub fn open(self: &Arc<Pool>, name: &str, counts: RingCounts, sharing: Sharing) -> Result<Registration, PoolError> {
        let control = self.control()?;
        self.reap_under(&control);
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
        self.reap_under(&control);
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
        let mark = rustix::fs::seek(&fd, SeekFrom::Current(0))?;
        let port = PortId(u32::try_from(mark ^ MARK).unwrap_or(0));
        self.place(port)?;
        Ok(Registration { fd: Some(fd), pool: self.clone(), port })
    }

    fn register(
        self: &Arc<Pool>,
        port: PortId,
        sharing: Sharing,
        _control: &Control,
    ) -> Result<Registration, PoolError> {
        let place = self.place(port)?;
        debug_assert!(place.counts.rings() > 0);
        let fd = self.new_description()?;
        rustix::fs::seek(&fd, SeekFrom::Start(MARK | u64::from(port.0)))?;
        let first = seats_of(port);
        let taken = match sharing {
            Sharing::Exclusive => lock_bytes(fd.as_fd(), first, SEATS)?,
            Sharing::Shared => (first..first + SEATS)
                .map(|seat| lock_bytes(fd.as_fd(), seat, 1))
                .find(|taken| *taken != Ok(false))
                .unwrap_or(Ok(false))?,
        };
        if !taken {
            return Err(PoolError::Busy(self.name(port)?));
        }
        let record = self.record(port.0)?;
        record.domain.store(domain(), Relaxed);
        record.state.store(OPENED, Release);
        Ok(Registration { fd: Some(fd), pool: self.clone(), port })
    }

    /// Whether somebody has the port open.
    pub fn is_open(&self, port: PortId) -> bool {
        is_locked(self.fd(), seats_of(port), SEATS)
    }

    /// Whether somebody has any port of the pool open.
    pub fn is_in_use(&self) -> bool {
        is_locked(self.fd(), SEAT_BYTES, SEATS * i64::from(super::PORTS_MAX))
    }
}

fn seats_of(port: PortId) -> i64 {
    SEAT_BYTES + i64::from(port.0) * SEATS
}

impl Registration {
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    pub fn port(&self) -> PortId {
        self.port
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
        // If this was the last copy, the port's things are set right now, else whenever somebody looks again.
        let _ = self.pool.reap();
    }
}
