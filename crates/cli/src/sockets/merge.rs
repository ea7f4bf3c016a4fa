//! The monitor's knowledge added to the kernel's list.
//!
//! The kernel's list has no cookies, so sockets are matched by their two addresses, which name one
//! socket inside a network namespace. Of a connection's two ends each is a socket of its own.

use std::collections::HashMap;
use std::net::SocketAddr;

use ringway_channel::Reason;
use ringway_daemon::control::{Connection, Direction, Offer, Verdict};

use super::{Socket, Via};

/// What the monitor knows of one end of an upgraded connection.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(crate) struct RingDetail {
    pub connection: u64,
    /// Which end of the connection the socket is: "a" or "b".
    pub role: String,
    pub memory_bytes: u64,
    /// Bytes sent and received over the rings so far.
    pub tx_bytes: u64,
    pub rx_bytes: u64,
    pub tx_path: String,
    pub rx_path: String,
    pub tx_queue_bytes: u64,
    pub rx_queue_bytes: u64,
    pub tx_capacity_bytes: u64,
    pub rx_capacity_bytes: u64,
}

/// The monitor's answers, as far as they matter here.
#[derive(Default)]
pub(crate) struct MonitorView {
    pub connections: Vec<Connection>,
    pub offers: Vec<Offer>,
    pub verdicts: Vec<Verdict>,
    /// Whether a monitor answered.
    pub reached: bool,
}

/// A socket's name: both addresses, IPv4 in IPv6 written as IPv4, without scope and flow label.
pub(super) fn key(local: SocketAddr, peer: SocketAddr) -> (SocketAddr, SocketAddr) {
    let plain = |a: SocketAddr| SocketAddr::new(a.ip().to_canonical(), a.port());
    (plain(local), plain(peer))
}

/// Fills in path, reason and ring queues of every socket that the monitor knows.
pub(crate) fn annotate(sockets: &mut [Socket], view: &MonitorView) {
    let mut ends = HashMap::new();
    for connection in &view.connections {
        for (index, end) in connection.ends.iter().enumerate().filter(|(_, end)| end.state != "gone") {
            ends.insert(key(end.local, end.remote), (connection, index));
        }
    }
    // A socket that waits is newer than whatever was decided about its addresses.
    let decided = view.verdicts.iter().map(|v| (key(v.local, v.remote), &v.reason));
    let waiting = view.offers.iter().map(|offer| (key(offer.local, offer.remote), &offer.reason));
    let told: HashMap<_, _> = decided.chain(waiting).collect();
    for socket in sockets {
        let key = key(socket.local, socket.peer);
        if let Some((connection, index)) = ends.get(&key) {
            upgrade(socket, connection, *index);
        } else if let Some(reason) = told.get(&key) {
            explain(socket, reason);
        }
    }
}

fn upgrade(socket: &mut Socket, connection: &Connection, index: usize) {
    let (end, tx, rx) = (&connection.ends[index], &connection.directions[index], &connection.directions[1 - index]);
    socket.ring = Some(RingDetail {
        connection: connection.connection,
        role: end.role.clone(),
        memory_bytes: connection.memory_bytes,
        tx_bytes: tx.tail,
        rx_bytes: rx.head,
        tx_path: tx.path.clone(),
        rx_path: rx.path.clone(),
        tx_queue_bytes: tx.queued_bytes,
        rx_queue_bytes: rx.queued_bytes,
        tx_capacity_bytes: tx.capacity_bytes,
        rx_capacity_bytes: rx.capacity_bytes,
    });
    // Doorbell bytes on the kernel socket are not data: on a ring, the ring's queue is the queue.
    let on_ring = |direction: &Direction| direction.path == "ring";
    if on_ring(tx) {
        socket.send_queue_bytes = tx.queued_bytes;
    }
    if on_ring(rx) {
        socket.recv_queue_bytes = rx.queued_bytes;
    }
    let demoted = end.demoted.as_ref().or(tx.demote_please.as_ref()).or(rx.demote_please.as_ref());
    match demoted {
        Some(reason) if !on_ring(tx) && !on_ring(rx) => explain(socket, reason),
        _ if on_ring(tx) || on_ring(rx) => socket.via = Via::Ring,
        // Paired, but no byte has been sent since.
        _ => {}
    }
}

fn explain(socket: &mut Socket, reason: &str) {
    if let Some(reason) = Reason::ALL.into_iter().find(|r| r.name() == reason && *r != Reason::None) {
        (socket.reason, socket.remedy) = (Some(reason.name()), Some(reason.remedy()));
    }
}

#[cfg(test)]
mod tests {
    use ringway_daemon::control::{End, ProcessName};

    use super::*;
    use crate::sockets::State;

    fn socket(local: &str, peer: &str) -> Socket {
        Socket {
            state: State::Established,
            recv_queue_bytes: 1,
            send_queue_bytes: 2,
            local: local.parse().unwrap(),
            peer: peer.parse().unwrap(),
            uid: 0,
            inode: 1,
            via: Via::Tcp,
            reason: None,
            remedy: None,
            processes: Vec::new(),
            ring: None,
        }
    }

    fn end(role: &str, local: &str, remote: &str) -> End {
        End {
            role: role.into(),
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
            netns: 1,
            cookie: 1,
            uid: 0,
            state: "held".into(),
            demoted: None,
            processes: vec![ProcessName { pid: 7, comm: "redis".into() }],
        }
    }

    fn direction(path: &str, tail: u64, head: u64) -> Direction {
        Direction {
            path: path.into(),
            tail,
            head,
            queued_bytes: tail - head,
            capacity_bytes: 16384,
            ..Direction::default()
        }
    }

    fn view(directions: [Direction; 2]) -> MonitorView {
        let ends = [end("a", "127.0.0.1:7000", "127.0.0.1:40000"), end("b", "127.0.0.1:40000", "127.0.0.1:7000")];
        let connection = Connection { connection: 3, memory_bytes: 65536, ends, directions };
        MonitorView { connections: vec![connection], ..MonitorView::default() }
    }

    #[test]
    fn both_ends_show_the_rings_queues_from_their_side() {
        let mut sockets = [
            socket("127.0.0.1:7000", "127.0.0.1:40000"),
            socket("[::ffff:127.0.0.1]:40000", "[::ffff:127.0.0.1]:7000"),
            socket("127.0.0.1:7000", "127.0.0.1:40001"),
        ];
        annotate(&mut sockets, &view([direction("ring", 100, 90), direction("ring", 50, 50)]));
        let shown: Vec<_> = sockets.iter().map(|s| (s.via, s.recv_queue_bytes, s.send_queue_bytes)).collect();
        assert_eq!(shown, [(Via::Ring, 0, 10), (Via::Ring, 10, 0), (Via::Tcp, 1, 2)]);
        let b = sockets[1].ring.as_ref().unwrap();
        assert_eq!((b.role.as_str(), b.tx_bytes, b.rx_bytes), ("b", 50, 90));
    }

    #[test]
    fn demoted_and_waiting_sockets_say_why() {
        let mut view = view([direction("demoted", 5, 5), direction("demoted", 0, 0)]);
        view.connections[0].ends[0].demoted = Some("splice".into());
        view.offers.push(Offer {
            local: "127.0.0.1:9".parse().unwrap(),
            remote: "127.0.0.1:8".parse().unwrap(),
            netns: 1,
            cookie: 2,
            uid: 0,
            age_ms: 3,
            reason: "no-partner".into(),
            processes: Vec::new(),
        });
        let mut sockets = [socket("127.0.0.1:7000", "127.0.0.1:40000"), socket("127.0.0.1:9", "127.0.0.1:8")];
        annotate(&mut sockets, &view);
        let shown: Vec<_> = sockets.iter().map(|s| (s.via, s.reason)).collect();
        assert_eq!(shown, [(Via::Tcp, Some("splice")), (Via::Tcp, Some("no-partner"))]);
        assert!(sockets[1].remedy.unwrap().contains("ringway run"));
    }
}
