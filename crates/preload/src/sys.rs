//! Raw system calls, so that nothing here goes through a libc name that this library exports.
//!
//! Everything returns the kernel's answer: a negative value is a negated errno. None of it touches
//! `errno`, which belongs to the program; [`finish`] is the one place that turns an answer into libc's form.

use core::arch::{asm, global_asm};
use core::ptr;

use libc::{c_int, c_long, c_uint, c_void, sigset_t, timespec};

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
compile_error!(
    "libringway.so supports x86_64 Linux with glibc only: system calls, signal frames and copies are written for it"
);

/// One raw system call.
///
/// # Safety
/// As dangerous as the call that `number` names; pointers among the arguments must suit it.
#[inline(always)]
pub(crate) unsafe fn syscall6(
    number: c_long,
    a0: usize,
    a1: usize,
    a2: usize,
    a3: usize,
    a4: usize,
    a5: usize,
) -> isize {
    let answer: isize;
    // SAFETY: the x86_64 system call convention; rcx, r11 and memory are declared as changed.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") a0, in("rsi") a1, in("rdx") a2, in("r10") a3, in("r8") a4, in("r9") a5,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    answer
}

unsafe extern "C-unwind" {
    /// A system call during which signal handlers may run that never come back (cancellation, `pthread_exit`,
    /// siglongjmp). Unlike inline assembly it is a call that may unwind, for the compiler and in the unwind tables, so
    /// destructors of the frames above it run as they should.
    fn ringway_syscall(number: c_long, a0: usize, a1: usize, a2: usize, a3: usize, a4: usize, a5: usize) -> isize;
}

global_asm!(
    ".pushsection .text.ringway_syscall,\"ax\",@progbits",
    ".globl ringway_syscall",
    ".hidden ringway_syscall",
    ".type ringway_syscall, @function",
    "ringway_syscall:",
    ".cfi_startproc",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov r10, r8",
    "mov r8, r9",
    "mov r9, [rsp + 8]",
    "syscall",
    "ret",
    ".cfi_endproc",
    ".size ringway_syscall, . - ringway_syscall",
    ".popsection"
);

/// What a system call takes: integers are sign-extended or zero-extended as C does.
pub(crate) trait Arg: Copy {
    fn arg(self) -> usize;
}

macro_rules! integer_args {
    ($($t:ty),*) => { $(impl Arg for $t {
        #[inline(always)]
        fn arg(self) -> usize { self as usize }
    })* };
}
integer_args!(c_int, c_uint, c_long, usize, u64);

impl<T> Arg for *const T {
    #[inline(always)]
    fn arg(self) -> usize {
        self as usize
    }
}

impl<T> Arg for *mut T {
    #[inline(always)]
    fn arg(self) -> usize {
        self as usize
    }
}

/// A system call with up to six arguments; the others are zero.
///
/// # Safety
/// As for [`syscall6`].
#[inline(always)]
pub(crate) unsafe fn invoke<const N: usize>(number: c_long, args: [usize; N]) -> isize {
    let [a0, a1, a2, a3, a4, a5] = pad(args);
    // SAFETY: the caller's promise.
    unsafe { syscall6(number, a0, a1, a2, a3, a4, a5) }
}

/// The same for calls that sleep: handlers that run meanwhile may leave by unwinding.
///
/// # Safety
/// As for [`syscall6`].
#[inline(always)]
pub(crate) unsafe fn invoke_unwinding<const N: usize>(number: c_long, args: [usize; N]) -> isize {
    let [a0, a1, a2, a3, a4, a5] = pad(args);
    // SAFETY: the caller's promise.
    unsafe { ringway_syscall(number, a0, a1, a2, a3, a4, a5) }
}

#[inline(always)]
fn pad<const N: usize>(args: [usize; N]) -> [usize; 6] {
    const { assert!(N <= 6) };
    let mut six = [0; 6];
    six.iter_mut().zip(args).for_each(|(slot, arg)| *slot = arg);
    six
}

/// `raw!(libc::SYS_close, fd)`: [`invoke`] with arguments of any [`Arg`] type.
macro_rules! raw {
    ($number:expr $(, $arg:expr)*) => { $crate::sys::invoke($number, [$($crate::sys::Arg::arg($arg)),*]) };
}
pub(crate) use raw;

/// [`raw!`] for calls that sleep, by [`invoke_unwinding`].
macro_rules! raw_sleeping {
    ($number:expr $(, $arg:expr)*) => {
        $crate::sys::invoke_unwinding($number, [$($crate::sys::Arg::arg($arg)),*])
    };
}

/// The calling thread's `errno`.
pub(crate) fn errno() -> c_int {
    // SAFETY: glibc's location is valid for the calling thread at any time.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's `errno`.
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = value };
}

/// Kernel's answer to libc's: -1 and `errno` for an error, the value otherwise.
#[inline]
pub(crate) fn finish(answer: isize) -> isize {
    if (-4095..0).contains(&answer) {
        set_errno(-answer as c_int);
        return -1;
    }
    answer
}

/// A relative time of `us` microseconds.
pub(crate) fn timespec_from_us(us: u64) -> timespec {
    timespec { tv_sec: (us / 1_000_000) as i64, tv_nsec: (us % 1_000_000 * 1000) as i64 }
}

/// CLOCK_MONOTONIC in nanoseconds (the vDSO's clock; no kernel entry).
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` outlives the call; this library does not export clock_gettime.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

// Processes and threads.

pub(crate) fn getpid() -> i32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { raw!(libc::SYS_getpid) as i32 }
}

pub(crate) fn gettid() -> i32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { raw!(libc::SYS_gettid) as i32 }
}

/// Sends `signal` to one thread; 0 only asks whether it exists.
pub(crate) fn tgkill(pid: i32, tid: i32, signal: c_int) -> isize {
    // SAFETY: integers only.
    unsafe { raw!(libc::SYS_tgkill, pid, tid, signal) }
}

pub(crate) fn sched_yield() {
    // SAFETY: no arguments.
    unsafe { raw!(libc::SYS_sched_yield) };
}

/// Sleeps at most `us` microseconds; a signal may end it early.
pub(crate) fn sleep_us(us: u64) {
    let time = timespec_from_us(us);
    // SAFETY: `time` outlives the call; no remainder is asked for.
    unsafe { raw_sleeping!(libc::SYS_nanosleep, &raw const time, ptr::null_mut::<timespec>()) };
}

pub(crate) fn membarrier(command: c_int) -> isize {
    // SAFETY: integers only.
    unsafe { raw!(libc::SYS_membarrier, command, 0u32, 0) }
}

/// Fills `bytes` with random bytes without waiting for the pool.
#[allow(dead_code)]
pub(crate) fn getrandom(bytes: &mut [u8]) -> isize {
    // SAFETY: pointer and length describe `bytes`.
    unsafe { raw!(libc::SYS_getrandom, bytes.as_mut_ptr(), bytes.len(), libc::GRND_NONBLOCK) }
}

/// The calling thread's robust list: address and length as the kernel knows them.
///
/// # Safety
/// Both pointers must be writable.
pub(crate) unsafe fn get_robust_list(head: *mut *mut c_void, bytes: *mut usize) -> isize {
    // SAFETY: the caller's promise.
    unsafe { raw!(libc::SYS_get_robust_list, 0, head, bytes) }
}

/// # Safety
/// `head` must stay valid until the thread ends or registers another one.
pub(crate) unsafe fn set_robust_list(head: *mut c_void, bytes: usize) -> isize {
    // SAFETY: the caller's promise.
    unsafe { raw!(libc::SYS_set_robust_list, head, bytes) }
}

// Futexes. `private` ones must not be used on memory that processes share.

const FUTEX_PRIVATE: c_int = libc::FUTEX_PRIVATE_FLAG;

/// Sleeps while `*word == expected`, at most `timeout` (relative; none waits for ever).
/// The word may vanish while waiting; then the answer is an error, never a fault.
///
/// # Safety
/// None beyond the kernel's own checks of the address; `unsafe` because the pointer is raw.
pub(crate) unsafe fn futex_wait(word: *const u32, expected: u32, timeout: Option<&timespec>, private: bool) -> isize {
    let op = libc::FUTEX_WAIT | if private { FUTEX_PRIVATE } else { 0 };
    let timeout = timeout.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the kernel validates `word`; `timeout` is null or a live reference.
    unsafe { raw_sleeping!(libc::SYS_futex, word, op, expected, timeout) }
}

/// Wakes up to `count` sleepers.
///
/// # Safety
/// As for [`futex_wait`].
pub(crate) unsafe fn futex_wake(word: *const u32, count: c_int, private: bool) -> isize {
    let op = libc::FUTEX_WAKE | if private { FUTEX_PRIVATE } else { 0 };
    // SAFETY: the kernel validates `word`.
    unsafe { raw!(libc::SYS_futex, word, op, count) }
}

// Signals. Masks are the kernel's 64-bit form: bit n-1 is signal n.

pub(crate) const SIGSET_BYTES: usize = 8;

/// Changes the thread's mask; returns the old one.
pub(crate) fn rt_sigprocmask(how: c_int, set: u64) -> u64 {
    let mut old = 0u64;
    // SAFETY: both masks live on this frame and have the stated size.
    unsafe { raw!(libc::SYS_rt_sigprocmask, how, &raw const set, &raw mut old, SIGSET_BYTES) };
    old
}

/// Changes the thread's mask, or only reads it; pending signals that it lets through are handled inside this
/// call, and their handlers may leave it by unwinding. Returns the old mask.
pub(crate) fn change_mask(how: c_int, set: Option<u64>) -> Result<u64, c_int> {
    let mut old = 0u64;
    let new = set.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: both masks live on this frame and have the stated size.
    let answer = unsafe { raw_sleeping!(libc::SYS_rt_sigprocmask, how, new, &raw mut old, SIGSET_BYTES) };
    if answer < 0 { Err(-answer as c_int) } else { Ok(old) }
}

/// What the kernel keeps for a signal (differs from libc's `struct sigaction`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KernelSigaction {
    pub(crate) handler: usize,
    pub(crate) flags: u64,
    pub(crate) restorer: usize,
    pub(crate) mask: u64,
}

/// Reads and, if `new` is given, replaces the kernel's action for `signal`.
///
/// # Safety
/// A handler must be a function that is safe to run at any point of the program.
pub(crate) unsafe fn rt_sigaction(signal: c_int, new: Option<&KernelSigaction>) -> Result<KernelSigaction, c_int> {
    let mut old = KernelSigaction::default();
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the structs have the kernel's layout; the handler is the caller's promise.
    let answer = unsafe { raw!(libc::SYS_rt_sigaction, signal, new, &raw mut old, SIGSET_BYTES) };
    if answer < 0 { Err(-answer as c_int) } else { Ok(old) }
}

/// Queues `info` to a thread of this process.
///
/// # Safety
/// `info` must be readable.
pub(crate) unsafe fn rt_tgsigqueueinfo(pid: i32, tid: i32, signal: c_int, info: *const libc::siginfo_t) -> isize {
    // SAFETY: the caller's promise.
    unsafe { raw!(libc::SYS_rt_tgsigqueueinfo, pid, tid, signal, info) }
}

// Memory.

/// Anonymous private zeroed memory, or None.
pub(crate) fn map_anonymous(bytes: usize) -> Option<ptr::NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let answer = unsafe { raw!(libc::SYS_mmap, 0usize, bytes, prot, flags, -1, 0usize) };
    if answer < 0 { None } else { ptr::NonNull::new(answer as *mut u8) }
}

/// # Safety
/// Nobody may use the range any more.
pub(crate) unsafe fn munmap(base: *mut u8, bytes: usize) -> isize {
    // SAFETY: the caller's promise.
    unsafe { raw!(libc::SYS_munmap, base, bytes) }
}

/// # Safety
/// The advice must not drop contents that somebody still needs.
pub(crate) unsafe fn madvise(base: *mut u8, bytes: usize, advice: c_int) -> isize {
    // SAFETY: the caller's promise.
    unsafe { raw!(libc::SYS_madvise, base, bytes, advice) }
}

// Descriptors and sockets. Pointers go to the kernel as they are: a bad one gives -EFAULT.

pub(crate) fn close(fd: c_int) -> isize {
    // SAFETY: integers only; closing a descriptor of ours is the caller's business.
    unsafe { raw!(libc::SYS_close, fd) }
}

/// `dup3`; on success the new number.
pub(crate) fn dup3(fd: c_int, to: c_int, flags: c_int) -> isize {
    // SAFETY: integers only; what stands at `to` is the caller's business.
    unsafe { raw!(libc::SYS_dup3, fd, to, flags) }
}

/// Whether the descriptor is closed when another program is executed.
pub(crate) fn is_cloexec(fd: c_int) -> bool {
    // SAFETY: F_GETFD takes no argument.
    unsafe { fcntl(fd, libc::F_GETFD, 0) & libc::FD_CLOEXEC as isize != 0 }
}

pub(crate) fn shutdown(fd: c_int, how: c_int) -> isize {
    // SAFETY: integers only.
    unsafe { raw!(libc::SYS_shutdown, fd, how) }
}

/// # Safety
/// `arg` must suit `command`.
pub(crate) unsafe fn fcntl(fd: c_int, command: c_int, arg: usize) -> isize {
    // SAFETY: the caller's promise.
    unsafe { raw!(libc::SYS_fcntl, fd, command, arg) }
}

/// # Safety
/// `arg` must suit `request`.
pub(crate) unsafe fn ioctl(fd: c_int, request: u64, arg: usize) -> isize {
    // SAFETY: the caller's promise.
    unsafe { raw!(libc::SYS_ioctl, fd, request, arg) }
}

/// # Safety
/// `value` must be readable for `bytes`.
pub(crate) unsafe fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, bytes: u32) -> isize {
    // SAFETY: the caller's promise.
    unsafe { raw!(libc::SYS_setsockopt, fd, level, name, value, bytes) }
}

/// # Safety
/// `value` must be writable for `*bytes`, `bytes` itself too.
pub(crate) unsafe fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, bytes: *mut u32) -> isize {
    // SAFETY: the caller's promise.
    unsafe { raw!(libc::SYS_getsockopt, fd, level, name, value, bytes) }
}

/// Reads a socket option of fixed size (integers, small C structs).
///
/// # Safety
/// Any bit pattern must be a valid `T`.
pub(crate) unsafe fn socket_option<T: Copy>(fd: c_int, level: c_int, name: c_int) -> Result<T, c_int> {
    let mut value = core::mem::MaybeUninit::<T>::zeroed();
    let mut bytes = size_of::<T>() as u32;
    // SAFETY: the buffer has `bytes` bytes, and starts zeroed, so a short answer is still a valid T.
    let answer = unsafe { getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut bytes) };
    if answer < 0 {
        return Err(-answer as c_int);
    }
    // SAFETY: zeroed first, then filled by the kernel; every pattern is valid by the caller's promise.
    Ok(unsafe { value.assume_init() })
}

/// `recvfrom` without an address.
///
/// # Safety
/// `buf` may be any address, but what the kernel writes there must be the caller's to overwrite.
pub(crate) unsafe fn recv(fd: c_int, buf: *mut c_void, bytes: usize, flags: c_int) -> isize {
    // SAFETY: the caller's promise.
    unsafe { raw!(libc::SYS_recvfrom, fd, buf, bytes, flags) }
}

/// `sendto` without an address.
///
/// # Safety
/// None beyond the raw pointer: the kernel checks it.
pub(crate) unsafe fn send(fd: c_int, buf: *const c_void, bytes: usize, flags: c_int) -> isize {
    // SAFETY: the kernel only reads `buf` and checks it.
    unsafe { raw!(libc::SYS_sendto, fd, buf, bytes, flags) }
}

/// # Safety
/// `message` and what it points to must be writable.
pub(crate) unsafe fn recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> isize {
    // SAFETY: the caller's promise.
    unsafe { raw!(libc::SYS_recvmsg, fd, message, flags) }
}

/// # Safety
/// `message` and what it points to must be readable.
pub(crate) unsafe fn sendmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) -> isize {
    // SAFETY: the caller's promise.
    unsafe { raw!(libc::SYS_sendmsg, fd, message, flags) }
}

/// The kernel may write the remaining time back into `timeout`.
///
/// # Safety
/// `fds` must be writable for `count` entries; `timeout` null or writable; `mask` null or 8 bytes.
pub(crate) unsafe fn ppoll(
    fds: *mut libc::pollfd,
    count: usize,
    timeout: *mut timespec,
    mask: *const sigset_t,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe { raw_sleeping!(libc::SYS_ppoll, fds, count, timeout, mask, SIGSET_BYTES) }
}

/// # Safety
/// `event` must be readable unless `op` is EPOLL_CTL_DEL.
pub(crate) unsafe fn epoll_ctl(epoll: c_int, op: c_int, fd: c_int, event: *mut libc::epoll_event) -> isize {
    // SAFETY: the caller's promise.
    unsafe { raw!(libc::SYS_epoll_ctl, epoll, op, fd, event) }
}

/// # Safety
/// `events` must be writable for `count` entries; `mask` null or 8 bytes.
pub(crate) unsafe fn epoll_pwait(
    epoll: c_int,
    events: *mut libc::epoll_event,
    count: c_int,
    timeout_ms: c_int,
    mask: *const sigset_t,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe { raw_sleeping!(libc::SYS_epoll_pwait, epoll, events, count, timeout_ms, mask, SIGSET_BYTES) }
}
