//! `/dev/netmap` by libc's names, which libringway.so serves where the kernel does not.

use std::ffi::{c_int, c_ulong, c_void};

use ringway_netmap::abi;

use crate::context::{errno, report};
use crate::layout::{Nmctx, NmreqHeader};

/// Opens the device; negative, and reported, if there is none.
///
/// # Safety
/// `ctx` is a valid context.
pub(crate) unsafe fn open(ctx: *mut Nmctx) -> c_int {
    // SAFETY: a constant path.
    let fd = unsafe { libc::open(c"/dev/netmap".as_ptr(), libc::O_RDWR) };
    if fd < 0 {
        let errno = errno();
        // SAFETY: the caller's promise.
        unsafe { report(ctx, errno, &no_device(errno)) };
    }
    fd
}

pub(crate) fn no_device(errno: c_int) -> String {
    let words = crate::context::in_words(errno);
    match errno {
        libc::ENOENT => {
            format!("/dev/netmap: {words}; link with -Wl,--no-as-needed -lringway, or start with `ringway run`")
        }
        _ => format!("/dev/netmap: {words}"),
    }
}

/// NIOCCTRL.
///
/// # Safety
/// `request` is a valid request with its body and options.
pub(crate) unsafe fn control(fd: c_int, request: *mut NmreqHeader) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { libc::ioctl(fd, c_ulong::from(abi::NIOCCTRL), request) }
}

/// Maps the memory behind a bound descriptor; None, and errno, if that fails.
pub(crate) fn map(fd: c_int, bytes: usize) -> Option<*mut c_void> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at a place of the kernel's choice.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd, 0) };
    (memory != libc::MAP_FAILED).then_some(memory)
}
