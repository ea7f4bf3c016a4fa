//! Connections that cannot go on: the peer broke the rules of the ring, or went with bytes unread, or the ring is out of
//! reach. That connection is reset, nothing else is touched.

use core::sync::atomic::Ordering::*;

use libc::{c_int, sockaddr};
use ringway_channel::{End, Path, Reason};
use ringway_mem::ring::Violation;

use crate::conn::Conn;
use crate::{kernel, stats, sys};

/// Resets the connection and returns the errno of the call that noticed. From here on the kernel
/// serves the socket, which is unconnected.
#[cold]
pub(crate) fn violated(conn: &Conn, fd: c_int, _what: Violation) -> c_int {
    stats::count(|c| &c.violations);
    stats::refused(Reason::RingViolation);
    if let Some(page) = conn.page() {
        page.tx.path.store(Path::Demoted as u32, Relaxed);
        page.rx.path.store(Path::Demoted as u32, Relaxed);
        page.options.demoted_because.store(Reason::RingViolation as u32, Relaxed);
    }
    disconnect(fd);
    libc::ECONNRESET
}

/// Somebody who holds the connection has moved it to its ring, and this process cannot get that. The kernel tells this
/// call, the other holders and the peer.
#[cold]
pub(crate) fn out_of_reach(conn: &Conn, fd: c_int) {
    stats::refused(Reason::RingOutOfReach);
    disconnect(fd);
    conn.set_plain();
}

/// Whether the call that sees the peer gone has to answer ECONNRESET although the kernel does not: it did not see
/// the bytes that lay unread in the ring, or has another error, from a doorbell that was too late. That one
/// is forgotten, and from here on the socket is as good as reset.
pub(crate) fn is_due(end: &End, fd: c_int) -> bool {
    if !end.reset_is_due() {
        return false;
    }
    end.reset_told();
    // What is left of the peer may answer this with a reset of its own.
    sys::shutdown(fd, libc::SHUT_RDWR);
    // SAFETY: the option is an int; reading it clears the error.
    let _ = unsafe { sys::socket_option::<c_int>(fd, libc::SOL_SOCKET, libc::SO_ERROR) };
    true
}

/// Sends RST and leaves the socket unconnected, as `connect` to AF_UNSPEC does.
pub(crate) fn disconnect(fd: c_int) {
    // SAFETY: an all-zero sockaddr has family AF_UNSPEC.
    let address: sockaddr = unsafe { core::mem::zeroed() };
    let (at, bytes) = ((&raw const address) as usize, size_of::<sockaddr>());
    // SAFETY: the kernel reads the address of the given length.
    unsafe { sys::syscall6(libc::SYS_connect, fd as usize, at, bytes, 0, 0, 0) };
    kernel::mark_upgraded(fd, false);
}
