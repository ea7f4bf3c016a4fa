//! libc's `syscall` function: numbers that concern descriptors or processes go to the same code as libc's
//! own names; all others go to libc untouched, with the caller's registers and stack as they are.
//!
//! **io_uring.** A ring moves bytes past every hook, so a process that uses one keeps its connections on TCP
//! ([`uring`](crate::uring)). `io_uring_setup` by this function is answered with ENOSYS where that is known to be
//! safe or the only right answer: see [`uring::refuses`].

use core::arch::naked_asm;
use core::mem::size_of;

use libc::{SYS_clone, SYS_clone3, SYS_fork, c_int, c_long, c_uint, epoll_event, sigset_t, timespec};

use super::{fd, io, poll, process, socket, transfer};
use crate::ops::uring;
use crate::process::fork_by;
use crate::sys::{self, SIGSET_BYTES};
use crate::table::{self, Entry};
use crate::{attach, config, copy, real, signals, thread, upgrade};

/// The arguments after the number.
type Args = [usize; 6];
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
        choose = sym choose,
    )
}

/// Who serves a number. Reads no memory of the program's, except what the kernel would read as well.
extern "C-unwind" fn choose(number: c_long, a0: usize, _a1: usize) -> Function {
    if !config::enabled() {
        return real::syscall();
    }
    match number {
        libc::SYS_poll | libc::SYS_ppoll | libc::SYS_select | libc::SYS_pselect6 if attach::is_armed() => waits,
        libc::SYS_epoll_create
        | libc::SYS_epoll_create1
        | libc::SYS_epoll_ctl
        | libc::SYS_epoll_wait
        | libc::SYS_epoll_pwait
        | libc::SYS_epoll_pwait2 => epolls,
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_preadv2
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg => receives,
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_pwritev2
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendmmsg => sends,
        libc::SYS_sendfile | libc::SYS_splice => transfers,
        libc::SYS_close
        | libc::SYS_close_range
        | libc::SYS_dup
        | libc::SYS_dup2
        | libc::SYS_dup3
        | libc::SYS_fcntl
        | libc::SYS_ioctl
        | libc::SYS_pidfd_getfd => descriptors,
        libc::SYS_socket
        | libc::SYS_socketpair
        | libc::SYS_connect
        | libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_shutdown
        | libc::SYS_setsockopt
        | libc::SYS_getsockopt => sockets,
        SYS_fork | SYS_clone | SYS_clone3 | libc::SYS_vfork => forks(number, a0),
        libc::SYS_execve
        | libc::SYS_execveat
        | libc::SYS_exit_group
        | libc::SYS_unshare
        | libc::SYS_rt_sigaction
        | libc::SYS_io_uring_setup => processes,
        _ => real::syscall(),
    }
}
