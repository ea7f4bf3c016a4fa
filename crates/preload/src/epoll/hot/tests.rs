//! Glances against full looks, on a connection whose data goes by the ring in both directions.

use core::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::AsRawFd;

use libc::{EPOLL_CTL_ADD, EPOLLET, EPOLLIN, EPOLLOUT, c_int, epoll_event};
use ringway_channel::Path;
use ringway_channel::hostile::{Choices, Seeded};

use super::*;
use crate::epoll::report::Output;
use crate::epoll::set::Set;
use crate::epoll::{control, created, set_of};
use crate::hooks::io;
use crate::hostile::{Peer, become_a_program, upgraded_pair};
use crate::testing::in_child;
use crate::{kernel, upgrade};

fn receive(fd: c_int, bytes: usize) -> isize {
    let mut buffer = vec![0u8; bytes];
    // SAFETY: a buffer of that length.
    unsafe { io::recv(fd, buffer.as_mut_ptr().cast(), bytes, libc::MSG_DONTWAIT) }
}

fn send(fd: c_int, bytes: usize) -> isize {
    // SAFETY: a buffer of that length.
    unsafe { io::send(fd, vec![0u8; bytes].as_ptr().cast(), bytes, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) }
}

/// A connection that uses its ring in both directions.
fn on_rings() -> (c_int, Peer) {
    let (fd, peer) = upgraded_pair(&TcpListener::bind("127.0.0.1:0").unwrap());
    peer.end().declare_ready();
    peer.end().switch_tx(kernel::offsets(peer.tcp.as_raw_fd()).unwrap().written);
    assert_eq!((send(fd, 1), receive(fd, 1)), (1, -1));
    let end = upgrade::upgraded(fd).and_then(|(_, c)| c.end()).unwrap();
    assert_eq!([end.rx_path(), end.tx_path(), end.peer_tx_path()], [Path::Ring; 3]);
    (fd, peer)
}

/// A set with the connection in it.
fn watched(fd: c_int, events: c_int) -> &'static Set {
    // SAFETY: plain integers.
    let epfd = unsafe { libc::epoll_create1(0) };
    created(epfd);
    let mut event = epoll_event { events: events as u32, u64: 1 };
    assert_eq!(control(epfd, EPOLL_CTL_ADD, fd, &raw mut event), 0);
    set_of(epfd).unwrap()
}

/// What a sweep reports of the only connection; 0 = nothing.
fn reported(set: &Set) -> c_int {
    let mut buffer = [MaybeUninit::uninit(); 2];
    let mut out = Output::new(&mut buffer);
    set.lock().sweep(&mut out);
    let mut events = [epoll_event { events: 0, u64: 0 }; 2];
    assert!(out.copy_to(events.as_mut_ptr()) <= 1);
    events[0].events as c_int
}

/// How many of the next so many turns are full looks.
fn full_looks(set: &Set, turns: usize) -> usize {
    (0..turns).filter(|_| set.lock().take_turn().is_some()).count()
}

fn publish(peer: &Peer, bytes: usize) {
    let end = peer.end();
    let room = end.producer().free(bytes).unwrap().min(bytes);
    if room > 0 {
        end.producer().publish(room, 0);
    }
}

fn consume(peer: &Peer, bytes: usize) {
    let end = peer.end();
    let there = end.consumer().spans(bytes).unwrap().bytes();
    if there > 0 {
        end.consumer().consume(there, 0);
    }
}

#[test]
fn a_glance_is_enough_until_the_peer_sends() {
    in_child(|| {
        become_a_program();
        let (fd, peer) = on_rings();
        let set = watched(fd, EPOLLIN);
        assert_eq!([reported(set), reported(set)], [0, 0]);
        assert_eq!(full_looks(set, FULL_LOOK_EVERY / 2), 0);
        publish(&peer, 3);
        assert_eq!(full_looks(set, 5), 5);
        assert_eq!([reported(set), reported(set)], [EPOLLIN, EPOLLIN], "as long as it is unread");
        assert_eq!((receive(fd, 3), reported(set), full_looks(set, 5)), (3, 0, 0));
        // In case that an event of the kernel's was missed.
        assert_eq!(full_looks(set, 4 * FULL_LOOK_EVERY), 4);
    });
}

#[test]
fn each_arrival_is_an_edge_also_behind_unread_bytes() {
    in_child(|| {
        become_a_program();
        let (fd, peer) = on_rings();
        let set = watched(fd, EPOLLIN | EPOLLET);
        reported(set);
        for unread in 1..20 {
            publish(&peer, 1);
            assert_eq!([reported(set), reported(set), reported(set)], [EPOLLIN, 0, 0], "{unread} unread");
            assert_eq!(full_looks(set, 5), 0);
        }
    });
}

/// Of two sets with the same connection, one is made to look in full each time.
#[test]
fn glances_miss_nothing_that_full_looks_see() {
    for (seed, events) in [EPOLLIN, EPOLLIN | EPOLLET, EPOLLIN | EPOLLOUT].into_iter().enumerate() {
        in_child(|| {
            become_a_program();
            let (fd, peer) = on_rings();
            let [glancing, thorough] = [watched(fd, events), watched(fd, events)];
            let mut choices = Seeded(seed as u64 + 1);
            let mut below = |n| choices.below(n).unwrap() as usize;
            let (mut reports, mut steps) = (0, 0);
            while steps < 20_000 {
                steps += 1;
                let bytes = 1 + below(3000);
                match below(6) {
                    0 => publish(&peer, bytes),
                    1 => _ = receive(fd, bytes),
                    2 => _ = send(fd, bytes),
                    3 => consume(&peer, bytes),
                    _ => {
                        thorough.lock().heat(0);
                        let expected = reported(thorough);
                        assert_eq!(reported(glancing), expected, "step {steps}, events {events:#x}");
                        reports += u32::from(expected != 0);
                    }
                }
            }
            assert!(reports > 1000, "{reports} reports");
        });
    }
}
