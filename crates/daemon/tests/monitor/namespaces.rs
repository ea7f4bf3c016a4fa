//! Network namespaces, control groups, and large numbers.

use std::net::{TcpListener, TcpStream};

use ringway_channel::Reason;
use ringway_channel::rendezvous::Kind;
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::harness::*;

/// Runs `work` on a thread in a network namespace of its own with loopback up; says so if not permitted.
fn in_new_namespace<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let inner = move || {
            // SAFETY: a network namespace takes no resource away from other code of this thread.
            if let Err(e) = unsafe { unshare_unsafe(UnshareFlags::NEWNET) } {
                eprintln!("skipped: cannot make a network namespace ({e})");
                return None;
            }
            let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
            if !up.is_ok_and(|status| status.success()) {
                eprintln!("skipped: needs ip from iproute2");
                return None;
            }
            Some(work())
        };
        scope.spawn(inner).join().unwrap()
    })
}

#[test]
fn ends_in_one_foreign_namespace_are_paired() {
    let monitor = Monitor::start("");
    in_new_namespace(|| {
        let library = Library::hello(&monitor.dir);
        let sockets = tcp_pair("127.0.0.1:0");
        library.offer(&sockets.0, 1);
        library.offer(&sockets.1, 2);
        library.expect(Kind::Paired);
        let (paired, _) = library.expect(Kind::Paired);
        assert_eq!(monitor.control().connections().unwrap()[0].connection, paired.connection);
    });
}

#[test]
fn the_same_loopback_addresses_in_two_namespaces_never_meet() {
    for policy in ["", "across_network_namespaces = true"] {
        let monitor = Monitor::start(&format!("offer_timeout_s = 1\n{policy}"));
        let library = Library::hello(&monitor.dir);
        // The far end of the one and the near end of the other: addresses match exactly.
        let here = tcp_pair("127.0.0.1:0");
        let (client, server) = (here.0.local_addr().unwrap(), here.0.peer_addr().unwrap());
        in_new_namespace(|| {
            let listener = TcpListener::bind(server).unwrap();
            let there = connect_from(client, server);
            let accepted = listener.accept().unwrap().0;
            library.offer(&here.0, 1);
            library.offer(&accepted, 2);
            library.expect_refused(1, Reason::NoPartner);
            library.expect_refused(2, Reason::NoPartner);
            drop(there);
        });
    }
}

fn ip(arguments: &str) -> bool {
    std::process::Command::new("ip").args(arguments.split(' ')).status().is_ok_and(|status| status.success())
}

#[test]
fn two_namespaces_joined_by_a_cable_are_paired_only_if_the_policy_says_so() {
    for (policy, expected) in [("across_network_namespaces = true", Kind::Paired), ("", Kind::Refused)] {
        let monitor = Monitor::start(&format!("offer_timeout_s = 1\n{policy}"));
        in_new_namespace(|| {
            let near = rustix::thread::gettid().as_raw_nonzero();
            in_new_namespace(|| {
                let cable = ip(&format!("link add far type veth peer name near netns {near}"))
                    && ip("addr add 10.9.9.2/24 dev far")
                    && ip("link set far up")
                    && in_namespace_of(near, || ip("addr add 10.9.9.1/24 dev near") && ip("link set near up"));
                if !cable {
                    return eprintln!("skipped: no veth pairs here");
                }
                let listener = TcpListener::bind("10.9.9.2:0").unwrap();
                let address = listener.local_addr().unwrap();
                let client = in_namespace_of(near, || TcpStream::connect(address).unwrap());
                let server = listener.accept().unwrap().0;
                let library = Library::hello(&monitor.dir);
                library.offer(&client, 1);
                library.offer(&server, 2);
                for _ in 0..2 {
                    let (message, _) = library.expect(expected);
                    let reason = if expected == Kind::Paired { Reason::None } else { Reason::ForeignNamespace };
                    assert_eq!(message.reason, reason);
                }
            })
        });
    }
}

/// Runs `work` on a thread that has entered the network namespace of thread `of`.
fn in_namespace_of<T: Send>(of: std::num::NonZeroI32, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let inner = move || {
            let namespace = std::fs::File::open(format!("/proc/self/task/{of}/ns/net")).unwrap();
            let kind = Some(rustix::thread::LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&namespace), kind).unwrap();
            work()
        };
        scope.spawn(inner).join().unwrap()
    })
}

/// Connects from a chosen local address.
fn connect_from(local: std::net::SocketAddr, remote: std::net::SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &local).unwrap();
    connect(&socket, &remote).unwrap();
    socket.into()
}

#[test]
fn rules_can_tell_namespaces_apart() {
    let monitor = Monitor::start("[[deny]]\nnetns = [\"foreign\"]");
    let library = Library::hello(&monitor.dir);
    let own = tcp_pair("127.0.0.1:0");
    library.offer(&own.0, 1);
    library.offer(&own.1, 2);
    library.expect(Kind::Paired);
    library.expect(Kind::Paired);
    in_new_namespace(|| {
        let foreign = tcp_pair("127.0.0.1:0");
        library.offer(&foreign.0, 3);
        library.offer(&foreign.1, 4);
        library.expect_refused(3, Reason::PolicyDenied);
        library.expect_refused(4, Reason::PolicyDenied);
    });
}

#[test]
fn rules_know_the_control_group_of_a_process() {
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let Some(own) = text.lines().find_map(|line| line.strip_prefix("0::")) else {
        return eprintln!("skipped: no unified control groups here");
    };
    for (cgroup, expected) in [(own, Kind::Paired), ("/no/such/group", Kind::Refused)] {
        let monitor = Monitor::start(&format!("default = \"none\"\n[[allow]]\ncgroup = [\"{cgroup}\"]"));
        let library = Library::hello(&monitor.dir);
        let sockets = tcp_pair("127.0.0.1:0");
        library.offer(&sockets.0, 1);
        library.offer(&sockets.1, 2);
        library.expect(expected);
        library.expect(expected);
    }
}

/// Pairs in the test of many connections.
const MANY: usize = 10_000;

/// Runs `work` on a thread with a descriptor table of its own, empty but for what it makes itself.
fn in_own_table<'scope, T: Send + 'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> std::thread::ScopedJoinHandle<'scope, T> {
    scope.spawn(move || {
        // SAFETY: the descriptors closed here are this table's copies; `work` holds none of the others.
        unsafe {
            unshare_unsafe(UnshareFlags::FILES).unwrap();
            assert_eq!(libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0), 0);
        }
        work()
    })
}

#[test]
fn ten_thousand_connections_are_paired_listed_taken_over_and_forgotten() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let hard = getrlimit(Resource::Nofile).maximum;
    if hard.is_some_and(|hard| hard < MANY as u64 + 1000) {
        return eprintln!("skipped: the limit on open files ({hard:?}) is too low");
    }
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).unwrap();
    let mut monitor = Monitor::start("");
    let dir = monitor.dir.clone();
    let (tell_address, address) = std::sync::mpsc::channel();
    let (finish, finished) = std::sync::mpsc::channel::<()>();
    let mut second = std::thread::scope(|scope| {
        let server = in_own_table(scope, move || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            tell_address.send(listener.local_addr().unwrap()).unwrap();
            let library = Library::hello(&dir);
            let mut sockets = Vec::new();
            for token in 0..MANY as u64 {
                sockets.push(listener.accept().unwrap().0);
                library.offer(sockets.last().unwrap(), token);
                library.expect(Kind::Paired);
            }
            let _ = finished.recv();
        });
        let address = address.recv().unwrap();
        let library = Library::hello(&monitor.dir);
        let mut sockets = Vec::new();
        for token in 0..MANY as u64 {
            // Many source addresses, so that the range of ports does not matter.
            let local = std::net::SocketAddr::from(([127, 0, 1, (token % 200) as u8 + 1], 0));
            sockets.push(connect_from(local, address));
            library.offer(sockets.last().unwrap(), token);
            let (message, fds) = library.expect(Kind::Paired);
            assert_eq!((message.token, fds.len()), (token, 2));
        }
        let status = monitor.control().status().unwrap();
        assert_eq!(status.connections, MANY as u64);
        assert!(status.memory_bytes <= MANY as u64 * 50_000, "{} bytes", status.memory_bytes);
        assert_eq!(monitor.control().connections().unwrap().len(), MANY);

        let second = monitor.successor();
        assert_eq!(monitor.finish().0, Some(0));
        second.wait_ready();
        assert_eq!(second.control().status().unwrap().connections, MANY as u64);
        // The first and the last are handed out again.
        for socket in [&sockets[0], &sockets[MANY - 1]] {
            library.attach(socket, 1);
            library.expect(Kind::Paired);
        }
        finish.send(()).unwrap();
        server.join().unwrap();
        second
    });
    wait_for("an empty table", || second.control().status().unwrap().connections == 0);
    second.signal(rustix::process::Signal::TERM);
    assert_eq!(second.finish(), (Some(0), String::new()));
}
