//! Where separately started processes meet: the monitor has a table of names and hands out the memory behind them.
//!
//! ```text
//!   process                                  monitor, at `ports.sock`
//!      | Request { what, name, size }            |
//!      |---------------------------------------->|  finds the name's memory, or makes it
//!      |      Met + [pool] or [pool, fabric]     |  (the same user, or whom the policy allows)
//!      |<----------------------------------------|
//!      |  opens its port in the pool, then closes the connection
//! ```
//! As long as the connection stands, or anybody has a port of the pool open, the name keeps its memory: the monitor asks
//! the kernel, which knows by locks on the memfd ([`is_in_use`](ringway_mem::pool::is_in_use)), so it does not matter how
//! the last user ends. No packet waits for the monitor.

pub mod message;

use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg, socket_with,
};

use message::{ANSWER_BYTES_MAX, Answer, DESCRIPTORS_MAX, Request};

use crate::error::PortError;

/// File name of the socket in the monitor's folder.
pub const SOCKET: &str = "ports.sock";

/// How long the monitor may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

static PLACE: RwLock<Option<PathBuf>> = RwLock::new(None);

/// From now on ports of this process meet those of others at the monitor whose sockets are in `folder`. Until then, and
/// while no monitor answers there, names are the process's own.
pub fn meet_in(folder: &Path) {
    *PLACE.write().unwrap_or_else(PoisonError::into_inner) = Some(folder.join(SOCKET));
}

/// The folder of the monitor's sockets, if processes are to meet.
pub fn folder() -> Option<PathBuf> {
    place().and_then(|socket| socket.parent().map(Path::to_owned))
}

/// The monitor's socket, if processes are to meet.
pub(crate) fn place() -> Option<PathBuf> {
    PLACE.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// What the monitor has at a name.
pub(crate) struct Met {
    /// A pool's memfd, and for a switch its fabric's.
    pub(crate) memory: Vec<OwnedFd>,
    /// Keeps the memory at its name until a port of it is open.
    pub(crate) lease: OwnedFd,
}

/// Asks the monitor; none if there is none to be asked, or none answers.
///
/// # Errors
/// What the monitor says, or that it says nothing.
pub(crate) fn meet(request: &Request) -> Result<Option<Met>, PortError> {
    let Some(socket) = place() else { return Ok(None) };
    let Some((memory, lease)) = call(&socket, request, &[])? else { return Ok(None) };
    if memory.len() != request.what.descriptors() {
        let why = format!("the monitor says: here it is, but with {} descriptors", memory.len());
        return Err(PortError::refused(&request.name, why));
    }
    Ok(Some(Met { memory, lease }))
}

/// Sends a request, with descriptors, to whoever answers at `socket`: the monitor, or the process of a switch. Returns the
/// descriptors that come back and the connection; none if nobody answers there.
///
/// # Errors
/// What the answer says, or that there is none.
pub fn call(
    socket: &Path,
    request: &Request,
    fds: &[BorrowedFd<'_>],
) -> Result<Option<(Vec<OwnedFd>, OwnedFd)>, PortError> {
    let failed = |errno| PortError::os(format!("ask at {} for {}", socket.display(), request.name), errno);
    let refused = |why: String| PortError::refused(&request.name, format!("{} says: {why}", socket.display()));
    let Some(line) = dial(socket).map_err(failed)? else { return Ok(None) };
    match send_with(&line, &request.encode(), fds) {
        // Who is without room closes the connection at once; why, it has said.
        Ok(_) | Err(Errno::PIPE) => {}
        Err(errno) => return Err(failed(errno)),
    }
    let (answer, memory) = receive(&line).map_err(|errno| match errno {
        Errno::AGAIN => {
            let why = format!("nothing is said at {}; look at the process there, or replace it", socket.display());
            PortError::refused(&request.name, why)
        }
        errno => failed(errno),
    })?;
    match Answer::decode(&answer).map_err(refused)? {
        Answer::Met => Ok(Some((memory, line))),
        Answer::Refused(why) => Err(refused(why)),
    }
}

fn dial(socket: &Path) -> Result<Option<OwnedFd>, Errno> {
    let line = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&line, Timeout::Send, Some(PATIENCE))?;
    set_socket_timeout(&line, Timeout::Recv, Some(PATIENCE))?;
    match connect(&line, &SocketAddrUnix::new(socket)?) {
        Ok(()) => Ok(Some(line)),
        Err(Errno::NOENT | Errno::CONNREFUSED) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn send_with(line: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::INVAL);
    }
    sendmsg(line, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)
}

fn receive(line: &OwnedFd) -> Result<(Vec<u8>, Vec<OwnedFd>), Errno> {
    let mut bytes = [0; ANSWER_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut get = || {
        rustix::io::retry_on_intr(|| {
            recvmsg(line, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)
        })
    };
    let got = match get() {
        // Closed before it read the question: that is told once, and before what it had said.
        Err(Errno::CONNRESET) => get(),
        got => got,
    }?;
    let got_bytes = got.bytes;
    let mut memory = Vec::with_capacity(DESCRIPTORS_MAX);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            memory.extend(fds);
        }
    }
    if got_bytes == 0 { Err(Errno::CONNRESET) } else { Ok((bytes[..got_bytes].to_vec(), memory)) }
}
