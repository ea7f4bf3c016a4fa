//! Why a connection that the monitor knows nothing of, or not enough, stays on TCP: by what its two ends'
//! programs are.
//!
//! The monitor hears of a connection when it has earned an upgrade; of programs without the library it
//! never hears. Those are told by what is mapped into them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;

use ringway_channel::Reason;

use super::merge::key;
use super::owners::{self, Owner};
use super::{Socket, State, Via};
use crate::launch::library::LIBRARY_NAME;
use crate::launch::program;

/// Gives every connection on TCP its reason; `reached` says whether a monitor answers.
pub(crate) fn complete(sockets: &mut [Socket], all: &[Socket], reached: bool) {
    let unexplained = |s: &Socket| is_connection(s) && s.via == Via::Tcp;
    if !sockets.iter().any(unexplained) {
        return;
    }
    let ends: HashMap<_, _> = all.iter().filter(|s| is_connection(s)).map(|s| (key(s.local, s.peer), s)).collect();
    let holders = owners::by_inode();
    let mut programs = HashMap::new();
    let mut look = |s: &Socket| obstacle(holders.get(&s.inode).map_or(&[], Vec::as_slice), &mut programs);
    for socket in sockets.iter_mut().filter(|s| unexplained(s)) {
        let other = ends.get(&key(socket.peer, socket.local)).copied();
        let told = |s: &Socket| s.reason.filter(|name| *name != Reason::NoPartner.name());
        let verdict = told(socket).or_else(|| other.and_then(told));
        let reason = match verdict.and_then(|name| Reason::ALL.into_iter().find(|r| r.name() == name)) {
            Some(reason) => reason,
            None => judge(socket, other, reached, &mut look),
        };
        (socket.reason, socket.remedy) = (Some(reason.name()), Some(reason.remedy()));
        if reason == Reason::Unseen {
            socket.via = Via::Unknown;
        }
    }
}

/// Whether the socket is an end that a program holds; what only the kernel still knows needs no reason.
fn is_connection(socket: &Socket) -> bool {
    matches!(socket.state, State::Established | State::CloseWait | State::FinWait1 | State::FinWait2)
        && socket.inode != 0
}

fn judge(socket: &Socket, other: Option<&Socket>, reached: bool, look: &mut dyn FnMut(&Socket) -> Seen) -> Reason {
    let Some(other) = other.filter(|_| is_local(socket.peer, socket.local) || other.is_some()) else {
        return match is_local(socket.peer, socket.local) {
            // Its other end is closed, or in another network namespace.
            true => Reason::NoPartner,
            false => Reason::NotLocal,
        };
    };
    match (look(socket), look(other)) {
        (Seen::Obstacle(reason), _) => reason,
        (_, Seen::Obstacle(Reason::WithoutLibrary)) => Reason::NoPartner,
        (_, Seen::Obstacle(reason)) => reason,
        // Another monitor's, perhaps, or this one's, which tells nobody of other users' connections.
        (Seen::Nothing, Seen::Nothing) if socket.reason.is_none() => Reason::Unseen,
        _ if !reached => Reason::MonitorAbsent,
        // It waits for an end that we cannot look into.
        (_, Seen::Nothing) if socket.reason.is_some() => Reason::NoPartner,
        _ => Reason::TooShort,
    }
}

fn is_local(peer: SocketAddr, local: SocketAddr) -> bool {
    peer.ip().to_canonical().is_loopback() || peer.ip() == local.ip()
}

/// What can be told of the programs that hold a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// No holder may be looked into.
    Nothing,
    /// The library is there and can do its work.
    Ready,
    Obstacle(Reason),
}

/// One holder without an obstacle is enough.
fn obstacle(holders: &[Owner], programs: &mut HashMap<u32, Seen>) -> Seen {
    let mut seen = Seen::Nothing;
    for Owner { pid, .. } in holders {
        match *programs.entry(*pid).or_insert_with(|| look_into(*pid)) {
            Seen::Ready => return Seen::Ready,
            Seen::Obstacle(reason) => seen = Seen::Obstacle(reason),
            Seen::Nothing => {}
        }
    }
    seen
}

fn look_into(pid: u32) -> Seen {
    let Ok(maps) = std::fs::read_to_string(format!("/proc/{pid}/maps")) else { return Seen::Nothing };
    if !maps.lines().any(|line| line.ends_with(LIBRARY_NAME)) {
        return Seen::Obstacle(Reason::WithoutLibrary);
    }
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let disabled = environment.split(|b| *b == 0).find_map(|entry| entry.strip_prefix(b"RINGWAY_DISABLE="));
    if disabled.is_some_and(|value| value != b"0") {
        return Seen::Obstacle(Reason::Disabled);
    }
    match program::is_go(Path::new(&format!("/proc/{pid}/exe"))) {
        true => Seen::Obstacle(Reason::BareCalls),
        false => Seen::Ready,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(local: &str, peer: &str, reason: Option<&'static str>) -> Socket {
        Socket { inode: 1, reason, ..Socket::between(local.parse().unwrap(), peer.parse().unwrap()) }
    }

    fn judged(reason: Option<&'static str>, own: Seen, others: Seen, reached: bool) -> Reason {
        let (a, b) = (socket("127.0.0.1:1", "127.0.0.1:2", reason), socket("127.0.0.1:2", "127.0.0.1:1", None));
        judge(&a, Some(&b), reached, &mut |s: &Socket| if s.local == a.local { own } else { others })
    }

    #[test]
    fn programs_explain_what_the_monitor_has_not_heard_of() {
        use Seen::{Nothing, Obstacle, Ready};
        assert_eq!(judged(None, Ready, Ready, true), Reason::TooShort);
        assert_eq!(judged(None, Ready, Ready, false), Reason::MonitorAbsent);
        assert_eq!(judged(None, Obstacle(Reason::WithoutLibrary), Ready, true), Reason::WithoutLibrary);
        assert_eq!(judged(None, Ready, Obstacle(Reason::WithoutLibrary), true), Reason::NoPartner);
        assert_eq!(judged(Some("no-partner"), Ready, Obstacle(Reason::BareCalls), true), Reason::BareCalls);
        assert_eq!(judged(Some("no-partner"), Ready, Nothing, true), Reason::NoPartner);
        assert_eq!(judged(Some("no-partner"), Nothing, Nothing, true), Reason::NoPartner);
        assert_eq!(judged(None, Nothing, Nothing, true), Reason::Unseen);
        assert_eq!(judged(None, Nothing, Nothing, false), Reason::Unseen);
        assert_eq!(judged(None, Ready, Nothing, true), Reason::TooShort);
    }

    #[test]
    fn a_verdict_on_one_end_explains_both_and_every_connection_has_a_reason() {
        let all = [
            socket("127.0.0.1:1", "127.0.0.1:2", Some("no-partner")),
            socket("127.0.0.1:2", "127.0.0.1:1", Some("shared")),
            socket("192.0.2.1:3", "192.0.2.9:4", None),
            socket("127.0.0.1:5", "127.0.0.1:6", None),
        ];
        let mut shown = all.clone();
        complete(&mut shown, &all, true);
        let names: Vec<_> = shown.iter().map(|s| s.reason.unwrap()).collect();
        assert_eq!(names, ["shared", "shared", "not-local", "no-partner"]);
        assert!(shown.iter().all(|s| s.remedy.is_some()));
    }

    #[test]
    fn a_process_without_the_library_is_seen_as_such() {
        assert_eq!(look_into(std::process::id()), Seen::Obstacle(Reason::WithoutLibrary));
        assert_eq!(look_into(0), Seen::Nothing);
    }
}
