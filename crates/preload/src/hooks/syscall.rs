//! libc's `syscall` function: numbers that concern descriptors or processes go to the same code as libc's own
//! names; all others go to libc untouched, with the caller's registers and stack as they are.
//!
//! Exceptions in the conventions: the time-outs of `ppoll` and `pselect6` are updated, signal sets have a size,
//! and what a bad address would do to libc's function is left to the kernel.

use core::arch::naked_asm;

use libc::{c_int, c_long, sigset_t, timespec};

use super::{fd, io, poll, process, socket, transfer};
use crate::ops::uring;
use crate::sys::{self, KernelSigaction, SIGSET_BYTES};
use crate::{attach, config, copy, exit, real, signals};

type Function = unsafe extern "C-unwind" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;

/// # Safety
/// As libc's function of this name. Variadic in C: whatever the caller passed lies in the same registers and
/// the same place of the stack.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub(crate) unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a0: usize,
    a1: usize,
    a2: usize,
    a3: usize,
    a4: usize,
    a5: usize,
) -> c_long {
    // A jump instead of a call leaves the stack to whoever serves the number: a child of clone may need it.
    naked_asm!(
        ".cfi_startproc",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 56",
        "call {choose}",
        "add rsp, 8",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        ".cfi_adjust_cfa_offset -56",
        "jmp rax",
        ".cfi_endproc",
        choose = sym choose,
    )
}

/// Adapts a hook with the first so many arguments.
macro_rules! by {
    ($hook:path, 1) => { by!(@ $hook, [a0] [_a1 _a2 _a3 _a4 _a5]) };
    ($hook:path, 2) => { by!(@ $hook, [a0 a1] [_a2 _a3 _a4 _a5]) };
    ($hook:path, 3) => { by!(@ $hook, [a0 a1 a2] [_a3 _a4 _a5]) };
    ($hook:path, 4) => { by!(@ $hook, [a0 a1 a2 a3] [_a4 _a5]) };
    ($hook:path, 5) => { by!(@ $hook, [a0 a1 a2 a3 a4] [_a5]) };
    ($hook:path, 6) => { by!(@ $hook, [a0 a1 a2 a3 a4 a5] []) };
    (@ $hook:path, [$($used:ident)*] [$($unused:ident)*]) => {{
        unsafe extern "C-unwind" fn adapter(_: c_long, $($used: usize,)* $($unused: usize),*) -> c_long {
            // SAFETY: the program's own call.
            unsafe { $hook($($used as _),*) as c_long }
        }
        adapter
    }};
}

/// Who serves a number.
extern "C-unwind" fn choose(number: c_long, a0: usize, a1: usize) -> Function {
    if !config::enabled() {
        return real::syscall();
    }
    match number {
        libc::SYS_read => by!(io::read, 3),
        libc::SYS_write => by!(io::write, 3),
        libc::SYS_readv => by!(io::readv, 3),
        libc::SYS_writev => by!(io::writev, 3),
        libc::SYS_recvfrom => by!(io::recvfrom, 6),
        libc::SYS_sendto => by!(io::sendto, 6),
        libc::SYS_recvmsg => by!(io::recvmsg, 3),
        libc::SYS_sendmsg => by!(io::sendmsg, 3),
        libc::SYS_recvmmsg => by!(io::recvmmsg, 5),
        libc::SYS_sendmmsg => by!(io::sendmmsg, 4),
        libc::SYS_preadv2 => by!(preadv2, 6),
        libc::SYS_pwritev2 => by!(pwritev2, 6),
        libc::SYS_sendfile => by!(transfer::sendfile, 4),
        libc::SYS_splice => by!(transfer::splice, 6),
        libc::SYS_close => by!(fd::close, 1),
        libc::SYS_close_range => by!(fd::close_range, 3),
        libc::SYS_dup => by!(fd::dup, 1),
        libc::SYS_dup2 => by!(fd::dup2, 2),
        libc::SYS_dup3 => by!(fd::dup3, 3),
        libc::SYS_fcntl => by!(fd::fcntl, 3),
        libc::SYS_ioctl => by!(fd::ioctl, 3),
        libc::SYS_pidfd_getfd => by!(fd::pidfd_getfd, 3),
        libc::SYS_socket => by!(socket::socket, 3),
        libc::SYS_socketpair => by!(socket::socketpair, 4),
        libc::SYS_connect => by!(socket::connect, 3),
        libc::SYS_accept => by!(socket::accept, 3),
        libc::SYS_accept4 => by!(socket::accept4, 4),
        libc::SYS_shutdown => by!(socket::shutdown, 2),
        libc::SYS_setsockopt => by!(socket::setsockopt, 5),
        libc::SYS_getsockopt => by!(socket::getsockopt, 5),
        _ => choose_further(number, a0, a1),
    }
}

/// Waits and processes.
fn choose_further(number: c_long, a0: usize, a1: usize) -> Function {
    match number {
        libc::SYS_epoll_create => by!(poll::epoll_create, 1),
        libc::SYS_epoll_create1 => by!(poll::epoll_create1, 1),
        libc::SYS_epoll_ctl => by!(poll::epoll_ctl, 4),
        libc::SYS_epoll_wait => by!(poll::epoll_wait, 4),
        libc::SYS_epoll_pwait => by!(epoll_pwait, 6),
        libc::SYS_epoll_pwait2 => by!(epoll_pwait2, 6),
        // Before the first upgrade these are the kernel's, and so are their bad addresses.
        libc::SYS_poll if attach::is_armed() => by!(poll::poll, 3),
        libc::SYS_select if attach::is_armed() => by!(poll::select, 5),
        libc::SYS_ppoll if attach::is_armed() => by!(ppoll, 5),
        libc::SYS_pselect6 if attach::is_armed() => by!(pselect6, 6),
        libc::SYS_fork => by!(fork, 1),
        libc::SYS_clone | libc::SYS_clone3 | libc::SYS_vfork => choose_clone(number, a0, a1),
        libc::SYS_unshare => by!(process::unshare, 1),
        libc::SYS_prctl => by!(process::prctl, 5),
        libc::SYS_seccomp => by!(process::seccomp, 3),
        libc::SYS_execve => by!(process::execve, 3),
        libc::SYS_execveat => by!(process::execveat, 5),
        libc::SYS_exit_group => by!(exit_group, 1),
        libc::SYS_rt_sigaction if signals::is_armed() => by!(rt_sigaction, 4),
        libc::SYS_io_uring_setup => by!(io_uring_setup, 2),
        _ => real::syscall(),
    }
}

unsafe fn preadv2(fd: c_int, iov: usize, count: c_int, at: i64, _high: usize, flags: c_int) -> isize {
    // SAFETY: the program's own call.
    unsafe { io::preadv2(fd, iov as *const _, count, at, flags) }
}

unsafe fn pwritev2(fd: c_int, iov: usize, count: c_int, at: i64, _high: usize, flags: c_int) -> isize {
    // SAFETY: the program's own call.
    unsafe { io::pwritev2(fd, iov as *const _, count, at, flags) }
}

/// Whether a signal set is absent or has the only size that the kernel knows.
fn is_good(mask: *const sigset_t, bytes: usize) -> bool {
    mask.is_null() || bytes == SIGSET_BYTES
}

fn invalid() -> c_int {
    sys::finish(-(libc::EINVAL as isize)) as c_int
}

unsafe fn epoll_pwait(set: c_int, events: usize, max: c_int, ms: c_int, mask: *const sigset_t, bytes: usize) -> c_int {
    if !is_good(mask, bytes) {
        return invalid();
    }
    // SAFETY: the program's own call.
    unsafe { poll::epoll_pwait(set, events as *mut _, max, ms, mask) }
}

unsafe fn epoll_pwait2(
    set: c_int,
    events: usize,
    max: c_int,
    t: *const timespec,
    mask: *const sigset_t,
    bytes: usize,
) -> c_int {
    if !is_good(mask, bytes) {
        return invalid();
    }
    // SAFETY: the program's own call.
    unsafe { poll::epoll_pwait2(set, events as *mut _, max, t, mask) }
}

unsafe fn ppoll(fds: usize, count: u64, t: *mut timespec, mask: *const sigset_t, bytes: usize) -> c_int {
    if !is_good(mask, bytes) {
        return invalid();
    }
    // SAFETY: the program's own call; the time-out is a copy.
    with_time_left(t, |t| unsafe { poll::ppoll(fds as *mut _, count, t, mask) })
}

unsafe fn pselect6(
    count: c_int,
    r: usize,
    w: usize,
    x: usize,
    t: *mut timespec,
    sized_mask: *const (*const sigset_t, usize),
) -> c_int {
    let none = (core::ptr::null(), 0);
    // SAFETY: a bad address is survived.
    let (mask, bytes) = if sized_mask.is_null() { none } else { unsafe { copy::read(sized_mask) }.unwrap_or(none) };
    if !is_good(mask, bytes) {
        return invalid();
    }
    // SAFETY: the program's own call; the time-out is a copy.
    with_time_left(t, |t| unsafe { poll::pselect(count, r as *mut _, w as *mut _, x as *mut _, t, mask) })
}

/// Waits with a copy of the time-out, and tells the program what is left of it, as these calls do.
fn with_time_left(t: *mut timespec, wait: impl FnOnce(*const timespec) -> c_int) -> c_int {
    if t.is_null() {
        return wait(t);
    }
    // SAFETY: a bad address is survived.
    let Some(limit) = (unsafe { copy::read(t.cast_const()) }) else {
        return sys::finish(-(libc::EFAULT as isize)) as c_int;
    };
    let start = sys::monotonic_ns();
    let answer = wait(&limit);
    let all = (limit.tv_sec.max(0) as u64).saturating_mul(1_000_000_000).saturating_add(limit.tv_nsec as u64);
    let left = all.saturating_sub(sys::monotonic_ns() - start);
    let left = timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as i64 };
    if answer >= 0 || sys::errno() == libc::EINTR {
        // SAFETY: a bad address is survived.
        unsafe { copy::write(t, left) };
    }
    answer
}

unsafe fn fork(_: usize) -> isize {
    // SAFETY: no arguments; the handlers run on both sides.
    process_fork(|| unsafe { sys::syscall6(libc::SYS_fork, 0, 0, 0, 0, 0, 0) })
}

fn process_fork(call: impl FnOnce() -> isize) -> isize {
    crate::process::fork_by(|| sys::finish(call()))
}

/// The flags and the stack of a `clone3`.
#[repr(C)]
#[derive(Clone, Copy)]
struct CloneArguments {
    flags: u64,
    _others: [u64; 4],
    stack: u64,
}

/// A child that shares memory, or that starts on a stack of its own, must not return through a frame of ours.
fn choose_clone(number: c_long, a0: usize, a1: usize) -> Function {
    let (flags, stack) = match number {
        libc::SYS_clone => (a0, a1),
        // SAFETY: a bad address is survived, and the kernel's to refuse.
        libc::SYS_clone3 => match unsafe { copy::read(a0 as *const CloneArguments) } {
            Some(arguments) => (arguments.flags as usize, arguments.stack as usize),
            None => return real::syscall(),
        },
        _ => (libc::CLONE_VM as usize, 0),
    };
    crate::process::about_to_clone(flags);
    if flags & libc::CLONE_VM as usize != 0 || stack != 0 { real::syscall() } else { clone }
}

/// `clone` and `clone3` that copy the memory: forks.
unsafe extern "C-unwind" fn clone(
    number: c_long,
    a0: usize,
    a1: usize,
    a2: usize,
    a3: usize,
    a4: usize,
    a5: usize,
) -> c_long {
    // SAFETY: the program's own call; the child has a copy of this frame.
    process_fork(|| unsafe { sys::syscall6(number, a0, a1, a2, a3, a4, a5) }) as c_long
}

unsafe fn exit_group(status: c_int) -> isize {
    exit::part_all();
    // SAFETY: an integer; never returns.
    unsafe { sys::syscall6(libc::SYS_exit_group, status as usize, 0, 0, 0, 0, 0) }
}

unsafe fn rt_sigaction(signal: c_int, new: *const KernelSigaction, old: *mut KernelSigaction, bytes: usize) -> isize {
    // SAFETY: the program's own call.
    sys::finish(unsafe { signals::raw_sigaction(signal, new, old, bytes) })
}

unsafe fn io_uring_setup(entries: usize, parameters: usize) -> isize {
    // SAFETY: the program's own call.
    sys::finish(uring::set_up(|| unsafe { sys::syscall6(libc::SYS_io_uring_setup, entries, parameters, 0, 0, 0, 0) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All registers and the stack reach the kernel, and its answers come back in libc's form.
    #[test]
    fn arguments_and_answers_pass_through() {
        // SAFETY: harmless calls.
        unsafe {
            assert_eq!(syscall(libc::SYS_getpid, 0, 0, 0, 0, 0, 0), libc::c_long::from(libc::getpid()));
            assert_eq!(syscall(-1, 1, 2, 3, 4, 5, 6), -1);
            assert_eq!(sys::errno(), libc::ENOSYS);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let base = syscall(libc::SYS_mmap, 0, 4096, libc::PROT_READ as usize, flags as usize, usize::MAX, 0);
            assert!(base > 0);
            assert_eq!(syscall(libc::SYS_munmap, base as usize, 4096, 0, 0, 0, 0), 0);
            let file = libc::memfd_create(c"syscall".as_ptr(), 0) as usize;
            let base = syscall(libc::SYS_mmap, 0, 4096, 1, libc::MAP_SHARED as usize, file, 1);
            assert_eq!((base, sys::errno()), (-1, libc::EINVAL), "an unaligned offset, the sixth argument");
            libc::close(file as c_int);
        }
    }

    #[test]
    fn adapters_drop_what_a_hook_does_not_take() {
        unsafe fn difference(a: c_int, b: usize) -> isize {
            a as isize - b as isize
        }
        let adapter: Function = by!(difference, 2);
        // SAFETY: the function above.
        assert_eq!(unsafe { adapter(0, 5, 7, 99, 99, 99, 99) }, -2);
    }
}
