//! Help for unit tests: signal actions, masks and deaths are process wide, so such tests run in a forked child.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `body` in a child process; returns its wait status.
pub(crate) fn status_of_child(body: impl FnOnce()) -> i32 {
    // SAFETY: the child runs `body` and leaves without returning into the harness.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork failed");
    if pid == 0 {
        crate::thread::after_fork_child();
        // SAFETY: bounds the child's life whatever happens.
        unsafe { libc::alarm(60) };
        let code = if catch_unwind(AssertUnwindSafe(body)).is_ok() { 0 } else { 101 };
        // SAFETY: ends the child only.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: a child of ours.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } != pid {}
    status
}

/// Runs `body` in a child process and fails unless it returns.
pub(crate) fn in_child(body: impl FnOnce()) {
    let status = status_of_child(body);
    assert_eq!(status, 0, "child ended with wait status {status:#x}");
}

/// Waits, without a limit of its own, until `condition` holds.
pub(crate) fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}

/// Zeroed memory shared with children, never unmapped.
pub(crate) fn shared_memory<T>() -> &'static T {
    let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping; callers use types for which zero is valid.
    unsafe {
        let base = libc::mmap(std::ptr::null_mut(), size_of::<T>(), prot, flags, -1, 0);
        assert_ne!(base, libc::MAP_FAILED);
        &*base.cast::<T>()
    }
}
