//! What the kernel knows about a TCP socket: exact stream offsets, events, options.

use libc::{c_int, pollfd, sockaddr_storage};

use crate::sys;

pub(crate) const SIOCATMARK: libc::c_ulong = 0x8905;

/// Stream offsets of one socket, SYN and FIN not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offsets {
    /// Bytes that the program has written.
    pub(crate) written: u64,
    /// Bytes that have arrived in order.
    pub(crate) received: u64,
    /// Whether the peer's FIN has arrived or the connection is otherwise not simply established.
    pub(crate) established: bool,
}

/// The head of `struct tcp_info` (include/uapi/linux/tcp.h) up to what is needed here.
#[repr(C)]
#[derive(Clone, Copy)]
struct TcpInfo {
    state: u8,
    _a: [u8; 7],
    _b: [u32; 24],
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
}

const _: () = {
    assert!(core::mem::offset_of!(TcpInfo, bytes_received) == 128);
    assert!(core::mem::offset_of!(TcpInfo, notsent_bytes) == 144);
    assert!(core::mem::offset_of!(TcpInfo, bytes_sent) == 200);
};

const TCP_ESTABLISHED: u8 = 1;

/// Reads the offsets. `None` on kernels that do not report them (before 4.19) and for other sockets.
pub(crate) fn offsets(fd: c_int) -> Option<Offsets> {
    // SAFETY: TcpInfo is plain data and a prefix of what the kernel writes.
    let info: TcpInfo = unsafe { sys::socket_option(fd, libc::IPPROTO_TCP, libc::TCP_INFO) }.ok()?;
    Some(Offsets {
        // Bytes sent once, plus bytes that wait to be sent for the first time.
        written: info.bytes_sent - info.bytes_retrans + info.notsent_bytes as u64,
        received: info.bytes_received,
        established: info.state == TCP_ESTABLISHED,
    })
}

/// Bytes that the kernel holds unread (SIOCINQ).
pub(crate) fn unread(fd: c_int) -> u64 {
    let mut n: c_int = 0;
    // SAFETY: FIONREAD writes one int.
    let answer = unsafe { sys::ioctl(fd, libc::FIONREAD, (&raw mut n) as usize) };
    if answer < 0 { 0 } else { n.max(0) as u64 }
}

/// Whether the next byte is the urgent one: SIOCINQ counts only up to it.
pub(crate) fn is_at_mark(fd: c_int) -> bool {
    let mut at: c_int = 0;
    // SAFETY: SIOCATMARK writes one int.
    unsafe { sys::ioctl(fd, SIOCATMARK, (&raw mut at) as usize) == 0 && at != 0 }
}

/// Bytes that the program has taken from the stream so far. Exact if nobody reads meanwhile.
pub(crate) fn consumed(fd: c_int) -> Option<u64> {
    for _ in 0..16 {
        let before = offsets(fd)?;
        let unread = unread(fd);
        if offsets(fd)?.received == before.received && before.established {
            return Some(before.received - unread);
        }
    }
    None
}

/// Polls one descriptor without waiting.
pub(crate) fn poll_now(fd: c_int, events: i16) -> i16 {
    let mut p = pollfd { fd, events, revents: 0 };
    let mut zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: one pollfd and a timespec of ours.
    let n = unsafe { sys::ppoll(&mut p, 1, &mut zero, core::ptr::null()) };
    if n > 0 { p.revents } else { 0 }
}

/// Throws away `n` bytes, which are known to be unread: with none there, the call would take a pending error
/// with it that the program must see. Returns how many.
pub(crate) fn discard(fd: c_int, n: usize) -> usize {
    // SAFETY: with MSG_TRUNC, TCP discards and copies nothing, so no buffer is needed.
    let answer = unsafe { sys::recv(fd, core::ptr::null_mut(), n, libc::MSG_DONTWAIT | libc::MSG_TRUNC) };
    answer.max(0) as usize
}

/// Whether the descriptor is a TCP socket, over IPv4 or IPv6.
pub(crate) fn is_tcp(fd: c_int) -> bool {
    // SAFETY: all three options are ints.
    unsafe {
        sys::socket_option::<c_int>(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) == Ok(libc::IPPROTO_TCP)
            && matches!(
                sys::socket_option::<c_int>(fd, libc::SOL_SOCKET, libc::SO_DOMAIN),
                Ok(libc::AF_INET | libc::AF_INET6)
            )
    }
}

/// Whether the socket listens.
pub(crate) fn is_listening(fd: c_int) -> bool {
    // SAFETY: the option is an int.
    unsafe { sys::socket_option::<c_int>(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Ok(1) }
}

/// `SO_COOKIE`: the socket's identity across dup, fork, exec and SCM_RIGHTS.
pub(crate) fn cookie(fd: c_int) -> Option<u64> {
    // SAFETY: the option is a u64.
    unsafe { sys::socket_option(fd, libc::SOL_SOCKET, libc::SO_COOKIE) }.ok()
}

/// An option that every socket keeps and only packet sockets heed (include/uapi/asm-generic/socket.h).
const SO_NOFCS: c_int = 43;

/// Notes on the socket itself, for whoever inherits it, that its bytes go by a ring (or no longer do). The note is there
/// also when no monitor can say so.
pub(crate) fn mark_upgraded(fd: c_int, upgraded: bool) {
    let mark = c_int::from(upgraded);
    // SAFETY: an int of ours.
    unsafe { sys::setsockopt(fd, libc::SOL_SOCKET, SO_NOFCS, (&raw const mark).cast(), 4) };
}

/// Whether somebody has noted on the socket that its bytes go by a ring.
pub(crate) fn is_marked_upgraded(fd: c_int) -> bool {
    // SAFETY: the option is an int.
    unsafe { sys::socket_option::<c_int>(fd, libc::SOL_SOCKET, SO_NOFCS) == Ok(1) }
}

/// The kernel's O_NONBLOCK, the only authority on it.
pub(crate) fn is_nonblocking(fd: c_int) -> bool {
    // SAFETY: F_GETFL takes no argument.
    let flags = unsafe { sys::fcntl(fd, libc::F_GETFL, 0) };
    flags >= 0 && flags as c_int & libc::O_NONBLOCK != 0
}

/// An IP address and port, v4-mapped addresses as IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) ip: [u8; 16],
    pub(crate) port: u16,
}

/// Local or peer address of a socket.
pub(crate) fn address(fd: c_int, peer: bool) -> Option<Address> {
    // SAFETY: an all-zero sockaddr_storage is valid.
    let mut storage: sockaddr_storage = unsafe { core::mem::zeroed() };
    let mut bytes = size_of::<sockaddr_storage>() as u32;
    let number = if peer { libc::SYS_getpeername } else { libc::SYS_getsockname };
    // SAFETY: the kernel writes at most `bytes` bytes of address and the length.
    let answer =
        unsafe { sys::syscall6(number, fd as usize, (&raw mut storage) as usize, (&raw mut bytes) as usize, 0, 0, 0) };
    if answer < 0 {
        return None;
    }
    match storage.ss_family as c_int {
        libc::AF_INET => {
            // SAFETY: the family says that it is a sockaddr_in, which is smaller than the storage.
            let a = unsafe { *(&raw const storage).cast::<libc::sockaddr_in>() };
            let mut ip = [0; 16];
            ip[10] = 0xff;
            ip[11] = 0xff;
            ip[12..].copy_from_slice(&a.sin_addr.s_addr.to_ne_bytes());
            Some(Address { ip, port: u16::from_be(a.sin_port) })
        }
        libc::AF_INET6 => {
            // SAFETY: as above for sockaddr_in6.
            let a = unsafe { *(&raw const storage).cast::<libc::sockaddr_in6>() };
            Some(Address { ip: a.sin6_addr.s6_addr, port: u16::from_be(a.sin6_port) })
        }
        _ => None,
    }
}

impl Address {
    pub(crate) fn is_loopback(&self) -> bool {
        let mapped = self.ip[..10].iter().all(|&b| b == 0) && self.ip[10] == 0xff && self.ip[11] == 0xff;
        let v6_loopback = self.ip[..15].iter().all(|&b| b == 0) && self.ip[15] == 1;
        (mapped && self.ip[12] == 127) || v6_loopback
    }
}

/// Whether an address belongs to this host: binding a UDP socket to it succeeds just then.
pub(crate) fn is_host_address(address: &Address) -> bool {
    let kind = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as usize;
    // SAFETY: plain integers.
    let fd = unsafe { sys::syscall6(libc::SYS_socket, libc::AF_INET6 as usize, kind, 0, 0, 0, 0) };
    if fd < 0 {
        return false;
    }
    // SAFETY: an all-zero sockaddr_in6 is valid; a dual-stack socket takes v4-mapped addresses.
    let mut to: libc::sockaddr_in6 = unsafe { core::mem::zeroed() };
    to.sin6_family = libc::AF_INET6 as u16;
    to.sin6_addr.s6_addr = address.ip;
    let zero: c_int = 0;
    // SAFETY: an int and an address of ours.
    let bound = unsafe {
        sys::setsockopt(fd as c_int, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, (&raw const zero).cast(), 4);
        let (at, bytes) = ((&raw const to) as usize, size_of::<libc::sockaddr_in6>());
        sys::syscall6(libc::SYS_bind, fd as usize, at, bytes, 0, 0, 0) == 0
    };
    sys::close(fd as c_int);
    bound
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn offsets_count_what_was_written_and_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut a = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut b, _) = listener.accept().unwrap();
        for n in [1usize, 10, 5000] {
            let before = offsets(a.as_raw_fd()).unwrap().written;
            a.write_all(&vec![7; n]).unwrap();
            assert_eq!(offsets(a.as_raw_fd()).unwrap().written, before + n as u64);
        }
        let mut buf = [0; 11];
        b.read_exact(&mut buf).unwrap();
        assert_eq!(consumed(b.as_raw_fd()), Some(11));
        b.write_all(&buf).unwrap();
        assert_eq!(offsets(b.as_raw_fd()).unwrap().written, 11);
        assert_eq!(consumed(a.as_raw_fd()), Some(0));
        assert!(address(a.as_raw_fd(), true).unwrap().is_loopback());
        assert_eq!(unread(b.as_raw_fd()), 5000);
        assert_eq!(discard(b.as_raw_fd(), 100), 100);
        assert_eq!(consumed(b.as_raw_fd()), Some(111));
    }
}
