//! Descriptor numbers: closing, duplicating, flags and requests.

use libc::{c_int, c_uint, c_ulong};

use super::io::export;
use crate::kernel::SIOCATMARK;
use crate::ops::{descriptor, option};
use crate::table::{self, Entry};
use crate::{config, copy, netmap, real, sys, upgrade};

const FIOASYNC: c_ulong = libc::FIOASYNC;
const SIOCOUTQ: c_ulong = libc::TIOCOUTQ;
const FIOSETOWN: c_ulong = 0x8901;
const SIOCSPGRP: c_ulong = 0x8902;

export!(close, __close = fn(fd: c_int) -> c_int { descriptor::close(fd) });

export!(close_range = fn(first: c_uint, last: c_uint, flags: c_int) -> c_int { descriptor::close_range(first, last, flags) });

export!(closefrom = fn(first: c_int) -> () {
    descriptor::close_range(first.max(0) as c_uint, c_uint::MAX, 0);
});

export!(pidfd_getfd = fn(pidfd: c_int, of: c_int, flags: c_uint) -> c_int {
    // SAFETY: the program's own call.
    let fd = unsafe { real::pidfd_getfd()(pidfd, of, flags) };
    if fd >= 0 && config::enabled() {
        upgrade::release(table::replace(fd, Entry::Unknown));
    }
    fd
});

export!(dup = fn(fd: c_int) -> c_int {
    // SAFETY: the program's own call.
    let new = unsafe { real::dup()(fd) };
    descriptor::duplicated(fd, new);
    new
});

export!(dup2, __dup2 = fn(old: c_int, new: c_int) -> c_int {
    // SAFETY: the program's own call.
    descriptor::duplicate_onto(old, new, || unsafe { real::dup2()(old, new) })
});

export!(dup3 = fn(old: c_int, new: c_int, flags: c_int) -> c_int {
    // SAFETY: the program's own call.
    descriptor::duplicate_onto(old, new, || unsafe { real::dup3()(old, new, flags) })
});

// The variadic argument is one word in a register, whatever its type.
export!(fcntl, fcntl64, __fcntl = fn(fd: c_int, command: c_int, arg: usize) -> c_int {
    // SAFETY: the program's own call.
    let answer = unsafe { real::fcntl()(fd, command, arg) };
    if answer >= 0 && config::enabled() {
        match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => descriptor::duplicated(fd, answer),
            libc::F_SETFL => {
                option::set_nonblocking(fd, arg as c_int & libc::O_NONBLOCK != 0);
                if arg as c_int & libc::O_ASYNC != 0 {
                    option::wants_signals(fd);
                }
            }
            libc::F_SETOWN | F_SETSIG | F_SETOWN_EX => option::wants_signals(fd),
            _ => {}
        }
    }
    answer
});

const F_SETSIG: c_int = 10;
const F_SETOWN_EX: c_int = 15;

export!(sockatmark = fn(fd: c_int) -> c_int {
    let mut at_mark: c_int = 0;
    // SAFETY: an int of ours.
    if unsafe { ioctl(fd, SIOCATMARK, (&raw mut at_mark) as usize) } < 0 { -1 } else { at_mark }
});

export!(ioctl = fn(fd: c_int, request: c_ulong, arg: usize) -> c_int {
    let ours = match request {
        libc::FIONREAD => option::unread(fd),
        SIOCOUTQ => option::unsent(fd),
        SIOCATMARK => option::at_mark(fd),
        _ => None,
    };
    if let Some(value) = ours {
        // SAFETY: a bad address is survived.
        let written = unsafe { copy::write(arg as *mut c_int, value) };
        return sys::finish(if written { 0 } else { -(libc::EFAULT as isize) }) as c_int;
    }
    if netmap::is_request(request)
        && let Some(answer) = netmap::ioctl(fd, request, arg)
    {
        return answer;
    }
    // SAFETY: the program's own call.
    let answer = unsafe { real::ioctl()(fd, request, arg) };
    if answer >= 0 && config::enabled() {
        match request {
            // SAFETY: the kernel has just read an int there.
            libc::FIONBIO => option::set_nonblocking(fd, unsafe { *(arg as *const c_int) } != 0),
            FIOASYNC | FIOSETOWN | SIOCSPGRP => option::wants_signals(fd),
            _ => {}
        }
    }
    answer
});
