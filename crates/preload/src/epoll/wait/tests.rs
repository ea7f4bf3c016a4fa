//! A connection that is upgraded by another thread between two steps of one wait.

use std::io::Write;
use std::net::TcpListener;

use super::*;
use crate::epoll::{control, created, set_of};
use crate::hostile::{answered_pair, become_a_program};
use crate::kernel;
use crate::testing::{in_child, until};

const DATA: u64 = 0x1234_5678_9abc;

/// wrk takes a read that finds nothing after such an event for an error of the connection.
#[test]
fn what_the_kernel_has_reported_is_not_reported_again_by_the_ring() {
    in_child(|| {
        become_a_program();
        let (fd, mut peer, answer) = answered_pair(&TcpListener::bind("127.0.0.1:0").unwrap());
        // SAFETY: plain integers.
        let epfd = unsafe { libc::epoll_create1(0) };
        created(epfd);
        let mut event = epoll_event { events: libc::EPOLLIN as u32, u64: DATA };
        assert_eq!(control(epfd, libc::EPOLL_CTL_ADD, fd, &raw mut event), 0);
        peer.tcp.write_all(b"!").unwrap();
        until(|| kernel::unread(fd) == 1);

        let set = set_of(epfd).unwrap();
        let mut buffer = [MaybeUninit::uninit(); 8];
        let mut out = Output::new(&mut buffer);
        ask_kernel(set, epfd, &mut out, Timeout::Now.slice(0).0, core::ptr::null());
        answer.arrive(fd);
        set.lock().sweep(&mut out);
        assert_eq!(out.len, 1, "once in one answer");

        let mut buffer = [MaybeUninit::uninit(); 8];
        let mut later = Output::new(&mut buffer);
        set.lock().sweep(&mut later);
        assert_eq!(later.len, 1, "and again in the next, for nobody has read it");
    });
}
