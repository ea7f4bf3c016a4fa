//! Epoll sets and `poll`.

use std::ffi::c_char;
use std::fmt::Write;

use libc::{c_int, pollfd};

use super::{call, done, finish_int, number, output};
use crate::contexts::Context;
use crate::epoll::{Epoll, EpollEvent};
use crate::errno::Errno;
use crate::state::Kind;

/// Linux's epoll_create looks only whether its size is positive.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn mtcp_epoll_create(context: *mut Context, size: c_int) -> c_int {
    let flags = if size > 0 { 0 } else { -1 };
    mtcp_epoll_create1(context, flags)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn mtcp_epoll_create1(context: *mut Context, flags: c_int) -> c_int {
    finish_int(call(context, |state| {
        if flags & !libc::EPOLL_CLOEXEC != 0 {
            return Err(Errno::INVAL);
        }
        state.insert(Kind::Epoll(Epoll::default()), false)
    }))
}

/// # Safety
/// `event` is null or valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_epoll_ctl(
    context: *mut Context,
    set: c_int,
    operation: c_int,
    socket: c_int,
    event: *const EpollEvent,
) -> c_int {
    // SAFETY: the caller's promise.
    let wanted = unsafe { event.as_ref() }.copied();
    done(call(context, |state| state.epoll_control(number(set)?, operation, number(socket)?, wanted)))
}

/// # Safety
/// `events` is null or has room for `most` events.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_epoll_wait(
    context: *mut Context,
    set: c_int,
    events: *mut EpollEvent,
    most: c_int,
    timeout_ms: c_int,
) -> c_int {
    let most = usize::try_from(most).map_err(|_| Errno::INVAL);
    // SAFETY: the caller's promise.
    let out = most.and_then(|most| unsafe { output(events, most) });
    finish_int(call(context, |state| state.epoll_wait(number(set)?, out?, timeout_ms)))
}

/// # Safety
/// `fds` is null or has `count` entries.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_poll(
    context: *mut Context,
    fds: *mut pollfd,
    count: libc::nfds_t,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let fds = unsafe { output(fds, count as usize) };
    finish_int(call(context, |state| state.poll(fds?, timeout_ms)))
}

const NAMES: [(u32, &str); 13] = [
    (0x001, "IN"),
    (0x002, "PRI"),
    (0x004, "OUT"),
    (0x040, "RDNORM"),
    (0x080, "RDBAND"),
    (0x100, "WRNORM"),
    (0x200, "WRBAND"),
    (0x400, "MSG"),
    (0x008, "ERR"),
    (0x010, "HUP"),
    (0x2000, "RDHUP"),
    (1 << 30, "ONESHOT"),
    (1 << 31, "ET"),
];

/// The names of events, joined by `|`. The text is the thread's own until its next call.
#[allow(non_snake_case, reason = "mTCP's name for it")]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn EventToString(events: u32) -> *mut c_char {
    thread_local! {
        static TEXT: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    let mut text = String::new();
    for (_, name) in NAMES.iter().filter(|(bit, _)| events & bit != 0) {
        let bar = if text.is_empty() { "" } else { "|" };
        let _ = write!(text, "{bar}MTCP_EPOLL{name}");
    }
    let text = if text.is_empty() { "MTCP_EPOLLNONE".to_owned() } else { text };
    TEXT.with_borrow_mut(|place| {
        *place = [text.as_bytes(), &[0]].concat();
        place.as_mut_ptr().cast()
    })
}
