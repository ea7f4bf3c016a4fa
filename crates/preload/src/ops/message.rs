//! `sendmsg`, `recvmsg` and their many-message forms; descriptors in transit.

use libc::{c_int, cmsghdr, mmsghdr, msghdr, timespec};
use ringway_channel::Reason;

use crate::conn::Conn;
use crate::iov::Cursor;
use crate::table::{self, Entry};
use crate::tx::Outcome;
use crate::{attach, config, copy, netmap, rx, sys, tx, upgrade};

/// Messages per call, as in the kernel (UIO_MAXIOV).
pub(crate) const MESSAGES_MAX: u32 = 1024;
/// Descriptors per message, as in the kernel (SCM_MAX_FD).
const DESCRIPTORS_MAX: usize = 253;

fn load(message: *const msghdr) -> Result<msghdr, Outcome> {
    // SAFETY: a bad address is survived.
    unsafe { copy::read(message) }.ok_or(Outcome::Done(-(libc::EFAULT as isize)))
}

fn cursor(message: &msghdr) -> Result<Cursor, Outcome> {
    Cursor::vector(message.msg_iov, message.msg_iovlen).map_err(|e| {
        let e = if e == libc::EINVAL && message.msg_iovlen > 1024 { libc::EMSGSIZE } else { e };
        Outcome::Done(-(e as isize))
    })
}

pub(crate) fn receive(index: u32, c: &'static Conn, fd: c_int, message: *mut msghdr, flags: c_int) -> Outcome {
    let header = match load(message) {
        Ok(header) => header,
        Err(outcome) => return outcome,
    };
    let mut cursor = match cursor(&header) {
        Ok(cursor) => cursor,
        Err(outcome) => return outcome,
    };
    let outcome = rx::receive(index, c, fd, &mut cursor, flags);
    if let Outcome::Done(n) = outcome
        && n >= 0
    {
        let filled = msghdr { msg_namelen: 0, msg_controllen: 0, msg_flags: 0, ..header };
        // SAFETY: a bad address is survived; the program's header was readable before.
        unsafe { copy::write(message, filled) };
    }
    outcome
}

pub(crate) fn send(index: u32, c: &'static Conn, fd: c_int, message: *const msghdr, flags: c_int) -> Outcome {
    let header = match load(message) {
        Ok(header) => header,
        Err(outcome) => return outcome,
    };
    if header.msg_controllen > 0 {
        // Control messages on TCP ask the kernel's data path for something (time stamps, marks).
        attach::keep_on_tcp(c, fd, Reason::SocketOption);
        return Outcome::Kernel;
    }
    match cursor(&header) {
        Ok(mut cursor) => tx::send(index, c, fd, &mut cursor, flags),
        Err(outcome) => outcome,
    }
}

/// A message that found the end of the stream: one more, of no bytes.
fn at_the_end(header: *mut msghdr) -> bool {
    load(header).is_ok_and(|h| {
        let ended = msghdr { msg_namelen: 0, msg_controllen: 0, msg_flags: 0, ..h };
        // SAFETY: bad addresses are survived; `msg_len` follows the header in a mmsghdr.
        unsafe { copy::write(header, ended) && copy::write(header.wrapping_add(1).cast::<u32>(), 0) }
    })
}

/// One message after the other; the first error after a success is left for the next call, as in the
/// kernel.
fn each(count: u32, messages: *mut mmsghdr, mut one: impl FnMut(u32, *mut msghdr) -> Outcome) -> Outcome {
    let mut done = 0;
    for i in 0..count.min(MESSAGES_MAX) {
        let at = messages.wrapping_add(i as usize);
        // SAFETY: address arithmetic only.
        let (header, len) = unsafe { (&raw mut (*at).msg_hdr, &raw mut (*at).msg_len) };
        match one(i, header) {
            Outcome::Kernel if done == 0 => return Outcome::Kernel,
            Outcome::Done(n) if n >= 0 => {
                // SAFETY: a bad address is survived.
                if !unsafe { copy::write(len, n as u32) } {
                    return Outcome::Done(if done > 0 { done } else { -(libc::EFAULT as isize) });
                }
                done += 1;
                if n == 0 {
                    break;
                }
            }
            // The end of the stream, as the kernel reports it.
            Outcome::Kernel => return Outcome::Done(done + at_the_end(header) as isize),
            Outcome::Done(error) => return Outcome::Done(if done > 0 { done } else { error }),
        }
    }
    Outcome::Done(done)
}

pub(crate) fn receive_many(
    index: u32,
    c: &'static Conn,
    fd: c_int,
    messages: *mut mmsghdr,
    count: u32,
    flags: c_int,
    timeout: *mut timespec,
) -> Outcome {
    let limit = if timeout.is_null() {
        None
    } else {
        // SAFETY: a bad address is survived.
        match unsafe { copy::read(timeout.cast_const()) } {
            Some(t) if t.tv_sec >= 0 && (0..1_000_000_000).contains(&t.tv_nsec) => {
                Some(sys::monotonic_ns().saturating_add(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64))
            }
            Some(_) => return Outcome::Done(-(libc::EINVAL as isize)),
            None => return Outcome::Done(-(libc::EFAULT as isize)),
        }
    };
    let wait_for_one = flags & libc::MSG_WAITFORONE != 0;
    let flags = flags & !libc::MSG_WAITFORONE;
    each(count, messages, |i, header| {
        // The kernel looks at the time-out only between messages.
        if i > 0 && limit.is_some_and(|at| sys::monotonic_ns() >= at) {
            return Outcome::Done(-(libc::EAGAIN as isize));
        }
        let now = if i > 0 && wait_for_one { libc::MSG_DONTWAIT } else { 0 };
        receive(index, c, fd, header, flags | now)
    })
}

pub(crate) fn send_many(
    index: u32,
    c: &'static Conn,
    fd: c_int,
    messages: *mut mmsghdr,
    count: u32,
    flags: c_int,
) -> Outcome {
    each(count, messages, |_, header| send(index, c, fd, header, flags))
}

/// Calls `f` for each descriptor that a message carries.
fn for_each_descriptor(message: *const msghdr, mut f: impl FnMut(c_int)) {
    let Ok(header) = load(message) else { return };
    if header.msg_controllen < size_of::<cmsghdr>() || header.msg_control.is_null() {
        return;
    }
    let (base, end) =
        (header.msg_control as usize, (header.msg_control as usize).saturating_add(header.msg_controllen));
    let mut at = base;
    while at.saturating_add(size_of::<cmsghdr>()) <= end {
        // SAFETY: a bad address is survived.
        let Some(control) = (unsafe { copy::read(at as *const cmsghdr) }) else { return };
        if control.cmsg_len < size_of::<cmsghdr>() || control.cmsg_len > end - at {
            return;
        }
        if control.cmsg_level == libc::SOL_SOCKET && control.cmsg_type == libc::SCM_RIGHTS {
            let count = (control.cmsg_len - size_of::<cmsghdr>()) / size_of::<c_int>();
            for i in 0..count.min(DESCRIPTORS_MAX) {
                // SAFETY: as above.
                if let Some(fd) =
                    // SAFETY: as above.
                    unsafe { copy::read((at + size_of::<cmsghdr>() + i * size_of::<c_int>()) as *const c_int) }
                {
                    f(fd);
                }
            }
        }
        at += control.cmsg_len.next_multiple_of(size_of::<usize>());
    }
}

/// Descriptors have arrived: whatever the table says of their numbers is out of date.
pub(crate) fn note_descriptors(message: *const msghdr, answer: isize) {
    if answer >= 0 {
        for_each_descriptor(message, |fd| {
            upgrade::release(table::replace(fd, Entry::Unknown));
            netmap::adopt(fd);
        });
    }
}

pub(crate) fn note_descriptors_many(messages: *const mmsghdr, answer: c_int) {
    for i in 0..answer.max(0) as usize {
        // SAFETY: address arithmetic only.
        note_descriptors(unsafe { &raw const (*messages.wrapping_add(i)).msg_hdr }, 0);
    }
}

/// Sends messages of which each may carry descriptors: another process will hold those connections as well.
///
/// They are looked at before they are sent, except in a process without upgraded connections, where a message
/// must not be read before the kernel has found it readable.
pub(crate) fn share_while(
    messages: impl Iterator<Item = *const msghdr> + Clone,
    send: impl FnOnce() -> isize,
) -> isize {
    let armed = attach::is_armed();
    if armed {
        messages.clone().for_each(share_descriptors);
    }
    let answer = send();
    if !armed && answer >= 0 && config::enabled() {
        messages.for_each(share_descriptors);
    }
    answer
}

/// Whoever gets the descriptors may be without the library: upgraded connections return to TCP. What is
/// unread in the ring only this library can deliver.
fn share_descriptors(message: *const msghdr) {
    for_each_descriptor(message, |fd| {
        if let Entry::Epoll(index) = table::get(fd) {
            crate::epoll::share_with_others(index);
        } else if let Some((_, c)) = upgrade::connection(fd) {
            attach::share(c, fd);
            attach::keep_on_tcp(c, fd, Reason::Shared);
        }
    });
}
