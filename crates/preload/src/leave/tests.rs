//! A thread is cancelled while it waits: what it held is given back.

use core::sync::atomic::{AtomicI32, Ordering::*};
use std::net::TcpListener;
use std::time::Duration;

use libc::{c_int, c_void, epoll_event, pollfd};

use crate::hooks::{fd as fd_hooks, io, poll as poll_hooks};
use crate::hostile::{become_a_program, upgraded_pair};
use crate::testing::in_child;
use crate::{conn::State, epoll, upgrade};

/// The descriptor that the thread waits for.
static FD: AtomicI32 = AtomicI32::new(-1);
/// Long enough for a thread to fall asleep; if it has not, it is cancelled on its way there.
const WHILE: Duration = Duration::from_millis(50);

type Main = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

unsafe extern "C-unwind" {
    #[link_name = "pthread_create"]
    fn create(thread: *mut libc::pthread_t, how: *const c_void, main: Main, with: *mut c_void) -> c_int;
    fn pthread_cancel(thread: libc::pthread_t) -> c_int;
}

extern "C-unwind" fn receives(_: *mut c_void) -> *mut c_void {
    let mut byte = 0u8;
    // SAFETY: one byte of this frame's.
    unsafe { io::recv(FD.load(SeqCst), (&raw mut byte).cast(), 1, 0) };
    core::ptr::null_mut()
}

extern "C-unwind" fn polls(_: *mut c_void) -> *mut c_void {
    let mut entries = [pollfd { fd: FD.load(SeqCst), events: libc::POLLIN, revents: 0 }; 100];
    // SAFETY: this frame's entries: so many that they need pages of their own.
    unsafe { poll_hooks::poll(entries.as_mut_ptr(), 100, -1) };
    core::ptr::null_mut()
}

extern "C-unwind" fn waits(epfd: *mut c_void) -> *mut c_void {
    let mut event = epoll_event { events: 0, u64: 0 };
    // SAFETY: this frame's event.
    unsafe { poll_hooks::epoll_wait(epfd.addr() as i32, &raw mut event, 1, -1) };
    core::ptr::null_mut()
}

fn cancelled(main: Main) {
    become_a_program();
    let (fd, _peer) = upgraded_pair(&TcpListener::bind("127.0.0.1:0").unwrap());
    let (_, c) = upgrade::upgraded(fd).unwrap();
    c.page().unwrap().options.receive_timeout_us.store(0, SeqCst);
    FD.store(fd, SeqCst);
    // SAFETY: a thread of the test's own; libc calls on descriptors of its own.
    unsafe {
        let epfd = libc::epoll_create1(0);
        epoll::created(epfd);
        let mut event = epoll_event { events: libc::EPOLLIN as u32, u64: 1 };
        assert_eq!(epoll::control(epfd, libc::EPOLL_CTL_ADD, fd, &mut event), 0);
        let mut thread = 0;
        assert_eq!(
            create(&raw mut thread, core::ptr::null(), main, core::ptr::without_provenance_mut(epfd as usize)),
            0
        );
        std::thread::sleep(WHILE);
        assert_eq!(pthread_cancel(thread), 0);
        let mut result = core::ptr::null_mut();
        assert_eq!(libc::pthread_join(thread, &raw mut result), 0);
        assert_eq!(result.addr(), usize::MAX, "cancelled");
        assert_eq!(c.poll_sleepers.load(SeqCst) + c.bell_waiters[0].load(SeqCst), 0);
        assert_eq!(epoll::set_of(epfd).unwrap().lock().sleepers, 0);
        assert_eq!(fd_hooks::close(fd), 0);
    }
    assert_eq!(c.state(), State::Free, "nobody keeps it any more");
}

#[test]
fn a_cancelled_recv_keeps_nothing() {
    in_child(|| cancelled(receives));
}

#[test]
fn a_cancelled_poll_keeps_nothing() {
    in_child(|| cancelled(polls));
}

#[test]
fn a_cancelled_epoll_wait_keeps_nothing() {
    in_child(|| cancelled(waits));
}
