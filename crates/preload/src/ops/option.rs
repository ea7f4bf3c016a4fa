//! Socket options, descriptor flags and queue lengths of upgraded connections.

use core::sync::atomic::Ordering::*;

use libc::{c_int, c_void, socklen_t, timeval};
use ringway_channel::end::Options;
use ringway_channel::{End, Path, Reason};

use crate::conn::Conn;
use crate::table::{self, Entry};
use crate::{attach, copy, kernel, thread, tx, upgrade};

/// Bits of [`Options::nodelay`].
const NODELAY: u32 = 1;
const CORK: u32 = 2;

const TCP_ULP: c_int = 31;
const TCP_ZEROCOPY_RECEIVE: c_int = 35;

fn options(fd: c_int) -> Option<(&'static Conn, &'static Options)> {
    let (_, c) = upgrade::upgraded(fd)?;
    Some((c, &c.page()?.options))
}

fn read<T: Copy>(value: *const c_void, bytes: socklen_t) -> Option<T> {
    // SAFETY: a bad address is survived; T is plain data.
    if (bytes as usize) < size_of::<T>() { None } else { unsafe { copy::read(value.cast()) } }
}

/// Before the kernel sees a `setsockopt`. `Some` is the whole answer (0 or a negated errno).
pub(crate) fn before_set(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    bytes: socklen_t,
) -> Option<isize> {
    let reason = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_TIMESTAMP | libc::SO_TIMESTAMPNS | libc::SO_TIMESTAMPING) => Reason::Timestamps,
        (libc::SOL_SOCKET, libc::SO_ZEROCOPY) => Reason::ZeroCopy,
        (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER | libc::SO_ATTACH_BPF | libc::SO_MARK) => Reason::SocketOption,
        (libc::IPPROTO_TCP, TCP_ULP) => Reason::KernelTls,
        (libc::IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE) => Reason::ZeroCopy,
        (libc::IPPROTO_TCP, libc::TCP_REPAIR | libc::TCP_INQ) => Reason::SocketOption,
        (libc::SOL_SOCKET, libc::SO_PEEK_OFF) => Reason::SocketOption,
        (libc::IPPROTO_TCP, libc::TCP_NODELAY | libc::TCP_CORK) => return set_batching(fd, name, value, bytes),
        _ => return None,
    };
    if table::get(fd) == Entry::Tcp {
        // Not connected yet, or a listener whose connections inherit the option: nothing of it is watched.
        table::replace(fd, Entry::Plain);
        return None;
    }
    let (_, c) = upgrade::connection(fd)?;
    attach::keep_on_tcp(c, fd, reason);
    // An upper layer needs the whole stream in the kernel, but bytes may wait in the ring. The caller is
    // told what a kernel without the layer says, and does the work itself.
    let in_ring = c.end().is_some_and(|end| end.rx_path() == Path::Ring);
    (reason == Reason::KernelTls && in_ring).then_some(-(libc::ENOENT as isize))
}

/// TCP_NODELAY and TCP_CORK mean nothing to a ring, but the doorbells below need an eager socket: the
/// wish is only remembered.
fn set_batching(fd: c_int, name: c_int, value: *const c_void, bytes: socklen_t) -> Option<isize> {
    let (c, options) = options(fd)?;
    if c.end().is_none_or(|end| end.tx_path() == Path::Demoted) {
        return None;
    }
    let on = read::<c_int>(value, bytes)? != 0;
    let bit = if name == libc::TCP_CORK { CORK } else { NODELAY };
    if on {
        options.nodelay.fetch_or(bit, Relaxed);
    } else {
        options.nodelay.fetch_and(!bit, Relaxed);
    }
    Some(0)
}

/// After the kernel accepted a `setsockopt`.
pub(crate) fn after_set(fd: c_int, level: c_int, name: c_int, value: *const c_void, bytes: socklen_t) {
    if level != libc::SOL_SOCKET {
        return;
    }
    let Some((_, options)) = options(fd) else { return };
    match name {
        libc::SO_RCVTIMEO | libc::SO_SNDTIMEO => {
            let Some(t) = read::<timeval>(value, bytes) else { return };
            let us = t.tv_sec.max(0) as u64 * 1_000_000 + t.tv_usec.max(0) as u64;
            let which = if name == libc::SO_RCVTIMEO { &options.receive_timeout_us } else { &options.send_timeout_us };
            which.store(us, Relaxed);
        }
        libc::SO_RCVLOWAT => {
            let Some(n) = read::<c_int>(value, bytes) else { return };
            options.receive_low_water_bytes.store(if n < 0 { i32::MAX as u32 } else { n.max(1) as u32 }, Relaxed);
        }
        libc::SO_SNDBUF | libc::SO_SNDBUFFORCE => attach::bound_sending(options, fd),
        _ => {}
    }
}

/// The value of an option that this library answers itself.
pub(crate) fn get(fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
    if level != libc::IPPROTO_TCP || !matches!(name, libc::TCP_NODELAY | libc::TCP_CORK) {
        return None;
    }
    let (c, options) = options(fd)?;
    if c.end().is_none_or(|end| end.tx_path() == Path::Demoted) {
        return None;
    }
    let bit = if name == libc::TCP_CORK { CORK } else { NODELAY };
    Some((options.nodelay.load(Relaxed) & bit != 0) as c_int)
}

/// Writes an int option's value as the kernel does. A negated errno or 0.
pub(crate) fn put(answer: c_int, value: *mut c_void, bytes: *mut socklen_t) -> isize {
    // SAFETY: bad addresses are survived.
    unsafe {
        let Some(room) = copy::read(bytes.cast_const()) else { return -(libc::EFAULT as isize) };
        let n = (room as usize).min(size_of::<c_int>());
        let raw = answer.to_ne_bytes();
        if copy::copy(value.cast(), raw.as_ptr(), n) != 0 || !copy::write(bytes, n as socklen_t) {
            return -(libc::EFAULT as isize);
        }
    }
    0
}

/// O_NONBLOCK was changed through this library.
pub(crate) fn set_nonblocking(fd: c_int, on: bool) {
    if let Some((_, options)) = options(fd) {
        options.nonblocking.store(on as u32, Relaxed);
    }
}

/// Signal-driven I/O was asked for.
pub(crate) fn wants_signals(fd: c_int) {
    if let Some((_, c)) = upgrade::connection(fd) {
        attach::keep_on_tcp(c, fd, Reason::SignalIo);
    }
}

/// FIONREAD: unread bytes, in TCP (without doorbells) and in the ring.
pub(crate) fn unread(fd: c_int) -> Option<c_int> {
    with_end(fd, |end| {
        let critical = thread::enter();
        let _held = tx::lock_rx(end, &critical);
        let unread = kernel::unread(fd);
        let in_tcp = match end.rx_source(|| unread).ok()? {
            ringway_channel::RxSource::Tcp { limit_bytes } => unread.min(limit_bytes),
            ringway_channel::RxSource::TcpAgain => return None,
            _ => 0,
        };
        let in_ring = end.consumer().queued().unwrap_or(0);
        Some((in_tcp + in_ring).min(i32::MAX as u64) as c_int)
    })
}

/// SIOCOUTQ: bytes that the peer has not taken yet.
pub(crate) fn unsent(fd: c_int) -> Option<c_int> {
    with_end(fd, |end| match end.tx_path() {
        Path::Ring => end.producer().queued().ok().map(|n| n.min(i32::MAX as u64) as c_int),
        _ => None,
    })
}

/// SIOCATMARK: urgent data never is in a ring.
pub(crate) fn at_mark(fd: c_int) -> Option<c_int> {
    with_end(fd, |end| (end.rx_path() == Path::Ring && end.consumer().has_news()).then_some(0))
}

fn with_end<T>(fd: c_int, f: impl FnOnce(&End<'static>) -> Option<T>) -> Option<T> {
    let (index, c) = upgrade::upgraded(fd)?;
    c.pin();
    let answer = c.end().and_then(|end| f(&end));
    c.put(index);
    answer
}
