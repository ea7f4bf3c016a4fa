//! Receiving and sending, on connections and pipes.

use libc::c_int;
use ringway_stack::{ConnId, Sockets};
use ringway_tcp::{ReceiveFlags, SendFlags, State as TcpState};

use crate::errno::{Errno, Result};
use crate::socket::Role;
use crate::state::{Kind, Patience, State};

/// Flags that need nothing here: there is no SIGPIPE, and no routing.
const HARMLESS: c_int = libc::MSG_NOSIGNAL | libc::MSG_DONTROUTE | libc::MSG_CONFIRM;

impl State {
    /// # Errors
    /// Those of `recv`; `EOPNOTSUPP` for other flags than `MSG_PEEK`, `MSG_DONTWAIT`, `MSG_WAITALL` and `MSG_OOB`.
    pub(crate) fn receive(&mut self, number: usize, out: &mut [u8], flags: c_int) -> Result<usize> {
        let known = libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_OOB | HARMLESS;
        if flags & !known != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let mut patience = self.patience(number)?;
        patience.nonblocking |= flags & libc::MSG_DONTWAIT != 0;
        if let Kind::Pipe { pipe, is_writer } = self.entry(number)?.kind {
            return self.read_pipe(pipe, is_writer, patience, out);
        }
        patience.timeout = self.socket(number)?.receive_timeout;
        let mut wanted = ReceiveFlags::empty();
        wanted.set(ReceiveFlags::PEEK, flags & libc::MSG_PEEK != 0);
        wanted.set(ReceiveFlags::URGENT, flags & libc::MSG_OOB != 0);
        let fills = flags & libc::MSG_WAITALL != 0 && wanted.is_empty();
        let mut done = 0;
        loop {
            let part = &mut out[done..];
            match self.block(patience, |state| state.try_receive(number, part, wanted)) {
                Ok(0) => return Ok(done),
                Ok(n) => done += n,
                // What has come is not lost.
                Err(_) if done > 0 => return Ok(done),
                Err(errno) => return Err(errno),
            }
            if !fills || done == out.len() {
                return Ok(done);
            }
        }
    }

    fn try_receive(&mut self, number: usize, out: &mut [u8], flags: ReceiveFlags) -> Result<usize> {
        let Role::Open { conn, is_connecting } = self.socket(number)?.role else { return Err(Errno::NOTCONN) };
        if is_connecting && self.is_opening(conn) {
            return Err(Errno::AGAIN);
        }
        let now = self.stack.now();
        if out.is_empty() && !flags.contains(ReceiveFlags::URGENT) {
            return Ok(0);
        }
        Ok(self.stack.engine().recv(now, conn, out, flags)?)
    }

    /// # Errors
    /// Those of `send`, without a SIGPIPE; `EOPNOTSUPP` for other flags than `MSG_DONTWAIT`, `MSG_MORE` and `MSG_OOB`.
    pub(crate) fn send(&mut self, number: usize, bytes: &[u8], flags: c_int) -> Result<usize> {
        if flags & !(libc::MSG_DONTWAIT | libc::MSG_MORE | libc::MSG_OOB | HARMLESS) != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let mut patience = self.patience(number)?;
        patience.nonblocking |= flags & libc::MSG_DONTWAIT != 0;
        if let Kind::Pipe { pipe, is_writer } = self.entry(number)?.kind {
            return self.write_pipe(pipe, is_writer, patience, bytes);
        }
        patience.timeout = self.socket(number)?.send_timeout;
        let mut wanted = SendFlags::empty();
        wanted.set(SendFlags::MORE, flags & libc::MSG_MORE != 0);
        wanted.set(SendFlags::URGENT, flags & libc::MSG_OOB != 0);
        let mut done = 0;
        loop {
            let part = &bytes[done..];
            match self.block(patience, |state| state.try_send(number, part, wanted)) {
                Ok(n) => done += n,
                Err(_) if done > 0 => return Ok(done),
                Err(errno) => return Err(errno),
            }
            if patience.nonblocking || done == bytes.len() {
                return Ok(done);
            }
        }
    }

    fn try_send(&mut self, number: usize, bytes: &[u8], flags: SendFlags) -> Result<usize> {
        let Role::Open { conn, is_connecting } = self.socket(number)?.role else { return Err(Errno(libc::EPIPE)) };
        if is_connecting && self.is_opening(conn) {
            return Err(Errno::AGAIN);
        }
        if bytes.is_empty() {
            return Ok(0);
        }
        let now = self.stack.now();
        Ok(self.stack.engine().send(now, conn, bytes, flags)?)
    }

    fn is_opening(&mut self, conn: ConnId) -> bool {
        matches!(self.stack.engine().state(conn), Ok(TcpState::SynSent | TcpState::SynReceived))
    }

    fn read_pipe(&mut self, pipe: usize, is_writer: bool, patience: Patience, out: &mut [u8]) -> Result<usize> {
        if is_writer {
            return Err(Errno::BADF);
        }
        let n = self.pipes[pipe].read(out).map_err(|errno| alone(errno, patience))?;
        if let Some(writer) = self.pipes[pipe].writer {
            self.mark(writer);
        }
        Ok(n)
    }

    fn write_pipe(&mut self, pipe: usize, is_writer: bool, patience: Patience, bytes: &[u8]) -> Result<usize> {
        if !is_writer {
            return Err(Errno::BADF);
        }
        let n = self.pipes[pipe].write(bytes).map_err(|errno| alone(errno, patience))?;
        if let Some(reader) = self.pipes[pipe].reader {
            self.mark(reader);
        }
        Ok(n)
    }

    /// Received bytes that wait, of a connection or a pipe.
    ///
    /// # Errors
    /// `EINVAL` for a listener, as Linux has it.
    pub(crate) fn unread(&mut self, number: usize) -> Result<usize> {
        if let Kind::Pipe { pipe, .. } = self.entry(number)?.kind {
            return Ok(self.pipes[pipe].unread());
        }
        match self.socket(number)?.role {
            Role::Fresh => Ok(0),
            Role::Listening(_) => Err(Errno::INVAL),
            Role::Open { conn, .. } => {
                let (first, second) = self.stack.engine().received(conn)?;
                Ok(first.len() + second.len())
            }
        }
    }
}

/// A pipe's two ends are used by one thread: who would wait for the other end waited for ever.
fn alone(errno: Errno, patience: Patience) -> Errno {
    if errno == Errno::AGAIN && !patience.nonblocking { Errno(libc::EDEADLK) } else { errno }
}
