//! Listening and connecting, TCP or Unix alike. All calls go through libc, where a preloaded library
//! sees them.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// A listening socket. What it accepts is handled as a `TcpStream` whichever family it has: its calls
/// are `send` and `recv`, which do not care.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Address {
    pub(super) fn listen(&self) -> Result<(Listener, Address)> {
        let context = || format!("cannot listen at {self:?}");
        Ok(match self {
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address).with_context(context)?;
                let bound = listener.local_addr()?;
                (Listener::Tcp(listener), Address::Tcp(bound))
            }
            Address::Unix(path) => (Listener::Unix(UnixListener::bind(path).with_context(context)?), self.clone()),
        })
    }

    pub(super) fn connect(&self) -> Result<TcpStream> {
        let context = || format!("cannot connect to {self:?}");
        Ok(match self {
            Address::Tcp(address) => without_delay(TcpStream::connect(address).with_context(context)?)?,
            Address::Unix(path) => OwnedFd::from(UnixStream::connect(path).with_context(context)?).into(),
        })
    }
}

impl Listener {
    pub(super) fn accept(&self) -> std::io::Result<TcpStream> {
        match self {
            Listener::Tcp(listener) => without_delay(listener.accept()?.0),
            Listener::Unix(listener) => Ok(OwnedFd::from(listener.accept()?.0).into()),
        }
    }

    pub(super) fn set_nonblocking(&self) -> std::io::Result<()> {
        match self {
            Listener::Tcp(listener) => listener.set_nonblocking(true),
            Listener::Unix(listener) => listener.set_nonblocking(true),
        }
    }
}

/// Servers that care for latency set TCP_NODELAY; so does every program that the bench runs.
fn without_delay(stream: TcpStream) -> std::io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    Ok(stream)
}
