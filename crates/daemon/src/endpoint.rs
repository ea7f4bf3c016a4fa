//! What the monitor learns from an offered socket: the kernel's word, not the client's.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use ringway_channel::Reason;
use rustix::net::{AddressFamily, SocketType, ipproto, sockopt};
use serde::{Deserialize, Serialize};

use crate::sys;

/// The kernel's identity of a socket. It survives dup, fork, exec and SCM_RIGHTS. Older kernels count
/// cookies in each network namespace on its own, so the namespace belongs to the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct SocketId {
    pub(crate) netns: u64,
    pub(crate) cookie: u64,
}

/// Addresses as one end sees them; IPv4 in IPv6 is written as IPv4, flow label and scope are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Tuple {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

impl Tuple {
    /// The same connection as the other end sees it.
    pub(crate) fn reversed(self) -> Tuple {
        Tuple { local: self.remote, remote: self.local }
    }

    /// Whether these addresses can mean the same host in two network namespaces.
    pub(crate) fn crosses_namespaces(self) -> bool {
        [self.local.ip(), self.remote.ip()].iter().all(|ip| match ip {
            IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local(),
            IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local(),
        })
    }
}

/// One end of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Endpoint {
    pub(crate) id: SocketId,
    pub(crate) tuple: Tuple,
    /// Interface that the socket is bound to, 0 = none; the kernel needs it to find the socket again.
    pub(crate) interface: u32,
}

/// Reads an offered descriptor.
///
/// # Errors
/// [`Reason::NotTcp`] or [`Reason::NotConnected`], also for a socket connected to itself
/// ([`Reason::NoPartner`]: it has only one end).
pub(crate) fn inspect(fd: BorrowedFd<'_>) -> Result<Endpoint, Reason> {
    // Not fstat: on a file of a user-space file system it would wait for that file system.
    let domain = sockopt::socket_domain(fd).map_err(|_| Reason::NotTcp)?;
    let tcp = sockopt::socket_protocol(fd).is_ok_and(|p| p == Some(ipproto::TCP));
    let stream = sockopt::socket_type(fd).is_ok_and(|t| t == SocketType::STREAM);
    if !(domain == AddressFamily::INET || domain == AddressFamily::INET6) || !tcp || !stream {
        return Err(Reason::NotTcp);
    }
    let remote = rustix::net::getpeername(fd).ok().flatten().ok_or(Reason::NotConnected)?;
    let local = rustix::net::getsockname(fd).map_err(|_| Reason::NotConnected)?;
    let normal = |address: rustix::net::SocketAddrAny| SocketAddr::try_from(address).map(normalise);
    let (Ok(local), Ok(remote)) = (normal(local), normal(remote)) else { return Err(Reason::NotTcp) };
    let id = SocketId {
        netns: sys::netns_cookie(fd).map_err(|_| Reason::ForeignNamespace)?,
        cookie: sockopt::socket_cookie(fd).map_err(|_| Reason::NotTcp)?,
    };
    if local == remote {
        return Err(Reason::NoPartner);
    }
    Ok(Endpoint { id, tuple: Tuple { local, remote }, interface: sys::bound_interface(fd).unwrap_or(0) })
}

fn normalise(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Descriptors that wait for the closing thread at most.
const CLOSING_MAX: usize = 1024;

/// Closes offered descriptors. A plain TCP socket is closed at once, so that its FIN is not held back.
/// Closing may wait where the client chose so (SO_LINGER, a file of a hung user-space file system);
/// such descriptors go to a thread of their own.
pub(crate) struct Closer {
    slow: SyncSender<OwnedFd>,
}

impl Closer {
    /// Starts the closing thread; it ends with the `Closer`.
    pub(crate) fn start() -> std::io::Result<Closer> {
        let (slow, queue) = sync_channel::<OwnedFd>(CLOSING_MAX);
        std::thread::Builder::new().name("ringway-close".into()).spawn(move || queue.iter().for_each(drop))?;
        Ok(Closer { slow })
    }

    pub(crate) fn close(&self, fd: OwnedFd) {
        let quick = sockopt::socket_domain(fd.as_fd()).is_ok()
            && sockopt::socket_linger(fd.as_fd()).is_ok_and(|linger| linger.is_none_or(|time| time.is_zero()));
        if quick {
            return drop(fd);
        }
        match self.slow.try_send(fd) {
            Ok(()) => {}
            // Over a thousand closes hang: somebody does this on purpose. Without lingering, a socket
            // closes at once; what is no socket is leaked until the limit on open files says no.
            Err(TrySendError::Full(fd) | TrySendError::Disconnected(fd)) => {
                match sockopt::set_socket_linger(fd.as_fd(), None) {
                    Ok(()) => drop(fd),
                    Err(_) => std::mem::forget(fd),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;

    fn pair(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(address).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn two_ends_see_reversed_addresses_one_namespace_and_two_cookies() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (a, b) = pair(address);
            let (a, b) = (inspect(a.as_fd()).unwrap(), inspect(b.as_fd()).unwrap());
            assert_eq!(a.tuple, b.tuple.reversed());
            assert_eq!(a.id.netns, b.id.netns);
            assert_ne!(a.id.cookie, b.id.cookie);
        }
    }

    #[test]
    fn an_ipv4_client_of_an_ipv6_listener_matches() {
        let listener = TcpListener::bind("[::]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let server = listener.accept().unwrap().0;
        assert_eq!(inspect(client.as_fd()).unwrap().tuple, inspect(server.as_fd()).unwrap().tuple.reversed());
    }

    #[test]
    fn what_is_no_connected_tcp_socket_is_named() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let file = std::fs::File::open("/proc/self/status").unwrap();
        assert_eq!(inspect(udp.as_fd()), Err(Reason::NotTcp));
        assert_eq!(inspect(file.as_fd()), Err(Reason::NotTcp));
        assert_eq!(inspect(UnixStream::pair().unwrap().0.as_fd()), Err(Reason::NotTcp));
        assert_eq!(inspect(listener.as_fd()), Err(Reason::NotConnected));
    }

    #[test]
    fn only_routable_addresses_cross_namespaces() {
        let tuple =
            |local: &str, remote: &str| Tuple { local: local.parse().unwrap(), remote: remote.parse().unwrap() };
        assert!(tuple("10.0.0.1:1", "10.0.0.2:2").crosses_namespaces());
        assert!(!tuple("127.0.0.1:1", "127.0.0.1:2").crosses_namespaces());
        assert!(!tuple("[fe80::1]:1", "[2001:db8::1]:2").crosses_namespaces());
    }
}
