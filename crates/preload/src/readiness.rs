//! Whether an upgraded connection is readable, writable or finished: the one answer that poll, select
//! and epoll build on. Bits are those of poll, which epoll shares.

use core::sync::atomic::Ordering::*;

use libc::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLPRI, POLLRDHUP, POLLRDNORM, POLLWRNORM, c_int};
use ringway_channel::end::{SHUT_RX, SHUT_TX};
use ringway_channel::{End, Path};

use crate::conn::Conn;
use crate::{bell, kernel, rx, spin, thread, tx};

/// How stale the kernel's word on a connection whose directions are both on rings may be before it is
/// asked again, in microseconds: a FIN wakes sleepers by itself, this is for those who never sleep.
const LOOK_US: u64 = 200;
/// As `LOOK_US`, where an epoll set hears of the kernel's events: only in case it should miss one.
const LOOK_WATCHED_US: u64 = 100_000;

const READABLE: i16 = POLLIN | POLLRDNORM;
const WRITABLE: i16 = POLLOUT | POLLWRNORM;
const FINISHED: i16 = POLLRDHUP | POLLHUP | POLLERR;

/// The connection's events now. Inside a critical section or with a pin held.
#[inline]
pub(crate) fn events(conn: &Conn, end: &End, fd: c_int) -> i16 {
    events_looked_for(conn, end, fd, LOOK_US)
}

/// As `events`, for a connection of which the kernel tells an epoll set of this process.
#[inline]
pub(crate) fn events_watched(conn: &Conn, end: &End, fd: c_int) -> i16 {
    events_looked_for(conn, end, fd, LOOK_WATCHED_US)
}

#[inline]
fn events_looked_for(conn: &Conn, end: &End, fd: c_int, look_us: u64) -> i16 {
    let on_rings = end.rx_path() == Path::Ring && end.tx_path() == Path::Ring;
    let calm = on_rings
        && conn.kernel_event.load(Relaxed) == 0
        && end.page.options.peer_finished.load(Relaxed) == 0
        && end.looks_asked() == conn.looks_seen.load(Relaxed)
        && end.peer_tx_path() == Path::Ring
        && spin::tsc().wrapping_sub(conn.looked_tsc.load(Relaxed)) < spin::cycles(look_us);
    if !calm {
        return events_with_kernel(conn, end, fd);
    }
    (if ring_readable(end) { READABLE } else { 0 }) | if ring_writable(end) { WRITABLE } else { 0 }
}

#[inline]
fn ring_readable(end: &End) -> bool {
    let consumer = end.consumer();
    let queued = consumer.published().wrapping_sub(consumer.head());
    let options = &end.page.options;
    queued >= options.receive_low_water_bytes.load(Relaxed).max(1) as u64
        || options.shutdown.load(Relaxed) & SHUT_RX != 0
}

#[inline]
fn ring_writable(end: &End) -> bool {
    // A peer that breaks the rules makes the connection writable: the call that follows reports it.
    tx::is_writable(end)
}

#[cold]
fn events_with_kernel(conn: &Conn, end: &End, fd: c_int) -> i16 {
    conn.kernel_event.store(0, Relaxed);
    conn.looks_seen.store(end.looks_asked(), Relaxed);
    conn.looked_tsc.store(spin::tsc(), Relaxed);
    let asked = READABLE | WRITABLE | POLLPRI | POLLRDHUP;
    let mut kernel = kernel::poll_now(fd, asked);
    let peer_has_switched = end.rx_path() == Path::Tcp && end.peer_tx_path() != Path::Tcp;
    if peer_has_switched || (end.rx_path() != Path::Demoted && kernel & POLLIN != 0) {
        // Doorbells are not data, and data of before the switch has to be told from them.
        settle(conn, end, fd);
        kernel = kernel::poll_now(fd, asked);
    }
    let mut finished = kernel & FINISHED;
    if end.peer_closed_in_order() {
        // A doorbell that came too late may have turned an orderly end into a reset.
        let both_done = end.page.options.shutdown.load(Relaxed) & SHUT_TX != 0;
        finished &= if both_done { POLLRDHUP | POLLHUP } else { POLLRDHUP };
    }
    if finished != 0 && end.reset_is_due() {
        finished |= POLLERR | POLLHUP;
    }
    if finished != 0 {
        end.page.options.peer_finished.store(1, Release);
    }
    let mut events = finished | kernel & POLLPRI;
    let readable = match end.rx_path() {
        // What was published before the FIN is visible by now, so the order of these looks is right.
        Path::Ring => {
            ring_readable(end) || finished != 0 || (end.peer_tx_path() == Path::Demoted && kernel & POLLIN != 0)
        }
        Path::Tcp | Path::Demoted => kernel & POLLIN != 0,
    };
    let writable = match end.tx_path() {
        Path::Ring => ring_writable(end) || finished != 0,
        Path::Tcp | Path::Demoted => kernel & POLLOUT != 0,
    };
    events |= if readable { READABLE } else { 0 };
    events |= if writable { WRITABLE } else { 0 };
    // Directions that the kernel serves have no bells: it must be asked each time.
    if end.rx_path() != Path::Ring || end.tx_path() != Path::Ring || end.peer_tx_path() != Path::Ring {
        conn.kernel_event.store(1, Relaxed);
    }
    events
}

/// Moves the receiving side as far along its switch as it can go without taking data.
fn settle(conn: &Conn, end: &End, fd: c_int) {
    let critical = thread::enter();
    let Some(_held) = tx::lock_rx(end, &critical) else { return };
    if let Ok(ringway_channel::RxSource::Doorbells { discard_bytes }) = end.rx_source(|| kernel::unread(fd)) {
        rx::discard_doorbells(end, fd, discard_bytes.min(kernel::unread(fd)));
        let _ = end.rx_source(|| 0);
    } else {
        bell::drain_locked(conn, end, fd);
    }
}
