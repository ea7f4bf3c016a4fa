//! What tools and Prometheus get to see.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use ringway_channel::Reason;
use ringway_channel::layout::{HEADER_BYTES, RING_REGION_BYTES};
use ringway_channel::rendezvous::{Kind, Message};
use ringway_mem::region::Region;

use crate::harness::*;

#[test]
fn connections_show_ends_owners_and_both_directions() {
    let monitor = Monitor::start("");
    let (a, b) = (Library::hello(&monitor.dir), Library::hello(&monitor.dir));
    let sockets = tcp_pair("127.0.0.1:0");
    let [(paired, fds), _] = pair(&a, &b, &sockets);
    // Play a sender: the first direction's tail (see the drawing in `layout`).
    rustix::io::pwrite(&fds[0], &1000u64.to_ne_bytes(), 128).unwrap();
    let cookie = paired.cookie;
    a.send(Message { cookie, reason: Reason::Splice, ..Message::new(Kind::Demoted) }, &[]).unwrap();
    let mut rows = Vec::new();
    wait_for("the demotion", || {
        rows = monitor.control().connections().unwrap();
        rows[0].ends.iter().any(|end| end.demoted.is_some())
    });
    let row = &rows[0];
    let end = row.ends.iter().find(|end| end.cookie == cookie).unwrap();
    assert_eq!(end.demoted.as_deref(), Some("splice"));
    assert_eq!((end.local, end.remote), (sockets.0.local_addr().unwrap(), sockets.0.peer_addr().unwrap()));
    assert_eq!((end.processes[0].pid, end.uid), (std::process::id(), rustix::process::geteuid().as_raw()));
    assert_eq!((row.directions[0].queued_bytes, row.directions[0].path.as_str()), (1000, "tcp"));
    assert_eq!(row.directions[1].capacity_bytes, 16384);
    let processes = monitor.control().processes().unwrap().processes;
    assert_eq!(processes.len(), 2);
    assert_eq!((processes[0].profile.as_str(), processes[0].connections), ("balanced", 1));
}

#[test]
fn a_tap_can_read_and_not_write() {
    let monitor = Monitor::start("");
    let (a, b) = (Library::hello(&monitor.dir), Library::hello(&monitor.dir));
    let sockets = tcp_pair("127.0.0.1:0");
    let [(paired, _), _] = pair(&a, &b, &sockets);
    let (tap, ring) = monitor.control().tap(paired.connection).unwrap();
    assert_eq!(tap.connection.connection, paired.connection);
    Region::open_read_only(&ring, RING_REGION_BYTES).unwrap();
    assert!(rustix::io::pwrite(&ring, &[1], HEADER_BYTES as u64).is_err());
    let said = monitor.control().tap(999).unwrap_err().to_string();
    assert!(said.contains("no connection 999"), "{said}");
}

#[test]
fn another_user_sees_and_changes_nothing() {
    let monitor = Monitor::start("");
    let (a, b) = (Library::hello(&monitor.dir), Library::hello(&monitor.dir));
    let (sockets, waiting) = (tcp_pair("127.0.0.1:0"), tcp_pair("127.0.0.1:0"));
    let [(paired, _), _] = pair(&a, &b, &sockets);
    a.offer(&waiting.0, 9);
    wait_for("the offer", || monitor.control().offers().unwrap().offers.len() == 1);
    as_user(12345, || {
        let mut control = monitor.control();
        let status = control.status().unwrap();
        assert_eq!((status.connections, status.memory_bytes), (1, 0), "totals are no secret, what is whose is");
        assert!(control.connections().unwrap().is_empty());
        assert!(control.processes().unwrap().processes.is_empty());
        assert!(control.offers().unwrap().offers.is_empty());
        assert!(control.tap(paired.connection).unwrap_err().to_string().contains("another user"));
        assert!(control.reload().unwrap_err().to_string().contains("only root"));
        assert!(raw_request(&monitor.dir, "{\"cmd\":\"takeover\",\"format\":1}\n").contains("only root"));
    });
}

#[test]
fn another_user_is_neither_paired_nor_given_regions_unless_the_policy_says_so() {
    for (policy, expected) in [("", Kind::Refused), ("[[allow]]\nuid = [0, 12345]", Kind::Paired)] {
        let monitor = Monitor::start(policy);
        let ours = Library::hello(&monitor.dir);
        let sockets = tcp_pair("127.0.0.1:0");
        as_user(12345, || {
            let theirs = Library::hello(&monitor.dir);
            ours.offer(&sockets.0, 1);
            theirs.offer(&sockets.1, 2);
            for library in [&ours, &theirs] {
                let (message, _) = library.expect(expected);
                assert!(expected == Kind::Paired || message.reason == Reason::ForeignUid, "{message:?}");
            }
            if expected == Kind::Paired {
                return;
            }
            let own = tcp_pair("127.0.0.1:0");
            ours.offer(&own.0, 3);
            ours.offer(&own.1, 4);
            ours.expect(Kind::Paired);
            ours.expect(Kind::Paired);
            theirs.attach(&own.0, 5);
            theirs.expect_refused(5, Reason::ForeignUid);
        });
    }
}

/// One HTTP exchange; everything that comes back.
fn fetch(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn prometheus_gets_its_text_over_http_and_tools_over_the_control_socket() {
    // A port that was free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let monitor = Monitor::with_metrics(&address);
    let (a, b) = (Library::hello(&monitor.dir), Library::hello(&monitor.dir));
    pair(&a, &b, &tcp_pair("127.0.0.1:0"));
    a.offer(std::fs::File::open("/dev/null").unwrap(), 3);
    a.expect_refused(3, Reason::NotTcp);
    // What a process has counted stays in the sums when it leaves.
    rustix::io::pwrite(a.page.as_ref().unwrap(), &7u64.to_ne_bytes(), 128).unwrap();
    drop(a);
    wait_for("one client", || monitor.control().status().unwrap().clients == 1);
    let answer = fetch(&address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    for line in [
        "ringway_monitor_pairs_total 1",
        "ringway_monitor_refusals_total{reason=\"not-tcp\"} 1",
        "ringway_clients 1",
        "ringway_connections_seen_total 7",
    ] {
        assert!(answer.lines().any(|l| l == line), "{line} is not in {answer}");
    }
    assert!(fetch(&address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert_eq!(fetch(&address, &"x".repeat(10_000)), "", "an endless head ends the connection");
    assert!(monitor.control().metrics().unwrap().text.contains("ringway_monitor_pairs_total 1\n"));
}
