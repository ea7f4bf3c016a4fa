//! Calls by which the kernel moves bytes from descriptor to descriptor.
//!
//! `tee`, `vmsplice` and `copy_file_range` refuse sockets, so they need no hook.

use libc::{c_int, c_uint, off_t, size_t, ssize_t};

use super::io::export;
use crate::conn::Conn;
use crate::ops::transfer;
use crate::tx::Outcome;
use crate::upgrade::{Route, received, route_rx, route_tx, sent};
use crate::{real, sys};

/// A transfer into `fd`: by the kernel, counted, or by the ring.
fn sending(fd: c_int, original: impl Fn() -> ssize_t, ring: impl FnOnce(u32, &'static Conn) -> Outcome) -> ssize_t {
    match route_tx(fd) {
        Route::Kernel => original(),
        Route::Counted(index, c) => {
            let answer = original();
            sent(index, c, fd, answer);
            answer
        }
        Route::Ring(index, c) => finish(ring(index, c), original),
    }
}

/// A transfer out of `fd`; as `sending`.
fn receiving(fd: c_int, original: impl Fn() -> ssize_t, ring: impl FnOnce(u32, &'static Conn) -> Outcome) -> ssize_t {
    match route_rx(fd) {
        Route::Kernel => original(),
        Route::Counted(index, c) => {
            let answer = original();
            received(index, c, fd, answer);
            answer
        }
        Route::Ring(index, c) => finish(ring(index, c), original),
    }
}

fn finish(outcome: Outcome, original: impl Fn() -> ssize_t) -> ssize_t {
    match outcome {
        Outcome::Kernel => original(),
        Outcome::Done(answer) => sys::finish(answer),
    }
}

export!(sendfile, sendfile64 = fn(to: c_int, from: c_int, at: *mut off_t, n: size_t) -> ssize_t {
    // SAFETY: the program's own call.
    let original = || unsafe { real::sendfile()(to, from, at, n) };
    let into_pipe = || receiving(from, original, |index, c| {
        if n > 0 && at.is_null() && transfer::is_pipe(to) {
            transfer::to_pipe(index, c, from, to, n, 0)
        } else {
            Outcome::Kernel
        }
    });
    sending(to, into_pipe, |index, c| transfer::send_file(index, c, to, from, at, n))
});

const SPLICE_FLAGS: c_uint = libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;

export!(splice = fn(from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, n: size_t, flags: c_uint) -> ssize_t {
    // SAFETY: the program's own call.
    let original = || unsafe { real::splice()(from, from_at, to, to_at, n, flags) };
    let good = n > 0 && from_at.is_null() && to_at.is_null() && flags & !SPLICE_FLAGS == 0;
    let out = || receiving(from, original, |index, c| {
        if good && transfer::is_pipe(to) { transfer::to_pipe(index, c, from, to, n, flags) } else { Outcome::Kernel }
    });
    sending(to, out, |index, c| {
        if good && transfer::is_pipe(from) { transfer::from_pipe(index, c, to, from, n, flags) } else { Outcome::Kernel }
    })
});
