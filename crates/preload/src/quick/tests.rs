//! Which calls go the short way, and that the others are left alone.

use std::io::Write;
use std::net::TcpListener;
use std::os::fd::AsRawFd;

use ringway_channel::Reason;
use ringway_channel::wait::{BELL_FUTEX, BELL_TCP};

use super::*;
use crate::hostile::{Peer, become_a_program, upgraded_pair};
use crate::testing::in_child;
use crate::{kernel, upgrade};

const MESSAGE: [u8; 64] = [7; 64];

/// An upgraded connection on which both directions have moved to the ring and one message each has passed.
fn on_the_ring() -> (c_int, Peer, End<'static>) {
    become_a_program();
    let (fd, peer) = upgraded_pair(&TcpListener::bind("127.0.0.1:0").unwrap());
    peer.end().declare_ready();
    let written = kernel::offsets(peer.tcp.as_raw_fd()).unwrap().written;
    peer.end().switch_tx(written);
    let end = upgrade::upgraded(fd).and_then(|(_, c)| c.end()).unwrap();
    // SAFETY: buffers of that length.
    unsafe {
        assert_eq!(crate::hooks::io::send(fd, MESSAGE.as_ptr().cast(), 64, 0), 64);
        says(&peer, 64);
        let mut buffer = [0u8; 64];
        assert_eq!(crate::hooks::io::recv(fd, buffer.as_mut_ptr().cast(), 64, 0), 64);
    }
    (fd, peer, end)
}

/// The peer publishes so many bytes, and rings if this end wants that.
fn says(peer: &Peer, bytes: usize) {
    let producer = peer.end().producer();
    producer.make_room(bytes, 0).unwrap();
    producer.publish(bytes, 0);
    if peer.end().peer_receiver().bells() & BELL_TCP != 0 {
        (&peer.tcp).write_all(b"!").unwrap();
    }
}

fn sends(fd: c_int, bytes: usize, flags: c_int) -> Option<ssize_t> {
    send(fd, vec![7u8; bytes].as_ptr().cast(), bytes, flags)
}

fn receives(fd: c_int, bytes: usize, flags: c_int) -> Option<ssize_t> {
    receive(fd, vec![0u8; bytes].as_mut_ptr().cast(), bytes, flags)
}

#[test]
fn plain_messages_go_the_short_way() {
    in_child(|| {
        let (fd, peer, end) = on_the_ring();
        for _ in 0..10 {
            says(&peer, 64);
            assert_eq!(receives(fd, 100, 0), Some(64));
            assert_eq!(sends(fd, 64, libc::MSG_NOSIGNAL), Some(64));
        }
        assert_eq!(end.producer().tail(), 11 * 64);
        assert_eq!(end.consumer().head(), 11 * 64);
    });
}

#[test]
fn what_is_not_plain_is_left_to_the_full_way() {
    in_child(|| {
        let (fd, peer, end) = on_the_ring();
        assert_eq!(receives(fd, 64, libc::MSG_DONTWAIT), None, "nothing there");
        says(&peer, 64);
        assert_eq!(receives(fd, 64, libc::MSG_PEEK), None);
        assert_eq!(receives(fd, 100, libc::MSG_WAITALL), None);
        assert_eq!(receives(fd, 0, 0), None);
        assert_eq!(sends(fd, 64, libc::MSG_OOB), None);
        assert_eq!(sends(fd, 64, libc::MSG_MORE), None);
        assert_eq!(sends(fd, SEND_MAX_BYTES + 1, 0), None);
        assert_eq!(sends(fd, 0, 0), None);
        // One message is there that this end has not taken, so no look at the kernel's socket can be saved.
        let (_, conn) = upgrade::upgraded(fd).unwrap();
        conn.looked_tsc.store(0, Relaxed);
        assert_eq!(sends(fd, 64, 0), None);
        end.page.options.receive_low_water_bytes.store(100, Relaxed);
        assert_eq!(receives(fd, 64, 0), None);
        assert_eq!((end.producer().tail(), end.consumer().head()), (64, 64));
    });
}

#[test]
fn bad_addresses_are_left_to_the_full_way() {
    in_child(|| {
        let (fd, peer, end) = on_the_ring();
        says(&peer, 64);
        assert_eq!(receive(fd, core::ptr::without_provenance_mut(64), 64, 0), None);
        assert_eq!(send(fd, core::ptr::without_provenance(64), 64, 0), None);
        assert_eq!((end.producer().tail(), end.consumer().head()), (64, 64));
    });
}

#[test]
fn a_peer_that_closes_goes_back_or_asks_for_tcp_ends_the_short_way() {
    let answers_after = |change: fn(&Peer)| {
        in_child(|| {
            let (fd, peer, _) = on_the_ring();
            says(&peer, 64);
            assert_eq!(receives(fd, 64, 0), Some(64));
            let (_, conn) = upgrade::upgraded(fd).unwrap();
            conn.looked_tsc.store(0, Relaxed);
            change(&peer);
            assert_eq!(sends(fd, 64, 0), None);
        });
    };
    answers_after(|peer| peer.end().announce_closing(ringway_channel::end::CLOSING_ALL));
    answers_after(|peer| peer.end().ask_peer_to_look());
    answers_after(|peer| peer.end().ask_for_tcp(Reason::UrgentData));
    in_child(|| {
        let (fd, peer, _) = on_the_ring();
        says(&peer, 64);
        peer.end().demote_tx(kernel::offsets(peer.tcp.as_raw_fd()).unwrap().written);
        assert_eq!(receives(fd, 64, 0), None);
    });
}

/// A sender in poll sleeps when three quarters of the ring are full, which may have come about during the call.
#[test]
fn a_sender_that_waits_for_room_is_woken() {
    in_child(|| {
        let (fd, peer, _) = on_the_ring();
        says(&peer, 64);
        peer.end().own_sender().arm(BELL_FUTEX);
        assert_eq!(receives(fd, 64, 0), Some(64));
        assert!(!peer.end().own_sender().is_armed());
    });
}

/// With a second thread in the process locks are taken with locked instructions.
#[test]
fn threads_go_the_short_way_unless_the_lock_is_held() {
    in_child(|| {
        let (fd, peer, end) = on_the_ring();
        let held = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                held.wait();
                let critical = thread::enter();
                let locks = (tx::lock_tx(&end, &critical), tx::lock_rx(&end, &critical));
                held.wait();
                held.wait();
                drop(locks);
                drop(critical);
                held.wait();
            });
            says(&peer, 64);
            assert_eq!(receives(fd, 64, 0), Some(64));
            assert_eq!(sends(fd, 64, 0), Some(64));
            says(&peer, 64);
            held.wait();
            held.wait();
            assert_eq!((receives(fd, 64, 0), sends(fd, 64, 0)), (None, None));
            held.wait();
            held.wait();
            assert_eq!(receives(fd, 64, 0), Some(64));
        });
    });
}

/// A look at the kernel's socket is saved for one message, not for two: the second one finds out what has happened.
#[test]
fn only_the_answer_to_a_message_goes_without_a_look() {
    in_child(|| {
        let (fd, peer, _) = on_the_ring();
        says(&peer, 64);
        assert_eq!(receives(fd, 64, 0), Some(64));
        let (_, conn) = upgrade::upgraded(fd).unwrap();
        conn.looked_tsc.store(0, Relaxed);
        assert_eq!(sends(fd, 64, 0), Some(64));
        assert_eq!(sends(fd, 64, 0), None);
    });
}
