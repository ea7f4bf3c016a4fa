//! The program's buffers: one, or a vector of them, any of which may be a bad address.

use libc::{c_int, c_void, iovec, msghdr};

use crate::{copy, sys};

/// More pieces than this are EINVAL, as in the kernel (UIO_MAXIOV).
const PIECES_MAX: usize = 1024;
/// Pieces handed to one kernel call when part of a vector is left over.
const BATCH: usize = 16;

/// Longest single transfer (MAX_RW_COUNT in the kernel): INT_MAX rounded down to a page.
const TRANSFER_MAX: usize = 0x7fff_f000;
/// First address that no program has.
const USER_SPACE_END: usize = 0x7fff_ffff_f000;

/// What a call sends: moves forward as it is taken.
pub(crate) trait Source {
    /// Bytes from here on; 0 for a vector that has become unreadable.
    fn total(&self) -> usize;

    /// Copies up to `n` bytes to `to`. Returns how many; fewer than `n` means the end or that the source
    /// failed (for buffers, a bad address).
    ///
    /// # Safety
    /// `to` must be writable for `n` bytes.
    unsafe fn copy_to(&mut self, to: *mut u8, n: usize) -> usize;

    /// Writes up to `limit` bytes to the TCP socket. `flags` are those of `send`. A count or a negated errno.
    fn send_by_tcp(&mut self, fd: c_int, limit: usize, flags: c_int) -> isize;
}

/// Where a call's bytes go; as [`Source`]. A copy looks ahead and leaves the original where it is.
pub(crate) trait Sink: Copy {
    fn total(&self) -> usize;

    /// Takes up to `n` bytes from `from`.
    ///
    /// # Safety
    /// `from` must be readable for `n` bytes.
    unsafe fn copy_from(&mut self, from: *const u8, n: usize) -> usize;

    /// Reads up to `limit` bytes from the TCP socket. `flags` are those of `recv`.
    fn receive_by_tcp(&mut self, fd: c_int, limit: usize, flags: c_int) -> isize;
}

/// A position in the program's buffers. Copying in and out moves it forward.
#[derive(Clone, Copy)]
pub(crate) struct Cursor {
    next: *const iovec,
    left: usize,
    base: *mut u8,
    bytes: usize,
}

/// The vector itself is unreadable, too long or overflows.
pub(crate) type BadVector = c_int;

impl Cursor {
    /// One buffer of a socket call. EFAULT for one that reaches beyond user space, as in the kernel.
    pub(crate) fn single(base: *mut c_void, bytes: usize) -> Result<Cursor, BadVector> {
        let bytes = bytes.min(TRANSFER_MAX);
        if (base as usize).checked_add(bytes).is_none_or(|end| end > USER_SPACE_END) {
            return Err(libc::EFAULT);
        }
        Ok(Cursor { next: core::ptr::null(), left: 0, base: base.cast(), bytes })
    }

    /// One buffer of `read` or `write`, where the kernel judges the whole length before it is cut.
    pub(crate) fn file(base: *mut c_void, bytes: usize) -> Result<Cursor, BadVector> {
        if (base as usize).checked_add(bytes).is_none_or(|end| end > USER_SPACE_END) {
            return Err(libc::EFAULT);
        }
        Self::single(base, bytes)
    }

    pub(crate) fn vector(iov: *const iovec, count: usize) -> Result<Cursor, BadVector> {
        if count > PIECES_MAX {
            return Err(libc::EINVAL);
        }
        let cursor = Cursor { next: iov, left: count, base: core::ptr::null_mut(), bytes: 0 };
        cursor.checked_total()?;
        Ok(cursor)
    }

    fn checked_total(&self) -> Result<usize, BadVector> {
        let mut sum = self.bytes;
        for i in 0..self.left {
            let piece = load(self.next.wrapping_add(i)).ok_or(libc::EFAULT)?;
            if piece.iov_len > isize::MAX as usize {
                return Err(libc::EINVAL);
            }
            sum = sum.saturating_add(piece.iov_len).min(TRANSFER_MAX);
        }
        Ok(sum)
    }

    /// The current contiguous piece; `None` at the end.
    fn piece(&mut self) -> Option<(*mut u8, usize)> {
        while self.bytes == 0 {
            self.left = self.left.checked_sub(1)?;
            let piece = load(self.next)?;
            self.next = self.next.wrapping_add(1);
            (self.base, self.bytes) = (piece.iov_base.cast(), piece.iov_len);
        }
        Some((self.base, self.bytes))
    }

    /// Moves forward over `n` bytes.
    fn advance(&mut self, mut n: usize) {
        while n > 0 {
            let Some((base, bytes)) = self.piece() else { return };
            let step = n.min(bytes);
            (self.base, self.bytes) = (base.wrapping_add(step), bytes - step);
            n -= step;
        }
    }

    #[inline(always)]
    fn each(&mut self, n: usize, mut transfer: impl FnMut(*mut u8, usize, usize) -> usize) -> usize {
        let mut done = 0;
        while done < n {
            let Some((base, bytes)) = self.piece() else { break };
            let step = bytes.min(n - done);
            let copied = step - transfer(base, done, step);
            (self.base, self.bytes) = (base.wrapping_add(copied), bytes - copied);
            done += copied;
            if copied < step {
                break;
            }
        }
        done
    }

    /// Calls the kernel on (at most `limit` bytes of) what is left, as one message, and moves forward
    /// by what it transferred.
    fn kernel_call(&mut self, limit: usize, call: impl FnOnce(&mut msghdr) -> isize) -> isize {
        let mut pieces = [iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; BATCH];
        let (mut ahead, mut room, mut count) = (*self, limit, 0);
        while let Some(slot) = pieces.get_mut(count).filter(|_| room > 0) {
            let Some((base, bytes)) = ahead.piece() else { break };
            let step = bytes.min(room);
            *slot = iovec { iov_base: base.cast(), iov_len: step };
            ahead.advance(step);
            (room, count) = (room - step, count + 1);
        }
        // SAFETY: an all-zero msghdr is valid.
        let mut message: msghdr = unsafe { core::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (pieces.as_mut_ptr(), count);
        let answer = call(&mut message);
        self.advance(answer.max(0) as usize);
        answer
    }
}

impl Source for Cursor {
    fn total(&self) -> usize {
        self.checked_total().unwrap_or(0)
    }

    #[inline(always)]
    unsafe fn copy_to(&mut self, to: *mut u8, n: usize) -> usize {
        // SAFETY: the caller vouches for `to`; the program's side may fault, which `copy` survives.
        self.each(n, |base, done, step| unsafe { copy::copy(to.wrapping_add(done), base, step) })
    }

    fn send_by_tcp(&mut self, fd: c_int, limit: usize, flags: c_int) -> isize {
        // SAFETY: the message describes the program's own buffers; the kernel checks them.
        self.kernel_call(limit, |m| unsafe { sys::sendmsg(fd, m, flags) })
    }
}

impl Sink for Cursor {
    fn total(&self) -> usize {
        self.checked_total().unwrap_or(0)
    }

    #[inline(always)]
    unsafe fn copy_from(&mut self, from: *const u8, n: usize) -> usize {
        // SAFETY: as in `copy_to`.
        self.each(n, |base, done, step| unsafe { copy::copy(base, from.wrapping_add(done), step) })
    }

    fn receive_by_tcp(&mut self, fd: c_int, limit: usize, flags: c_int) -> isize {
        // SAFETY: as in `send_by_tcp`.
        self.kernel_call(limit, |m| unsafe { sys::recvmsg(fd, m, flags) })
    }
}

/// Reads one element of a vector that may be anywhere.
fn load(from: *const iovec) -> Option<iovec> {
    let mut piece = iovec { iov_base: core::ptr::null_mut(), iov_len: 0 };
    // SAFETY: the destination is a local of the right size; a bad source is survived.
    let missing = unsafe { copy::copy((&raw mut piece).cast(), from.cast(), size_of::<iovec>()) };
    (missing == 0).then_some(piece)
}
