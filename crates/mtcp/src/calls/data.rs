//! Receiving and sending.

use libc::{c_int, c_void, iovec, size_t, ssize_t};

use super::{call, finish, input, number, output};
use crate::contexts::Context;
use crate::errno::{Errno, Result};
use crate::state::State;

/// Parts of one call at most (`UIO_MAXIOV`).
const PARTS_MAX: c_int = 1024;

/// # Safety
/// `buffer` is null or has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_recv(
    context: *mut Context,
    socket: c_int,
    buffer: *mut c_void,
    bytes: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    let out = unsafe { output(buffer.cast(), bytes) };
    finish(call(context, |state| state.receive(number(socket)?, out?, flags)))
}

/// # Safety
/// As [`mtcp_recv`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_read(
    context: *mut Context,
    socket: c_int,
    buffer: *mut c_void,
    bytes: size_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { mtcp_recv(context, socket, buffer, bytes, 0) }
}

/// # Safety
/// `buffer` is null or has `bytes` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_send(
    context: *mut Context,
    socket: c_int,
    buffer: *const c_void,
    bytes: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    let bytes = unsafe { input(buffer, bytes) };
    finish(call(context, |state| state.send(number(socket)?, bytes?, flags)))
}

/// # Safety
/// As [`mtcp_send`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_write(
    context: *mut Context,
    socket: c_int,
    buffer: *const c_void,
    bytes: size_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { mtcp_send(context, socket, buffer, bytes, 0) }
}

/// # Safety
/// `parts` is null or has `count` parts, each null or with room for as many bytes as it says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_readv(
    context: *mut Context,
    socket: c_int,
    parts: *const iovec,
    count: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    let parts = unsafe { list(parts, count) };
    finish(call(context, |state| {
        each(state, parts?, |state, part, is_first| {
            // SAFETY: the caller's promise.
            let out = unsafe { output(part.iov_base.cast(), part.iov_len) }?;
            // What has come is enough.
            state.receive(number(socket)?, out, if is_first { 0 } else { libc::MSG_DONTWAIT })
        })
    }))
}

/// # Safety
/// `parts` is null or has `count` parts, each null or with as many bytes as it says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_writev(
    context: *mut Context,
    socket: c_int,
    parts: *const iovec,
    count: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    let parts = unsafe { list(parts, count) };
    finish(call(context, |state| {
        each(state, parts?, |state, part, _| {
            // SAFETY: the caller's promise.
            let bytes = unsafe { input(part.iov_base, part.iov_len) }?;
            state.send(number(socket)?, bytes, 0)
        })
    }))
}

/// # Safety
/// `parts` is null or has `count` parts.
unsafe fn list<'a>(parts: *const iovec, count: c_int) -> Result<&'a [iovec]> {
    if !(0..=PARTS_MAX).contains(&count) {
        return Err(Errno::INVAL);
    }
    match (parts.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Errno::FAULT),
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts(parts, count as usize) }),
    }
}

/// Moves part after part, until one is not moved whole.
fn each(
    state: &mut State,
    parts: &[iovec],
    mut one: impl FnMut(&mut State, &iovec, bool) -> Result<usize>,
) -> Result<usize> {
    let mut moved = 0;
    for part in parts.iter().filter(|part| part.iov_len > 0) {
        match one(state, part, moved == 0) {
            Ok(bytes) => {
                moved += bytes;
                if bytes < part.iov_len {
                    break;
                }
            }
            Err(_) if moved > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(moved)
}
