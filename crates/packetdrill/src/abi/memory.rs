//! What C hands over by pointer, and how results go back.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::errno::{Errno, Result};
use crate::world::World;

/// # Safety
/// `userdata` is the one that `packetdrill_interface_init` gave, and not yet freed.
pub(super) unsafe fn world<'a>(userdata: *mut c_void) -> &'a World {
    // SAFETY: it came from an `Arc<World>`, which lives until `free`.
    unsafe { &*userdata.cast::<World>().cast_const() }
}

/// # Safety
/// `text` is null or a C string.
pub(super) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// # Safety
/// `at` is null or `len` bytes that can be read for as long as the call lasts.
pub(super) unsafe fn bytes<'a>(at: *const c_void, len: usize) -> Result<&'a [u8]> {
    match (at.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Errno::FAULT),
        // SAFETY: the caller's promise.
        (false, _) => Ok(unsafe { core::slice::from_raw_parts(at.cast(), len) }),
    }
}

/// # Safety
/// `at` is null or `len` values of `T` that can be read and written for as long as the call lasts.
pub(super) unsafe fn values<'a, T>(at: *mut T, len: usize) -> Result<&'a mut [T]> {
    match (at.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Errno::FAULT),
        // SAFETY: the caller's promise.
        (false, _) => Ok(unsafe { core::slice::from_raw_parts_mut(at, len) }),
    }
}

/// Writes as much of `value` as `*len` says fits, and into `*len` how much that is; nothing if both are null.
///
/// # Safety
/// `len` is null or can be read and written, and `*len` bytes at `out` can be written.
pub(super) unsafe fn answer(value: &[u8], out: *mut c_void, len: *mut libc::socklen_t, whole: bool) -> Result<()> {
    if out.is_null() || len.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    let (len, room) = unsafe { (&mut *len, *len as usize) };
    let fits = value.len().min(room);
    // SAFETY: the caller's promise.
    unsafe { values(out.cast::<u8>(), fits)? }.copy_from_slice(&value[..fits]);
    // An address tells its whole length, an option how much was written (accept(2), getsockopt(2)).
    *len = if whole { value.len() } else { fits } as libc::socklen_t;
    Ok(())
}

/// A result as C sees it: the value, or -1 and errno.
pub(super) fn code(result: Result<i32>) -> c_int {
    result.unwrap_or_else(|errno| {
        set_errno(errno);
        -1
    })
}

/// The same for calls that count bytes.
pub(super) fn count(result: Result<usize>) -> isize {
    match result {
        Ok(bytes) => bytes as isize,
        Err(errno) => {
            set_errno(errno);
            -1
        }
    }
}

fn set_errno(errno: Errno) {
    // SAFETY: the place is this thread's own.
    unsafe { *libc::__errno_location() = errno.0 };
}
