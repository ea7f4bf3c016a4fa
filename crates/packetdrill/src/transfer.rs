//! Bytes in and out of sockets and pipes.

use ringway_tcp::{Error, ReceiveFlags, SendFlags, State};
use ringway_wire::Endpoint;

use crate::errno::{Errno, Result};
use crate::socket::Role;
use crate::stack::{Object, PIPE_BYTES, Stack};

/// Linux answers these with a meaning; what else a call names is of no consequence here.
const RECEIVE_REFUSED: i32 = libc::MSG_ERRQUEUE;

impl Stack {
    /// Gives `bytes` beyond the first `*done` to a socket, counting on; `EAGAIN` while some are left.
    pub(crate) fn send(&mut self, fd: i32, bytes: &[u8], flags: i32, done: &mut usize) -> Result<usize> {
        let id = match self.object(fd)? {
            Object::PipeWriter(pipe) => {
                let pipe = *pipe;
                return self.fill_pipe(pipe, bytes);
            }
            Object::Socket(socket) => socket.connection().ok_or(Errno(libc::EPIPE))?,
            _ => return Err(Errno::BADF),
        };
        if let Some(room) = self.engine.syn_data_room(id)? {
            return self.send_with_syn(fd, &bytes[*done..], room, flags, done);
        }
        if matches!(self.engine.state(id)?, State::SynSent) {
            return Err(Errno::AGAIN);
        }
        let mut how = SendFlags::empty();
        how.set(SendFlags::MORE, flags & libc::MSG_MORE != 0);
        how.set(SendFlags::URGENT, flags & libc::MSG_OOB != 0);
        let taken = self.engine.send(self.now, id, &bytes[*done..], how)?;
        *done += taken;
        self.count_sent(fd, taken)?;
        if *done < bytes.len() { Err(Errno::AGAIN) } else { Ok(*done) }
    }

    // RFC 7413 4.2.1: what fits goes with the SYN. Linux (`tcp_sendmsg_fastopen`): who does not wait has sent just that; who
    // waits goes on when the connection is open.
    fn send_with_syn(&mut self, fd: i32, bytes: &[u8], room: usize, flags: i32, done: &mut usize) -> Result<usize> {
        let id = self.socket_at(fd)?.connection().ok_or(Errno(libc::EPIPE))?;
        let how = if flags & libc::MSG_MORE != 0 { SendFlags::MORE } else { SendFlags::empty() };
        let taken = self.engine.send(self.now, id, &bytes[..bytes.len().min(room)], how)?;
        *done += taken;
        self.count_sent(fd, taken)?;
        Err(Errno::AGAIN)
    }

    fn count_sent(&mut self, fd: i32, bytes: usize) -> Result<()> {
        self.socket_at(fd)?.sent += bytes as u64;
        Ok(())
    }

    /// `sendto` with `MSG_FASTOPEN`: connects on the way. `EINPROGRESS` if the SYN could take nothing along.
    pub(crate) fn open_fast(&mut self, fd: i32, remote: Option<Endpoint>) -> Result<()> {
        let socket = self.socket_at(fd)?;
        if socket.role != Role::Fresh {
            return Err(Errno(if socket.connection().is_some() { libc::EISCONN } else { libc::EINVAL }));
        }
        let before = core::mem::replace(&mut socket.options.fast_open_connect, true);
        let result = self.connect(fd, remote);
        self.socket_at(fd)?.options.fast_open_connect = before;
        result
    }

    /// Takes received bytes.
    pub(crate) fn receive(&mut self, fd: i32, out: &mut [u8], flags: i32) -> Result<usize> {
        let (id, least) = match self.object(fd)? {
            Object::PipeReader(pipe) => {
                let pipe = *pipe;
                return self.empty_pipe(pipe, out);
            }
            Object::Socket(socket) => (socket.connection().ok_or(Errno::NOTCONN)?, socket.receive_least),
            _ => return Err(Errno::BADF),
        };
        if flags & RECEIVE_REFUSED != 0 {
            return Err(Errno::AGAIN);
        }
        let mut how = ReceiveFlags::empty();
        how.set(ReceiveFlags::PEEK, flags & libc::MSG_PEEK != 0);
        how.set(ReceiveFlags::URGENT, flags & libc::MSG_OOB != 0);
        if matches!(self.engine.state(id)?, State::SynSent) {
            return Err(Errno::AGAIN);
        }
        let least = if flags & libc::MSG_WAITALL != 0 { out.len() } else { least.min(out.len()) };
        let (first, second) = self.engine.received(id)?;
        let (unread, ready) = (first.len() + second.len(), self.engine.readiness(id)?);
        let ended = ready.intersects(ringway_tcp::Ready::READ_HANGUP | ringway_tcp::Ready::ERROR);
        if unread > 0 && unread < least && !ended && !how.contains(ReceiveFlags::URGENT) {
            return Err(Errno::AGAIN);
        }
        Ok(self.engine.recv(self.now, id, out, how)?)
    }

    /// Bytes that wait to be read, as `SIOCINQ` counts them: the peer's end is none of them.
    pub(crate) fn unread(&mut self, fd: i32) -> Result<usize> {
        let id = self.socket_at(fd)?.connection().ok_or(Errno::INVAL)?;
        let (first, second) = self.engine.received(id)?;
        Ok(first.len() + second.len())
    }

    /// Bytes given to a socket that are not yet acknowledged (`SIOCOUTQ`), and of these the ones never sent
    /// (`SIOCOUTQNSD`).
    pub(crate) fn unsent(&mut self, fd: i32) -> Result<(usize, usize)> {
        let socket = self.socket_at(fd)?;
        let (id, sent) = (socket.connection().ok_or(Errno::INVAL)?, socket.sent);
        let info = self.engine.tcp_info(self.now, id)?;
        Ok((sent.saturating_sub(info.bytes_acked) as usize, info.notsent_bytes as usize))
    }

    pub(crate) fn pipe(&mut self) -> Result<[i32; 2]> {
        let pipe = self.pipes.len();
        self.pipes.push(Default::default());
        Ok([self.insert(Object::PipeReader(pipe))?, self.insert(Object::PipeWriter(pipe))?])
    }

    fn fill_pipe(&mut self, pipe: usize, bytes: &[u8]) -> Result<usize> {
        let room = PIPE_BYTES - self.pipes[pipe].len();
        if room == 0 && !bytes.is_empty() {
            return Err(Errno::AGAIN);
        }
        let taken = bytes.len().min(room);
        self.pipes[pipe].extend(&bytes[..taken]);
        Ok(taken)
    }

    fn empty_pipe(&mut self, pipe: usize, out: &mut [u8]) -> Result<usize> {
        let held = &mut self.pipes[pipe];
        if held.is_empty() && !out.is_empty() {
            return Err(Errno::AGAIN);
        }
        let taken = out.len().min(held.len());
        out[..taken].iter_mut().zip(held.drain(..taken)).for_each(|(to, byte)| *to = byte);
        Ok(taken)
    }

    /// Moves bytes between a pipe and a socket, as many as both sides allow at once.
    pub(crate) fn splice(&mut self, from: i32, to: i32, bytes: usize) -> Result<usize> {
        match (self.object(from)?, bytes) {
            (Object::PipeReader(pipe), _) => {
                let pipe = *pipe;
                let piece: Vec<u8> = self.pipes[pipe].iter().copied().take(bytes).collect();
                let mut done = 0;
                let result = self.send(to, &piece, 0, &mut done);
                self.pipes[pipe].drain(..done);
                if done > 0 || piece.is_empty() { Ok(done) } else { result }
            }
            (Object::Socket(_), _) => {
                let Object::PipeWriter(pipe) = self.object(to)? else { return Err(Errno::INVAL) };
                let pipe = *pipe;
                let mut piece = vec![0; bytes.min(PIPE_BYTES - self.pipes[pipe].len())];
                let taken = self.receive(from, &mut piece, 0)?;
                self.fill_pipe(pipe, &piece[..taken])
            }
            _ => Err(Errno::INVAL),
        }
    }
}

/// What a call that was cut short answers: what it did, if anything.
pub(crate) fn partial(result: Result<usize>, done: usize) -> Result<usize> {
    match result {
        Err(errno) if done > 0 && errno != Errno(Error::BrokenPipe.errno()) => Ok(done),
        other => other,
    }
}
