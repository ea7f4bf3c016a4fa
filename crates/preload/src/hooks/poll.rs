//! Waiting for descriptors: poll, select and epoll in all their forms.

use libc::{c_int, c_ulong, epoll_event, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval};

use super::io::export;
use crate::epoll::{self, Timeout};
use crate::growable::{Growable, Pages};
use crate::leave::Hold;
use crate::ops::poll;
use crate::ops::select::{self, Bits};
use crate::table::{self, Entry};
use crate::{attach, copy, netmap, real, sys};

/// Polls longer than the limit on open files are EINVAL; this bounds the private copy before that.
const ENTRIES_MAX: usize = 1 << 20;

/// Whether the array has entries of ours. Reads it as the kernel would, bad addresses included.
fn mixed(fds: *const pollfd, count: usize) -> bool {
    attach::is_armed()
        && count <= ENTRIES_MAX
        // SAFETY: a bad address is survived.
        && (0..count).any(|i| unsafe { copy::read(fds.wrapping_add(i)) }.is_some_and(|p| poll::concerns_us(p.fd)))
}

/// A poll with entries of ours, on a private copy of the array.
fn mixed_poll(fds: *mut pollfd, count: usize, timeout: Timeout, mask: *const sigset_t) -> isize {
    let mut small = [pollfd { fd: -1, events: 0, revents: 0 }; 32];
    let mut large = Growable::new();
    if count > small.len() {
        for _ in 0..count {
            if !large.push(pollfd { fd: -1, events: 0, revents: 0 }) {
                return -(libc::ENOMEM as isize);
            }
        }
    }
    let pages = &raw mut large;
    // SAFETY: on this frame, and freed only when `own` is used no more.
    let many = unsafe { &mut *pages };
    let own = if count <= small.len() { small.get_mut(..count).unwrap_or(&mut []) } else { many.as_mut_slice() };
    let bytes = size_of_val(own);
    // SAFETY: `own` has room for `bytes`; a bad source is survived.
    let missing = unsafe { copy::copy(own.as_mut_ptr().cast(), fds.cast(), bytes) };
    if missing > 0 {
        large.clear();
        // Too many or a bad address: the kernel says which.
        let now = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the program's own arguments.
        return match unsafe { real::ppoll()(fds, count as nfds_t, &now, core::ptr::null()) } {
            n if n < 0 => -(sys::errno() as isize),
            n => n as isize,
        };
    }
    Pages(pages).during(|| {
        let answer = poll::poll(own, timeout, mask);
        if answer >= 0 {
            for (i, p) in own.iter().enumerate() {
                // SAFETY: address arithmetic, and a bad address is survived.
                unsafe { copy::write(&raw mut (*fds.wrapping_add(i)).revents, p.revents) };
            }
        }
        answer
    })
}

export!(poll, __poll = fn(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int {
    if mixed(fds, count as usize) {
        return sys::finish(mixed_poll(fds, count as usize, Timeout::from_ms(timeout_ms), core::ptr::null())) as c_int;
    }
    // SAFETY: the program's own call.
    unsafe { real::poll()(fds, count, timeout_ms) }
});

export!(__poll_chk = fn(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int, len: size_t) -> c_int {
    if len / size_of::<pollfd>() >= count as usize && mixed(fds, count as usize) {
        return sys::finish(mixed_poll(fds, count as usize, Timeout::from_ms(timeout_ms), core::ptr::null())) as c_int;
    }
    // SAFETY: the program's own call.
    unsafe { real::__poll_chk()(fds, count, timeout_ms, len) }
});

/// Reads an optional timespec: `Err` for one that is bad.
fn timeout(t: *const timespec) -> Result<Timeout, isize> {
    if t.is_null() {
        return Ok(Timeout::Never);
    }
    // SAFETY: a bad address is survived.
    match unsafe { copy::read(t) } {
        Some(t) if t.tv_sec >= 0 && (0..1_000_000_000).contains(&t.tv_nsec) => Ok(Timeout::from_timespec(t)),
        Some(_) => Err(-(libc::EINVAL as isize)),
        None => Err(-(libc::EFAULT as isize)),
    }
}

export!(ppoll = fn(fds: *mut pollfd, count: nfds_t, t: *const timespec, mask: *const sigset_t) -> c_int {
    if mixed(fds, count as usize) {
        let answer = timeout(t).map_or_else(|e| e, |t| mixed_poll(fds, count as usize, t, mask));
        return sys::finish(answer) as c_int;
    }
    // SAFETY: the program's own call.
    unsafe { real::ppoll()(fds, count, t, mask) }
});

export!(__ppoll_chk = fn(fds: *mut pollfd, count: nfds_t, t: *const timespec, mask: *const sigset_t, len: size_t) -> c_int {
    if len / size_of::<pollfd>() >= count as usize && mixed(fds, count as usize) {
        let answer = timeout(t).map_or_else(|e| e, |t| mixed_poll(fds, count as usize, t, mask));
        return sys::finish(answer) as c_int;
    }
    // SAFETY: the program's own call.
    unsafe { real::__ppoll_chk()(fds, count, t, mask, len) }
});

export!(select, __select = fn(count: c_int, r: *mut fd_set, w: *mut fd_set, x: *mut fd_set, t: *mut timeval) -> c_int {
    let sets = [r, w, x].map(Bits::new);
    if !attach::is_armed() || !select::concerns_us(count, sets) {
        // SAFETY: the program's own call.
        return unsafe { real::select()(count, r, w, x, t) };
    }
    let limit = if t.is_null() {
        Ok(Timeout::Never)
    } else {
        // SAFETY: a bad address is survived.
        match unsafe { copy::read(t.cast_const()) } {
            Some(v) if v.tv_sec >= 0 && v.tv_usec >= 0 => Ok(Timeout::from_timespec(timespec {
                tv_sec: v.tv_sec + v.tv_usec / 1_000_000,
                tv_nsec: v.tv_usec % 1_000_000 * 1_000,
            })),
            Some(_) => Err(-(libc::EINVAL as isize)),
            None => Err(-(libc::EFAULT as isize)),
        }
    };
    let answer = match limit {
        Ok(limit) => {
            let answer = select::select(count, sets, limit, core::ptr::null());
            if !t.is_null() {
                // Linux leaves what was left of the time-out.
                let (left, _) = limit.slice(u64::MAX);
                // SAFETY: as above.
                unsafe { copy::write(t, timeval { tv_sec: left.tv_sec, tv_usec: left.tv_nsec / 1_000 }) };
            }
            answer
        }
        Err(e) => e,
    };
    sys::finish(answer) as c_int
});

export!(pselect = fn(
    count: c_int, r: *mut fd_set, w: *mut fd_set, x: *mut fd_set, t: *const timespec, mask: *const sigset_t
) -> c_int {
    let sets = [r, w, x].map(Bits::new);
    if !attach::is_armed() || !select::concerns_us(count, sets) {
        // SAFETY: the program's own call.
        return unsafe { real::pselect()(count, r, w, x, t, mask) };
    }
    sys::finish(timeout(t).map_or_else(|e| e, |t| select::select(count, sets, t, mask))) as c_int
});

export!(epoll_create = fn(size: c_int) -> c_int {
    // SAFETY: the program's own call.
    let fd = unsafe { real::epoll_create()(size) };
    if fd >= 0 && crate::config::enabled() {
        epoll::created(fd);
    }
    fd
});

export!(epoll_create1 = fn(flags: c_int) -> c_int {
    // SAFETY: the program's own call.
    let fd = unsafe { real::epoll_create1()(flags) };
    if fd >= 0 && crate::config::enabled() {
        epoll::created(fd);
    }
    fd
});

export!(epoll_ctl = fn(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    if matches!(table::get(fd), Entry::Netmap(_)) {
        return sys::finish(netmap::epoll::control(epfd, op, fd, event)) as c_int;
    }
    if crate::config::enabled() {
        return sys::finish(epoll::control(epfd, op, fd, event)) as c_int;
    }
    // SAFETY: the program's own call.
    unsafe { real::epoll_ctl()(epfd, op, fd, event) }
});

/// What a set has besides netmap devices, right now.
fn rest_of_set(epfd: c_int, events: *mut epoll_event, max: usize) -> isize {
    epoll::set_of(epfd).map_or(0, |set| epoll::wait(set, epfd, events, max, Timeout::Now, core::ptr::null()))
}

/// A wait on a set that this library keeps track of; `None` leaves it to the kernel.
fn tracked_wait(epfd: c_int, events: *mut epoll_event, max: c_int, t: Timeout, mask: *const sigset_t) -> Option<c_int> {
    if let Some(set) = netmap::epoll::set_with_devices(epfd).filter(|_| max > 0) {
        let rest = |events, max| rest_of_set(epfd, events, max);
        return Some(sys::finish(netmap::epoll::wait(set, epfd, events, max as usize, t, mask, rest)) as c_int);
    }
    let set = epoll::set_of(epfd).filter(|_| max > 0)?;
    Some(sys::finish(epoll::wait(set, epfd, events, max as usize, t, mask)) as c_int)
}

export!(epoll_wait = fn(epfd: c_int, events: *mut epoll_event, max: c_int, timeout_ms: c_int) -> c_int {
    // SAFETY: the program's own call.
    unsafe {
        tracked_wait(epfd, events, max, Timeout::from_ms(timeout_ms), core::ptr::null())
            .unwrap_or_else(|| real::epoll_wait()(epfd, events, max, timeout_ms))
    }
});

export!(epoll_pwait = fn(epfd: c_int, events: *mut epoll_event, max: c_int, timeout_ms: c_int, mask: *const sigset_t) -> c_int {
    // SAFETY: the program's own call.
    unsafe {
        tracked_wait(epfd, events, max, Timeout::from_ms(timeout_ms), mask)
            .unwrap_or_else(|| real::epoll_pwait()(epfd, events, max, timeout_ms, mask))
    }
});

export!(epoll_pwait2 = fn(epfd: c_int, events: *mut epoll_event, max: c_int, t: *const timespec, mask: *const sigset_t) -> c_int {
    // SAFETY: the program's own call.
    unsafe {
        if !attach::is_armed() {
            return real::epoll_pwait2()(epfd, events, max, t, mask);
        }
        match timeout(t) {
            Ok(limit) => tracked_wait(epfd, events, max, limit, mask)
                .unwrap_or_else(|| real::epoll_pwait2()(epfd, events, max, t, mask)),
            Err(_) => real::epoll_pwait2()(epfd, events, max, t, mask),
        }
    }
});

const _: () = assert!(size_of::<c_ulong>() == size_of::<nfds_t>());
