//! What other threads and relatives do with a connection that is about to be upgraded, or is.

use core::sync::atomic::AtomicBool;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::*;
use crate::epoll;
use crate::hooks::io;
use crate::hostile::become_a_program;
use crate::testing::{in_child, until};

/// Long enough for a call that does not wait to come back.
const WHILE: Duration = Duration::from_millis(100);
const ROUNDS: u32 = 100_000;

fn watched(listener: &TcpListener) -> (TcpStream, u32, &'static Conn) {
    become_a_program();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    watch(stream.as_raw_fd());
    let (index, c) = connection(stream.as_raw_fd()).unwrap();
    (stream, index, c)
}

/// Bytes that went to the kernel meanwhile would go uncounted.
#[test]
fn a_call_waits_for_the_thread_that_attaches_its_connection() {
    in_child(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (stream, _, c) = watched(&listener);
        assert!(c.begin_attach());
        assert_eq!(c.slot().decide(family::UPGRADED), family::WATCHED);
        let (fd, over) = (stream.as_raw_fd(), &AtomicBool::new(false));
        std::thread::scope(|scope| {
            for route in [route_tx, route_rx] {
                scope.spawn(move || {
                    let by_kernel = matches!(route(fd), Route::Kernel);
                    assert!(by_kernel && over.load(SeqCst), "the call has not waited");
                });
            }
            std::thread::sleep(WHILE);
            over.store(true, SeqCst);
            c.give_up();
        });
    });
}

/// Who gets an upgraded connection while no monitor can hand out its ring would read doorbells, and nobody would read
/// what it writes.
#[test]
fn a_connection_that_comes_without_its_ring_is_reset_and_others_stay_on_tcp() {
    in_child(|| {
        become_a_program();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for upgraded in [true, false] {
            let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut peer, _) = listener.accept().unwrap();
            kernel::mark_upgraded(stream.as_raw_fd(), upgraded);
            peer.write_all(b"!").unwrap();
            let (_, c) = classify(stream.as_raw_fd()).unwrap();
            assert_eq!(c.state(), State::Plain);
            let (own, others) = (stream.read(&mut [0]), stream.write(b"x").and_then(|_| peer.read(&mut [0])));
            if upgraded {
                assert_eq!(own.unwrap_err().kind(), ErrorKind::ConnectionReset);
                assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
                assert!(others.is_err() && !kernel::is_marked_upgraded(stream.as_raw_fd()));
            } else {
                assert_eq!((own.unwrap(), others.unwrap()), (1, 1));
            }
        }
    });
}

#[test]
fn an_upgrade_and_epoll_ctl_do_not_wait_for_each_other() {
    in_child(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (stream, index, c) = watched(&listener);
        // SAFETY: a new descriptor, as the hook makes it.
        let (fd, epfd) = (stream.as_raw_fd(), unsafe { libc::epoll_create1(0) });
        epoll::created(epfd);
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 1 };
        assert_eq!(epoll::control(epfd, libc::EPOLL_CTL_ADD, fd, &mut event), 0);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(SeqCst) {
                    assert!(epoll::is_convertible(index, c));
                }
            });
            let mut modify = || epoll::control(epfd, libc::EPOLL_CTL_MOD, fd, &mut event);
            assert!((0..ROUNDS).all(|_| modify() == 0));
            over.store(true, SeqCst);
        });
    });
}

/// Objects are used again, for the next connection first.
#[test]
fn a_token_does_not_name_the_connection_after() {
    in_child(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (stream, index, c) = watched(&listener);
        let token = c.token(index);
        assert!(Conn::pinned(token).is_some_and(|(found, _)| found == index));
        c.put(index);
        release(table::replace(stream.as_raw_fd(), Entry::Unknown));
        assert!(Conn::pinned(token).is_none());
        let (again, next) = conn::create(stream.as_raw_fd()).unwrap();
        assert_eq!(again, index);
        assert!(Conn::pinned(token).is_none() && next.state() == State::Watched);
        assert!(Conn::pinned(next.token(again)).is_some());
    });
}

/// A connection ends between the look at its object and the pin, and the object becomes the next one.
#[test]
fn what_is_pinned_is_what_was_named() {
    in_child(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (stream, index, c) = watched(&listener);
        let fd = stream.as_raw_fd();
        let become_another = || {
            release(table::replace(fd, Entry::Unknown));
            assert!(conn::create(fd).is_some_and(|(again, _)| again == index));
        };
        assert!(Conn::pinned_after(c.token(index), become_another).is_none());
        assert!(c.is_open(), "the next one has lost nothing");
        c.put(index);
        assert!(c.state() == State::Free, "nor is it kept by anybody");
    });
}

/// The monitor is dead, so that nobody can hand out the ring: what is on TCP is a doorbell, no data.
#[test]
fn a_relative_without_the_ring_sees_a_reset() {
    for sends in [false, true] {
        in_child(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let (stream, _, c) = watched(&listener);
            let (mut peer, _) = listener.accept().unwrap();
            assert_eq!(c.slot().decide(family::UPGRADED), family::WATCHED);
            peer.write_all(b"!").unwrap();
            let (fd, mut byte) = (stream.as_raw_fd(), 0u8);
            until(|| kernel::unread(fd) == 1);
            // SAFETY: one byte of ours.
            let answer = unsafe {
                match sends {
                    true => io::send(fd, (&raw const byte).cast(), 1, libc::MSG_NOSIGNAL),
                    false => io::recv(fd, (&raw mut byte).cast(), 1, 0),
                }
            };
            assert_eq!((answer, sys::errno()), (-1, libc::ECONNRESET));
            let seen = peer.read(&mut [0; 8]).map_err(|e| e.kind());
            assert_eq!(seen, Err(ErrorKind::ConnectionReset), "the peer learns of it");
        });
    }
}
