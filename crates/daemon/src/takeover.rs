//! A new monitor continues the work of the running one: upgrade or restart without harm.
//!
//! ```text
//!   successor                                         predecessor
//!      | {"cmd":"takeover"} on control.sock                |
//!      |-------------------------------------------------->|
//!      |                    {"done":true} + [socket]       |  stops serving
//!      |<--------------------------------------------------|
//!      |   Head + [lock, three listeners]                  |
//!      |   Connection + [ring, end A, end B]   each        |
//!      |   Client + [socket, process page]     each        |
//!      |   Queued, Offer                       each        |
//!      |   Meeting + [pool, fabric of a switch] each       |
//!      |   Tail                                            |
//!      |<--------------------------------------------------|
//!      | one byte: everything is here                      |
//!      |-------------------------------------------------->|  leaves, touching nothing
//! ```
//!
//! The predecessor forgets nothing before that byte: if the successor fails, it goes on as if nothing had
//! been. Libraries notice nothing; their sockets and process pages are the same.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use ringway_channel::Reason;
use ringway_channel::rendezvous::{Message, Role};
use ringway_mem::stats::REASON_SLOTS;
use ringway_port::meeting::message::What;
use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair, sockopt,
};
use serde::{Deserialize, Serialize};

use crate::DaemonError;
use crate::client::{Attachment, Client, Outgoing, Session};
use crate::connections::{Connection, End, Life};
use crate::control::{Control, Done, Request};
use crate::endpoint::Endpoint;
use crate::guests::GUEST_TIMEOUT;
use crate::listener::Listeners;
use crate::meetings::Meeting;
use crate::monitor::Monitor;
use crate::offers::{Offer, Waiter};
use crate::peer::Peer;
use crate::poller::Source;

/// Changes with the records.
const FORMAT: u32 = 2;
/// Longest record, in bytes. The longest that occur name the members of an end (4096 clients).
const RECORD_BYTES_MAX: usize = 128 << 10;
/// Descriptors with one record at most.
const RECORD_FDS_MAX: usize = 4;
/// How long either side waits for the other at each step.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize, Deserialize)]
enum Record {
    /// With the lock and the listeners.
    Head,
    /// With the ring region and both end regions.
    Connection {
        number: u64,
        charged_bytes: u64,
        ends: [EndRecord; 2],
    },
    /// With the socket and, after Hello, the process page.
    Client {
        id: u64,
        peer: Peer,
        #[serde(default)]
        run_id: u64,
        closing: bool,
    },
    /// A message that the client has not received yet; `end` if regions go with it.
    Queued {
        client: u64,
        message: Vec<u8>,
        page: bool,
        end: Option<(u64, u8)>,
    },
    /// With the memory behind a name.
    Meeting {
        name: String,
        owner: Peer,
    },
    Offer {
        endpoint: Endpoint,
        waiters: Vec<Waiter>,
        age_ms: u64,
        reason: u16,
    },
    Tail {
        last_id: u64,
        last_number: u64,
        totals: [u64; 4],
        refusals: Vec<u64>,
        counters: Vec<u64>,
        reasons: Vec<u64>,
    },
}

#[derive(Debug, Serialize, Deserialize)]
struct EndRecord {
    endpoint: Endpoint,
    uid: u32,
    members: Vec<u64>,
    gone: bool,
    demoted: u16,
}

fn failed(problem: impl std::fmt::Display) -> DaemonError {
    DaemonError::Takeover(problem.to_string())
}

fn set_timeouts(socket: &OwnedFd) -> Result<(), DaemonError> {
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, Some(STEP_TIMEOUT)).map_err(failed)?;
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Send, Some(STEP_TIMEOUT)).map_err(failed)
}

fn send_record(socket: &OwnedFd, record: &Record, fds: &[BorrowedFd<'_>]) -> Result<(), DaemonError> {
    let bytes = serde_json::to_vec(record).map_err(failed)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(RECORD_FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(failed("too many descriptors in a record"));
    }
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL).map(|_| ()).map_err(failed)
}

fn receive_record(socket: &OwnedFd, buffer: &mut [u8]) -> Result<(Record, Vec<OwnedFd>), DaemonError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(RECORD_FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC).map_err(failed)?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    if got.flags.intersects(ReturnFlags::CTRUNC | ReturnFlags::TRUNC) {
        return Err(failed("a record did not fit; raise the limit on open files"));
    }
    let record = serde_json::from_slice(&buffer[..got.bytes]).map_err(failed)?;
    Ok((record, fds))
}

/// The descriptors of a record, exactly as many as expected.
fn exactly<const N: usize>(fds: Vec<OwnedFd>) -> Result<[OwnedFd; N], DaemonError> {
    fds.try_into().map_err(|fds: Vec<OwnedFd>| failed(format!("a record with {} descriptors, expected {N}", fds.len())))
}

/// Asks the monitor that runs in `dir` for its work; returns the way by which it comes.
pub(crate) fn begin(dir: &Path) -> Result<(OwnedFd, Listeners), DaemonError> {
    let request = Request::Takeover { format: FORMAT };
    let (_, socket): (Done, _) =
        Control::connect(dir).and_then(|mut c| c.request_descriptor(&request)).map_err(failed)?;
    set_timeouts(&socket)?;
    match receive_record(&socket, &mut [0; 1024])? {
        (Record::Head, fds) => {
            let [lock, libraries, tools, ports] = exactly(fds)?;
            Ok((socket, Listeners { dir: dir.to_path_buf(), lock, libraries, tools, ports }))
        }
        (other, _) => Err(failed(format!("began with {other:?}"))),
    }
}

/// Sending side.
impl Monitor {
    /// Makes the socket for the records; they follow once the answer is on its way.
    pub(crate) fn prepare_handover(&mut self, format: u32) -> Result<OwnedFd, String> {
        if format != FORMAT {
            return Err(format!("it hands over in format {FORMAT}, format {format} was asked for; stop it instead"));
        }
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(|e| e.to_string())?;
        set_timeouts(&ours).map_err(|e| e.to_string())?;
        self.successor = Some(ours);
        Ok(theirs)
    }

    pub(crate) fn hand_over(&mut self, successor: &OwnedFd) {
        let taken = self.send_everything(successor).and_then(|()| {
            let mut byte = [0];
            rustix::net::recv(successor, &mut byte[..], RecvFlags::empty()).map(|(got, _)| got == 1).map_err(failed)
        });
        match taken {
            Ok(true) => (self.stopping, self.succeeded) = (true, true),
            Ok(false) => tracing::error!("the successor left before it had everything; going on"),
            Err(e) => tracing::error!("{e}; going on"),
        }
    }

    fn send_everything(&self, to: &OwnedFd) -> Result<(), DaemonError> {
        let own = &self.listeners;
        let head = [own.lock.as_fd(), own.libraries.as_fd(), own.tools.as_fd(), own.ports.as_fd()];
        send_record(to, &Record::Head, &head)?;
        for connection in self.connections.from(0) {
            let ends = connection.ends.each_ref().map(|end| EndRecord {
                endpoint: end.endpoint,
                uid: end.uid,
                members: end.members.clone(),
                gone: end.life == Life::Gone,
                demoted: end.demoted as u16,
            });
            let Connection { number, charged_bytes, .. } = *connection;
            let [a, b] = self.connections.end_regions(number).ok_or_else(|| failed("an end region is missing"))?;
            let fds = [connection.ring.as_fd(), a.as_fd(), b.as_fd()];
            send_record(to, &Record::Connection { number, charged_bytes, ends }, &fds)?;
        }
        for client in self.clients.values() {
            let mut fds = vec![client.socket.as_fd()];
            fds.extend(client.session.iter().map(|session| session.page_fd.as_fd()));
            let Client { id, run_id, closing, .. } = *client;
            let record = Record::Client { id, peer: client.peer.clone(), run_id, closing };
            send_record(to, &record, &fds)?;
            for queued in &client.queue {
                let end = match queued.attachment {
                    Attachment::Regions((number, role)) => Some((number, role as u8)),
                    _ => None,
                };
                let (message, page) = (queued.message.encode().to_vec(), queued.attachment == Attachment::Page);
                send_record(to, &Record::Queued { client: client.id, message, page, end }, &[])?;
            }
        }
        let now = Instant::now();
        let mut offers: Vec<Offer> = self.offers.iter().cloned().collect();
        offers.sort_by_key(|offer| offer.since);
        for Offer { endpoint, waiters, since, reason } in offers {
            let age_ms = now.saturating_duration_since(since).as_millis() as u64;
            send_record(to, &Record::Offer { endpoint, waiters, age_ms, reason: reason as u16 }, &[])?;
        }
        for (name, meeting) in self.meetings.iter() {
            let record = Record::Meeting { name: name.clone(), owner: meeting.owner.clone() };
            send_record(to, &record, &meeting.descriptors())?;
        }
        let t = &self.totals;
        let tail = Record::Tail {
            last_id: self.last_id,
            last_number: self.connections.last_number(),
            totals: [t.offers, t.pairs, t.attaches, t.clients_dropped],
            refusals: t.refusals.to_vec(),
            counters: self.retired.counters.clone(),
            reasons: self.retired.refusals.to_vec(),
        };
        send_record(to, &tail, &[])
    }
}

/// Receiving side.
impl Monitor {
    /// Takes in everything that the predecessor has and lets it go.
    pub(crate) fn inherit(&mut self, predecessor: &OwnedFd) -> Result<(), DaemonError> {
        let mut buffer = vec![0; RECORD_BYTES_MAX];
        let now = Instant::now();
        loop {
            let (record, fds) = receive_record(predecessor, &mut buffer)?;
            match record {
                Record::Connection { number, charged_bytes, ends } => {
                    self.inherit_connection((number, charged_bytes), ends, exactly(fds)?, now)?;
                }
                Record::Client { id, peer, run_id, closing } => {
                    self.inherit_client(id, peer, closing, fds, now)?;
                    self.runs.join(run_id, self.clients[&id].peer.uid);
                    if let Some(client) = self.clients.get_mut(&id) {
                        client.run_id = run_id;
                    }
                }
                Record::Queued { client, message, page, end } => self.inherit_queued(client, &message, page, end)?,
                Record::Offer { endpoint, waiters, age_ms, reason } => {
                    let since = now.checked_sub(Duration::from_millis(age_ms)).unwrap_or(now);
                    self.inherit_offer(endpoint, waiters, since, reason);
                }
                Record::Meeting { name, owner } => {
                    let what = if fds.len() == What::Switch.descriptors() { What::Switch } else { What::Pool };
                    let stays_until = Some(now + GUEST_TIMEOUT);
                    self.meetings.insert(name, Meeting { what, owner, memory: fds, guests: 0, stays_until });
                }
                Record::Tail { last_id, last_number, totals, refusals, counters, reasons } => {
                    self.last_id = self.last_id.max(last_id);
                    self.connections.skip_to(last_number);
                    let t = &mut self.totals;
                    [t.offers, t.pairs, t.attaches, t.clients_dropped] = totals;
                    t.refusals = refusals.try_into().unwrap_or([0; REASON_SLOTS]);
                    self.retired.refusals = reasons.try_into().unwrap_or([0; REASON_SLOTS]);
                    if counters.len() == self.retired.counters.len() {
                        self.retired.counters = counters;
                    }
                    break;
                }
                Record::Head => return Err(failed("a second beginning")),
            }
        }
        self.join_members(now);
        let sent = rustix::net::send(predecessor, &[1], SendFlags::NOSIGNAL).map_err(failed)?;
        tracing::info!("took over {} connections, {} clients", self.connections.len(), self.clients.len());
        if sent == 1 { Ok(()) } else { Err(failed("it is gone")) }
    }

    fn inherit_connection(
        &mut self,
        (number, charged_bytes): (u64, u64),
        ends: [EndRecord; 2],
        fds: [OwnedFd; 3],
        now: Instant,
    ) -> Result<(), DaemonError> {
        let [ring, a, b] = fds;
        let ends = ends.map(|record| {
            let mut end = End::new(record.endpoint, record.uid);
            end.life = match (record.gone, record.members.is_empty()) {
                (true, _) => Life::Gone,
                (false, true) => Life::Suspect { since: now },
                (false, false) => Life::Held,
            };
            end.members = record.members;
            end.demoted = Reason::from_number(record.demoted).unwrap_or(Reason::None);
            end
        });
        self.connections.insert(number, ring, ends, [a, b], charged_bytes).map_err(failed)
    }

    fn inherit_client(
        &mut self,
        id: u64,
        peer: Peer,
        closing: bool,
        mut fds: Vec<OwnedFd>,
        now: Instant,
    ) -> Result<(), DaemonError> {
        let page = if fds.len() == 2 { fds.pop() } else { None };
        let [socket] = exactly(fds)?;
        let session = page.map(Session::adopt).transpose().map_err(failed)?;
        self.poller.add(&socket, Source::Client(id)).map_err(failed)?;
        *self.clients_by_uid.entry(peer.uid).or_default() += 1;
        let client = Client::new(id, socket, peer, self.policy.limits.messages_per_s, now);
        self.clients.insert(id, Client { session, closing, ..client });
        Ok(())
    }

    fn inherit_queued(
        &mut self,
        id: u64,
        message: &[u8],
        page: bool,
        end: Option<(u64, u8)>,
    ) -> Result<(), DaemonError> {
        let message = Message::decode(message).map_err(failed)?;
        let attachment = match end {
            Some((number, role)) => Attachment::Regions((number, if role == 0 { Role::A } else { Role::B })),
            None if page => Attachment::Page,
            None => Attachment::Nothing,
        };
        if let Some(client) = self.clients.get_mut(&id) {
            client.queue.push_back(Outgoing { message, attachment });
        }
        Ok(())
    }

    fn inherit_offer(&mut self, endpoint: Endpoint, waiters: Vec<Waiter>, since: Instant, reason: u16) {
        for waiter in waiters {
            if let Some(client) = self.clients.get_mut(&waiter.client)
                && self.offers.insert(endpoint, waiter, since).is_ok()
            {
                client.offers.insert(waiter.token, endpoint.id);
            }
        }
        self.offers.note(endpoint.id, Reason::from_number(reason).unwrap_or(Reason::NoPartner));
    }

    /// Tells the clients which ends they hold, and sends what waits for them.
    fn join_members(&mut self, now: Instant) {
        for connection in self.connections.from(0) {
            for (end, role) in connection.ends.iter().zip([Role::A, Role::B]) {
                if let Some(diag) = &mut self.diag {
                    diag.calibrate(&end.endpoint);
                }
                for id in &end.members {
                    if let Some(client) = self.clients.get_mut(id) {
                        client.ends.insert(end.endpoint.id.cookie, (connection.number, role));
                    }
                }
            }
        }
        let ids: Vec<u64> = self.clients.keys().copied().collect();
        for id in ids {
            self.flush_client(id, now);
        }
    }
}
