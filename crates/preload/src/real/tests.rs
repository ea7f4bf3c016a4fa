use super::*;
use crate::testing::in_child;

/// Entries of every argument shape do what libc's do.
fn behaves() {
    let mut fds = [0; 2];
    let (mut bytes, text) = ([0u8; 8], b"ringway!");
    // SAFETY: all buffers live on this frame; the descriptors are this test's.
    unsafe {
        assert_eq!(socketpair()(libc::AF_UNIX, libc::SOCK_STREAM, 0, fds.as_mut_ptr()), 0);
        let [near, far] = fds;
        assert_eq!(send()(near, text.as_ptr().cast(), 8, libc::MSG_NOSIGNAL), 8);
        assert_eq!(recv()(far, bytes.as_mut_ptr().cast(), 8, libc::MSG_PEEK), 8);
        assert_eq!(&bytes, text);
        let mut parts = [iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 4 }; 2];
        assert_eq!(readv()(far, parts.as_mut_ptr(), 2), 8);

        let mut entry = pollfd { fd: far, events: libc::POLLIN, revents: 0 };
        let instant = timespec { tv_sec: 0, tv_nsec: 1 };
        assert_eq!(poll()(&raw mut entry, 1, 0), 0);
        assert_eq!(ppoll()(&raw mut entry, 1, &raw const instant, ptr::null()), 0);
        assert_eq!(instant.tv_nsec, 1, "libc does not write the remaining time back");
        let mut set: fd_set = core::mem::zeroed();
        let mut mask: sigset_t = core::mem::zeroed();
        libc::sigfillset(&raw mut mask);
        libc::FD_SET(far, &raw mut set);
        let none = ptr::null_mut();
        assert_eq!(pselect()(far + 1, &raw mut set, none, none, &raw const instant, &raw const mask), 0);
        assert!(!libc::FD_ISSET(far, &raw const set));

        let flags = fcntl()(near, libc::F_GETFL, 0);
        assert_eq!(fcntl()(near, libc::F_SETFL, (flags | libc::O_NONBLOCK) as usize), 0);
        sys::set_errno(0);
        assert_eq!(recv()(near, bytes.as_mut_ptr().cast(), 8, 0), -1);
        assert_eq!(sys::errno(), libc::EAGAIN);
        assert_eq!(syscall()(libc::SYS_getpid, 0, 0, 0, 0, 0, 0), libc::c_long::from(libc::getpid()));

        assert_eq!(close()(near), 0);
        assert_eq!(close()(near), -1);
        assert_eq!(sys::errno(), libc::EBADF);
        assert_eq!(close()(far), 0);
    }
}

#[test]
fn entries_work_before_they_are_resolved_and_after() {
    in_child(|| {
        behaves();
        let early = recv();
        resolve();
        behaves();
        // SAFETY: a NUL-terminated name.
        let libcs = unsafe { libc::dlsym(libc::RTLD_NEXT, c"recv".as_ptr()) };
        assert_eq!(recv() as *mut c_void, libcs);
        assert_ne!(early as *mut c_void, libcs);
    });
}

#[test]
fn every_name_is_libcs() {
    resolve();
    let libc_base = base_of(libc::getpid as *const c_void);
    for found in all() {
        assert_eq!(base_of(found), libc_base);
    }
}

#[test]
fn names_that_libc_lacks_and_our_own_are_not_taken() {
    assert!(look_up(c"ringway_no_such_function").is_none());
    assert!(is_ours(resolve as *const c_void));
    assert!(!is_ours(libc::getpid as *const c_void));
}
