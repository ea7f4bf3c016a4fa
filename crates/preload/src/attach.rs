//! From the monitor's answer to an upgraded connection.

use core::sync::atomic::{AtomicU32, Ordering::*, fence};
use std::os::fd::BorrowedFd;

use libc::{c_int, timeval};
use ringway_channel::end::{FILLING, Options, READY, REFUSED, SHARED_BEYOND, SHARED_FAMILY};
use ringway_channel::layout::{END_REGION_BYTES, RING_MAGIC, RING_REGION_BYTES, RingHeader};
use ringway_channel::rendezvous::{DESCRIPTORS_MAX, Message, PROTOCOL_VERSION};
use ringway_channel::{EndPage, Path, Reason};
use ringway_mem::region::{Region, RegionError};

use crate::conn::{Conn, State};
use crate::{epoll, family, kernel, limits, monitor, rx, signals, spin, stats, sys, thread, tx, upgrade};

/// How long to wait for a sibling (or another thread) that is attaching as well, in steps of [`STEP_US`].
const STEPS: u32 = 20_000;
const STEP_US: u64 = 100;

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

/// Maps the regions and makes the connection, which is pinned, ready to switch. Anything wrong with them is counted and
/// the connection stays on TCP; the peer then never switches either.
pub(crate) fn attach(index: u32, c: &'static Conn, message: &Message, fds: [c_int; DESCRIPTORS_MAX]) {
    if c.state() != State::Watched {
        return;
    }
    arm_process();
    let opened = match c.slot().state.load(Relaxed) {
        family::WATCHED if !limits::allow_mapping() => Err(Reason::ResourceLimit),
        _ => open(message, fds),
    };
    match opened {
        Ok((ring, page)) => install(index, c, message, ring, page),
        Err(reason) => {
            stats::refused(reason);
            c.offered.store(2, Relaxed);
        }
    }
}

/// Errors by which the kernel says that a limit is reached.
const OUT_OF: [c_int; 3] = [libc::EMFILE, libc::ENFILE, libc::ENOMEM];

fn open(message: &Message, fds: [c_int; DESCRIPTORS_MAX]) -> Result<(Region, Region), Reason> {
    if fds.contains(&monitor::LEFT_OUT) {
        return Err(Reason::ResourceLimit);
    }
    if fds.iter().any(|&fd| fd < 0) {
        return Err(Reason::RegionInvalid);
    }
    let fault = |error| match error {
        RegionError::Os(e) if OUT_OF.contains(&e.raw_os_error()) => Reason::ResourceLimit,
        RegionError::Os(_) | RegionError::Length { .. } | RegionError::Unsealed { .. } => Reason::RegionInvalid,
    };
    // SAFETY: borrowed for this call; the caller closes them afterwards.
    let [ring, end] = fds.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) });
    let ring = Region::open(ring, RING_REGION_BYTES, RING_REGION_BYTES).map_err(fault)?;
    let page = Region::open(end, END_REGION_BYTES, END_REGION_BYTES).map_err(fault)?;
    // SAFETY: the header fits into the mapping; all its fields are atomic.
    let header = unsafe { ring.base().cast::<RingHeader>().as_ref() };
    let fits = header.magic.load(Relaxed) == RING_MAGIC
        && header.version.load(Relaxed) == PROTOCOL_VERSION as u32
        && header.connection.load(Relaxed) == message.connection;
    if fits { Ok((ring, page)) } else { Err(Reason::RegionInvalid) }
}

fn install(index: u32, c: &'static Conn, message: &Message, ring: Region, page: Region) {
    let convertible = epoll::is_convertible(index, c);
    if !convertible && c.slot().state.load(SeqCst) != family::UPGRADED {
        keep_on_tcp(c, c.fd.load(Relaxed), Reason::Shared);
        return;
    }
    // Signals wait: a handler's close would wait for this very thread.
    let critical = thread::enter();
    let Some(descriptor) = c.hold_descriptor(index) else { return };
    let fd = descriptor.number();
    if kernel::cookie(fd) != Some(c.cookie.load(Relaxed)) {
        return;
    }
    if !c.begin_attach() {
        drop(descriptor);
        drop(critical);
        wait_until(|| !c.is_attaching());
        return;
    }
    // SAFETY: mapped by `open`; all fields are atomic.
    let end_page = unsafe { page.base().cast::<EndPage>().as_ref() };
    if !is_agreed(end_page, c, fd, message) {
        c.give_up();
        return;
    }
    set_nodelay(fd);
    kernel::mark_upgraded(fd, true);
    c.attach(ring.into_raw().0.as_ptr(), page.into_raw().0.as_ptr().cast(), message.role);
    fence(SeqCst);
    epoll::convert(index, c);
    rx::declare_ready(c, fd);
    if !convertible {
        keep_on_tcp(c, fd, Reason::Shared);
    }
}

fn wait_until(mut done: impl FnMut() -> bool) -> bool {
    (0..STEPS).any(|_| {
        let is_done = done();
        if !is_done {
            sys::sleep_us(STEP_US);
        }
        is_done
    })
}

/// Whether all who hold the connection use its ring from now on.
///
/// The decision falls twice, each time once and for all: for the family in its slot, and among strangers in the end's
/// page. Whoever decided to stay on TCP does not ask again, so nobody may attach afterwards.
fn is_agreed(page: &EndPage, c: &Conn, fd: c_int, message: &Message) -> bool {
    let before = c.slot().decide(family::UPGRADED);
    if before == family::PLAIN {
        return false;
    }
    let inherited = c.inherited.load(Relaxed) != 0;
    let agreed = match page.initialised.compare_exchange(0, if inherited { REFUSED } else { FILLING }, AcqRel, Acquire)
    {
        Ok(_) if inherited => false,
        Ok(_) => {
            fill(page, c, fd, message);
            // Others who hold this end join it: it is one upgrade.
            stats::count(|s| &s.connections_upgraded);
            page.initialised.compare_exchange(FILLING, READY, AcqRel, Acquire).is_ok()
        }
        Err(_) => {
            // Somebody else holds this end as well: from now on its locks are taken with care.
            let kin = before == family::UPGRADED;
            page.shared.fetch_max(if kin { SHARED_FAMILY } else { SHARED_BEYOND }, SeqCst);
            wait_until(|| page.initialised.load(Acquire) != FILLING);
            // Still being filled: by one that died there. Nobody has used the end, and nobody will.
            let _ = page.initialised.compare_exchange(FILLING, REFUSED, AcqRel, Acquire);
            page.initialised.load(Acquire) == READY
                && page.connection.load(Relaxed) == message.connection
                && page.options.dissolved.load(Acquire) == 0
        }
    };
    if !agreed {
        c.slot().state.store(family::PLAIN, SeqCst);
    }
    agreed
}

/// Fills in the page of an end that nobody has attached to yet.
fn fill(page: &EndPage, c: &Conn, fd: c_int, message: &Message) {
    let shared = family::has_forked() || c.slot().holders() > 1;
    page.shared.fetch_max(shared as u32, SeqCst);
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

/// Whether the process has (had) an upgraded connection or a netmap device. Before that, nothing may be read that could be a
/// bad address.
#[inline]
pub(crate) fn is_armed() -> bool {
    ARMED.load(Acquire) != 0
}

/// What a process needs once before its first upgraded connection or netmap device; nothing of it happens in
/// processes that never have one.
pub(crate) fn arm_process() {
    if is_armed() {
        return;
    }
    signals::arm();
    spin::calibrate();
    sys::membarrier(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
    ARMED.store(1, Release);
}

/// Attaches to a connection that another thread, or another process of the family, has upgraded. False: not possible.
#[cold]
pub(crate) fn join(index: u32, c: &'static Conn, fd: c_int) -> bool {
    // Another thread has the monitor's answer, which may be the last one. To go on by the kernel meanwhile would move
    // bytes that nobody counts.
    while c.is_attaching() {
        sys::sleep_us(STEP_US);
    }
    if c.state() != State::Watched {
        return c.state() == State::Attached;
    }
    c.fd.store(fd, Relaxed);
    crate::monitor::attach_now(c.token(index), c, fd) && {
        if let Some(page) = c.page() {
            page.shared.fetch_max(SHARED_FAMILY, SeqCst);
        }
        true
    }
}

/// Keeps the connection on TCP from now on, or takes it back there, whatever state it is in.
pub(crate) fn keep_on_tcp(c: &Conn, fd: c_int, reason: Reason) {
    match c.state() {
        State::Watched => match c.slot().decide(family::PLAIN) {
            // A relative, or another thread, was quicker.
            family::UPGRADED => {
                if upgrade::upgraded(fd).is_some_and(|(_, found)| core::ptr::eq(found, c)) {
                    tx::demote(c, fd, reason);
                }
            }
            before => {
                if before == family::WATCHED {
                    stats::refused(reason);
                }
                c.set_plain();
            }
        },
        State::Attached => tx::demote(c, fd, reason),
        State::Plain | State::Free => {}
    }
}

/// Another process, of another family perhaps, is about to get the connection. An upgraded one is marked
/// as shared; one that is only watched stays on TCP, because the two processes could not agree on the
/// moment of switching.
pub(crate) fn share(c: &Conn, fd: c_int) {
    if c.state() == State::Watched {
        keep_on_tcp(c, fd, Reason::Shared);
    }
    if let Some(page) = c.page() {
        page.shared.store(SHARED_BEYOND, SeqCst);
        fence(SeqCst);
    }
    if c.end().is_some_and(|end| end.tx_path() == Path::Demoted && end.rx_path() == Path::Demoted) {
        kernel::mark_upgraded(fd, false);
    }
}

#[cfg(test)]
mod tests;
