//! From the monitor's answer to an upgraded connection.

use core::sync::atomic::{AtomicU32, Ordering::*, fence};
use std::os::fd::BorrowedFd;

use libc::{c_int, timeval};
use ringway_channel::end::{Options, SHARED_BEYOND, SHARED_FAMILY};
use ringway_channel::layout::{END_REGION_BYTES, RING_MAGIC, RING_REGION_BYTES, RingHeader};
use ringway_channel::rendezvous::{DESCRIPTORS_MAX, Message, PROTOCOL_VERSION};
use ringway_channel::{EndPage, Reason};
use ringway_mem::region::{Region, RegionError};

use crate::conn::{Conn, NARROW_BYTES, State};
use crate::{epoll, family, kernel, rx, signals, spin, stats, sys, tx};

/// Which buffer sizes the program has set (asm-generic/socket.h, linux/socket.h).
const SO_BUF_LOCK: c_int = 72;
const SOCK_SNDBUF_LOCK: c_int = 1;

/// The monitor will not pair the connection: it stays on TCP.
pub(crate) fn refused(c: &Conn, reason: Reason) {
    match reason {
        // Not known to the monitor is no verdict: the connection goes on being watched.
        Reason::UnknownConnection => {}
        _ => c.offered.store(2, Relaxed),
    }
}

/// Maps the regions and makes the connection ready to switch. Anything wrong with them is counted and
/// the connection stays on TCP; the peer then never switches either.
pub(crate) fn attach(index: u32, c: &'static Conn, message: &Message, fds: [c_int; DESCRIPTORS_MAX]) {
    if c.state() != State::Watched {
        return;
    }
    arm_process();
    // Keeps the object while the regions are put in place.
    c.pin();
    match open(message, fds) {
        Ok((ring, page)) => install(index, c, message, ring, page),
        Err(_) => {
            stats::refused(Reason::RegionInvalid);
            c.offered.store(2, Relaxed);
        }
    }
    c.put(index);
}

fn open(message: &Message, fds: [c_int; DESCRIPTORS_MAX]) -> Result<(Region, Region), RegionError> {
    // SAFETY: borrowed for this call; the caller closes them afterwards.
    let [ring, end] = fds.map(|fd| unsafe { BorrowedFd::borrow_raw(fd.max(0)) });
    let ring = Region::open(ring, RING_REGION_BYTES, NARROW_BYTES)?;
    let page = Region::open(end, END_REGION_BYTES, END_REGION_BYTES)?;
    // SAFETY: the header fits into the mapping; all its fields are atomic.
    let header = unsafe { ring.base().cast::<RingHeader>().as_ref() };
    let fits = header.magic.load(Relaxed) == RING_MAGIC
        && header.version.load(Relaxed) == PROTOCOL_VERSION as u32
        && header.connection.load(Relaxed) == message.connection;
    if fits { Ok((ring, page)) } else { Err(RegionError::Length { found_bytes: 0, expected_bytes: 0 }) }
}

fn install(index: u32, c: &'static Conn, message: &Message, ring: Region, page: Region) {
    let fd = c.fd.load(Relaxed);
    if kernel::cookie(fd) != Some(c.cookie.load(Relaxed)) {
        return;
    }
    if !epoll::is_convertible(index, c) {
        keep_on_tcp(c, fd, Reason::Shared);
        return;
    }
    let end_page = page.base().as_ptr().cast::<EndPage>();
    // SAFETY: mapped above; all fields are atomic.
    if !initialise(unsafe { &*end_page }, c, fd, message) {
        return;
    }
    set_nodelay(fd);
    c.attach(ring.into_raw().0.as_ptr(), page.into_raw().0.as_ptr().cast(), message.role);
    c.slot().state.store(family::UPGRADED, SeqCst);
    fence(SeqCst);
    stats::count(|s| &s.connections_upgraded);
    epoll::convert(index, c);
    rx::declare_ready(c, fd);
}

/// Fills in the end's page if nobody has; waits for a sibling that is doing so.
fn initialise(page: &EndPage, c: &Conn, fd: c_int, message: &Message) -> bool {
    let shared = family::has_forked() || c.slot().holders() > 1;
    if page.initialised.compare_exchange(0, 1, AcqRel, Acquire).is_err() {
        // Somebody else holds this end as well: from now on its locks are taken with care.
        let kin = c.slot().state.load(Acquire) == family::UPGRADED;
        page.shared.fetch_max(if kin { SHARED_FAMILY } else { SHARED_BEYOND }, SeqCst);
        for _ in 0..1_000 {
            if page.initialised.load(Acquire) == 2 {
                return page.connection.load(Relaxed) == message.connection;
            }
            sys::sleep_us(100);
        }
        return false;
    }
    page.shared.store(shared as u32, Relaxed);
    page.role.store(message.role as u32, Relaxed);
    page.connection.store(message.connection, Relaxed);
    let options = &page.options;
    options.nonblocking.store(kernel::is_nonblocking(fd) as u32, Relaxed);
    options.nodelay.store((int_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY) != 0) as u32, Relaxed);
    let low_water = int_option(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT).max(1);
    options.receive_low_water_bytes.store(low_water as u32, Relaxed);
    options.receive_timeout_us.store(timeout_us(fd, libc::SO_RCVTIMEO), Relaxed);
    options.send_timeout_us.store(timeout_us(fd, libc::SO_SNDTIMEO), Relaxed);
    bound_sending(options, fd);
    page.initialised.store(2, Release);
    true
}

/// The ring is no roomier than the send buffer that the program has asked for, if it has.
pub(crate) fn bound_sending(options: &Options, fd: c_int) {
    let is_set = int_option(fd, libc::SOL_SOCKET, SO_BUF_LOCK) & SOCK_SNDBUF_LOCK != 0;
    let bytes = is_set.then(|| int_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF).max(0) as usize);
    options.tx_class_max.store(tx::class_max(bytes) as u32, Relaxed);
}

fn int_option(fd: c_int, level: c_int, name: c_int) -> c_int {
    // SAFETY: the options asked for are ints.
    unsafe { sys::socket_option(fd, level, name) }.unwrap_or(0)
}

/// SO_RCVTIMEO or SO_SNDTIMEO in microseconds; 0 = none.
pub(crate) fn timeout_us(fd: c_int, name: c_int) -> u64 {
    // SAFETY: the option is a timeval.
    match unsafe { sys::socket_option::<timeval>(fd, libc::SOL_SOCKET, name) } {
        Ok(t) => t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64,
        Err(_) => 0,
    }
}

/// Doorbell bytes must not wait for acknowledgements; the program's own wish is in the end's page.
fn set_nodelay(fd: c_int) {
    let one: c_int = 1;
    // SAFETY: an int of ours.
    unsafe {
        sys::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, (&raw const one).cast(), 4);
        // A corked socket would hold doorbells back as well; Ringway sends at once anyway.
        let zero: c_int = 0;
        sys::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CORK, (&raw const zero).cast(), 4);
    }
}

static ARMED: AtomicU32 = AtomicU32::new(0);

/// Whether the process has (had) an upgraded connection. Before that, nothing may be read that could be a
/// bad address.
#[inline]
pub(crate) fn is_armed() -> bool {
    ARMED.load(Acquire) != 0
}

/// What a process needs once before its first upgraded connection; nothing of it happens in processes
/// that never have one.
fn arm_process() {
    if is_armed() {
        return;
    }
    signals::arm();
    spin::calibrate();
    sys::membarrier(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
    ARMED.store(1, Release);
}

/// Attaches to a connection that another process of the family has upgraded. False: not possible.
#[cold]
pub(crate) fn join(index: u32, c: &'static Conn, fd: c_int) -> bool {
    c.fd.store(fd, Relaxed);
    crate::monitor::attach_now(c.token(index), c, fd) && {
        if let Some(page) = c.page() {
            page.shared.fetch_max(SHARED_FAMILY, SeqCst);
        }
        true
    }
}

/// Leaves TCP for good on this connection, whatever state it is in.
pub(crate) fn keep_on_tcp(c: &Conn, fd: c_int, reason: Reason) {
    match c.state() {
        State::Watched => {
            let slot = c.slot();
            if slot.state.compare_exchange(family::WATCHED, family::PLAIN, AcqRel, Relaxed).is_ok() {
                stats::refused(reason);
            }
            c.set_plain();
        }
        State::Attached => tx::demote(c, fd, reason),
        State::Plain | State::Free => {}
    }
}

/// Another process, of another family perhaps, is about to get the connection. An upgraded one is marked
/// as shared; one that is only watched stays on TCP, because the two processes could not agree on the
/// moment of switching.
pub(crate) fn share(c: &Conn, fd: c_int) {
    match (c.state(), c.page()) {
        (State::Attached, Some(page)) => {
            page.shared.store(SHARED_BEYOND, SeqCst);
            fence(SeqCst);
        }
        _ => keep_on_tcp(c, fd, Reason::Shared),
    }
}
