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
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use rustix::io::{Errno, IoSliceMut};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, connect, recvmsg, send, socket_with,
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
    let failed = |errno| PortError::os(format!("ask the monitor at {} for {}", socket.display(), request.name), errno);
    let refused = |why: String| PortError::refused(&request.name, format!("the monitor says: {why}"));
    let Some(lease) = dial(&socket).map_err(failed)? else { return Ok(None) };
    match send(&lease, &request.encode(), SendFlags::NOSIGNAL) {
        // A monitor without room closes the connection at once; why, it has said.
        Ok(_) | Err(Errno::PIPE) => {}
        Err(errno) => return Err(failed(errno)),
    }
    let (answer, memory) = receive(&lease).map_err(|errno| match errno {
        Errno::AGAIN => {
            let why = format!("the monitor at {} says nothing; look at its process, or replace it", socket.display());
            PortError::refused(&request.name, why)
        }
        errno => failed(errno),
    })?;
    match Answer::decode(&answer).map_err(refused)? {
        Answer::Met if memory.len() == request.what.descriptors() => Ok(Some(Met { memory, lease })),
        Answer::Met => Err(refused(format!("here it is, but with {} descriptors", memory.len()))),
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

fn receive(line: &OwnedFd) -> Result<(Vec<u8>, Vec<OwnedFd>), Errno> {
    let mut bytes = [0; ANSWER_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::io::retry_on_intr(|| {
        recvmsg(line, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut memory = Vec::with_capacity(DESCRIPTORS_MAX);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            memory.extend(fds);
        }
    }
    if got.bytes == 0 { Err(Errno::CONNRESET) } else { Ok((bytes[..got.bytes].to_vec(), memory)) }
}
