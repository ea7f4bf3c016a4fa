//! Reading and writing at addresses, and using descriptors, that a program gave us, which may be wild.

use std::ffi::c_void;
use std::os::fd::{FromRawFd, OwnedFd};

use rustix::io::Errno;

/// Copies `to.len()` bytes at `address` of this process.
///
/// # Errors
/// `EFAULT` if not all of them can be read; nothing crashes.
pub fn read(address: u64, to: &mut [u8]) -> Result<(), Errno> {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: to.len() };
    // SAFETY: the kernel writes into `to` only, which is ours, and checks the other address itself.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    if copied == to.len() as isize { Ok(()) } else { Err(Errno::FAULT) }
}

/// Copies `from` to `address` of this process, which a program gave as a place to write to.
///
/// # Errors
/// `EFAULT` if not all of it can be written; nothing crashes.
pub fn write(address: u64, from: &[u8]) -> Result<(), Errno> {
    let local = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: from.len() };
    // SAFETY: the kernel reads `from` and checks the other address itself. What lies there is the program's, which
    // asked for the answer at that place, as it would ask the kernel in an ioctl.
    let copied = unsafe { libc::process_vm_writev(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    if copied == from.len() as isize { Ok(()) } else { Err(Errno::FAULT) }
}

/// A duplicate of a descriptor whose number a program gave us.
///
/// # Errors
/// `EBADF` if there is none of that number.
pub fn duplicate(fd: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: F_DUPFD_CLOEXEC takes integers, of which the kernel checks the first.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 {
        return Err(Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EBADF)));
    }
    // SAFETY: made just now, so nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WILD: [u64; 3] = [0, 0x10, u64::MAX - 4096];

    #[test]
    fn good_addresses_are_read_and_wild_ones_refused() {
        let (source, mut copy) = ([7; 100], [0; 100]);
        assert_eq!(read(source.as_ptr() as u64, &mut copy), Ok(()));
        assert_eq!(copy, source);
        for wild in WILD {
            assert_eq!(read(wild, &mut copy), Err(Errno::FAULT));
        }
    }

    #[test]
    fn good_addresses_are_written_and_wild_ones_refused() {
        let mut target = vec![0u8; 100];
        assert_eq!(write(target.as_mut_ptr() as u64, &[9; 50]), Ok(()));
        assert_eq!(target, [[9; 50], [0; 50]].concat());
        for wild in WILD {
            assert_eq!(write(wild, &[1; 50]), Err(Errno::FAULT));
        }
    }
}
