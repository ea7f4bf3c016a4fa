//! The control socket, as tools see it: one JSON request in a line, one JSON document in a line back.
//!
//! ```no_run
//! # use ringway_daemon::{control::Control, paths};
//! let status = Control::connect(&paths::user_socket_dir())?.status()?;
//! println!("{} connections", status.connections);
//! # Ok::<(), ringway_daemon::control::ControlError>(())
//! ```

mod types;

use std::io::{BufRead, BufReader, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::{Errno, IoSliceMut};
use rustix::net::sockopt::Timeout;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix, SocketFlags, SocketType,
    recvmsg,
};
use serde::de::DeserializeOwned;

use crate::paths;
pub use types::*;

/// How long a tool waits for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest answer that is accepted, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Why a tool got no answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nobody listens.
    #[error("no monitor answers at {}; start one with `{}`",
            .socket.display(), paths::start_command(.socket.parent().unwrap_or(Path::new("/"))))]
    NotRunning { socket: PathBuf },
    /// Somebody listens, but says nothing.
    #[error("the monitor at {} says nothing for {waited_s} s: it is stopped, hung or overloaded; look at its process, \
             or replace it", .socket.display())]
    Silent { socket: PathBuf, waited_s: u64 },
    /// The monitor refused the request.
    #[error("the monitor says: {0}")]
    Refused(String),
    /// The connection broke, or the monitor took too long.
    #[error("talking to the monitor: {0}")]
    Io(#[from] std::io::Error),
    /// The answer is not what this release expects.
    #[error("the monitor's answer is not understood ({0}); are both of the same release?")]
    Unexpected(String),
}

/// A tool's connection to the monitor.
#[derive(Debug)]
pub struct Control {
    stream: BufReader<UnixStream>,
    socket: PathBuf,
    patience: Duration,
}

/// Connects within about `patience`; `None` when somebody listens whose queue stays full.
pub(crate) fn dial(socket: &Path, patience: Duration) -> std::io::Result<Option<UnixStream>> {
    let line = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::net::sockopt::set_socket_timeout(&line, Timeout::Send, Some(patience))?;
    match rustix::net::connect(&line, &SocketAddrUnix::new(socket)?) {
        Ok(()) => Ok(Some(line.into())),
        Err(Errno::AGAIN) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

impl Control {
    /// Connects to the monitor that serves `socket_dir`.
    ///
    /// # Errors
    /// [`ControlError::NotRunning`], [`ControlError::Silent`].
    pub fn connect(socket_dir: &Path) -> Result<Control, ControlError> {
        Control::connect_within(socket_dir, ANSWER_TIMEOUT)
    }

    /// As [`Control::connect`], with another wait for each answer.
    pub fn connect_within(socket_dir: &Path, patience: Duration) -> Result<Control, ControlError> {
        let socket = paths::control_socket(socket_dir);
        let stream = match dial(&socket, patience) {
            Ok(Some(stream)) => stream,
            Ok(None) => return Err(ControlError::Silent { socket, waited_s: patience.as_secs() }),
            Err(_) => return Err(ControlError::NotRunning { socket }),
        };
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Control { stream: BufReader::new(stream), socket, patience })
    }

    /// A time-out is the monitor's silence.
    fn name_silence(&self, error: std::io::Error) -> ControlError {
        match error.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                ControlError::Silent { socket: self.socket.clone(), waited_s: self.patience.as_secs() }
            }
            _ => error.into(),
        }
    }

    /// Sends one request and reads its answer, whatever document that is.
    pub fn request<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, ControlError> {
        self.send(request)?;
        let mut line = Vec::new();
        let got = (&mut self.stream).take(ANSWER_BYTES_MAX).read_until(b'\n', &mut line);
        got.map_err(|e| self.name_silence(e))?;
        parse(&line)
    }

    fn send(&mut self, request: &Request) -> Result<(), ControlError> {
        let mut line = serde_json::to_vec(request).map_err(|e| ControlError::Unexpected(e.to_string()))?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line).map_err(|e| self.name_silence(e))
    }

    /// What the monitor is and how much it holds.
    pub fn status(&mut self) -> Result<Status, ControlError> {
        self.request(&Request::Status)
    }

    /// All connections that the caller may see, page by page.
    pub fn connections(&mut self) -> Result<Vec<Connection>, ControlError> {
        let (mut all, mut from) = (Vec::new(), Some(0));
        while let Some(start) = from {
            let page: Connections = self.request(&Request::Connections { from: start })?;
            all.extend(page.connections);
            // Numbers only grow; anything else would loop for ever.
            from = page.next.filter(|next| *next > start);
        }
        Ok(all)
    }

    /// All connected processes that the caller may see.
    pub fn processes(&mut self) -> Result<Processes, ControlError> {
        self.request(&Request::Processes)
    }

    /// All sockets that wait for their other end, of those that the caller may see.
    pub fn offers(&mut self) -> Result<Offers, ControlError> {
        self.request(&Request::Offers)
    }

    /// Names at which packet ports meet, of those that the caller may see.
    pub fn meetings(&mut self) -> Result<Meetings, ControlError> {
        self.request(&Request::Meetings)
    }

    /// What the processes of the `ringway run` with this number have counted, ended ones included.
    pub fn run(&mut self, run_id: u64) -> Result<Run, ControlError> {
        self.request(&Request::Run { run_id })
    }

    /// Has the policy file read again.
    pub fn reload(&mut self) -> Result<Done, ControlError> {
        self.request(&Request::Reload)
    }

    /// Everything that Prometheus would get, in its text format.
    pub fn metrics(&mut self) -> Result<Metrics, ControlError> {
        self.request(&Request::Metrics)
    }

    /// The ring region of a connection, opened for reading, to watch its bytes.
    pub fn tap(&mut self, connection: u64) -> Result<(Tap, OwnedFd), ControlError> {
        self.request_descriptor(&Request::Tap { connection })
    }

    /// Sends a request whose answer carries a descriptor.
    pub(crate) fn request_descriptor<T: DeserializeOwned>(
        &mut self,
        request: &Request,
    ) -> Result<(T, OwnedFd), ControlError> {
        self.send(request)?;
        let (mut line, mut carried) = (Vec::new(), None);
        while !line.ends_with(b"\n") {
            let mut bytes = [0u8; 4096];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let slices = &mut [IoSliceMut::new(&mut bytes)];
            let got = recvmsg(self.stream.get_ref(), slices, &mut control, RecvFlags::CMSG_CLOEXEC)
                .map_err(|e| self.name_silence(e.into()))?;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(fds) = message {
                    carried = carried.or(fds.last());
                }
            }
            if got.bytes == 0 {
                break;
            }
            line.extend_from_slice(&bytes[..got.bytes]);
        }
        let answer = parse(&line)?;
        carried.map(|fd| (answer, fd)).ok_or_else(|| ControlError::Unexpected("no descriptor came".into()))
    }
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, ControlError> {
    if let Ok(failure) = serde_json::from_slice::<Failure>(line) {
        return Err(ControlError::Refused(failure.error));
    }
    serde_json::from_slice(line).map_err(|e| ControlError::Unexpected(e.to_string()))
}
