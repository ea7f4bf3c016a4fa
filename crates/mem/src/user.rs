//! Reading at addresses that a program gave us, which may be wild.

use std::ffi::c_void;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_addresses_are_read_and_wild_ones_refused() {
        let (source, mut copy) = ([7; 100], [0; 100]);
        assert_eq!(read(source.as_ptr() as u64, &mut copy), Ok(()));
        assert_eq!(copy, source);
        for wild in [0, 0x10, u64::MAX - 4096] {
            assert_eq!(read(wild, &mut copy), Err(Errno::FAULT));
        }
    }
}
