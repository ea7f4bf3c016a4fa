//! Asks the kernel (`sock_diag`) whether a socket still lives: exact lookup by addresses and cookie.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

use crate::endpoint::Endpoint;
use crate::sys;

const NETLINK_SOCK_DIAG: NonZeroU32 = NonZeroU32::new(4).unwrap();
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
/// nlmsghdr and inet_diag_req_v2.
const REQUEST_BYTES: usize = 16 + 56;
/// Offset of `idiag_inode` in a reply, behind nlmsghdr.
const INODE_AT: usize = 16 + 68;

/// A lookup channel into one network namespace.
pub(crate) struct Diag {
    socket: OwnedFd,
    netns: u64,
    /// Has found a socket that was known to live. Without the kernel's tcp_diag module each lookup ends
    /// in "no such socket", which must not be believed.
    trusted: bool,
    sequence: u32,
}

impl Diag {
    /// A channel into the calling thread's namespace.
    pub(crate) fn open() -> std::io::Result<Diag> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let protocol = Some(Protocol::from_raw(NETLINK_SOCK_DIAG));
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        let netns = sys::netns_cookie(&socket)?;
        Ok(Diag { socket, netns, trusted: false, sequence: 0 })
    }

    /// Cookie of the namespace that this channel sees.
    pub(crate) fn netns(&self) -> u64 {
        self.netns
    }

    /// Learns that lookups work if it finds `known`; call it with sockets that should live.
    pub(crate) fn calibrate(&mut self, known: &Endpoint) {
        if !self.trusted && known.id.netns == self.netns {
            self.trusted = self.lookup(known) == Some(true);
        }
    }

    /// Whether a process still holds the socket, in a state in which it can carry data; `None` if that
    /// cannot be known.
    pub(crate) fn alive(&mut self, endpoint: &Endpoint) -> Option<bool> {
        if !self.trusted || endpoint.id.netns != self.netns { None } else { self.lookup(endpoint) }
    }

    fn lookup(&mut self, endpoint: &Endpoint) -> Option<bool> {
        self.sequence = self.sequence.wrapping_add(1);
        send(&self.socket, &request(endpoint, self.sequence), SendFlags::NOSIGNAL).ok()?;
        // The kernel answers before `send` returns; what else lies there are answers of earlier calls.
        for _ in 0..4 {
            let mut reply = [0u8; 1024];
            let (got, _) = recv(&self.socket, &mut reply[..], RecvFlags::DONTWAIT).ok()?;
            if got >= 20 && reply[8..12] == self.sequence.to_ne_bytes() {
                return answer(&reply[..got]);
            }
        }
        None
    }
}

fn answer(reply: &[u8]) -> Option<bool> {
    let word = |at: usize| reply.get(at..at + 4).map(|b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
    match u16::from_ne_bytes([reply[4], reply[5]]) {
        NLMSG_ERROR => match word(16)? as i32 {
            // Nobody has the addresses, or another socket (cookie) has them.
            error if error == -libc::ENOENT || error == -libc::ESTALE => Some(false),
            _ => None,
        },
        // A socket that no process holds any more (it only finishes its close) has no inode.
        SOCK_DIAG_BY_FAMILY => Some(word(INODE_AT)? != 0),
        _ => None,
    }
}

fn request(endpoint: &Endpoint, sequence: u32) -> [u8; REQUEST_BYTES] {
    let mut out = [0u8; REQUEST_BYTES];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(REQUEST_BYTES as u32).to_ne_bytes());
    put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(6, &NLM_F_REQUEST.to_ne_bytes());
    put(8, &sequence.to_ne_bytes());
    let family = if endpoint.tuple.local.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    put(16, &[family as u8, libc::IPPROTO_TCP as u8]);
    put(20, &u32::MAX.to_ne_bytes());
    put(24, &endpoint.tuple.local.port().to_be_bytes());
    put(26, &endpoint.tuple.remote.port().to_be_bytes());
    let octets = |address: SocketAddr| match address.ip() {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    put(28, &octets(endpoint.tuple.local));
    put(44, &octets(endpoint.tuple.remote));
    put(60, &endpoint.interface.to_ne_bytes());
    put(64, &endpoint.id.cookie.to_ne_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::inspect;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn live_sockets_are_found_and_closed_ones_are_not() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let a = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let b = listener.accept().unwrap().0;
            let (end_a, end_b) = (inspect(a.as_fd()).unwrap(), inspect(b.as_fd()).unwrap());
            let mut diag = Diag::open().unwrap();
            assert_eq!(diag.alive(&end_a), None, "not before it has proved itself");
            diag.calibrate(&end_b);
            if !diag.trusted {
                eprintln!("skipped: the kernel has no tcp_diag");
                return;
            }
            assert_eq!(diag.alive(&end_a), Some(true));
            drop(a);
            assert_eq!(diag.alive(&end_a), Some(false), "an orphan in FIN_WAIT is not alive");
            assert_eq!(diag.alive(&end_b), Some(true));
        }
    }
}
