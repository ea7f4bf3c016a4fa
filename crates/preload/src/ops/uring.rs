//! io_uring: bytes that go past every hook.
//!
//! A process that has a ring keeps its connections on TCP from then on. Rings are noticed when they are made by
//! libc's `syscall`, and otherwise by the looks at the process's descriptors that precede offers. Where a ring
//! would come too late, or would only stand in the way, making it is answered with ENOSYS, which programs know
//! from old kernels:
//!
//! * if connections are upgraded already: the ring could not see what lies in theirs;
//! * for libuv, which then uses epoll, and is accelerated;
//! * if `RINGWAY_IO_URING=deny` says so. This holds for bare system calls as well (by a seccomp filter, which
//!   programs executed later inherit; without privileges it implies `no_new_privs`).
//!
//! `RINGWAY_IO_URING=allow` makes no exception for libuv. What remains: a program that makes its ring by a bare
//! system call (static liburing), *after* a connection was upgraded, and uses it on that connection.
//! Such programs need `deny`, or `RINGWAY_DISABLE`.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

use libc::{c_int, c_void, dl_phdr_info, size_t, sock_filter, sock_fprog};
use ringway_channel::Reason;

use crate::config::{self, Uring};
use crate::conn::{self, State};
use crate::{attach, stats, sys};

static IN_USE: AtomicBool = AtomicBool::new(false);
/// When the next look at the descriptors is due, in monotonic nanoseconds.
static LOOK_AT_NS: AtomicU64 = AtomicU64::new(0);
/// A look that took so long is followed by none for so many times as long: looks stay cheap, however many descriptors
/// there are.
const REST: u64 = 100;

/// `io_uring_setup` by libc's `syscall`; `call` makes it. A descriptor or a negated errno.
pub(crate) fn set_up(call: impl FnOnce() -> isize) -> isize {
    if is_refused() {
        stats::refused(Reason::IoUring);
        return -(libc::ENOSYS as isize);
    }
    // First, so that nothing is upgraded while the ring is being made.
    let before = IN_USE.swap(true, SeqCst);
    let ring = call();
    if ring < 0 {
        IN_USE.store(before, SeqCst);
    } else {
        conn::for_each(|_, c| attach::keep_on_tcp(c, c.fd.load(Relaxed), Reason::IoUring));
    }
    ring
}

fn is_refused() -> bool {
    let mut upgraded = false;
    conn::for_each(|_, c| upgraded |= c.state() == State::Attached);
    // SAFETY: a static name; the answer is only compared.
    let libuv = || unsafe { !libc::dlsym(libc::RTLD_DEFAULT, c"uv_loop_init".as_ptr()).is_null() };
    upgraded
        || match config::uring() {
            Uring::Deny => true,
            Uring::Allow => false,
            Uring::Auto => libuv(),
        }
}

/// Whether the process uses io_uring, as far as can be seen. Asked before each offer; looks at the first, and then
/// whenever a look is due. What is upgraded by the time a ring is found goes back to TCP.
pub(crate) fn is_in_use() -> bool {
    if !IN_USE.load(SeqCst) && sys::monotonic_ns() >= LOOK_AT_NS.load(Relaxed) {
        let begun_ns = cpu_ns();
        if has_liburing() || has_ring() {
            IN_USE.store(true, SeqCst);
            conn::for_each(|_, c| attach::keep_on_tcp(c, c.fd.load(Relaxed), Reason::IoUring));
        }
        let rest_ns = cpu_ns().saturating_sub(begun_ns).saturating_mul(REST);
        LOOK_AT_NS.store(sys::monotonic_ns().saturating_add(rest_ns), Relaxed);
    }
    IN_USE.load(SeqCst)
}

/// The thread's time on a CPU: a busy machine makes no look longer.
fn cpu_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a timespec of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Whether liburing is loaded: who brings it along will use it.
fn has_liburing() -> bool {
    unsafe extern "C" fn is_liburing(info: *mut dl_phdr_info, _: size_t, _: *mut c_void) -> c_int {
        // SAFETY: the loader's own, with a name or null.
        let name = unsafe { (*info).dlpi_name };
        if name.is_null() {
            return 0;
        }
        // SAFETY: a string of the loader's.
        let name = unsafe { core::ffi::CStr::from_ptr(name) }.to_bytes();
        name.windows(b"/liburing.so".len()).any(|part| part == b"/liburing.so") as c_int
    }
    // SAFETY: a callback of the right type that keeps nothing.
    unsafe { libc::dl_iterate_phdr(Some(is_liburing), core::ptr::null_mut()) != 0 }
}

/// Whether one of the process's descriptors is a ring.
fn has_ring() -> bool {
    let flags = (libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) as usize;
    let (at, path) = (libc::AT_FDCWD as usize, c"/proc/self/fd".as_ptr() as usize);
    // SAFETY: a path of ours.
    let directory = unsafe { sys::syscall6(libc::SYS_openat, at, path, flags, 0, 0, 0) };
    if directory < 0 {
        return false;
    }
    let found = any_entry(directory as c_int, |name| is_ring(directory as c_int, name));
    sys::close(directory as c_int);
    found
}

#[repr(C, align(8))]
struct Entries([u8; 2048]);

/// Whether `test` holds for the name (with its final zero) of any entry of the directory.
fn any_entry(directory: c_int, mut test: impl FnMut(&[u8]) -> bool) -> bool {
    /// Offset of `d_reclen` and of `d_name` in `struct linux_dirent64`.
    const LENGTH_AT: usize = 16;
    const NAME_AT: usize = 19;
    let mut entries = Entries([0; 2048]);
    loop {
        let (base, bytes) = (entries.0.as_mut_ptr() as usize, entries.0.len());
        // SAFETY: the buffer has `bytes` bytes.
        let n = unsafe { sys::syscall6(libc::SYS_getdents64, directory as usize, base, bytes, 0, 0, 0) };
        let Some(mut rest) = entries.0.get(..n.max(0) as usize).filter(|found| !found.is_empty()) else { return false };
        while let Some(&[low, high]) = rest.get(LENGTH_AT..LENGTH_AT + 2) {
            let (entry, after) = rest.split_at((u16::from_le_bytes([low, high]) as usize).min(rest.len()));
            if entry.get(NAME_AT..).is_some_and(&mut test) {
                return true;
            }
            rest = after;
        }
    }
}

fn is_ring(directory: c_int, name: &[u8]) -> bool {
    const LINK: &[u8] = b"anon_inode:[io_uring]";
    let mut link = [0u8; 32];
    let (at, name) = (directory as usize, name.as_ptr() as usize);
    // SAFETY: a terminated name, and a buffer of 32 bytes.
    let n = unsafe { sys::syscall6(libc::SYS_readlinkat, at, name, link.as_mut_ptr() as usize, 32, 0, 0) };
    n == LINK.len() as isize && link.starts_with(LINK)
}

/// Refuses io_uring to this process and to all that come from it, bare system calls included. Called from
/// the constructor.
pub(crate) fn deny() {
    if !install_filter() {
        // SAFETY: integers only.
        unsafe { sys::syscall6(libc::SYS_prctl, libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0, 0) };
        install_filter();
    }
}

fn install_filter() -> bool {
    let statement = |code: u32, k: u32, jt: u8, jf: u8| sock_filter { code: code as u16, jt, jf, k };
    let (load, equal) = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
    let answer = libc::BPF_RET | libc::BPF_K;
    let mut filter = [
        // `seccomp_data`: the number is first.
        statement(load, 0, 0, 0),
        statement(equal, libc::SYS_io_uring_setup as u32, 0, 1),
        statement(answer, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32, 0, 0),
        statement(answer, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    let (mode, at) = (libc::SECCOMP_SET_MODE_FILTER as usize, (&raw const program) as usize);
    // SAFETY: a program of four instructions, which the kernel checks and copies.
    unsafe { sys::syscall6(libc::SYS_seccomp, mode, flags as usize, at, 0, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_child;

    fn bare_set_up() -> isize {
        let mut parameters = [0u64; 15];
        // SAFETY: `struct io_uring_params` has 120 bytes.
        unsafe { sys::syscall6(libc::SYS_io_uring_setup, 4, parameters.as_mut_ptr() as usize, 0, 0, 0, 0) }
    }

    #[test]
    fn a_ring_among_the_descriptors_is_found() {
        assert!(any_entry(
            {
                let (at, path) = (libc::AT_FDCWD as usize, c"/proc/self/fd".as_ptr() as usize);
                // SAFETY: a path of this test.
                unsafe { sys::syscall6(libc::SYS_openat, at, path, 0, 0, 0, 0) as c_int }
            },
            |name| name.starts_with(b"0\0")
        ));
        in_child(|| {
            assert!(!has_ring());
            if bare_set_up() >= 0 {
                assert!(has_ring() && is_in_use());
            }
        });
    }

    #[test]
    fn denied_means_denied_by_bare_calls_as_well() {
        in_child(|| {
            deny();
            assert_eq!(bare_set_up(), -(libc::ENOSYS as isize));
            assert!(set_up(bare_set_up) < 0 && !IN_USE.load(SeqCst));
        });
    }

    #[test]
    fn a_ring_by_libc_is_remembered() {
        in_child(|| {
            if set_up(bare_set_up) >= 0 {
                assert!(is_in_use());
            }
        });
    }
}
