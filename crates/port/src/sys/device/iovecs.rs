//! Frames that lie in the buffers of slots, read and written by one system call each.

use std::os::fd::{AsRawFd, OwnedFd};

use ringway_mem::pool::Pool;
use ringway_mem::slot::NETMAP_MAX_FRAGS;
use rustix::io::Errno;

use super::call;

/// Addresses of a frame's parts: a header of ours, then buffers of a pool.
///
/// The buffers must be the port's side of a ring (pending in a tx ring, free in an rx ring); the kernel copies into
/// and out of them, and what another process does to them meanwhile garbles bytes, never memory.
pub(crate) struct Frame<'a> {
    parts: [libc::iovec; NETMAP_MAX_FRAGS + 1],
    len: usize,
    /// Everything that the parts point to stays borrowed.
    _of: std::marker::PhantomData<(&'a mut [u8], &'a Pool)>,
}

impl<'a> Frame<'a> {
    /// A frame that begins with `header`, which may be empty.
    pub(crate) fn new(header: &'a mut [u8]) -> Frame<'a> {
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut frame = Frame { parts: [nothing; NETMAP_MAX_FRAGS + 1], len: 0, _of: std::marker::PhantomData };
        if !header.is_empty() {
            frame.parts[0] = libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: header.len() };
            frame.len = 1;
        }
        frame
    }

    /// Goes on in the first `bytes` of a buffer, or as many as it has. Beyond 64 buffers nothing is added.
    pub(crate) fn push(&mut self, pool: &'a Pool, buffer: u32, bytes: usize) {
        let all = pool.buffers();
        let (start, most) =
            (buffer as usize * pool.config().buffer_bytes as usize, pool.config().buffer_bytes as usize);
        if self.len < self.parts.len() && start < all.len() {
            let place = all.cast::<u8>().as_ptr().wrapping_add(start);
            self.parts[self.len] = libc::iovec { iov_base: place.cast(), iov_len: bytes.min(most) };
            self.len += 1;
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.parts[..self.len].iter().map(|part| part.iov_len).sum()
    }

    /// Reads one frame into the parts; returns its length, cut at their end.
    pub(crate) fn read(&mut self, fd: &OwnedFd) -> Result<usize, Errno> {
        // SAFETY: the parts lie in the borrowed header and in the mapping of the borrowed pool.
        call::answer(unsafe { libc::syscall(libc::SYS_readv, fd.as_raw_fd(), self.parts.as_ptr(), self.len) })
    }

    /// Writes the parts as one frame.
    pub(crate) fn write(&self, fd: &OwnedFd) -> Result<usize, Errno> {
        // SAFETY: as above.
        call::answer(unsafe { libc::syscall(libc::SYS_writev, fd.as_raw_fd(), self.parts.as_ptr(), self.len) })
    }

    /// What `sendmmsg` wants for one message.
    pub(super) fn message(&mut self) -> libc::mmsghdr {
        // SAFETY: a structure of numbers and pointers, for which zero is valid.
        let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        message.msg_hdr.msg_iov = self.parts.as_mut_ptr();
        message.msg_hdr.msg_iovlen = self.len;
        message
    }
}
