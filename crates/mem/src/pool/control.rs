//! The control lock of a pool, and how the kernel is asked who is alive: locks on bytes of the memfd.
//!
//! They are open-file-description locks (fcntl(2)): dropped by the kernel when the last copy of the descriptor is
//! closed, whoever holds it and however he ends, and out of reach for those who scribble on the memory. The
//! bytes lie far beyond the file's end.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering::*};
use std::sync::{Mutex, MutexGuard, Once, TryLockError};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{Pool, PoolError};
use crate::lock::LIMIT_US;

const CONTROL_BYTE: i64 = 1 << 40;

/// The control lock, held by this thread.
pub(super) struct Control {
    _file: ControlFile,
    _process: MutexGuard<'static, ()>,
}

/// One control lock at a time in a process, so one descriptor that a forked child must close.
static PROCESS: Mutex<()> = Mutex::new(());
static CONTROL_FD: AtomicI32 = AtomicI32::new(-1);

struct ControlFile(OwnedFd);

impl Drop for ControlFile {
    fn drop(&mut self) {
        // Not left to the closing: a child that is being forked may hold a copy.
        let _ = fcntl(self.0.as_fd(), libc::F_OFD_SETLK, libc::F_UNLCK, CONTROL_BYTE, 1);
        CONTROL_FD.store(-1, SeqCst);
    }
}

impl Pool {
    /// Takes the control lock: ports are made, removed and set right under it.
    pub(super) fn control(&self) -> Result<Control, PoolError> {
        self.control_within(Duration::from_micros(LIMIT_US))
    }

    /// Takes the control lock unless another process keeps it for longer than `patience`.
    pub(super) fn control_within(&self, patience: Duration) -> Result<Control, PoolError> {
        close_in_children();
        let process = match PROCESS.try_lock() {
            Ok(process) => process,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Whoever has no patience may hold what the other thread waits for.
            Err(TryLockError::WouldBlock) if patience.is_zero() => return Err(PoolError::Stuck),
            Err(TryLockError::WouldBlock) => PROCESS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()),
        };
        let fd = self.new_description()?;
        CONTROL_FD.store(fd.as_raw_fd(), SeqCst);
        let file = ControlFile(fd);
        let deadline = Instant::now() + patience;
        while !lock_bytes(file.0.as_fd(), CONTROL_BYTE, 1)? {
            if Instant::now() >= deadline {
                return Err(PoolError::Stuck);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Control { _file: file, _process: process })
    }

    /// A descriptor of the same memfd with a file description, and so with locks, of its own.
    pub(super) fn new_description(&self) -> Result<OwnedFd, PoolError> {
        let path = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        Ok(rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
    }
}

/// A child that is forked while another thread holds the lock inherits the descriptor; it must not hold on.
fn close_in_children() {
    extern "C" fn child() {
        let fd = CONTROL_FD.swap(-1, SeqCst);
        if fd >= 0 {
            // SAFETY: the child's copy, of which nothing in the child knows: its owner is a thread that is not there.
            unsafe { libc::close(fd) };
        }
    }
    static ONCE: Once = Once::new();
    // SAFETY: the handler only closes a descriptor, which is allowed in a forked child.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(child));
    });
}

/// Tries to lock `n` bytes from `first` on; false if somebody else has one of them.
pub(super) fn lock_bytes(fd: BorrowedFd<'_>, first: i64, n: i64) -> Result<bool, Errno> {
    match fcntl(fd, libc::F_OFD_SETLK, libc::F_WRLCK, first, n) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Whether a description other than `fd`'s holds one of these bytes. A kernel that cannot say counts as yes.
pub(super) fn is_locked(fd: BorrowedFd<'_>, first: i64, n: i64) -> bool {
    fcntl(fd, libc::F_OFD_GETLK, libc::F_WRLCK, first, n).map_or(true, |found| i32::from(found) != libc::F_UNLCK)
}

fn fcntl(fd: BorrowedFd<'_>, command: i32, kind: i32, first: i64, n: i64) -> Result<i16, Errno> {
    let mut lock =
        libc::flock { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: first, l_len: n, l_pid: 0 };
    // SAFETY: the command reads and writes the flock that is passed.
    let result = unsafe { libc::fcntl(fd.as_raw_fd(), command, &raw mut lock) };
    if result < 0 {
        return Err(Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)));
    }
    Ok(lock.l_type)
}
