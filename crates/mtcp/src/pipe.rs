//! Pipes within a core: a program wakes its own event loop with them.

use std::collections::VecDeque;

use crate::errno::{Errno, Result};
use ringway_stack::Ready;

/// As Linux's pipes have.
const BYTES_MAX: usize = 65_536;
/// A write of so many bytes is whole or not at all (`PIPE_BUF`).
const ATOMIC_BYTES: usize = 4096;

/// The bytes in a pipe, and the socket numbers of its ends while they are open.
#[derive(Debug)]
pub(crate) struct Pipe {
    bytes: VecDeque<u8>,
    pub(crate) reader: Option<usize>,
    pub(crate) writer: Option<usize>,
}

impl Pipe {
    pub(crate) fn new(reader: usize, writer: usize) -> Pipe {
        Pipe { bytes: VecDeque::new(), reader: Some(reader), writer: Some(writer) }
    }

    /// # Errors
    /// `EAGAIN` if it is empty and somebody could write.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        if self.bytes.is_empty() && self.writer.is_some() && !out.is_empty() {
            return Err(Errno::AGAIN);
        }
        let n = out.len().min(self.bytes.len());
        self.bytes.drain(..n).zip(out).for_each(|(byte, place)| *place = byte);
        Ok(n)
    }

    /// # Errors
    /// `EPIPE` if nobody can read, `EAGAIN` if there is no room.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let room = BYTES_MAX - self.bytes.len();
        if self.reader.is_none() {
            return Err(Errno(libc::EPIPE));
        }
        if room == 0 || bytes.len() <= ATOMIC_BYTES && room < bytes.len() {
            return Err(Errno::AGAIN);
        }
        let n = room.min(bytes.len());
        self.bytes.extend(&bytes[..n]);
        Ok(n)
    }

    pub(crate) fn unread(&self) -> usize {
        self.bytes.len()
    }

    /// What one end is ready for.
    pub(crate) fn readiness(&self, is_writer: bool) -> Ready {
        let mut ready = Ready::empty();
        if is_writer {
            ready.set(Ready::WRITABLE, BYTES_MAX - self.bytes.len() >= ATOMIC_BYTES);
            ready.set(Ready::ERROR, self.reader.is_none());
        } else {
            ready.set(Ready::READABLE, !self.bytes.is_empty());
            ready.set(Ready::HANGUP, self.writer.is_none());
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_order_and_ends_are_noticed() {
        let mut pipe = Pipe::new(0, 1);
        let mut out = [0; 8];
        assert_eq!(pipe.read(&mut out), Err(Errno::AGAIN));
        assert_eq!((pipe.write(b"abc"), pipe.write(b"de")), (Ok(3), Ok(2)));
        assert_eq!((pipe.read(&mut out[..4]), &out[..4]), (Ok(4), &b"abcd"[..]));
        pipe.writer = None;
        assert_eq!((pipe.read(&mut out), pipe.read(&mut out)), (Ok(1), Ok(0)));
        assert_eq!(pipe.readiness(false), Ready::HANGUP);
        pipe.reader = None;
        assert_eq!(pipe.write(b"x"), Err(Errno(libc::EPIPE)));
    }

    #[test]
    fn a_small_write_is_whole_or_not_at_all() {
        let mut pipe = Pipe::new(0, 1);
        assert_eq!(pipe.write(&vec![1; BYTES_MAX - 10]), Ok(BYTES_MAX - 10));
        assert_eq!(pipe.write(&[2; 11]), Err(Errno::AGAIN));
        assert_eq!(pipe.write(&[2; ATOMIC_BYTES + 1]), Ok(10));
        assert_eq!(pipe.readiness(true), Ready::empty());
    }
}
