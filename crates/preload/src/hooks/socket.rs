//! Making sockets and connections, and their options.

use libc::{c_int, c_void, sa_family_t, sockaddr, socklen_t};

use super::io::export;
use crate::ops::{descriptor, option};
use crate::table::{self, Entry};
use crate::{config, copy, kernel, real, sys, upgrade};

export!(socket, __socket = fn(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: the program's own call.
    let fd = unsafe { real::socket()(domain, kind, protocol) };
    if fd >= 0 && config::enabled() {
        let stream = kind & 0xf == libc::SOCK_STREAM && matches!(protocol, 0 | libc::IPPROTO_TCP);
        let tcp = stream && matches!(domain, libc::AF_INET | libc::AF_INET6);
        upgrade::release(table::replace(fd, if tcp { Entry::Tcp } else { Entry::Plain }));
    }
    fd
});

export!(socketpair = fn(domain: c_int, kind: c_int, protocol: c_int, fds: *mut c_int) -> c_int {
    // SAFETY: the program's own call.
    let answer = unsafe { real::socketpair()(domain, kind, protocol, fds) };
    if answer == 0 && config::enabled() {
        // SAFETY: the kernel has just written two descriptors there.
        for fd in unsafe { [*fds, *fds.add(1)] } {
            upgrade::release(table::replace(fd, Entry::Plain));
        }
    }
    answer
});

export!(connect, __connect = fn(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the program's own call.
    let answer = unsafe { real::connect()(fd, to, len) };
    if config::enabled() && (answer == 0 || sys::errno() == libc::EINPROGRESS) {
        // SAFETY: a bad address is survived.
        match unsafe { copy::read(to.cast::<sa_family_t>()) } {
            Some(family) if family as c_int == libc::AF_UNSPEC => descriptor::dissolved(fd),
            _ => connected(fd),
        }
    }
    answer
});

/// A send with MSG_FASTOPEN connects as well.
pub(super) fn connected_by_sending(fd: c_int, answer: isize) {
    if config::enabled() && (answer >= 0 || sys::errno() == libc::EINPROGRESS) {
        connected(fd);
    }
}

/// A connect has succeeded or is under way.
fn connected(fd: c_int) {
    let errno = sys::errno();
    match table::get(fd) {
        Entry::Tcp => upgrade::watch(fd),
        Entry::Unknown if kernel::is_tcp(fd) => upgrade::watch(fd),
        _ => {}
    }
    sys::set_errno(errno);
}

export!(accept = fn(fd: c_int, from: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the program's own call.
    let answer = unsafe { real::accept()(fd, from, len) };
    accepted(fd, answer);
    answer
});

export!(accept4 = fn(fd: c_int, from: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
    // SAFETY: the program's own call.
    let answer = unsafe { real::accept4()(fd, from, len, flags) };
    accepted(fd, answer);
    answer
});

/// `fd` came out of the listener.
fn accepted(listener: c_int, fd: c_int) {
    if fd < 0 || !config::enabled() {
        return;
    }
    let tcp = match table::get(listener) {
        // Watched before anybody knew that it would listen.
        Entry::Tcp | Entry::Connection(_) => true,
        Entry::Unknown => {
            let tcp = kernel::is_tcp(listener);
            table::replace_if(listener, Entry::Unknown, if tcp { Entry::Tcp } else { Entry::Plain });
            tcp
        }
        _ => false,
    };
    if tcp {
        upgrade::watch(fd);
    } else {
        upgrade::release(table::replace(fd, Entry::Plain));
    }
}

export!(shutdown = fn(fd: c_int, how: c_int) -> c_int { descriptor::shutdown(fd, how) });

export!(setsockopt = fn(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int {
    if let Some(answer) = option::before_set(fd, level, name, value, len) {
        return sys::finish(answer) as c_int;
    }
    // SAFETY: the program's own call.
    let answer = unsafe { real::setsockopt()(fd, level, name, value, len) };
    if answer == 0 {
        option::after_set(fd, level, name, value, len);
    }
    answer
});

export!(getsockopt = fn(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
    match option::get(fd, level, name) {
        Some(answer) => sys::finish(option::put(answer, value, len)) as c_int,
        // SAFETY: the program's own call.
        None => unsafe { real::getsockopt()(fd, level, name, value, len) },
    }
});
