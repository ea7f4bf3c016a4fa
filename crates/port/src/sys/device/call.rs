//! Raw system calls with a structure as argument, and their answers as `Result`.

use std::ffi::{c_int, c_long};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

pub(super) fn answer(result: c_long) -> Result<usize, Errno> {
    // SAFETY: errno's place is valid as long as the thread lives; `syscall` has just written it if it failed.
    let errno = || Errno::from_raw_os_error(unsafe { *libc::__errno_location() });
    if result < 0 { Err(errno()) } else { Ok(result as usize) }
}

/// # Safety
/// `request` must be one that reads or writes at most a `T` there.
pub(super) unsafe fn ioctl<T>(fd: BorrowedFd<'_>, request: u64, argument: &mut T) -> Result<usize, Errno> {
    // SAFETY: the descriptor is open and the argument as large as the request wants it, as the caller promises.
    answer(unsafe { libc::syscall(libc::SYS_ioctl, fd.as_raw_fd(), request, std::ptr::from_mut(argument)) })
}

/// # Safety
/// `T` must have no padding, and what it points to (if it does) be as the option wants it.
pub(super) unsafe fn set<T>(fd: BorrowedFd<'_>, level: c_int, option: c_int, value: &T) -> Result<(), Errno> {
    let (value, bytes) = (std::ptr::from_ref(value), size_of::<T>());
    // SAFETY: the kernel reads `bytes` bytes of an initialised value.
    answer(unsafe { libc::syscall(libc::SYS_setsockopt, fd.as_raw_fd(), level, option, value, bytes) }).map(drop)
}

/// # Safety
/// All bytes zero, and whatever the kernel writes for this option, must be valid as a `T`.
pub(super) unsafe fn get<T>(fd: BorrowedFd<'_>, level: c_int, option: c_int) -> Result<T, Errno> {
    // SAFETY: zero is valid, as the caller promises.
    let mut value: T = unsafe { zeroed() };
    let mut bytes = size_of::<T>() as u32;
    let (to, len) = (&raw mut value, &raw mut bytes);
    // SAFETY: the kernel writes at most `bytes` bytes to `value`.
    answer(unsafe { libc::syscall(libc::SYS_getsockopt, fd.as_raw_fd(), level, option, to, len) })?;
    Ok(value)
}

/// # Safety
/// `T` must be a socket address as the family wants it, without padding.
pub(super) unsafe fn bind<T>(fd: BorrowedFd<'_>, address: &T) -> Result<(), Errno> {
    let (address, bytes) = (std::ptr::from_ref(address), size_of::<T>());
    // SAFETY: the kernel reads `bytes` bytes of an initialised value.
    answer(unsafe { libc::syscall(libc::SYS_bind, fd.as_raw_fd(), address, bytes) }).map(drop)
}

/// A new socket, closed on exec, whose calls do not block.
pub(super) fn socket(family: c_int, kind: c_int) -> Result<std::os::fd::OwnedFd, Errno> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: three numbers; a descriptor that comes back is new, and nobody else's.
    unsafe {
        let fd = answer(libc::syscall(libc::SYS_socket, family, kind, 0))?;
        Ok(std::os::fd::FromRawFd::from_raw_fd(fd as c_int))
    }
}
