//! Reading and writing: each name, its aliases and its fortified twin. Conversions only; the work is in
//! `tx` and `rx`.

use libc::{c_int, c_void, iovec, mmsghdr, msghdr, off64_t, size_t, sockaddr, socklen_t, ssize_t, timespec};

use crate::iov::Cursor;
use crate::ops::message;
use crate::tx::Outcome;
use crate::upgrade::{self, Route, received, route_rx, route_tx, sending, sent};
use crate::{attach, copy, quick, real, rx, sys, tx, wait};

/// Sends: by the kernel, counted, or by the ring.
macro_rules! sending {
    ($fd:expr, $cursor:expr, $flags:expr, $original:expr) => {
        match route_tx($fd) {
            Route::Kernel => $original,
            Route::Counted(index, c) => {
                sending(c, $fd, $flags);
                let answer = $original;
                sent(index, c, $fd, answer);
                answer
            }
            Route::Ring(index, c) => match cancellable($cursor) {
                Ok(mut cursor) => match tx::send(index, c, $fd, &mut cursor, $flags) {
                    Outcome::Kernel => $original,
                    Outcome::Done(answer) => sys::finish(answer),
                },
                Err(errno) => sys::finish(-(errno as isize)),
            },
        }
    };
}

/// Receives; as `sending`.
macro_rules! receiving {
    ($fd:expr, $cursor:expr, $flags:expr, $original:expr) => {
        match route_rx($fd) {
            Route::Kernel => $original,
            Route::Counted(index, c) => {
                let answer = $original;
                received(index, c, $fd, answer);
                answer
            }
            Route::Ring(index, c) => match cancellable($cursor) {
                Ok(mut cursor) => match rx::receive(index, c, $fd, &mut cursor, $flags) {
                    Outcome::Kernel => $original,
                    Outcome::Done(answer) => sys::finish(answer),
                },
                Err(errno) => sys::finish(-(errno as isize)),
            },
        }
    };
}

/// Exports a function under several names.
macro_rules! export {
    (@one $name:ident ($($arg:ident: $t:ty),* $(,)?) $ret:ty, $body:block) => {
        /// # Safety
        /// As libc's function of this name.
        #[allow(non_snake_case)]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $t),*) -> $ret $body
    };
    ($name:ident $(, $alias:ident)* = fn $args:tt -> $ret:ty $body:block) => {
        export!(@one $name $args $ret, $body);
        $( export!(@one $alias $args $ret, $body); )*
    };
}
pub(crate) use export;

/// Calls on sockets are cancellation points: a pending request is acted on before anything is done.
#[inline]
fn cancellable<T>(argument: T) -> T {
    wait::cancellation_point();
    argument
}

fn vector(iov: *const iovec, count: c_int) -> Result<Cursor, c_int> {
    usize::try_from(count).map_err(|_| libc::EINVAL).and_then(|count| Cursor::vector(iov, count))
}

export!(read, __read = fn(fd: c_int, buf: *mut c_void, n: size_t) -> ssize_t {
    if let Some(bytes) = quick::receive(fd, buf, n, rx::AS_FILE) {
        return bytes;
    }
    // SAFETY: the program's own call.
    receiving!(fd, Cursor::file(buf, n), rx::AS_FILE, unsafe { real::read()(fd, buf, n) })
});

export!(recv, __recv = fn(fd: c_int, buf: *mut c_void, n: size_t, flags: c_int) -> ssize_t {
    if let Some(bytes) = quick::receive(fd, buf, n, flags) {
        return bytes;
    }
    // SAFETY: the program's own call.
    receiving!(fd, Cursor::single(buf, n), flags, unsafe { real::recv()(fd, buf, n, flags) })
});

export!(readv = fn(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the program's own call.
    receiving!(fd, vector(iov, count), rx::AS_FILE, unsafe { real::readv()(fd, iov, count) })
});

export!(write, __write = fn(fd: c_int, buf: *const c_void, n: size_t) -> ssize_t {
    if let Some(bytes) = quick::send(fd, buf, n, 0) {
        return bytes;
    }
    // SAFETY: the program's own call.
    sending!(fd, Cursor::file(buf.cast_mut(), n), 0, unsafe { real::write()(fd, buf, n) })
});

export!(send, __send = fn(fd: c_int, buf: *const c_void, n: size_t, flags: c_int) -> ssize_t {
    if let Some(bytes) = quick::send(fd, buf, n, flags) {
        return bytes;
    }
    // SAFETY: the program's own call.
    sending!(fd, Cursor::single(buf.cast_mut(), n), flags, unsafe { real::send()(fd, buf, n, flags) })
});

export!(writev = fn(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the program's own call.
    sending!(fd, vector(iov, count), 0, unsafe { real::writev()(fd, iov, count) })
});

export!(recvfrom = fn(fd: c_int, buf: *mut c_void, n: size_t, flags: c_int, from: *mut sockaddr, len: *mut socklen_t) -> ssize_t {
    // TCP ignores the address, except that it reports a length of 0.
    // SAFETY: the program's own call.
    let answer = receiving!(fd, Cursor::single(buf, n), flags, unsafe { real::recvfrom()(fd, buf, n, flags, from, len) });
    if answer >= 0 && !from.is_null() && attach::is_armed() && upgrade::upgraded(fd).is_some() {
        // SAFETY: a bad address is survived.
        unsafe { copy::write(len, 0) };
    }
    answer
});

export!(sendto = fn(fd: c_int, buf: *const c_void, n: size_t, flags: c_int, to: *const sockaddr, len: socklen_t) -> ssize_t {
    // SAFETY: the program's own call.
    let answer = sending!(fd, Cursor::single(buf.cast_mut(), n), flags, unsafe { real::sendto()(fd, buf, n, flags, to, len) });
    if flags & libc::MSG_FASTOPEN != 0 {
        super::socket::connected_by_sending(fd, answer);
    }
    answer
});

export!(__read_chk = fn(fd: c_int, buf: *mut c_void, n: size_t, buflen: size_t) -> ssize_t {
    // SAFETY: the program's own call; the original also judges an overflow.
    receiving!(fd, checked(buf, n, buflen), 0, unsafe { real::__read_chk()(fd, buf, n, buflen) })
});

export!(__recv_chk = fn(fd: c_int, buf: *mut c_void, n: size_t, buflen: size_t, flags: c_int) -> ssize_t {
    // SAFETY: as above.
    receiving!(fd, checked(buf, n, buflen), flags, unsafe { real::__recv_chk()(fd, buf, n, buflen, flags) })
});

export!(__recvfrom_chk = fn(
    fd: c_int, buf: *mut c_void, n: size_t, buflen: size_t, flags: c_int, from: *mut sockaddr, len: *mut socklen_t
) -> ssize_t {
    // SAFETY: as above.
    receiving!(fd, checked(buf, n, buflen), flags, unsafe { real::__recvfrom_chk()(fd, buf, n, buflen, flags, from, len) })
});

/// A fortified call's buffer. One that overflows aborts, as libc's own check does.
fn checked(buf: *mut c_void, n: size_t, buflen: size_t) -> Result<Cursor, c_int> {
    if n > buflen {
        std::process::abort();
    }
    Cursor::single(buf, n)
}

export!(preadv2, preadv64v2 = fn(fd: c_int, iov: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t {
    if offset == -1 {
        // SAFETY: the program's own call.
        return receiving!(fd, vector(iov, count), rwf(flags), unsafe { real::preadv2()(fd, iov, count, offset, flags) });
    }
    // SAFETY: as above.
    unsafe { real::preadv2()(fd, iov, count, offset, flags) }
});

export!(pwritev2, pwritev64v2 = fn(fd: c_int, iov: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t {
    if offset == -1 {
        // SAFETY: the program's own call.
        return sending!(fd, vector(iov, count), rwf(flags), unsafe { real::pwritev2()(fd, iov, count, offset, flags) });
    }
    // SAFETY: as above.
    unsafe { real::pwritev2()(fd, iov, count, offset, flags) }
});

/// Flags of preadv2 in those of recv.
fn rwf(flags: c_int) -> c_int {
    if flags & libc::RWF_NOWAIT != 0 { libc::MSG_DONTWAIT } else { 0 }
}

export!(recvmsg = fn(fd: c_int, msg: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the program's own call.
    let original = || unsafe { real::recvmsg()(fd, msg, flags) };
    let answer = match route_rx(fd) {
        Route::Kernel => original(),
        Route::Counted(index, c) => {
            let answer = original();
            received(index, c, fd, answer);
            answer
        }
        Route::Ring(index, c) => match message::receive(index, cancellable(c), fd, msg, flags) {
            Outcome::Kernel => original(),
            Outcome::Done(answer) => return sys::finish(answer),
        },
    };
    message::note_descriptors(msg, answer);
    answer
});

export!(sendmsg = fn(fd: c_int, msg: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the program's own call.
    let original = || unsafe { real::sendmsg()(fd, msg, flags) };
    match route_tx(fd) {
        Route::Kernel => message::share_while(core::iter::once(msg), original),
        Route::Counted(index, c) => {
            sending(c, fd, flags);
            let answer = original();
            sent(index, c, fd, answer);
            answer
        }
        Route::Ring(index, c) => match message::send(index, cancellable(c), fd, msg, flags) {
            Outcome::Kernel => original(),
            Outcome::Done(answer) => sys::finish(answer),
        },
    }
});

export!(recvmmsg = fn(fd: c_int, messages: *mut mmsghdr, count: u32, flags: c_int, timeout: *mut timespec) -> c_int {
    // SAFETY: the program's own call.
    let original = || unsafe { real::recvmmsg()(fd, messages, count, flags, timeout) };
    match route_rx(fd) {
        Route::Kernel => {
            let answer = original();
            message::note_descriptors_many(messages, answer);
            answer
        }
        Route::Counted(index, c) => {
            let answer = original();
            received(index, c, fd, answer as isize);
            answer
        }
        Route::Ring(index, c) => match message::receive_many(index, cancellable(c), fd, messages, count, flags, timeout) {
            Outcome::Kernel => original(),
            Outcome::Done(answer) => sys::finish(answer) as c_int,
        },
    }
});

export!(sendmmsg, __sendmmsg = fn(fd: c_int, messages: *mut mmsghdr, count: u32, flags: c_int) -> c_int {
    // SAFETY: the program's own call.
    let original = || unsafe { real::sendmmsg()(fd, messages, count, flags) };
    match route_tx(fd) {
        Route::Kernel => {
            let each = (0..count.min(message::MESSAGES_MAX) as usize).map(|i| {
                // SAFETY: address arithmetic only.
                unsafe { &raw const (*messages.wrapping_add(i)).msg_hdr }
            });
            message::share_while(each, || original() as isize) as c_int
        }
        Route::Counted(index, c) => {
            sending(c, fd, flags);
            let answer = original();
            sent(index, c, fd, answer as isize);
            answer
        }
        Route::Ring(index, c) => match message::send_many(index, cancellable(c), fd, messages, count, flags) {
            Outcome::Kernel => original(),
            Outcome::Done(answer) => sys::finish(answer) as c_int,
        },
    }
});
