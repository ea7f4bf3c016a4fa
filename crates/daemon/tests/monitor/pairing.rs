//! Two ends find each other.

use std::io::Read;
use std::os::fd::AsFd;
use std::time::Duration;

use ringway_channel::Reason;
use ringway_channel::layout::{END_REGION_BYTES, RING_MAGIC, RING_REGION_BYTES};
use ringway_channel::rendezvous::{Kind, Message, Role};
use ringway_mem::region::Region;

use crate::harness::*;

#[test]
fn both_ends_get_one_ring_and_an_end_region_each() {
    let monitor = Monitor::start("");
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (a, b) = (Library::hello(&monitor.dir), Library::hello(&monitor.dir));
        let sockets = tcp_pair(address);
        let [(first, first_fds), (second, second_fds)] = pair(&a, &b, &sockets);
        assert_eq!((first.token, second.token), (1, 2));
        assert_ne!(first.role, second.role);
        assert_eq!(first.connection, second.connection);
        let inode = |fd: &std::os::fd::OwnedFd| rustix::fs::fstat(fd).unwrap().st_ino;
        assert_eq!(inode(&first_fds[0]), inode(&second_fds[0]), "one ring");
        assert_ne!(inode(&first_fds[1]), inode(&second_fds[1]), "two end regions");
        let mut magic = [0u8; 8];
        rustix::io::pread(&first_fds[0], &mut magic, 0).unwrap();
        assert_eq!(u64::from_ne_bytes(magic), RING_MAGIC);
        Region::open(&first_fds[0], RING_REGION_BYTES, RING_REGION_BYTES).unwrap();
        Region::open(&second_fds[1], END_REGION_BYTES, END_REGION_BYTES).unwrap();
    }
    assert_eq!(monitor.control().status().unwrap().pairs_total, 2);
}

#[test]
fn a_v4_mapped_end_and_both_ends_in_one_process_are_paired() {
    let monitor = Monitor::start("");
    let listener = std::net::TcpListener::bind("[::]:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let server = listener.accept().unwrap().0;
    let library = Library::hello(&monitor.dir);
    library.offer(&client, 1);
    library.offer(&server, 2);
    assert_eq!(library.expect(Kind::Paired).0.token, 1);
    assert_eq!(library.expect(Kind::Paired).0.token, 2);
}

#[test]
fn the_mailbox_counts_every_message_that_waits() {
    let monitor = Monitor::start("");
    let (a, b) = (Library::hello(&monitor.dir), Library::hello(&monitor.dir));
    wait_for("the welcome's count", || a.mailbox() == 1);
    pair(&a, &b, &tcp_pair("127.0.0.1:0"));
    wait_for("both counts", || (a.mailbox(), b.mailbox()) == (2, 2));
}

#[test]
fn the_offered_copy_is_closed_at_once() {
    let monitor = Monitor::start("");
    let library = Library::hello(&monitor.dir);
    for linger in [None, Some(Duration::from_secs(60))] {
        let (client, mut server) = tcp_pair("127.0.0.1:0");
        rustix::net::sockopt::set_socket_linger(&client, linger).unwrap();
        library.offer(&client, 1);
        drop(client);
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(server.read(&mut [0]).unwrap(), 0, "the end of the stream, at once");
    }
}

#[test]
fn what_cannot_be_paired_is_refused_by_name() {
    let monitor = Monitor::start("");
    let library = Library::hello(&monitor.dir);
    library.offer(std::net::UdpSocket::bind("127.0.0.1:0").unwrap(), 1);
    library.expect_refused(1, Reason::NotTcp);
    library.offer(std::fs::File::open("/dev/null").unwrap(), 2);
    library.expect_refused(2, Reason::NotTcp);
    library.offer(std::net::TcpListener::bind("127.0.0.1:0").unwrap(), 3);
    library.expect_refused(3, Reason::NotConnected);
    library.attach(&tcp_pair("127.0.0.1:0").0, 4);
    library.expect_refused(4, Reason::UnknownConnection);
    library.offer(self_connected(), 5);
    library.expect_refused(5, Reason::NoPartner);
}

/// A TCP socket that is connected to itself.
fn self_connected() -> std::os::fd::OwnedFd {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
    connect(&socket, &getsockname(&socket).unwrap()).unwrap();
    socket
}

#[test]
fn the_same_socket_offered_twice_waits_once_and_reaches_both_processes() {
    let monitor = Monitor::start("");
    let [parent, child, other] = [(); 3].map(|()| Library::hello(&monitor.dir));
    let (a, b) = tcp_pair("127.0.0.1:0");
    parent.offer(&a, 1);
    child.offer(&a, 2);
    wait_for("both offers", || {
        monitor.control().offers().unwrap().offers.first().is_some_and(|o| o.processes.len() == 2)
    });
    assert_eq!(monitor.control().offers().unwrap().offers.len(), 1, "never paired with itself");
    other.offer(&b, 3);
    let (p, c) = (parent.expect(Kind::Paired).0, child.expect(Kind::Paired).0);
    assert_eq!((p.connection, p.role, c.role), (c.connection, Role::A, Role::A));
    assert_eq!(other.expect(Kind::Paired).0.role, Role::B);
    // A relative that offers later gets the same end.
    let late = Library::hello(&monitor.dir);
    late.offer(&a, 4);
    assert_eq!(late.expect(Kind::Paired).0.role, Role::A);
}

#[test]
fn a_withdrawn_offer_is_forgotten() {
    let monitor = Monitor::start("");
    let (a, b) = (Library::hello(&monitor.dir), Library::hello(&monitor.dir));
    let (x, y) = tcp_pair("127.0.0.1:0");
    a.offer(&x, 1);
    a.send(Message { token: 1, ..Message::new(Kind::Withdraw) }, &[]).unwrap();
    a.attach(&x, 9);
    a.expect_refused(9, Reason::UnknownConnection);
    assert_eq!(monitor.control().status().unwrap().offers, 0);
    b.offer(&y, 2);
    wait_for("the second offer", || monitor.control().status().unwrap().offers == 1);
}

#[test]
fn offers_leave_with_their_process_and_with_time() {
    let monitor = Monitor::start("offer_timeout_s = 1");
    let sockets = tcp_pair("127.0.0.1:0");
    let library = Library::hello(&monitor.dir);
    library.offer(&sockets.0, 1);
    library.expect_refused(1, Reason::NoPartner);
    let short = Library::hello(&monitor.dir);
    short.offer(&sockets.0, 2);
    drop(short);
    wait_for("an empty table", || monitor.control().status().unwrap().offers == 0);
}

/// As under sshd: a program that was executed with the socket asks for it, and leaves it on TCP.
#[test]
fn the_other_end_of_an_inherited_socket_need_not_wait_and_both_have_the_reason() {
    let monitor = Monitor::start("");
    let (client, server) = (Library::hello(&monitor.dir), Library::hello(&monitor.dir));
    let (a, b) = tcp_pair("127.0.0.1:0");
    client.offer(&a, 1);
    wait_for("the offer", || monitor.control().status().unwrap().offers == 1);
    server.attach(&b, 2);
    server.expect_refused(2, Reason::UnknownConnection);
    client.expect_refused(1, Reason::Shared);
    let verdicts = monitor.control().offers().unwrap().verdicts;
    assert_eq!(verdicts.iter().map(|v| v.reason.as_str()).collect::<Vec<_>>(), ["shared", "shared"]);
    client.offer(&a, 3);
    wait_for("the offer", || monitor.control().offers().unwrap().offers.first().is_some_and(|o| o.reason == "shared"));
    drop(server);
    wait_for("an empty list", || monitor.control().offers().unwrap().verdicts.is_empty());
}

/// A `ringway run` gets its account also of sockets whose programs end before there is an answer.
#[test]
fn sockets_given_up_are_accounted_for() {
    let monitor = Monitor::start("");
    let library = Library::connect(&monitor.dir);
    library.send(Message { token: 77, ..Message::new(Kind::Hello) }, &[]).unwrap();
    library.expect(Kind::Welcome);
    let sockets = [tcp_pair("127.0.0.1:0"), tcp_pair("127.0.0.1:0")];
    library.offer(&sockets[0].0, 1);
    library.send(Message { token: 1, ..Message::new(Kind::Withdraw) }, &[]).unwrap();
    library.offer(&sockets[1].0, 2);
    drop(library);
    let refused = || monitor.control().run(77).unwrap().refusals.values().sum::<u64>();
    wait_for("the account", || refused() == 2);
}

#[test]
fn a_silently_closed_socket_is_never_paired_with_its_successor() {
    let monitor = Monitor::start("");
    let library = Library::hello(&monitor.dir);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let first = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let first_server = listener.accept().unwrap().0;
    library.offer(&first, 1);
    wait_for("the offer", || monitor.control().status().unwrap().offers == 1);
    drop(first);
    library.offer(&first_server, 2);
    let (refused, _) = library.expect(Kind::Refused);
    assert_eq!((refused.token, refused.reason), (1, Reason::NotConnected));
    assert_eq!(monitor.control().status().unwrap().connections, 0);
}

#[test]
fn possession_of_the_socket_gives_the_regions_again() {
    let monitor = Monitor::start("");
    let (a, b) = (Library::hello(&monitor.dir), Library::hello(&monitor.dir));
    let sockets = tcp_pair("127.0.0.1:0");
    let [(paired, fds), _] = pair(&a, &b, &sockets);
    drop(a);
    let again = Library::hello(&monitor.dir);
    again.attach(sockets.0.as_fd(), 7);
    let (attached, attached_fds) = again.expect(Kind::Paired);
    assert_eq!((attached.token, attached.connection, attached.role), (7, paired.connection, paired.role));
    let inodes =
        |fds: &[std::os::fd::OwnedFd]| fds.iter().map(|fd| rustix::fs::fstat(fd).unwrap().st_ino).collect::<Vec<_>>();
    assert_eq!(inodes(&fds), inodes(&attached_fds));
}

#[test]
fn a_connection_leaves_the_table_when_both_sockets_are_gone() {
    let monitor = Monitor::start("");
    let (a, b) = (Library::hello(&monitor.dir), Library::hello(&monitor.dir));
    let sockets = tcp_pair("127.0.0.1:0");
    let [(first, _), (second, _)] = pair(&a, &b, &sockets);
    let row = || monitor.control().connections().unwrap().into_iter().next();
    // Disconnected or closed in this process: suspect, but the socket lives.
    drop(a);
    b.send(Message { cookie: second.cookie, ..Message::new(Kind::Closed) }, &[]).unwrap();
    wait_for("suspicion", || row().is_some_and(|c| c.ends.iter().all(|e| e.state == "suspect")));
    std::thread::sleep(Duration::from_millis(2500));
    assert!(row().is_some_and(|c| c.connection == first.connection), "live sockets keep their memory");
    drop(sockets);
    wait_for("the end of the connection", || row().is_none());
    assert_eq!(monitor.control().status().unwrap().memory_bytes, 0);
}
