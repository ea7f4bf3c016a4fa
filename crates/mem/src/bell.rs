//! A bell that can be heard in poll(2), and rung by any process that knows its number.
//!
//! Futexes cannot be polled together with descriptors, and an eventfd would have to be handed to every process that may
//! ring it. A datagram socket with an abstract name has neither problem: who waits makes one for the time of the wait and
//! leaves its number with the rings ([`WaitLine`](crate::kring::WaitLine)); who moves a ring sends a byte to that name.
//! Both must be in one network namespace. Whoever rings in vain only costs a look.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, sendto, socket_with};
use rustix::rand::{GetRandomFlags, getrandom};

/// Names that are tried before giving up: each is random in 32 bits.
const TRIES: u32 = 4;

/// See the module's text. Dropping it closes it.
#[derive(Debug)]
pub struct Bell {
    socket: OwnedFd,
    number: u32,
}

fn name_of(number: u32) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new_abstract_name(format!("ringway/bell/{number:08x}").as_bytes())
}

fn datagram_socket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

impl Bell {
    pub fn new() -> Result<Bell, Errno> {
        let socket = datagram_socket()?;
        for _ in 0..TRIES {
            let mut random = [0; 4];
            getrandom(&mut random, GetRandomFlags::empty())?;
            // 0 means nobody where numbers are kept.
            let number = u32::from_le_bytes(random).max(1);
            match bind(&socket, &name_of(number)?) {
                Ok(()) => return Ok(Bell { socket, number }),
                Err(Errno::ADDRINUSE) => {}
                Err(e) => return Err(e),
            }
        }
        Err(Errno::ADDRINUSE)
    }

    /// What a ringer needs to know; never 0.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Readable once the bell has rung.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Makes it silent until it is rung again.
    pub fn hush(&self) {
        while rustix::io::read(&self.socket, &mut [0u8; 8]).is_ok() {}
    }
}

/// Rings the bell of this number. One that is gone, or has been rung often enough to be full, needs nothing.
///
/// The socket is made for the occasion: a library inside other programs keeps no descriptor that these may close.
#[cold]
pub fn ring(number: u32) {
    if let (Ok(socket), Ok(name)) = (datagram_socket(), name_of(number)) {
        let _ = sendto(&socket, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL, &name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_ringing(bell: &Bell) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::from_borrowed_fd(bell.fd(), PollFlags::IN)], Some(&now)) == Ok(1)
    }

    #[test]
    fn it_is_heard_once_and_only_by_its_owner() {
        let (a, b) = (Bell::new().unwrap(), Bell::new().unwrap());
        ring(a.number());
        ring(a.number());
        assert!(is_ringing(&a) && !is_ringing(&b));
        a.hush();
        assert!(!is_ringing(&a));
        let gone = b.number();
        drop(b);
        ring(gone);
    }
}
