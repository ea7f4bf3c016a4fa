//! The few system interfaces that neither std nor rustix offers: all `unsafe` of this crate but the
//! view of the process page is here.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// `SO_NETNS_COOKIE` (Linux 5.14).
const SO_NETNS_COOKIE: i32 = 71;
/// `SO_PEERPIDFD` (Linux 6.5).
const SO_PEERPIDFD: i32 = 77;

/// End (the first two), and read the policy again.
const OBEYED: [i32; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// A type for which every bit pattern is a value.
trait Plain: Copy {}
impl Plain for u64 {}
impl Plain for i32 {}
impl Plain for libc::ucred {}

fn socket_option<T: Plain>(fd: impl AsFd, name: i32) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as libc::socklen_t;
    let raw = fd.as_fd().as_raw_fd();
    // SAFETY: `value` has room for `length` bytes and both outlive the call.
    let status = unsafe { libc::getsockopt(raw, libc::SOL_SOCKET, name, value.as_mut_ptr().cast(), &mut length) };
    match status {
        // SAFETY: zeroed at first, then partly or wholly written; any bit pattern is a `T`.
        0 => Ok(unsafe { value.assume_init() }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Who connected this Unix socket; the pid is 0 when it is not visible in our pid namespace.
pub(crate) fn peer_credentials(fd: impl AsFd) -> io::Result<libc::ucred> {
    socket_option(fd, libc::SO_PEERCRED)
}

/// The kernel's number for the socket's network namespace.
pub(crate) fn netns_cookie(fd: impl AsFd) -> io::Result<u64> {
    socket_option(fd, SO_NETNS_COOKIE)
}

/// Index of the interface that the socket is bound to, 0 if to none.
pub(crate) fn bound_interface(fd: impl AsFd) -> io::Result<u32> {
    socket_option::<i32>(fd, libc::SO_BINDTOIFINDEX).map(|index| index as u32)
}

/// A handle of the peer process; `None` before Linux 6.5.
pub(crate) fn peer_pidfd(fd: impl AsFd) -> Option<OwnedFd> {
    let raw = socket_option::<i32>(fd, SO_PEERPIDFD).ok().filter(|raw| *raw >= 0)?;
    // SAFETY: the kernel has just installed this descriptor for us; nobody else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Leaves a scheduling policy (`SCHED_IDLE`, a real-time one) for the usual one, where that is permitted.
pub(crate) fn use_the_usual_scheduler() {
    // SAFETY: all-zero parameters are valid (and what the usual policy asks for); the kernel only reads them.
    unsafe {
        let parameters: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_OTHER, &parameters);
    }
}

/// The signals that the monitor obeys are no longer ignored: an ignored one would not reach the descriptor.
pub(crate) fn heed_signals() {
    for signal in OBEYED {
        // SAFETY: the default disposition needs no handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Blocks SIGTERM, SIGINT and SIGHUP for this thread and returns a descriptor to read them from.
pub(crate) fn signal_descriptor() -> io::Result<OwnedFd> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set before the other calls read it.
    let raw = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in OBEYED {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        let error = libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that only we know.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// The next signal's number, if one is waiting.
pub(crate) fn next_signal(fd: impl AsFd) -> Option<i32> {
    let mut bytes = [0u8; size_of::<libc::signalfd_siginfo>()];
    match rustix::io::read(fd, &mut bytes) {
        // `ssi_signo` is the first word.
        Ok(n) if n == bytes.len() => Some(i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
        _ => None,
    }
}
