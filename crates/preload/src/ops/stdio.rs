//! The C library's streams on sockets. glibc reads and writes a stream's descriptor inside itself, past every
//! hook, so `fdopen` on a TCP socket gives a stream whose reads and writes come back to this library
//! (`fopencookie`). It answers `fileno`, buffers, and fails as one of glibc's own; only wide characters it
//! cannot have.
//!
//! The standard streams exist before any hook: a connection at descriptors 0 to 2 stays on TCP.

use core::ffi::{CStr, c_char};
use core::ptr;

use libc::{FILE, c_int, c_void, off64_t, size_t, ssize_t};
use ringway_channel::Reason;

use crate::hooks::{fd as descriptors, io};
use crate::real::{self, CookieFunctions};
use crate::table::{self, Entry};
use crate::{attach, kernel, sys, upgrade};

/// Where `struct _IO_FILE` keeps the descriptor (bits/types/struct_FILE.h: part of glibc's ABI).
const FILENO_OFFSET: usize = 112;
/// Characters of a mode that glibc looks at.
const MODE_MAX: usize = 7;

/// Descriptors that glibc's own streams use.
pub(crate) fn is_standard(fd: c_int) -> bool {
    (0..=2).contains(&fd)
}

/// A connection has come to sit at `fd`.
pub(crate) fn settled(fd: c_int) {
    if is_standard(fd)
        && let Some((_, c)) = upgrade::connection(fd)
    {
        attach::keep_on_tcp(c, fd, Reason::Stdio);
    }
}

/// At the start of a program: its standard streams may be a connection that its parent had upgraded.
pub(crate) fn adopt_standard_streams() {
    (0..=2).filter(|&fd| kernel::is_tcp(fd)).for_each(settled);
}

/// `fdopen`; `None` leaves it to libc.
///
/// # Safety
/// `mode` must be a string.
pub(crate) unsafe fn open(fd: c_int, mode: *const c_char) -> Option<*mut FILE> {
    // Also a socket that will be connected only later.
    if table::get(fd) != Entry::Tcp {
        upgrade::connection(fd)?;
    }
    // SAFETY: the caller's promise.
    let mode = unsafe { CStr::from_ptr(mode) }.to_bytes();
    let normalised = normalise(mode)?;
    let functions = CookieFunctions([
        read as *const () as usize,
        write as *const () as usize,
        seek as *const () as usize,
        close as *const () as usize,
    ]);
    // SAFETY: callbacks of fopencookie's types; the cookie is a number.
    let stream = unsafe { real::fopencookie()(fd as usize as *mut c_void, normalised.as_ptr(), functions) };
    if stream.is_null() {
        return Some(stream);
    }
    if mode.first() == Some(&b'a') {
        append(fd);
    }
    // SAFETY: a fresh stream of glibc's, whose layout is public.
    unsafe { stream.cast::<u8>().add(FILENO_OFFSET).cast::<c_int>().write(fd) };
    Some(stream)
}

/// The mode in the form that `fopencookie` understands; `None` for one that is wrong, or that asks for a
/// character set.
fn normalise(mode: &[u8]) -> Option<&'static CStr> {
    if mode.contains(&b',') {
        return None;
    }
    let plus = mode.iter().take(MODE_MAX).any(|&c| c == b'+');
    Some(match (mode.first()?, plus) {
        (b'r', false) => c"r",
        (b'w', false) => c"w",
        (b'a', false) => c"a",
        (b'r', true) => c"r+",
        (b'w', true) => c"w+",
        (b'a', true) => c"a+",
        _ => return None,
    })
}

/// As fdopen does for "a", though it means nothing to a socket.
fn append(fd: c_int) {
    // SAFETY: both commands take an integer.
    unsafe {
        let flags = sys::fcntl(fd, libc::F_GETFL, 0);
        if flags >= 0 && flags as c_int & libc::O_APPEND == 0 {
            sys::fcntl(fd, libc::F_SETFL, flags as usize | libc::O_APPEND as usize);
        }
    }
}

unsafe extern "C-unwind" fn read(cookie: *mut c_void, buf: *mut c_char, n: size_t) -> ssize_t {
    // SAFETY: glibc's own buffer.
    unsafe { io::read(cookie as usize as c_int, buf.cast(), n) }
}

/// As glibc's own streams: until everything is written or an error comes; never a negative answer.
unsafe extern "C-unwind" fn write(cookie: *mut c_void, buf: *const c_char, n: size_t) -> ssize_t {
    // SAFETY: glibc's own buffer.
    unsafe { write_all(cookie as usize as c_int, buf.cast(), n) as ssize_t }
}

/// Writes until everything is written or an error comes; how much was.
///
/// # Safety
/// `buf` must be readable for `n` bytes.
unsafe fn write_all(fd: c_int, buf: *const u8, n: usize) -> usize {
    let mut done = 0;
    while done < n {
        // SAFETY: the caller's promise.
        let written = unsafe { io::write(fd, buf.add(done).cast(), n - done) };
        if written < 0 {
            break;
        }
        done += written as usize;
    }
    done
}

unsafe extern "C-unwind" fn seek(_cookie: *mut c_void, _offset: *mut off64_t, _whence: c_int) -> c_int {
    sys::set_errno(libc::ESPIPE);
    -1
}

unsafe extern "C-unwind" fn close(cookie: *mut c_void) -> c_int {
    // SAFETY: the program's own fclose.
    unsafe { descriptors::close(cookie as usize as c_int) }
}

unsafe extern "C-unwind" {
    fn __vasprintf_chk(text: *mut *mut c_char, flag: c_int, format: *const c_char, list: *mut c_void) -> c_int;
}

/// `vdprintf`; `None` leaves it to libc. A positive `flag` asks for the checks of fortified programs.
///
/// # Safety
/// `format` and `list` must suit each other.
pub(crate) unsafe fn print(fd: c_int, flag: c_int, format: *const c_char, list: *mut c_void) -> Option<c_int> {
    upgrade::connection(fd)?;
    let mut text = ptr::null_mut();
    // SAFETY: the caller's promise; glibc allocates `text`, and it is freed once.
    unsafe {
        let n = __vasprintf_chk(&raw mut text, flag, format, list);
        if n < 0 {
            return Some(n);
        }
        let done = write_all(fd, text.cast(), n as usize);
        let errno = sys::errno();
        libc::free(text.cast());
        sys::set_errno(errno);
        Some(if done == n as usize { n } else { -1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_glibcs() {
        assert_eq!(normalise(b"r"), Some(c"r"));
        assert_eq!(normalise(b"rb"), Some(c"r"));
        assert_eq!(normalise(b"wb+"), Some(c"w+"));
        assert_eq!(normalise(b"a+e"), Some(c"a+"));
        assert_eq!(normalise(b"rbcmex+"), Some(c"r+"));
        assert_eq!(normalise(b"rbcmexy+"), Some(c"r"), "glibc looks no further");
        for wrong in [&b""[..], b"x", b"+r", b"r,ccs=UTF-8"] {
            assert_eq!(normalise(wrong), None);
        }
    }

    #[test]
    fn the_descriptor_lies_where_glibc_keeps_it() {
        // SAFETY: a stream of this test's own.
        unsafe {
            let stream = libc::fopen(c"/dev/null".as_ptr(), c"r".as_ptr());
            let fd = stream.cast::<u8>().add(FILENO_OFFSET).cast::<c_int>().read();
            assert_eq!(fd, libc::fileno(stream));
            libc::fclose(stream);
        }
    }
}
