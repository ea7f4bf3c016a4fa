//! What two stacks say to each other: pings, datagrams and streams whose every byte is checked.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, recv, sendto, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::bed::{Bed, address, eventually};

/// Bytes of a stream, each way.
const STREAM_BYTES: usize = 16 << 20;
const TIMEOUT: Duration = Duration::from_secs(20);

/// Runs `work` in a thread of its own, in a network namespace.
pub(crate) fn inside<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> T {
    let file = rustix::fs::open(format!("/run/netns/{namespace}"), OFlags::RDONLY, Mode::empty()).unwrap();
    std::thread::scope(|scope| {
        let entered = move || {
            move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), Some(LinkNameSpaceType::Network)).unwrap();
            work()
        };
        scope.spawn(entered).join().unwrap()
    })
}

pub(crate) fn ping(bed: &Bed) {
    ping_to(bed, 'a', address('b'));
    ping_to(bed, 'b', address('a'));
}

/// Echo requests, small and fragmented; none is lost once the neighbours know each other.
pub(crate) fn ping_to(bed: &Bed, side: char, to: &str) {
    let socket =
        inside(&bed.stack(side), || socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP)).unwrap());
    set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(1))).unwrap();
    let to = SocketAddrV4::new(to.parse().unwrap(), 0);
    assert!(eventually(|| echo(&socket, to, 0, 56)), "no answer from {to}");
    for (n, bytes) in [56, 57, 1472, 1473, 8000].into_iter().enumerate() {
        assert!(echo(&socket, to, n as u16 + 1, bytes), "no answer to {bytes} bytes from {to}");
    }
}

/// Sends an echo request with `bytes` bytes of data and waits for its answer.
fn echo(socket: &OwnedFd, to: SocketAddrV4, sequence: u16, bytes: usize) -> bool {
    const REQUEST: u8 = 8;
    const REPLY: u8 = 0;
    let mut request = vec![REQUEST, 0, 0, 0, 0x12, 0x34];
    request.extend(sequence.to_be_bytes());
    request.extend(bytes_from(0, bytes));
    let checksum = ringway_wire::Sum::of(&request).checksum();
    request[2..4].copy_from_slice(&checksum.to_be_bytes());
    if sendto(socket, &request, SendFlags::empty(), &to).is_err() {
        return false;
    }
    let mut answer = vec![0; 65_536];
    while let Ok((len, _)) = recv(socket, &mut answer[..], RecvFlags::empty()) {
        // Behind an IPv4 header without options. Requests to ourselves come here as well.
        if answer[20] == REPLY && answer[24..len] == request[4..] {
            return true;
        }
    }
    false
}

/// The n-th byte of a stream.
fn pattern(n: usize) -> u8 {
    (n.wrapping_mul(31) ^ (n >> 8)) as u8
}

fn bytes_from(start: usize, len: usize) -> Vec<u8> {
    (start..start + len).map(pattern).collect()
}

/// Datagrams of all lengths, also fragmented ones, come back as they were sent.
pub(crate) fn datagrams(bed: &Bed) {
    let server = inside(&bed.stack('b'), || UdpSocket::bind("0.0.0.0:7000").unwrap());
    let client = inside(&bed.stack('a'), || UdpSocket::bind("0.0.0.0:0").unwrap());
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    }
    client.connect((address('b'), 7000)).unwrap();
    let mut room = vec![0; 65_536];
    for len in [0, 1, 17, 18, 100, 1000, 1471, 1472, 1473, 4000, 9000] {
        let sent = bytes_from(len, len);
        assert!(eventually(|| client.send(&sent).is_ok()));
        let (got, from) = server.recv_from(&mut room).unwrap();
        assert_eq!(&room[..got], sent, "{len} bytes");
        server.send_to(&room[..got], from).unwrap();
        let got = client.recv(&mut room).unwrap();
        assert_eq!(&room[..got], sent, "{len} bytes back");
    }
}

/// Two streams at once, one each way.
pub(crate) fn streams(bed: &Bed) {
    std::thread::scope(|scope| {
        for (from, to, port) in [('a', 'b', 7100), ('b', 'a', 7101)] {
            let listener = inside(&bed.stack(to), || TcpListener::bind(("0.0.0.0", port)).unwrap());
            let sender = inside(&bed.stack(from), || TcpStream::connect((address(to), port)).unwrap());
            scope.spawn(move || send_stream(sender));
            scope.spawn(move || receive_stream(listener.accept().unwrap().0));
        }
    });
}

fn send_stream(mut stream: TcpStream) {
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    for start in (0..STREAM_BYTES).step_by(1 << 16) {
        stream.write_all(&bytes_from(start, 1 << 16)).unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
}

fn receive_stream(mut stream: TcpStream) {
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let (mut room, mut got) = (vec![0; 1 << 16], 0);
    loop {
        let n = stream.read(&mut room).unwrap();
        if n == 0 {
            break;
        }
        assert!(room[..n].iter().zip(got..).all(|(byte, at)| *byte == pattern(at)), "around byte {got}");
        got += n;
    }
    assert_eq!(got, STREAM_BYTES);
}

/// Whether a datagram to `port` of the middle's stack is answered by a server there.
pub(crate) fn asks(bed: &Bed, side: char, namespace: &str, port: u16) -> bool {
    let server = inside(namespace, || UdpSocket::bind(("0.0.0.0", port)).unwrap());
    let client = inside(&bed.stack(side), || UdpSocket::bind("0.0.0.0:0").unwrap());
    server.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    client.connect(("10.77.0.9", port)).unwrap();
    let mut room = [0; 16];
    // Neighbours may have to find each other first.
    (0..2).any(|_| {
        client.send(b"question").unwrap();
        match server.recv(&mut room) {
            Ok(n) => &room[..n] == b"question",
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => false,
            Err(e) => panic!("{e}"),
        }
    })
}
