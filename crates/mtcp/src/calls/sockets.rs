//! Sockets from being made to being closed, and what is asked of them.

use libc::{c_int, c_void, sockaddr, socklen_t};
use ringway_stack::Endpoint;

use super::{call, done, finish_int, give, input, number, output};
use crate::contexts::Context;
use crate::errno::{Errno, Result};
use crate::options::FIONBIO;

#[unsafe(no_mangle)]
pub(crate) extern "C" fn mtcp_socket(context: *mut Context, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    finish_int(call(context, |state| state.open(domain, kind, protocol)))
}

/// # Safety
/// Here and below: `address` is null or has `length` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_bind(
    context: *mut Context,
    socket: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let address = unsafe { input(address.cast(), length as usize) };
    done(call(context, |state| state.bind(number(socket)?, address?)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn mtcp_listen(context: *mut Context, socket: c_int, backlog: c_int) -> c_int {
    done(call(context, |state| state.listen(number(socket)?, backlog)))
}

/// # Safety
/// `address` is null or has `*length` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_accept(
    context: *mut Context,
    socket: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: as below.
    unsafe { mtcp_accept4(context, socket, address, length, 0) }
}

/// # Safety
/// `address` is null or has `*length` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_accept4(
    context: *mut Context,
    socket: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    finish_int(call(context, |state| {
        if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
            return Err(Errno::INVAL);
        }
        let accepted = state.accept(number(socket)?, flags & libc::SOCK_NONBLOCK != 0)?;
        if !address.is_null() {
            // A peer that has gone again has no name any more.
            let name = state.peer_name(accepted).unwrap_or_default();
            // SAFETY: the caller's promise.
            if let Err(errno) = unsafe { give(&name, address.cast(), length, true) } {
                state.close(accepted)?;
                return Err(errno);
            }
        }
        Ok(accepted)
    }))
}

/// # Safety
/// See [`mtcp_bind`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_connect(
    context: *mut Context,
    socket: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let address = unsafe { input(address.cast(), length as usize) };
    done(call(context, |state| state.connect(number(socket)?, address?)))
}

/// Addresses and port are in network order, as mTCP has them.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn mtcp_init_rss(
    context: *mut Context,
    first: libc::in_addr_t,
    count: c_int,
    to: libc::in_addr_t,
    port: libc::in_addr_t,
) -> c_int {
    done(call(context, |state| {
        let to = Endpoint::new(to.to_ne_bytes().into(), u16::from_be(port as u16));
        state.set_range(first.to_ne_bytes().into(), u32::try_from(count).map_err(|_| Errno::INVAL)?, to)
    }))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn mtcp_shutdown(context: *mut Context, socket: c_int, how: c_int) -> c_int {
    done(call(context, |state| state.shutdown(number(socket)?, how)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn mtcp_close(context: *mut Context, socket: c_int) -> c_int {
    done(call(context, |state| state.close(number(socket)?)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn mtcp_abort(context: *mut Context, socket: c_int) -> c_int {
    done(call(context, |state| state.abort(number(socket)?)))
}

/// # Safety
/// `ends` is null or has room for two numbers.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_pipe(context: *mut Context, ends: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    let ends = unsafe { output(ends, 2) };
    done(call(context, |state| {
        let ends = ends?;
        ends.copy_from_slice(&state.pipe()?.map(|end| end as c_int));
        Ok(())
    }))
}

/// # Safety
/// `address` has `*length` bytes, or one of them is null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_getsockname(
    context: *mut Context,
    socket: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    done(call(context, |state| {
        let name = state.local_name(number(socket)?)?;
        // SAFETY: the caller's promise.
        unsafe { give(&name, address.cast(), length, true) }
    }))
}

/// # Safety
/// See [`mtcp_getsockname`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_getpeername(
    context: *mut Context,
    socket: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    done(call(context, |state| {
        let name = state.peer_name(number(socket)?)?;
        // SAFETY: the caller's promise.
        unsafe { give(&name, address.cast(), length, true) }
    }))
}

/// # Safety
/// `value` has `*length` bytes, or one of them is null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_getsockopt(
    context: *mut Context,
    socket: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    done(call(context, |state| {
        let found = state.option(number(socket)?, level, name)?;
        // SAFETY: the caller's promise.
        unsafe { give(&found, value, length, false) }
    }))
}

/// # Safety
/// `value` is null or has `length` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_setsockopt(
    context: *mut Context,
    socket: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let value = unsafe { input(value, length as usize) };
    done(call(context, |state| state.set_option(number(socket)?, level, name, value?)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn mtcp_setsock_nonblock(context: *mut Context, socket: c_int) -> c_int {
    done(call(context, |state| state.ioctl(number(socket)?, FIONBIO, 1).map(drop)))
}

/// # Safety
/// `arg` is null or points to an int.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_socket_ioctl(
    context: *mut Context,
    socket: c_int,
    request: c_int,
    arg: *mut c_void,
) -> c_int {
    done(call(context, |state| -> Result<()> {
        // SAFETY: the caller's promise.
        let place = unsafe { arg.cast::<c_int>().as_mut() }.ok_or(Errno::FAULT)?;
        *place = state.ioctl(number(socket)?, u64::from(request as u32), *place)?;
        Ok(())
    }))
}
