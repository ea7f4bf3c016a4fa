//! Processes that meet at names (`ports.sock`), and those that only pretend to.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use ringway_channel::Reason;
use ringway_channel::rendezvous::Kind;
use ringway_mem::pool::{Pool, PoolConfig, Registration, RingCounts, Sharing};
use ringway_port::meeting::SOCKET;
use ringway_port::meeting::message::{ANSWER_BYTES_MAX, Answer, Request, What};
use rustix::io::{Errno, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, connect, recvmsg, send, socket_with, sockopt,
};
use rustix::process::Signal;

use crate::harness::*;

/// A process that asks for a name, and nothing but its messages.
struct Guest(OwnedFd);

impl Guest {
    fn connect(dir: &Path) -> Guest {
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        connect(&socket, &SocketAddrUnix::new(dir.join(SOCKET)).unwrap()).unwrap();
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE)).unwrap();
        Guest(socket)
    }

    fn say(&self, bytes: &[u8]) -> Result<(), Errno> {
        send(&self.0, bytes, SendFlags::NOSIGNAL).map(|_| ())
    }

    /// The answer and what came with it; `None` once the monitor has closed the connection.
    fn hear(&self) -> Option<(Answer, Vec<OwnedFd>)> {
        let mut bytes = [0; ANSWER_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut get = || recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC);
        let got = match get() {
            // Closed with the question unread: that comes first, and then what was said.
            Err(Errno::CONNRESET) => get(),
            got => got,
        };
        let got = got.map(|got| got.bytes);
        let mut fds = vec![];
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(came) = message {
                fds.extend(came);
            }
        }
        match got {
            Ok(got) if got > 0 => Some((Answer::decode(&bytes[..got]).unwrap(), fds)),
            Ok(_) | Err(Errno::CONNRESET) => None,
            Err(e) => panic!("no answer came: {e}"),
        }
    }

    fn ask(dir: &Path, name: &str) -> (Guest, Option<(Answer, Vec<OwnedFd>)>) {
        let guest = Guest::connect(dir);
        let said = guest.say(&request(name).encode());
        // Without room the monitor has closed the connection already; why, it has said.
        assert!(matches!(said, Ok(()) | Err(Errno::PIPE)), "{said:?}");
        let answer = guest.hear();
        (guest, answer)
    }

    /// Asks for a name and opens a port there.
    fn open(dir: &Path, name: &str, port: &str) -> (Arc<Pool>, Registration) {
        let (_guest, answer) = Guest::ask(dir, name);
        let (answer, mut fds) = answer.expect("an answer");
        assert_eq!(answer, Answer::Met);
        let pool = Pool::attach(fds.remove(0)).unwrap();
        let registration = pool.open(port, RingCounts::pairs(1, 64), Sharing::Shared).unwrap();
        (pool, registration)
    }
}

fn request(name: &str) -> Request {
    let config = PoolConfig { buffers: 4096, buffer_bytes: 2048, object_pages: 64 };
    Request { what: What::Pool, name: name.to_owned(), config }
}

/// Others are served as ever.
#[track_caller]
fn serves(dir: &Path) {
    let (_guest, answer) = Guest::ask(dir, "netmap:other");
    assert_eq!(answer.expect("an answer").0, Answer::Met);
}

#[test]
fn garbage_is_refused_or_ends_the_connection() {
    let monitor = Monitor::start("");
    let good = request("netmap:x").encode();
    let mut changed: Vec<Vec<u8>> = vec![b"hello".to_vec(), vec![0xff; 88], vec![0; 5000], good[..40].to_vec()];
    for (at, byte) in [(0, 0), (4, 9), (6, 77), (20, 0xff), (9, 0), (24, 0), (30, 0)] {
        let mut bytes = good.to_vec();
        bytes[at] = byte;
        changed.push(bytes);
    }
    for bytes in changed {
        let guest = Guest::connect(&monitor.dir);
        guest.say(&bytes).unwrap();
        match guest.hear() {
            Some((Answer::Refused(why), fds)) => assert!(!why.is_empty() && fds.is_empty()),
            Some((Answer::Met, _)) => panic!("{:?} was served", &bytes[..bytes.len().min(32)]),
            None => {}
        }
        assert!(guest.hear().is_none(), "the connection ends");
        serves(&monitor.dir);
    }
    // A second request is no request.
    let (guest, answer) = Guest::ask(&monitor.dir, "netmap:twice");
    assert_eq!(answer.unwrap().0, Answer::Met);
    guest.say(&good).unwrap();
    assert!(guest.hear().is_none());
    serves(&monitor.dir);
}

#[test]
fn silent_guests_fill_their_table_keep_nobody_out_for_ever_and_are_sent_away() {
    let monitor = Monitor::start("");
    let mut silent: Vec<Guest> = vec![];
    let mut byte = [0; ANSWER_BYTES_MAX];
    // Nobody waits for an answer, so that the table is full before the first is sent away.
    let refused = loop {
        silent.push(Guest::connect(&monitor.dir));
        let answered = silent.iter().position(|guest| {
            rustix::net::recv(&guest.0, &mut byte[..], RecvFlags::DONTWAIT).is_ok_and(|(got, _)| got > 0)
        });
        if let Some(at) = answered {
            silent.remove(at);
            break Answer::decode(&byte[..8 + byte[8..].iter().take_while(|b| **b != 0).count()]).unwrap();
        }
        assert!(silent.len() < 900, "no bound");
    };
    assert!(matches!(&refused, Answer::Refused(why) if why.contains("too many")), "{refused:?}");
    // One leaves, one may come.
    silent.pop();
    wait_for("room", || matches!(Guest::ask(&monitor.dir, "netmap:room").1, Some((Answer::Met, _))));
    // All are sent away; those who came too late hear why before.
    silent.iter().for_each(|guest| while guest.hear().is_some() {});
    serves(&monitor.dir);
}

#[test]
fn a_flood_of_requests_leaves_others_served_and_nothing_behind() {
    let monitor = Monitor::start("");
    std::thread::scope(|scope| {
        let floods: Vec<_> = (0..4)
            .map(|flood| {
                let dir = &monitor.dir;
                scope.spawn(move || {
                    for n in 0..500 {
                        let guest = Guest::connect(dir);
                        // The monitor may have closed it for lack of room.
                        let _ = guest.say(&request(&format!("netmap:flood{flood}{n}")).encode());
                    }
                })
            })
            .collect();
        while floods.iter().any(|flood| !flood.is_finished()) {
            // No room for a moment is an answer, too; being served now and then is not enough for silence.
            assert!(Guest::ask(&monitor.dir, "netmap:other").1.is_some(), "no answer");
        }
    });
    wait_for("an empty table", || {
        matches!(Guest::ask(&monitor.dir, "netmap:after").1, Some((Answer::Met, _)))
            && raw_request(&monitor.dir, "{\"cmd\":\"status\"}\n").starts_with("{\"schema\":1,")
    });
    serves(&monitor.dir);
}

#[test]
fn names_are_bounded_and_come_free_with_their_guests() {
    let monitor = Monitor::start("");
    let mut kept = vec![];
    let why = loop {
        let (guest, answer) = Guest::ask(&monitor.dir, &format!("netmap:n{}", kept.len()));
        match answer.expect("an answer").0 {
            Answer::Met => kept.push(guest),
            Answer::Refused(why) => break why,
        }
        assert!(kept.len() < 10_000, "no bound");
    };
    assert!(why.contains("no room for another name") || why.contains("too many"), "{why}");
    drop(kept);
    wait_for("room", || matches!(Guest::ask(&monitor.dir, "netmap:again").1, Some((Answer::Met, _))));
}

#[test]
fn who_does_not_read_his_answer_costs_nobody_anything() {
    let monitor = Monitor::start("");
    let slow: Vec<Guest> = (0..8)
        .map(|n| {
            let guest = Guest::connect(&monitor.dir);
            guest.say(&request(&format!("netmap:slow{n}")).encode()).unwrap();
            guest
        })
        .collect();
    serves(&monitor.dir);
    assert!(slow.iter().all(|guest| matches!(guest.hear(), Some((Answer::Met, _)))), "it was there all the time");
}

#[test]
fn a_name_and_its_ports_outlive_a_takeover_and_a_kill() {
    let mut first = Monitor::start("");
    let (pool, port) = Guest::open(&first.dir, "netmap:stays", "a");
    let mut second = first.successor();
    let (code, log) = first.finish();
    assert_eq!(code, Some(0), "{log}");
    second.wait_ready();
    let (again, other) = Guest::open(&first.dir, "netmap:stays", "b");
    assert_eq!((again.id(), again.find("a")), (pool.id(), Some(port.port())));
    second.signal(Signal::KILL);
    second.finish();
    let third = spawn(&first.dir, &[]);
    let third = Monitor::of(first.dir.clone(), third);
    third.wait_ready();
    let (later, _port) = Guest::open(&third.dir, "netmap:stays", "c");
    assert_eq!(later.id(), pool.id());
    drop((port, other));
}

#[test]
fn memory_that_is_touched_later_is_charged_to_who_made_the_name() {
    let monitor = Monitor::start("memory_per_uid_bytes = 3145728");
    // A user of whom no other test's monitor has names, which this one would find and charge.
    as_user(54_321, || charge(&monitor.dir));
}

fn charge(dir: &Path) {
    let (pool, _port) = Guest::open(dir, "netmap:grows", "a");
    Guest::open(dir, "netmap:grows", "b");
    // Touches 4 MiB of buffers.
    (2..2048).for_each(|buffer| {
        pool.copy_in(buffer, 0, &[1; 2048]);
    });
    for name in ["netmap:grows", "netmap:another"] {
        let (_guest, answer) = Guest::ask(dir, name);
        assert!(
            matches!(&answer, Some((Answer::Refused(why), _)) if why.contains("memory_per_uid_bytes")),
            "{answer:?}"
        );
    }
    // Connections are charged to the same account, which is measured every now and then.
    let library = Library::hello(dir);
    wait_for("a connection that is refused", || {
        let sockets = tcp_pair("127.0.0.1:0");
        library.offer(&sockets.0, 1);
        library.offer(&sockets.1, 2);
        let kinds = [library.receive().unwrap().0, library.receive().unwrap().0].map(|m| (m.kind, m.reason));
        kinds[0] == (Kind::Refused, Reason::MemoryCap)
    });
}
