//! Start, reload, takeover, idle exit and the end of the monitor itself.

use std::os::fd::AsFd;

use ringway_channel::Reason;
use ringway_channel::rendezvous::{Kind, Message};
use ringway_daemon::DaemonError;
use rustix::process::Signal;

use crate::harness::*;

#[test]
fn a_successor_continues_and_no_library_notices() {
    let mut first = Monitor::start("");
    let (a, b, lonely) = (Library::hello(&first.dir), Library::hello(&first.dir), Library::hello(&first.dir));
    let (sockets, waiting) = (tcp_pair("127.0.0.1:0"), tcp_pair("[::1]:0"));
    let [(paired, _), _] = pair(&a, &b, &sockets);
    lonely.offer(&waiting.0, 5);
    wait_for("the offer", || first.control().status().unwrap().offers == 1);
    let before = first.control().status().unwrap();

    let second = first.successor();
    assert_eq!(first.finish(), (Some(0), String::new()), "the first leaves in silence");
    second.wait_ready();
    let after = second.control().status().unwrap();
    assert_ne!(after.pid, before.pid);
    assert_eq!(
        (after.clients, after.offers, after.connections, after.pairs_total, after.memory_bytes),
        (before.clients, before.offers, before.connections, before.pairs_total, before.memory_bytes)
    );
    let row = second.control().connections().unwrap().remove(0);
    assert_eq!((row.connection, row.ends[0].state.as_str()), (paired.connection, "held"));

    // The old connections to the monitor go on: the waiting offer finds its partner ...
    a.offer(&waiting.1, 6);
    let (late, _) = lonely.expect(Kind::Paired);
    assert_eq!(late.token, 5);
    assert!(late.connection > paired.connection, "numbers are never given out again");
    assert_eq!(a.expect(Kind::Paired).0.token, 6);
    wait_for("the mailbox of the old page", || lonely.mailbox() == 2);
    // ... new ones come in at the same path, and old regions are handed out again.
    let new = Library::hello(&second.dir);
    new.attach(sockets.0.as_fd(), 8);
    assert_eq!(new.expect(Kind::Paired).0.connection, paired.connection);
}

#[test]
fn a_second_monitor_without_takeover_gives_up() {
    let monitor = Monitor::start("");
    let options = ringway_daemon::Options::new(monitor.dir.clone());
    assert!(matches!(ringway_daemon::run(options), Err(DaemonError::AlreadyRunning { .. })));
    assert_eq!(monitor.control().status().unwrap().clients, 0, "the first is unharmed");
}

#[test]
fn after_a_kill_the_next_monitor_starts_afresh() {
    let mut monitor = Monitor::start("");
    let library = Library::hello(&monitor.dir);
    let _ = monitor.child.kill();
    let _ = monitor.child.wait();
    assert!(library.receive().is_none(), "the library sees the end");
    for takeover in [true, false] {
        let mut next = if takeover { monitor.successor() } else { Monitor::start("") };
        next.wait_ready();
        Library::hello(&next.dir);
        next.signal(Signal::TERM);
        assert_eq!(next.finish(), (Some(0), String::new()));
        assert!(!next.dir.join("monitor.sock").exists(), "an orderly end removes the sockets");
    }
}

#[test]
fn a_hangup_reads_the_policy_again_and_a_broken_file_changes_nothing() {
    let mut monitor = Monitor::start("");
    let library = Library::hello(&monitor.dir);
    let try_pair = |expected: Result<(), Reason>| {
        let sockets = tcp_pair("127.0.0.1:0");
        library.offer(&sockets.0, 1);
        library.offer(&sockets.1, 2);
        for _ in 0..2 {
            let (message, _) = library.receive().unwrap();
            let outcome = if message.kind == Kind::Paired { Ok(()) } else { Err(message.reason) };
            assert_eq!(outcome, expected);
        }
    };
    try_pair(Ok(()));
    std::fs::write(monitor.dir.join("policy.toml"), "default = \"none\"\nmemory_per_uid_bytes = 1048577").unwrap();
    monitor.signal(Signal::HUP);
    wait_for("the new policy", || monitor.control().status().unwrap().memory_per_uid_bytes == 1048577);
    try_pair(Err(Reason::PolicyDenied));
    std::fs::write(monitor.dir.join("policy.toml"), "default = \"every\"").unwrap();
    let said = monitor.control().reload().unwrap_err().to_string();
    assert!(said.contains("policy.toml:1") && said.contains("same-uid"), "{said}");
    try_pair(Err(Reason::PolicyDenied));
    std::fs::write(monitor.dir.join("policy.toml"), "").unwrap();
    monitor.control().reload().unwrap();
    try_pair(Ok(()));
    assert_eq!(monitor.control().status().unwrap().connections, 2, "established connections stay");
    monitor.signal(Signal::INT);
    assert_eq!(monitor.finish().0, Some(0));
}

#[test]
fn a_broken_policy_file_stops_the_start_and_says_where() {
    let dir = directory("[limits]\nclients = \"many\"");
    let mut monitor = Monitor::of(dir.clone(), spawn(&dir, &[]));
    let (code, log) = monitor.finish();
    assert_eq!(code, Some(1));
    assert!(log.contains("policy.toml:2: `clients = \"many\"`"), "{log}");
}

#[test]
fn an_idle_monitor_leaves_but_not_while_connections_live() {
    let mut monitor = Monitor::idle_exit(1);
    let library = Library::hello(&monitor.dir);
    let sockets = tcp_pair("127.0.0.1:0");
    library.offer(&sockets.0, 1);
    library.offer(&sockets.1, 2);
    library.expect(Kind::Paired);
    let (paired, _) = library.expect(Kind::Paired);
    library.send(Message { cookie: paired.cookie, ..Message::new(Kind::Closed) }, &[]).unwrap();
    drop(library);
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(monitor.child.try_wait().unwrap().is_none(), "the sockets still live");
    drop(sockets);
    assert_eq!(monitor.finish(), (Some(0), String::new()));
}

#[test]
fn the_service_manager_hears_that_it_is_ready() {
    let dir = directory("");
    let path = dir.join("notify.sock");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let child = spawn(&dir, &[("NOTIFY_SOCKET", path.to_str().unwrap())]);
    let mut monitor = Monitor::of(dir, child);
    let mut said = [0u8; 256];
    let got = socket.recv(&mut said).unwrap();
    assert_eq!(String::from_utf8_lossy(&said[..got]).trim_end(), "READY=1");
    Library::hello(&monitor.dir);
    monitor.signal(Signal::TERM);
    assert_eq!(monitor.finish().0, Some(0));
}
