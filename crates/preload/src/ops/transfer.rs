//! `sendfile` and `splice` on upgraded connections: bytes go between a file or a pipe and the ring, past the
//! program's memory. The rest is a send or a receive like any other.
//!
//! What these calls refuse is left to the kernel, which refuses it in the same words: nothing is moved here
//! before all arguments are known to be good.

use core::cell::Cell;

use libc::{c_int, c_uint, c_void, iovec, mode_t, off_t, pollfd, stat};
use ringway_channel::Reason;

use crate::conn::Conn;
use crate::iov::{Sink, Source};
use crate::tx::Outcome;
use crate::{attach, copy, kernel, real, rx, sys, thread, tx};

/// Longest single transfer, as in the kernel.
const TRANSFER_MAX: usize = 0x7fff_f000;
/// What a file of unknown length (procfs) is asked for at a time.
const UNKNOWN_BYTES: usize = 64 << 10;
/// Piece of a direction that is still on TCP.
const BOUNCE_BYTES: usize = 4096;

/// `sendfile` to an upgraded connection.
pub(crate) fn send_file(index: u32, c: &'static Conn, fd: c_int, file: c_int, at: *mut off_t, count: usize) -> Outcome {
    let Some((offset, total)) = readable_part(file, at, count) else {
        if kind_of(file).is_some_and(|kind| kind == libc::S_IFCHR) {
            // A device may give bytes without end and without a position: the kernel moves those.
            attach::keep_on_tcp(c, fd, Reason::Splice);
        }
        return Outcome::Kernel;
    };
    let stop = Cell::new(0);
    if total == 0 {
        return Outcome::Done(0);
    }
    let sent = match tx::send(index, c, fd, &mut File { file, offset, left: total, stop: &stop }, 0) {
        Outcome::Done(n) if n == -(libc::EFAULT as isize) && stop.get() == 0 => 0,
        Outcome::Done(n) if n == -(libc::EFAULT as isize) => {
            // Not readable this way (O_DIRECT, a directory, a broken disk).
            attach::keep_on_tcp(c, fd, Reason::Splice);
            return Outcome::Kernel;
        }
        Outcome::Done(n) => n,
        Outcome::Kernel => return Outcome::Kernel,
    };
    if sent > 0 {
        move_on(file, at, offset + sent as off_t);
    }
    Outcome::Done(sent)
}

/// Where a file is to be read and how much there is to send; `None` if the kernel must judge.
fn readable_part(file: c_int, at: *mut off_t, count: usize) -> Option<(off_t, usize)> {
    let info = info_of(file).filter(|i| matches!(i.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFBLK))?;
    // SAFETY: F_GETFL takes no argument.
    let flags = unsafe { sys::fcntl(file, libc::F_GETFL, 0) } as c_int;
    if flags & libc::O_ACCMODE == libc::O_WRONLY || flags & libc::O_PATH != 0 {
        return None;
    }
    let offset = if at.is_null() {
        seek(file, 0, libc::SEEK_CUR)
    } else {
        // SAFETY: a bad address is survived.
        unsafe { copy::read(at.cast_const()) }?
    };
    if offset < 0 {
        return None;
    }
    let count = count.min(TRANSFER_MAX);
    let total = match info.st_size {
        0 => count.min(UNKNOWN_BYTES),
        size => count.min(size.saturating_sub(offset).max(0) as usize),
    };
    Some((offset, total))
}

/// Tells the program how far a file was read.
fn move_on(file: c_int, at: *mut off_t, offset: off_t) {
    if at.is_null() {
        seek(file, offset, libc::SEEK_SET);
    } else {
        // SAFETY: a bad address is survived; it was readable before.
        unsafe { copy::write(at, offset) };
    }
}

fn seek(file: c_int, offset: off_t, whence: c_int) -> off_t {
    // SAFETY: plain integers.
    unsafe { sys::syscall6(libc::SYS_lseek, file as usize, offset as usize, whence as usize, 0, 0, 0) as off_t }
}

fn info_of(fd: c_int) -> Option<stat> {
    // SAFETY: an all-zero stat is valid, and the kernel fills in no more than it.
    unsafe {
        let mut info: stat = core::mem::zeroed();
        let answer = sys::syscall6(libc::SYS_fstat, fd as usize, (&raw mut info) as usize, 0, 0, 0, 0);
        (answer == 0).then_some(info)
    }
}

fn kind_of(fd: c_int) -> Option<mode_t> {
    info_of(fd).map(|info| info.st_mode & libc::S_IFMT)
}

/// Whether the descriptor is a pipe's.
pub(crate) fn is_pipe(fd: c_int) -> bool {
    kind_of(fd) == Some(libc::S_IFIFO)
}

/// A file from some offset on.
struct File<'a> {
    file: c_int,
    offset: off_t,
    left: usize,
    /// Why nothing could be read: an errno, 0 for the file's end.
    stop: &'a Cell<c_int>,
}

impl File<'_> {
    fn read(&mut self, to: *mut u8, n: usize) -> usize {
        let (file, at) = (self.file as usize, self.offset as usize);
        // SAFETY: the callers vouch for `n` writable bytes.
        let answer = unsafe { sys::syscall6(libc::SYS_pread64, file, to as usize, n, at, 0, 0) };
        self.stop.set(if answer < 0 { -answer as c_int } else { 0 });
        answer.max(0) as usize
    }

    fn advance(&mut self, n: usize) {
        self.offset += n as off_t;
        self.left = self.left.saturating_sub(n);
    }
}

impl Source for File<'_> {
    fn total(&self) -> usize {
        self.left
    }

    unsafe fn copy_to(&mut self, to: *mut u8, n: usize) -> usize {
        let read = self.read(to, n);
        self.advance(read);
        read
    }

    fn send_by_tcp(&mut self, fd: c_int, limit: usize, flags: c_int) -> isize {
        let mut bounce = [0u8; BOUNCE_BYTES];
        let n = self.read(bounce.as_mut_ptr(), limit.min(self.left).min(BOUNCE_BYTES));
        if n == 0 {
            return -(libc::EFAULT as isize);
        }
        // SAFETY: `n` bytes were just read into the buffer.
        let sent = unsafe { sys::send(fd, bounce.as_ptr().cast(), n, flags) };
        self.advance(sent.max(0) as usize);
        sent
    }
}

/// `splice` from a pipe to an upgraded connection.
pub(crate) fn from_pipe(index: u32, c: &'static Conn, fd: c_int, pipe: c_int, count: usize, flags: c_uint) -> Outcome {
    let nonblocking = flags & libc::SPLICE_F_NONBLOCK != 0 || kernel::is_nonblocking(pipe);
    loop {
        if let Err(outcome) = wait_for(pipe, libc::POLLIN, nonblocking) {
            return outcome;
        }
        let left = count.min(kernel::unread(pipe) as usize);
        let stop = Cell::new(0);
        match tx::send(index, c, fd, &mut Pipe { pipe, left, stop: &stop }, 0) {
            // Another reader was faster.
            _ if left == 0 => {}
            Outcome::Done(n) if n == -(libc::EFAULT as isize) => match stop.get() {
                0 | libc::EAGAIN => {}
                error => return Outcome::Done(-(error as isize)),
            },
            outcome => return outcome,
        }
    }
}

/// `splice` from an upgraded connection to a pipe.
pub(crate) fn to_pipe(index: u32, c: &'static Conn, fd: c_int, pipe: c_int, count: usize, flags: c_uint) -> Outcome {
    let nonblocking = flags & libc::SPLICE_F_NONBLOCK != 0 || kernel::is_nonblocking(pipe);
    loop {
        if let Err(outcome) = wait_for(pipe, libc::POLLOUT, nonblocking) {
            return outcome;
        }
        let stop = Cell::new(0);
        match rx::receive(index, c, fd, &mut Pipe { pipe, left: count.min(TRANSFER_MAX), stop: &stop }, 0) {
            Outcome::Done(n) if n == -(libc::EFAULT as isize) => match stop.get() {
                // Another writer was faster.
                0 | libc::EAGAIN => {}
                error => return Outcome::Done(-(error as isize)),
            },
            outcome => return outcome,
        }
    }
}

/// Waits until the pipe is readable or writable, which comes first in the kernel, too. Left to the kernel: a
/// pipe whose other end is gone.
fn wait_for(pipe: c_int, events: i16, nonblocking: bool) -> Result<(), Outcome> {
    let interruptions = thread::interrupted_count();
    loop {
        let mut p = pollfd { fd: pipe, events, revents: 0 };
        // SAFETY: one pollfd of ours; libc's poll is a cancellation point, and nothing here needs dropping.
        let answer = unsafe { real::poll()(&mut p, 1, if nonblocking { 0 } else { -1 }) };
        if answer > 0 {
            return if p.revents & events != 0 && p.revents & libc::POLLERR == 0 {
                Ok(())
            } else {
                Err(Outcome::Kernel)
            };
        }
        if answer == 0 {
            return Err(Outcome::Done(-(libc::EAGAIN as isize)));
        }
        if thread::interrupted_count() != interruptions {
            return Err(Outcome::Done(-(libc::EINTR as isize)));
        }
    }
}

/// One end of a pipe.
#[derive(Clone, Copy)]
struct Pipe<'a> {
    pipe: c_int,
    left: usize,
    /// Why nothing could be moved: an errno, 0 for a pipe that is empty and has no writer.
    stop: &'a Cell<c_int>,
}

impl Pipe<'_> {
    /// `preadv2` or `pwritev2` without waiting.
    fn transfer(&mut self, number: libc::c_long, base: *mut u8, n: usize) -> usize {
        let piece = iovec { iov_base: base.cast::<c_void>(), iov_len: n };
        let (pipe, at, flags) = (self.pipe as usize, usize::MAX, libc::RWF_NOWAIT as usize);
        let call = |flags| {
            // SAFETY: the callers vouch for `n` bytes at `base`; the vector lives on this frame.
            unsafe { sys::syscall6(number, pipe, (&raw const piece) as usize, 1, at, 0, flags) }
        };
        let events = if number == libc::SYS_preadv2 { libc::POLLIN } else { libc::POLLOUT };
        let answer = match call(flags) {
            // Pipes without RWF_NOWAIT (before Linux 6.4): ready ones have one page's worth of bytes or room.
            e if e == -(libc::EOPNOTSUPP as isize) && kernel::poll_now(self.pipe, events) & events != 0 => {
                let piece = iovec { iov_len: n.min(BOUNCE_BYTES), ..piece };
                // SAFETY: as above.
                unsafe { sys::syscall6(number, pipe, (&raw const piece) as usize, 1, at, 0, 0) }
            }
            e if e == -(libc::EOPNOTSUPP as isize) => -(libc::EAGAIN as isize),
            answer => answer,
        };
        self.stop.set(if answer < 0 { -answer as c_int } else { 0 });
        self.left = self.left.saturating_sub(answer.max(0) as usize);
        answer.max(0) as usize
    }

    /// The kernel's own splice of a direction that is still on TCP.
    fn splice(&mut self, from: c_int, to: c_int, n: usize) -> isize {
        let flags = libc::SPLICE_F_NONBLOCK as usize;
        // SAFETY: plain integers; no offsets.
        let answer = unsafe { sys::syscall6(libc::SYS_splice, from as usize, 0, to as usize, 0, n, flags) };
        self.left = self.left.saturating_sub(answer.max(0) as usize);
        answer
    }
}

impl Source for Pipe<'_> {
    fn total(&self) -> usize {
        self.left
    }

    unsafe fn copy_to(&mut self, to: *mut u8, n: usize) -> usize {
        self.transfer(libc::SYS_preadv2, to, n)
    }

    fn send_by_tcp(&mut self, fd: c_int, limit: usize, flags: c_int) -> isize {
        let waits = flags & libc::MSG_DONTWAIT == 0;
        if !waits && kernel::poll_now(fd, libc::POLLOUT) & libc::POLLOUT == 0 {
            return -(libc::EAGAIN as isize);
        }
        // A writable socket has room for a page.
        let n = limit.min(self.left).min(if waits { usize::MAX } else { BOUNCE_BYTES });
        self.splice(self.pipe, fd, n)
    }
}

impl Sink for Pipe<'_> {
    fn total(&self) -> usize {
        self.left
    }

    unsafe fn copy_from(&mut self, from: *const u8, n: usize) -> usize {
        self.transfer(libc::SYS_pwritev2, from.cast_mut(), n)
    }

    fn receive_by_tcp(&mut self, fd: c_int, limit: usize, _flags: c_int) -> isize {
        let n = limit.min(self.left).min(kernel::unread(fd) as usize);
        if n == 0 {
            return -(libc::EAGAIN as isize);
        }
        match self.splice(fd, self.pipe, n) {
            // There are bytes, so it is the pipe that has no room.
            e if e < 0 => {
                self.stop.set(-e as c_int);
                -(libc::EFAULT as isize)
            }
            moved => moved,
        }
    }
}
