//! What a peer does between two looks of a receiver: just before its end, on its way back to TCP, against the rules.

use std::io::Write;
use std::net::TcpListener;

use ringway_channel::wait::BELL_FUTEX;

use super::*;
use crate::hooks::io;
use crate::hostile::{become_a_program, upgraded_pair};
use crate::testing::{in_child, until};
use crate::upgrade;

const BYTES: usize = 6769;
const PAGE: usize = 4096;
/// A call that has not come back after so many seconds hangs.
const PATIENCE_S: u32 = 20;

/// The receiver has seen that the peer is on TCP and has sent nothing more; then the peer switches, fills the ring and
/// goes; then the receiver asks the kernel. All that was sent must come before the end.
fn last_words(in_order: bool) -> isize {
    become_a_program();
    let (fd, peer) = upgraded_pair(&TcpListener::bind("127.0.0.1:0").unwrap());
    let end = upgrade::upgraded(fd).and_then(|(_, c)| c.end()).unwrap();
    assert_eq!(end.rx_source(|| kernel::unread(fd)), Ok(RxSource::Tcp { limit_bytes: 0 }));

    let written = kernel::offsets(std::os::fd::AsRawFd::as_raw_fd(&peer.tcp)).unwrap().written;
    peer.end().switch_tx(written);
    peer.end().producer().publish(BYTES, 0);
    peer.go(in_order);
    until(|| kernel::poll_now(fd, libc::POLLRDHUP) != 0);

    assert!(matches!(probe(&end, fd), Step::Got), "what was published comes first");
    let mut buffer = [0u8; 2 * BYTES];
    // SAFETY: a buffer of that length.
    let mut receive = || unsafe { io::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    assert_eq!(receive(), BYTES as isize);
    match receive() {
        -1 => -(sys::errno() as isize),
        n => n,
    }
}

#[test]
fn bytes_published_just_before_a_fin_are_received() {
    in_child(|| assert_eq!(last_words(true), 0));
}

#[test]
fn bytes_published_just_before_a_reset_are_received() {
    in_child(|| assert_eq!(last_words(false), -(libc::ECONNRESET as isize)));
}

/// A page that may be written, and behind it one that may not.
fn page_before_a_bad_one() -> *mut libc::c_void {
    let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, of which half is closed again.
    unsafe {
        let base = libc::mmap(core::ptr::null_mut(), 2 * PAGE, prot, flags, -1, 0);
        assert_ne!(base, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(base.byte_add(PAGE), PAGE, libc::PROT_NONE), 0);
        base
    }
}

/// The ring gives what the good page holds, and has ended; what follows by TCP meets the bad one.
#[test]
fn a_bad_address_behind_the_ring_s_last_byte_ends_the_call() {
    in_child(|| {
        become_a_program();
        // SAFETY: a call that does not come back ends the child.
        unsafe { libc::alarm(PATIENCE_S) };
        let (fd, mut peer) = upgraded_pair(&TcpListener::bind("127.0.0.1:0").unwrap());
        let written = || kernel::offsets(std::os::fd::AsRawFd::as_raw_fd(&peer.tcp)).unwrap().written;
        peer.end().switch_tx(written());
        peer.end().producer().publish(PAGE, 0);
        peer.end().demote_tx(written());
        peer.tcp.write_all(b"by TCP").unwrap();
        until(|| kernel::unread(fd) == 6);

        let buffer = page_before_a_bad_one();
        // SAFETY: the hook survives the bad page; the second call stays within the good one.
        let receive = |bytes, flags| unsafe { io::recv(fd, buffer, bytes, flags) };
        assert_eq!(receive(2 * PAGE, libc::MSG_WAITALL), PAGE as isize, "a short count");
        assert_eq!(receive(PAGE, 0), 6, "no byte is lost");
    });
}

/// What a waiting look ahead has written stays in its count, though another reader takes it meanwhile.
#[test]
fn a_look_ahead_never_counts_less_than_it_wrote() {
    in_child(|| {
        become_a_program();
        let (fd, peer) = upgraded_pair(&TcpListener::bind("127.0.0.1:0").unwrap());
        wait_without_limit(fd);
        let written = kernel::offsets(std::os::fd::AsRawFd::as_raw_fd(&peer.tcp)).unwrap().written;
        peer.end().switch_tx(written);
        peer.end().producer().publish(100, 0);
        std::thread::scope(|scope| {
            let looker = scope.spawn(move || {
                let mut buffer = [b'?'; 200];
                let flags = libc::MSG_PEEK | libc::MSG_WAITALL;
                // SAFETY: a buffer of that length.
                let n = unsafe { io::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), flags) };
                (n, buffer.iter().filter(|&&b| b != b'?').count())
            });
            until(|| peer.end().peer_receiver().futex_value() & BELL_FUTEX != 0);
            let mut taken = [0; 60];
            // SAFETY: a buffer of that length.
            assert_eq!(unsafe { io::recv(fd, taken.as_mut_ptr().cast(), taken.len(), 0) }, 60);
            peer.go(true);
            // SAFETY: waking touches no memory.
            unsafe { sys::futex_wake(core::ptr::from_ref(peer.end().peer_receiver().0).cast(), c_int::MAX, false) };
            assert_eq!(looker.join().unwrap(), (100, 100));
        });
    });
}

fn wait_without_limit(fd: c_int) {
    let end = upgrade::upgraded(fd).and_then(|(_, c)| c.end()).unwrap();
    end.page.options.receive_timeout_us.store(0, Relaxed);
}
