//! The originals: libc's own functions behind the names that this library exports.
//!
//! [`resolve`] looks all of them up once, in `.init_array`, because `dlsym` inside a hook can dead-lock
//! with allocators that open files under their lock. Hooks may run before that (constructors of other
//! libraries, allocators): until then, and where libc lacks a name, an entry with a system call
//! makes that system call, and the others look themselves up when first called.
//!
//! Aliases (`__read`, `__send`, `__libc_fork`, `_Exit`, ...) have no entry: their hooks share the plain name's.

// The table names everything in libc that touches a descriptor or a process; not every entry has a caller.
#![allow(dead_code, non_snake_case)]

use core::ffi::{CStr, c_char};
use core::mem::transmute;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    FILE, c_int, c_long, c_uint, c_ulong, c_void, epoll_event, fd_set, iovec, mmsghdr, mode_t, msghdr, off_t, pid_t,
    pollfd, posix_spawn_file_actions_t, posix_spawnattr_t, pthread_attr_t, pthread_t, sigset_t, size_t, sockaddr,
    socklen_t, ssize_t, timespec, timeval,
};

use crate::sys::{self, SIGSET_BYTES, raw};

/// What a thread runs; also `clone`'s and `pthread_create`'s entry points.
pub(crate) type ThreadMain = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;
pub(crate) type CloneMain = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;

/// `cookie_io_functions_t` by value: four function pointers.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CookieFunctions(pub(crate) [usize; 4]);

macro_rules! originals {
    ($($name:ident($($arg:ident: $t:ty),*) -> $ret:ty = $kind:ident $body:tt;)*) => {
        /// Looks up all originals. Called once, from the constructor; harmless when repeated.
        pub(crate) fn resolve() {
            $( $name::resolve(); )*
        }

        #[cfg(test)]
        fn all() -> Vec<*const c_void> {
            vec![$( $name() as *const c_void ),*]
        }

        $( originals!(@$kind $name($($arg: $t),*) -> $ret, $body); )*

        $(
            /// The original, callable at any time (see the module's text for the time before `resolve`).
            #[inline(always)]
            pub(crate) fn $name() -> $name::Function {
                $name::get()
            }
        )*
    };
    // An entry that a system call can stand in for.
    (@raw $name:ident($($arg:ident: $t:ty),*) -> $ret:ty, $body:tt) => {
        pub(crate) mod $name {
            use super::*;
            pub(crate) type Function = unsafe extern "C-unwind" fn($($t),*) -> $ret;
            static ORIGINAL: AtomicPtr<c_void> = AtomicPtr::new(fallback as *mut c_void);

            unsafe extern "C-unwind" fn fallback($($arg: $t),*) -> $ret {
                // SAFETY: the kernel checks what libc would have passed on to it.
                sys::finish(unsafe { raw! $body }) as $ret
            }

            pub(super) fn resolve() {
                if let Some(found) = look_up(name_of(concat!(stringify!($name), "\0"))) {
                    ORIGINAL.store(found, Ordering::Release);
                }
            }

            #[inline(always)]
            pub(super) fn get() -> Function {
                // SAFETY: `fallback`, or libc's function of this name and type.
                unsafe { transmute::<*mut c_void, Function>(ORIGINAL.load(Ordering::Relaxed)) }
            }
        }
    };
    // An entry that only libc can serve; `$answer` is what a libc without it answers.
    (@libc $name:ident($($arg:ident: $t:ty),*) -> $ret:ty, ($answer:expr)) => {
        pub(crate) mod $name {
            use super::*;
            pub(crate) type Function = unsafe extern "C-unwind" fn($($t),*) -> $ret;
            static ORIGINAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

            unsafe extern "C-unwind" fn missing($(_: $t),*) -> $ret {
                sys::set_errno(libc::ENOSYS);
                $answer
            }

            #[cold]
            pub(super) fn resolve() -> *mut c_void {
                let name = name_of(concat!(stringify!($name), "\0"));
                let found = look_up(name).unwrap_or(missing as *mut c_void);
                ORIGINAL.store(found, Ordering::Release);
                found
            }

            #[inline(always)]
            pub(super) fn get() -> Function {
                let mut found = ORIGINAL.load(Ordering::Relaxed);
                if found.is_null() {
                    found = resolve();
                }
                // SAFETY: `missing`, or libc's function of this name and type.
                unsafe { transmute::<*mut c_void, Function>(found) }
            }
        }
    };
}

originals! {
    read(fd: c_int, buf: *mut c_void, bytes: size_t) -> ssize_t = raw (libc::SYS_read, fd, buf, bytes);
    write(fd: c_int, buf: *const c_void, bytes: size_t) -> ssize_t = raw (libc::SYS_write, fd, buf, bytes);
    readv(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t = raw (libc::SYS_readv, fd, iov, count);
    writev(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t = raw (libc::SYS_writev, fd, iov, count);
    // The kernel takes the offset in two halves, of which a 64-bit one ignores the upper.
    preadv2(fd: c_int, iov: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t = raw (libc::SYS_preadv2, fd, iov, count, at, 0, flags);
    pwritev2(fd: c_int, iov: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t = raw (libc::SYS_pwritev2, fd, iov, count, at, 0, flags);

    recv(fd: c_int, buf: *mut c_void, bytes: size_t, flags: c_int) -> ssize_t = raw (libc::SYS_recvfrom, fd, buf, bytes, flags);
    recvfrom(fd: c_int, buf: *mut c_void, bytes: size_t, flags: c_int, from: *mut sockaddr, from_bytes: *mut socklen_t) -> ssize_t = raw (libc::SYS_recvfrom, fd, buf, bytes, flags, from, from_bytes);
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t = raw (libc::SYS_recvmsg, fd, message, flags);
    recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int = raw (libc::SYS_recvmmsg, fd, messages, count, flags, timeout);
    send(fd: c_int, buf: *const c_void, bytes: size_t, flags: c_int) -> ssize_t = raw (libc::SYS_sendto, fd, buf, bytes, flags);
    sendto(fd: c_int, buf: *const c_void, bytes: size_t, flags: c_int, to: *const sockaddr, to_bytes: socklen_t) -> ssize_t = raw (libc::SYS_sendto, fd, buf, bytes, flags, to, to_bytes);
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t = raw (libc::SYS_sendmsg, fd, message, flags);
    sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int = raw (libc::SYS_sendmmsg, fd, messages, count, flags);

    // Fortified variants: the last size is that of the whole buffer; libc aborts if it is too small.
    __read_chk(fd: c_int, buf: *mut c_void, bytes: size_t, buf_bytes: size_t) -> ssize_t = raw (libc::SYS_read, fd, buf, bytes.min(buf_bytes));
    __pread_chk(fd: c_int, buf: *mut c_void, bytes: size_t, at: off_t, buf_bytes: size_t) -> ssize_t = raw (libc::SYS_pread64, fd, buf, bytes.min(buf_bytes), at);
    __pread64_chk(fd: c_int, buf: *mut c_void, bytes: size_t, at: off_t, buf_bytes: size_t) -> ssize_t = raw (libc::SYS_pread64, fd, buf, bytes.min(buf_bytes), at);
    __recv_chk(fd: c_int, buf: *mut c_void, bytes: size_t, buf_bytes: size_t, flags: c_int) -> ssize_t = raw (libc::SYS_recvfrom, fd, buf, bytes.min(buf_bytes), flags);
    __recvfrom_chk(fd: c_int, buf: *mut c_void, bytes: size_t, buf_bytes: size_t, flags: c_int, from: *mut sockaddr, from_bytes: *mut socklen_t) -> ssize_t = raw (libc::SYS_recvfrom, fd, buf, bytes.min(buf_bytes), flags, from, from_bytes);
    __poll_chk(fds: *mut pollfd, count: c_ulong, timeout_ms: c_int, fds_bytes: size_t) -> c_int = raw (libc::SYS_poll, fds, entries(count, fds_bytes), timeout_ms);
    __ppoll_chk(fds: *mut pollfd, count: c_ulong, timeout: *const timespec, mask: *const sigset_t, fds_bytes: size_t) -> c_int = raw (libc::SYS_ppoll, fds, entries(count, fds_bytes), Timeout::new(timeout).pointer(), mask, SIGSET_BYTES);

    // Variadic in C, as fcntl; the fortified ones abort where a mode is missing.
    open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = raw (libc::SYS_open, path, flags, mode);
    open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = raw (libc::SYS_open, path, flags, mode);
    openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int = raw (libc::SYS_openat, folder, path, flags, mode);
    openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int = raw (libc::SYS_openat, folder, path, flags, mode);
    __open_2(path: *const c_char, flags: c_int) -> c_int = raw (libc::SYS_open, path, flags, 0);
    __open64_2(path: *const c_char, flags: c_int) -> c_int = raw (libc::SYS_open, path, flags, 0);
    __openat_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int = raw (libc::SYS_openat, folder, path, flags, 0);
    __openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int = raw (libc::SYS_openat, folder, path, flags, 0);

    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int = raw (libc::SYS_socket, domain, kind, protocol);
    socketpair(domain: c_int, kind: c_int, protocol: c_int, fds: *mut c_int) -> c_int = raw (libc::SYS_socketpair, domain, kind, protocol, fds);
    connect(fd: c_int, to: *const sockaddr, to_bytes: socklen_t) -> c_int = raw (libc::SYS_connect, fd, to, to_bytes);
    accept(fd: c_int, from: *mut sockaddr, from_bytes: *mut socklen_t) -> c_int = raw (libc::SYS_accept, fd, from, from_bytes);
    accept4(fd: c_int, from: *mut sockaddr, from_bytes: *mut socklen_t, flags: c_int) -> c_int = raw (libc::SYS_accept4, fd, from, from_bytes, flags);
    listen(fd: c_int, backlog: c_int) -> c_int = raw (libc::SYS_listen, fd, backlog);
    bind(fd: c_int, address: *const sockaddr, address_bytes: socklen_t) -> c_int = raw (libc::SYS_bind, fd, address, address_bytes);
    shutdown(fd: c_int, how: c_int) -> c_int = raw (libc::SYS_shutdown, fd, how);
    getsockopt(fd: c_int, level: c_int, option: c_int, value: *mut c_void, value_bytes: *mut socklen_t) -> c_int = raw (libc::SYS_getsockopt, fd, level, option, value, value_bytes);
    setsockopt(fd: c_int, level: c_int, option: c_int, value: *const c_void, value_bytes: socklen_t) -> c_int = raw (libc::SYS_setsockopt, fd, level, option, value, value_bytes);
    getsockname(fd: c_int, address: *mut sockaddr, address_bytes: *mut socklen_t) -> c_int = raw (libc::SYS_getsockname, fd, address, address_bytes);
    getpeername(fd: c_int, address: *mut sockaddr, address_bytes: *mut socklen_t) -> c_int = raw (libc::SYS_getpeername, fd, address, address_bytes);

    // `closefrom` and `_exit` are void in C; an integer read back from them means nothing.
    close(fd: c_int) -> c_int = raw (libc::SYS_close, fd);
    close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int = raw (libc::SYS_close_range, first, last, flags);
    closefrom(first: c_int) -> c_int = raw (libc::SYS_close_range, first.max(0), c_uint::MAX, 0);
    dup(fd: c_int) -> c_int = raw (libc::SYS_dup, fd);
    dup2(fd: c_int, to: c_int) -> c_int = raw (libc::SYS_dup2, fd, to);
    dup3(fd: c_int, to: c_int, flags: c_int) -> c_int = raw (libc::SYS_dup3, fd, to, flags);
    // Variadic in C; on x86_64 one integer or pointer argument travels the same way.
    fcntl(fd: c_int, command: c_int, arg: usize) -> c_int = raw (libc::SYS_fcntl, fd, command, arg);
    fcntl64(fd: c_int, command: c_int, arg: usize) -> c_int = raw (libc::SYS_fcntl, fd, command, arg);
    ioctl(fd: c_int, request: c_ulong, arg: usize) -> c_int = raw (libc::SYS_ioctl, fd, request, arg);

    poll(fds: *mut pollfd, count: c_ulong, timeout_ms: c_int) -> c_int = raw (libc::SYS_poll, fds, count, timeout_ms);
    ppoll(fds: *mut pollfd, count: c_ulong, timeout: *const timespec, mask: *const sigset_t) -> c_int = raw (libc::SYS_ppoll, fds, count, Timeout::new(timeout).pointer(), mask, SIGSET_BYTES);
    select(count: c_int, readable: *mut fd_set, writable: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int = raw (libc::SYS_select, count, readable, writable, except, timeout);
    pselect(count: c_int, readable: *mut fd_set, writable: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int = raw (libc::SYS_pselect6, count, readable, writable, except, Timeout::new(timeout).pointer(), [mask as usize, SIGSET_BYTES].as_ptr());
    epoll_create(size: c_int) -> c_int = raw (libc::SYS_epoll_create, size);
    epoll_create1(flags: c_int) -> c_int = raw (libc::SYS_epoll_create1, flags);
    epoll_ctl(epoll: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int = raw (libc::SYS_epoll_ctl, epoll, op, fd, event);
    epoll_wait(epoll: c_int, events: *mut epoll_event, count: c_int, timeout_ms: c_int) -> c_int = raw (libc::SYS_epoll_wait, epoll, events, count, timeout_ms);
    epoll_pwait(epoll: c_int, events: *mut epoll_event, count: c_int, timeout_ms: c_int, mask: *const sigset_t) -> c_int = raw (libc::SYS_epoll_pwait, epoll, events, count, timeout_ms, mask, SIGSET_BYTES);
    epoll_pwait2(epoll: c_int, events: *mut epoll_event, count: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int = raw (libc::SYS_epoll_pwait2, epoll, events, count, timeout, mask, SIGSET_BYTES);

    sendfile(to: c_int, from: c_int, at: *mut off_t, bytes: size_t) -> ssize_t = raw (libc::SYS_sendfile, to, from, at, bytes);
    sendfile64(to: c_int, from: c_int, at: *mut off_t, bytes: size_t) -> ssize_t = raw (libc::SYS_sendfile, to, from, at, bytes);
    splice(from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, bytes: size_t, flags: c_uint) -> ssize_t = raw (libc::SYS_splice, from, from_at, to, to_at, bytes, flags);
    tee(from: c_int, to: c_int, bytes: size_t, flags: c_uint) -> ssize_t = raw (libc::SYS_tee, from, to, bytes, flags);
    vmsplice(fd: c_int, iov: *const iovec, count: size_t, flags: c_uint) -> ssize_t = raw (libc::SYS_vmsplice, fd, iov, count, flags);
    copy_file_range(from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, bytes: size_t, flags: c_uint) -> ssize_t = raw (libc::SYS_copy_file_range, from, from_at, to, to_at, bytes, flags);

    fdopen(fd: c_int, mode: *const c_char) -> *mut FILE = libc (ptr::null_mut());
    fopencookie(cookie: *mut c_void, mode: *const c_char, functions: CookieFunctions) -> *mut FILE = libc (ptr::null_mut());

    vdprintf(fd: c_int, format: *const c_char, list: *mut c_void) -> c_int = libc (-1);
    __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, list: *mut c_void) -> c_int = libc (-1);

    fork() -> pid_t = libc (-1);
    _Fork() -> pid_t = libc (-1);
    // Its child returns on the caller's frame: only ever jump to it, never call it from Rust.
    vfork() -> pid_t = libc (-1);
    clone(main: Option<CloneMain>, stack: *mut c_void, flags: c_int, arg: *mut c_void, parent_tid: *mut pid_t, tls: *mut c_void, child_tid: *mut pid_t) -> c_int = libc (-1);
    posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const posix_spawn_file_actions_t, attributes: *const posix_spawnattr_t, argv: *const *mut c_char, envp: *const *mut c_char) -> c_int = libc (libc::ENOSYS);
    posix_spawnp(pid: *mut pid_t, file: *const c_char, actions: *const posix_spawn_file_actions_t, attributes: *const posix_spawnattr_t, argv: *const *mut c_char, envp: *const *mut c_char) -> c_int = libc (libc::ENOSYS);
    posix_spawn_file_actions_adddup2(actions: *mut posix_spawn_file_actions_t, fd: c_int, to: c_int) -> c_int = libc (libc::ENOSYS);
    execve(path: *const c_char, argv: *const *const c_char, envp: *const *const c_char) -> c_int = raw (libc::SYS_execve, path, argv, envp);
    execveat(dir: c_int, path: *const c_char, argv: *const *const c_char, envp: *const *const c_char, flags: c_int) -> c_int = raw (libc::SYS_execveat, dir, path, argv, envp, flags);
    execv(path: *const c_char, argv: *const *const c_char) -> c_int = libc (-1);
    execvp(file: *const c_char, argv: *const *const c_char) -> c_int = libc (-1);
    execvpe(file: *const c_char, argv: *const *const c_char, envp: *const *const c_char) -> c_int = libc (-1);
    fexecve(fd: c_int, argv: *const *const c_char, envp: *const *const c_char) -> c_int = libc (-1);
    unshare(flags: c_int) -> c_int = raw (libc::SYS_unshare, flags);
    // Variadic in C, as fcntl.
    prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int = raw (libc::SYS_prctl, option, a, b, c, d);
    pidfd_getfd(pidfd: c_int, fd: c_int, flags: c_uint) -> c_int = raw (libc::SYS_pidfd_getfd, pidfd, fd, flags);
    _exit(status: c_int) -> c_int = raw (libc::SYS_exit_group, status);
    syscall(number: c_long, a0: usize, a1: usize, a2: usize, a3: usize, a4: usize, a5: usize) -> c_long = raw (number, a0, a1, a2, a3, a4, a5);

    sigprocmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int = raw (libc::SYS_rt_sigprocmask, how, set, old, SIGSET_BYTES);
    // Answers with the error itself.
    pthread_sigmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int = libc (libc::ENOSYS);
    sigsuspend(mask: *const sigset_t) -> c_int = raw (libc::SYS_rt_sigsuspend, mask, SIGSET_BYTES);
    pthread_create(thread: *mut pthread_t, attributes: *const pthread_attr_t, main: ThreadMain, arg: *mut c_void) -> c_int = libc (libc::EAGAIN);
}

/// The kernel writes the remaining time back where libc promises not to.
struct Timeout(Option<timespec>);

impl Timeout {
    fn new(from: *const timespec) -> Timeout {
        // SAFETY: libc reads the same struct before its system call.
        Timeout(unsafe { from.as_ref() }.copied())
    }

    fn pointer(&mut self) -> *mut timespec {
        self.0.as_mut().map_or(ptr::null_mut(), |time| time)
    }
}

/// Entries that fit the buffer of a fortified poll.
fn entries(count: c_ulong, fds_bytes: size_t) -> c_ulong {
    count.min((fds_bytes / size_of::<pollfd>()) as c_ulong)
}

const fn name_of(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

/// The next definition of `name` after ours; failing that (we were loaded by hand, late), the first one
/// anywhere that is not ours.
fn look_up(name: &CStr) -> Option<*mut c_void> {
    [libc::RTLD_NEXT, libc::RTLD_DEFAULT].into_iter().find_map(|scope| {
        // SAFETY: a NUL-terminated name and one of dlsym's own scopes.
        let found = unsafe { libc::dlsym(scope, name.as_ptr()) };
        (!found.is_null() && !is_ours(found)).then_some(found)
    })
}

fn is_ours(address: *const c_void) -> bool {
    base_of(address) == base_of(is_ours as *const c_void)
}

/// Where the library that contains `address` is mapped.
fn base_of(address: *const c_void) -> *mut c_void {
    // SAFETY: an all-zero Dl_info is a valid one; dladdr fills it or leaves it.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        libc::dladdr(address, &raw mut info);
        info.dli_fbase
    }
}

#[cfg(test)]
mod tests;
