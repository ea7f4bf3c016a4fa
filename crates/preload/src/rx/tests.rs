//! What a peer does just before its end, between two looks of a receiver.

use std::net::TcpListener;

use super::*;
use crate::hooks::io;
use crate::hostile::{become_a_program, upgraded_pair};
use crate::testing::{in_child, until};
use crate::upgrade;

const BYTES: usize = 6769;

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
