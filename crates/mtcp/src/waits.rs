//! Epoll sets and `poll` over a core's sockets.

use std::time::Duration;

use libc::{c_int, pollfd};

use crate::epoll::EpollEvent;
use crate::errno::{Errno, Result};
use crate::state::{Kind, Patience, State};

const ADD: c_int = 1;
const DELETE: c_int = 2;
const MODIFY: c_int = 3;

/// Negative is for ever.
fn patience(timeout_ms: c_int) -> Patience {
    Patience { nonblocking: false, timeout: u64::try_from(timeout_ms).ok().map(Duration::from_millis) }
}

/// No time is left: nothing is ready, which is no error.
fn none_at_the_end(answer: Result<usize>) -> Result<usize> {
    if answer == Err(Errno::AGAIN) { Ok(0) } else { answer }
}

fn ready(count: usize) -> Result<usize> {
    if count > 0 { Ok(count) } else { Err(Errno::AGAIN) }
}

impl State {
    /// # Errors
    /// `EBADF`, `EINVAL` for what is no epoll set or no operation, `EFAULT` without an event; `EEXIST`, `ENOENT`;
    /// `EPERM` for an epoll set in another.
    pub(crate) fn epoll_control(
        &mut self,
        set: usize,
        operation: c_int,
        number: usize,
        wanted: Option<EpollEvent>,
    ) -> Result<()> {
        self.epoll(set)?;
        let is_epoll = matches!(self.entry(number)?.kind, Kind::Epoll(_));
        if set == number {
            return Err(Errno::INVAL);
        }
        if is_epoll {
            return Err(Errno(libc::EPERM));
        }
        match operation {
            ADD => {
                self.epoll(set)?.add(number, wanted.ok_or(Errno::FAULT)?)?;
                self.entry(number)?.watchers.push(set);
            }
            DELETE => {
                self.epoll(set)?.remove(number)?;
                self.entry(number)?.watchers.retain(|watcher| *watcher != set);
            }
            MODIFY => self.epoll(set)?.change(number, wanted.ok_or(Errno::FAULT)?)?,
            _ => return Err(Errno::INVAL),
        }
        Ok(())
    }

    /// What is ready in a set, in `out`; 0 when the time is over. What was to be sent is sent first.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` for what is no epoll set or no room for events, `EINTR`.
    pub(crate) fn epoll_wait(&mut self, set: usize, out: &mut [EpollEvent], timeout_ms: c_int) -> Result<usize> {
        self.epoll(set)?;
        if out.is_empty() {
            return Err(Errno::INVAL);
        }
        self.turn(Duration::ZERO)?;
        none_at_the_end(self.block(patience(timeout_ms), |state| ready(state.report(set, out)?)))
    }

    fn report(&mut self, set: usize, out: &mut [EpollEvent]) -> Result<usize> {
        let mut epoll = std::mem::take(self.epoll(set)?);
        let count = epoll.report(out, |number| self.level(number));
        *self.epoll(set)? = epoll;
        Ok(count)
    }

    /// `poll`, on socket numbers.
    ///
    /// # Errors
    /// `EINTR`; `EINVAL` for more entries than there can be sockets.
    pub(crate) fn poll(&mut self, fds: &mut [pollfd], timeout_ms: c_int) -> Result<usize> {
        if fds.len() > self.numbers_max() {
            return Err(Errno::INVAL);
        }
        self.turn(Duration::ZERO)?;
        none_at_the_end(self.block(patience(timeout_ms), |state| ready(state.look(fds))))
    }

    fn look(&mut self, fds: &mut [pollfd]) -> usize {
        for fd in fds.iter_mut() {
            fd.revents = match usize::try_from(fd.fd) {
                Err(_) => 0,
                Ok(number) if self.entry(number).is_err() => libc::POLLNVAL,
                Ok(number) => self.level(number) as i16 & (fd.events | libc::POLLERR | libc::POLLHUP),
            };
        }
        fds.iter().filter(|fd| fd.revents != 0).count()
    }
}
