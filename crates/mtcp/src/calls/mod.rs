//! The functions that C calls: pointers become slices and addresses, errors become errno. What must be true of pointers is
//! said in the headers; a context is checked, null is `EFAULT`.

mod core;
mod data;
mod sockets;
mod waits;

use std::sync::PoisonError;

use libc::{c_int, c_void, ssize_t};

use crate::contexts::{self, Context};
use crate::errno::{Errno, Result};
use crate::state::State;

pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: the place of this thread's errno is always there.
    unsafe { *libc::__errno_location() = errno };
}

/// Runs a call on a context's state. `EACCES` for what is no context, as mTCP has it.
fn call<T>(context: *mut Context, work: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
    if !contexts::is_known(context) {
        return Err(Errno(libc::EACCES));
    }
    // SAFETY: a known context exists until mtcp_destroy_context, which no other call of it overlaps (the header says so).
    let context = unsafe { &*context };
    work(&mut context.state.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The answer of a call in C: -1 and errno for an error.
fn finish(answer: Result<usize>) -> ssize_t {
    answer.map_or_else(
        |Errno(errno)| {
            set_errno(errno);
            -1
        },
        |value| value as ssize_t,
    )
}

fn finish_int(answer: Result<usize>) -> c_int {
    finish(answer) as c_int
}

fn done(answer: Result<()>) -> c_int {
    finish_int(answer.map(|()| 0))
}

/// A socket's number.
fn number(socket: c_int) -> Result<usize> {
    usize::try_from(socket).map_err(|_| Errno::BADF)
}

/// # Safety
/// `memory` is null or has `bytes` bytes that may be read as long as the result is used.
unsafe fn input<'a>(memory: *const c_void, bytes: usize) -> Result<&'a [u8]> {
    match (memory.is_null(), bytes) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Errno::FAULT),
        // SAFETY: the caller's promise; no object is larger than isize::MAX.
        _ => Ok(unsafe { std::slice::from_raw_parts(memory.cast(), bytes.min(isize::MAX as usize)) }),
    }
}

/// # Safety
/// `memory` is null or has room for `bytes` values, for this call alone.
unsafe fn output<'a, T>(memory: *mut T, count: usize) -> Result<&'a mut [T]> {
    match (memory.is_null(), count) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Errno::FAULT),
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(memory, count.min(isize::MAX as usize / size_of::<T>())) }),
    }
}

/// Writes a value as `getsockopt` and `accept` do: as much as there is room for, and then its length.
///
/// # Safety
/// `room` is null or points to the bytes at `place`, which is null only if `room` is.
unsafe fn give(value: &[u8], place: *mut c_void, room: *mut libc::socklen_t, true_length: bool) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        let room = room.as_mut().ok_or(Errno::FAULT)?;
        let given = c_int::try_from(*room).map_err(|_| Errno::INVAL)? as usize;
        let taken = value.len().min(given);
        output(place.cast::<u8>(), taken)?.copy_from_slice(&value[..taken]);
        *room = if true_length { value.len() } else { taken } as libc::socklen_t;
    }
    Ok(())
}
