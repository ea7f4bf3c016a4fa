//! Clients that break the rules are dropped or slowed down; the others notice nothing.

use std::os::fd::AsFd;

use ringway_channel::Reason;
use ringway_channel::rendezvous::{Kind, Message};
use rustix::process::Signal;

use crate::harness::*;

/// Does `misdeed` and checks that this client is dropped, and that another one is still served.
#[track_caller]
fn dropped(monitor: &Monitor, hello: bool, misdeed: impl FnOnce(&Library)) {
    let library = if hello { Library::hello(&monitor.dir) } else { Library::connect(&monitor.dir) };
    misdeed(&library);
    while library.receive().is_some() {}
    Library::hello(&monitor.dir);
}

#[test]
fn malformed_messages_end_the_connection_with_one_line() {
    let mut monitor = Monitor::start("");
    let hello = Message::new(Kind::Hello).encode();
    let mut unknown = hello;
    unknown[6] = 99;
    let null = std::fs::File::open("/dev/null").unwrap();
    let null = null.as_fd();
    let misdeeds: [(bool, Vec<u8>, usize); 9] = [
        (false, b"hello".to_vec(), 0),
        (false, vec![0xff; 64], 0),
        (false, [hello.as_slice(), b"more"].concat(), 0),
        (false, unknown.to_vec(), 0),
        (false, Message::new(Kind::Offer).encode().to_vec(), 1),
        (true, hello.to_vec(), 0),
        (true, Message::new(Kind::Offer).encode().to_vec(), 2),
        (true, Message::new(Kind::Closed).encode().to_vec(), 1),
        (true, Message::new(Kind::Paired).encode().to_vec(), 0),
    ];
    let count = misdeeds.len();
    for (hello, bytes, fds) in misdeeds {
        dropped(&monitor, hello, |library| library.send_bytes(&bytes, &vec![null; fds]).unwrap());
    }
    dropped(&monitor, true, |library| {
        let offer = Message::new(Kind::Offer).encode();
        library.send_bytes(&offer, &[null; 8]).unwrap();
    });
    assert_eq!(monitor.control().status().unwrap().clients_dropped_total, count as u64 + 1);
    monitor.signal(Signal::TERM);
    let (_, log) = monitor.finish();
    assert_eq!(log.lines().count(), count + 1, "{log}");
    assert!(log.contains("message of 5 bytes") && log.contains("Paired is for the monitor to say"), "{log}");
}

#[test]
fn another_version_is_rejected_by_name() {
    let monitor = Monitor::start("");
    let library = Library::connect(&monitor.dir);
    library.send(Message { version: 99, ..Message::new(Kind::Hello) }, &[]).unwrap();
    assert_eq!(library.expect(Kind::Rejected).0.reason, Reason::VersionMismatch);
    assert!(library.receive().is_none());
}

#[test]
fn too_many_clients_are_turned_away() {
    let monitor = Monitor::start("[limits]\nclients = 2");
    let _kept = [Library::hello(&monitor.dir), Library::hello(&monitor.dir)];
    let third = Library::connect(&monitor.dir);
    assert_eq!(third.expect(Kind::Rejected).0.reason, Reason::TableFull);
    assert!(third.receive().is_none());
}

#[test]
fn a_process_that_does_not_read_is_dropped() {
    let mut monitor = Monitor::start("[limits]\nreplies_per_client = 100");
    let slow = Library::hello(&monitor.dir);
    let null = std::fs::File::open("/dev/null").unwrap();
    let mut sent = 0u32;
    while slow.send(Message::new(Kind::Offer), &[null.as_fd()]).is_ok() {
        sent += 1;
        assert!(sent < 1_000_000, "never dropped");
    }
    assert!(sent > 100, "dropped after {sent}: before its queue was full");
    Library::hello(&monitor.dir);
    monitor.signal(Signal::TERM);
    let (_, log) = monitor.finish();
    assert!(log.contains("limits.replies_per_client"), "{log}");
}

#[test]
fn a_flood_is_slowed_down_and_others_are_served_meanwhile() {
    let monitor = Monitor::start("[limits]\nmessages_per_s = 50");
    let flood = Library::hello(&monitor.dir);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            // Far more than the socket holds: it gets through only as fast as the limit allows.
            (0..5000).take_while(|_| flood.send(Message::new(Kind::Withdraw), &[]).is_ok()).count()
        });
        wait_for("a full socket", || !sender.is_finished() && monitor.control().status().unwrap().clients == 1);
        let other = Library::hello(&monitor.dir);
        let sockets = tcp_pair("127.0.0.1:0");
        other.offer(&sockets.0, 1);
        other.offer(&sockets.1, 2);
        other.expect(Kind::Paired);
        assert!(!sender.is_finished(), "5000 messages at 50 a second take longer than this");
        rustix::net::shutdown(&flood.socket, rustix::net::Shutdown::Both).unwrap();
        assert!(sender.join().unwrap() < 5000);
    });
    wait_for("the flood's end", || monitor.control().status().unwrap().clients == 0);
}

#[test]
fn offers_are_bounded_for_each_process_and_overall() {
    let monitor = Monitor::start("[limits]\noffers = 3\noffers_per_client = 2");
    let (a, b) = (Library::hello(&monitor.dir), Library::hello(&monitor.dir));
    let sockets: Vec<_> = (0..5).map(|_| tcp_pair("127.0.0.1:0")).collect();
    a.offer(&sockets[0].0, 1);
    a.offer(&sockets[1].0, 2);
    a.offer(&sockets[2].0, 3);
    a.expect_refused(3, Reason::TableFull);
    b.offer(&sockets[3].0, 4);
    b.offer(&sockets[4].0, 5);
    b.expect_refused(5, Reason::TableFull);
    assert_eq!(monitor.control().status().unwrap().offers, 3);
}

#[test]
fn the_number_of_connections_and_the_memory_of_a_user_are_bounded() {
    let monitor = Monitor::start("[limits]\nconnections = 1");
    let library = Library::hello(&monitor.dir);
    let keep = tcp_pair("127.0.0.1:0");
    library.offer(&keep.0, 1);
    library.offer(&keep.1, 2);
    library.expect(Kind::Paired);
    library.expect(Kind::Paired);
    let more = tcp_pair("127.0.0.1:0");
    library.offer(&more.0, 3);
    library.offer(&more.1, 4);
    library.expect_refused(3, Reason::TableFull);
    library.expect_refused(4, Reason::TableFull);

    let monitor = Monitor::start("memory_per_uid_bytes = 1048576");
    let library = Library::hello(&monitor.dir);
    let sockets: Vec<_> = (0..30).map(|_| tcp_pair("127.0.0.1:0")).collect();
    let mut outcomes = Vec::new();
    for (a, b) in &sockets {
        library.offer(a, 1);
        library.offer(b, 2);
        let kinds = [library.receive().unwrap().0, library.receive().unwrap().0].map(|m| (m.kind, m.reason));
        assert_eq!(kinds[0], kinds[1], "both ends hear the same");
        outcomes.push(kinds[0]);
    }
    assert_eq!(outcomes[0], (Kind::Paired, Reason::None));
    assert_eq!(outcomes[29], (Kind::Refused, Reason::MemoryCap));
    assert!(monitor.control().status().unwrap().memory_bytes <= 1048576);
}

#[test]
fn a_control_socket_that_is_misused_answers_with_an_error() {
    let monitor = Monitor::start("");
    assert!(raw_request(&monitor.dir, "{\"cmd\":\"dance\"}\n").contains("\"error\":\"request not understood"));
    assert!(raw_request(&monitor.dir, "\u{0}\n").contains("\"error\""));
    assert!(
        raw_request(&monitor.dir, "{\"cmd\":\"status\"}\n{\"cmd\":\"status\"}\n").contains("one request at a time")
    );
    assert_eq!(raw_request(&monitor.dir, &"x".repeat(5000)), "", "an endless line ends the connection");
    assert!(raw_request(&monitor.dir, "{\"cmd\":\"takeover\",\"format\":77}\n").contains("format 2"));
    assert!(raw_request(&monitor.dir, "{\"cmd\":\"status\"}\n").starts_with("{\"schema\":1,"));
}
