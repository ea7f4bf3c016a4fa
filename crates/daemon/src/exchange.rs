//! What libraries say and what the monitor does about it.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use ringway_channel::Reason;
use ringway_channel::rendezvous::{Kind, Message, PROTOCOL_VERSION, Role};

use crate::client::{Attachment, Client, Flush, PAUSE, Received, Session};
use crate::connections::{CONNECTION_BYTES_MIN, EndRef};
use crate::diag::Diag;
use crate::endpoint::{Endpoint, SocketId, inspect};
use crate::monitor::Monitor;
use crate::offers::{Offer, Partner, Waiter};
use crate::peer::Peer;
use crate::policy::Party;
use crate::poller::{Ready, Source};

/// Messages taken from one client before others get their turn.
const MESSAGES_MAX: usize = 64;

impl Monitor {
    pub(crate) fn on_client(&mut self, id: u64, event: Ready, now: Instant) {
        if event.writable {
            self.flush_client(id, now);
        }
        let Some(client) = self.clients.get(&id) else { return };
        if client.paused_until.is_some() {
            // Not read from, so that only the end of the connection can have woken us.
            if event.hung_up {
                self.drop_client(id, "", now);
            }
            return;
        }
        for _ in 0..MESSAGES_MAX {
            if !self.take_message(id, now) {
                return;
            }
        }
    }

    /// Handles one message; `false` when there is none, or the client has to wait or was dropped.
    fn take_message(&mut self, id: u64, now: Instant) -> bool {
        let rate = self.policy.limits.messages_per_s;
        let Some(client) = self.clients.get_mut(&id) else { return false };
        if !client.bucket.take(rate, now) {
            client.paused_until = Some(now + PAUSE);
            self.restless.insert(id);
            self.rewatch(id);
            return false;
        }
        let handled = match client.receive() {
            Ok(None) => return false,
            Ok(Some(_)) if client.closing => Ok(()),
            Ok(Some(received)) => self.on_message(id, received, now),
            Err(problem) => Err(problem),
        };
        match handled {
            Ok(()) => self.clients.contains_key(&id),
            Err(problem) => {
                self.drop_client(id, &problem, now);
                false
            }
        }
    }

    fn on_message(&mut self, id: u64, received: Received, now: Instant) -> Result<(), String> {
        let Received { message, mut fds, fds_lost } = received;
        let known = self.clients.get(&id).is_some_and(|client| client.session.is_some());
        let carries = matches!(message.kind, Kind::Offer | Kind::Attach);
        if known == (message.kind == Kind::Hello) {
            return Err(format!("{:?} {} Hello", message.kind, if known { "after" } else { "before" }));
        }
        if fds.len() != usize::from(carries) && !(carries && fds_lost) {
            let count = fds.len();
            fds.into_iter().for_each(|fd| self.closer.close(fd));
            return Err(format!("{:?} with {count} descriptors", message.kind));
        }
        match message.kind {
            Kind::Hello => self.on_hello(id, message, now),
            Kind::Offer | Kind::Attach => match fds.pop() {
                Some(fd) => self.on_socket(id, message, fd, now),
                None => self.refuse(id, message.token, Reason::ResourceLimit, now),
            },
            Kind::Withdraw => {
                self.account_for(id, message.token, now);
                self.withdraw(id, message.token);
            }
            Kind::Closed => self.on_closed(id, message.cookie, now),
            Kind::Demoted => self.on_demoted(id, message),
            Kind::Welcome | Kind::Rejected | Kind::Paired | Kind::Refused => {
                return Err(format!("{:?} is for the monitor to say", message.kind));
            }
        }
        Ok(())
    }

    fn on_hello(&mut self, id: u64, message: Message, now: Instant) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        self.runs.join(message.token, client.peer.uid);
        let (reason, cause) = match message.version == PROTOCOL_VERSION {
            false => (Reason::VersionMismatch, Reason::VersionMismatch.remedy().to_string()),
            true => match Session::create(client.peer.pid, message.profile) {
                Ok(session) => {
                    client.session = Some(session);
                    client.run_id = message.token;
                    let welcome = Message { connection: id, pid: client.peer.pid, ..Message::new(Kind::Welcome) };
                    return self.tell(id, welcome, Attachment::Page, now);
                }
                Err(e) => (Reason::ResourceLimit, format!("the monitor cannot make shared memory: {e}")),
            },
        };
        client.closing = true;
        self.runs.count_refusal(message.token, client.peer.uid, reason);
        let who = describe(client);
        self.throttle.warn(now, format_args!("{who} rejected: {} ({cause})", reason.name()));
        self.tell(id, Message { reason, ..Message::new(Kind::Rejected) }, Attachment::Nothing, now);
    }

    /// Offer or Attach. Our copy of the socket is closed before anything else happens: the program's own
    /// close must send its FIN at once.
    fn on_socket(&mut self, id: u64, message: Message, fd: OwnedFd, now: Instant) {
        let endpoint = inspect(fd.as_fd());
        if let (Ok(endpoint), Some(diag)) = (&endpoint, &mut self.diag) {
            diag.calibrate(endpoint);
        }
        self.closer.close(fd);
        let outcome = match endpoint {
            Err(reason) => Err(reason),
            Ok(endpoint) => match self.connections.find(&endpoint) {
                // An offered socket may be upgraded already: a relative of the process was quicker.
                Some(end) => self.attach(id, message.token, end, now),
                None if message.kind == Kind::Attach => Err(Reason::UnknownConnection),
                None => self.offer(id, message.token, endpoint, now),
            },
        };
        let Err(reason) = outcome else { return };
        if let Ok(endpoint) = endpoint {
            self.explain_refusal(id, message.kind, endpoint, reason, now);
        }
        self.refuse(id, message.token, reason, now);
    }

    /// Who asks for a connection that nobody has upgraded has its socket from another process, and leaves it on TCP: its
    /// other end need not wait.
    fn explain_refusal(&mut self, id: u64, kind: Kind, endpoint: Endpoint, reason: Reason, now: Instant) {
        if kind != Kind::Attach || reason != Reason::UnknownConnection {
            return self.remember(endpoint, id, reason);
        }
        self.remember(endpoint, id, Reason::Shared);
        if let Partner::Found(partner) = self.offers.partner(&endpoint, false) {
            self.refuse_offer(partner, Reason::Shared, now);
        }
    }

    fn attach(&mut self, id: u64, token: u64, end: EndRef, now: Instant) -> Result<(), Reason> {
        let connection = self.connections.get(end.0).ok_or(Reason::UnknownConnection)?;
        let owner = connection.end(end.1).uid;
        let peer = &self.clients.get(&id).ok_or(Reason::UnknownConnection)?.peer;
        if peer.uid != owner {
            let endpoint = connection.end(end.1).endpoint;
            let party = self.party(peer, endpoint.id);
            let first = Party { uid: owner, gid: u32::MAX, cgroup: "", ..party };
            self.policy.judge(&first, &party, ports(&endpoint))?;
        }
        self.totals.attaches += 1;
        self.hand_out(end, Waiter { client: id, token }, now);
        Ok(())
    }

    /// Sends the regions of an end and notes that the client holds it.
    fn hand_out(&mut self, end: EndRef, waiter: Waiter, now: Instant) {
        let Some(connection) = self.connections.get(end.0) else { return };
        let cookie = connection.end(end.1).endpoint.id.cookie;
        let Some(client) = self.clients.get_mut(&waiter.client) else { return };
        client.offers.remove(&waiter.token);
        client.ends.insert(cookie, end);
        self.connections.join(end, waiter.client);
        let paired =
            Message { token: waiter.token, connection: end.0, role: end.1, cookie, ..Message::new(Kind::Paired) };
        self.tell(waiter.client, paired, Attachment::Regions(end), now);
    }

    fn offer(&mut self, id: u64, token: u64, endpoint: Endpoint, now: Instant) -> Result<(), Reason> {
        self.totals.offers += 1;
        self.verdicts.forget(&endpoint);
        self.withdraw(id, token);
        let client = self.clients.get(&id).ok_or(Reason::UnknownConnection)?;
        if client.offers.len() as u64 >= self.policy.limits.offers_per_client {
            return Err(Reason::TableFull);
        }
        if let Some(stale) = self.offers.stale(&endpoint) {
            self.refuse_offer(stale, Reason::NotConnected, now);
        }
        if self.offers.get(endpoint.id).is_some_and(|former| former.endpoint.tuple != endpoint.tuple) {
            self.refuse_offer(endpoint.id, Reason::NotConnected, now);
        }
        let waiter = Waiter { client: id, token };
        let note = match self.offers.partner(&endpoint, self.policy.across_network_namespaces) {
            // Should that have been an earlier connection's, the partner still comes.
            Partner::Absent => self.verdicts.of_other_end(&endpoint).unwrap_or(Reason::NoPartner),
            Partner::Foreign(other) => {
                self.offers.note(other, Reason::ForeignNamespace);
                Reason::ForeignNamespace
            }
            Partner::Ambiguous => return Err(Reason::Ambiguous),
            Partner::Found(partner) if self.offers.get(endpoint.id).is_none() => {
                match self.partner_lives(partner, id) {
                    Ok(()) => return self.pair(partner, endpoint, waiter, now),
                    Err(Reason::NotConnected) => {
                        self.refuse_offer(partner, Reason::NotConnected, now);
                        Reason::NoPartner
                    }
                    Err(reason) => {
                        self.refuse_offer(partner, reason, now);
                        return Err(reason);
                    }
                }
            }
            Partner::Found(_) => Reason::NoPartner,
        };
        self.wait_for_partner(endpoint, waiter, note, now)
    }

    fn wait_for_partner(
        &mut self,
        endpoint: Endpoint,
        waiter: Waiter,
        note: Reason,
        now: Instant,
    ) -> Result<(), Reason> {
        if let Some(first) = self.offers.get(endpoint.id).and_then(|offer| offer.waiters.first()).copied()
            && let (Some(owner), Some(peer)) = (self.peer(first.client), self.peer(waiter.client))
        {
            let (owner, party) = (self.party(owner, endpoint.id), self.party(peer, endpoint.id));
            self.policy.judge(&owner, &party, ports(&endpoint))?;
        }
        self.offers.insert(endpoint, waiter, now)?;
        self.offers.note(endpoint.id, note);
        if let Some(client) = self.clients.get_mut(&waiter.client) {
            client.offers.insert(waiter.token, endpoint.id);
        }
        Ok(())
    }

    /// Whether the waiting socket is still open. One that was closed silently must not be paired with a
    /// newer connection of the same addresses: between different users that would be a way to listen in,
    /// so there it must be known for certain.
    fn partner_lives(&mut self, partner: SocketId, id: u64) -> Result<(), Reason> {
        let offer = self.offers.get(partner).ok_or(Reason::NotConnected)?;
        let owner = offer.waiters.first().and_then(|waiter| self.peer(waiter.client)).map(|peer| peer.uid);
        let same_uid = owner == self.peer(id).map(|peer| peer.uid);
        match self.diag.as_mut().and_then(|diag: &mut Diag| diag.alive(&offer.endpoint)) {
            Some(true) => Ok(()),
            Some(false) => Err(Reason::NotConnected),
            None if same_uid => Ok(()),
            None => Err(Reason::ForeignUid),
        }
    }

    /// Pairs a waiting socket (role A) with the one just offered (role B).
    fn pair(&mut self, partner: SocketId, endpoint: Endpoint, waiter: Waiter, now: Instant) -> Result<(), Reason> {
        let created = self.admit(partner, &endpoint, waiter).and_then(|ends| {
            self.connections.create(ends).map_err(|e| {
                self.throttle.warn(now, format_args!("cannot make a connection's memory: {e}"));
                Reason::ResourceLimit
            })
        });
        let number = match created {
            Ok(number) => number,
            Err(reason) => {
                self.refuse_offer(partner, reason, now);
                return Err(reason);
            }
        };
        self.totals.pairs += 1;
        let waiters = self.offers.remove(partner).map(|offer: Offer| offer.waiters).unwrap_or_default();
        for waiting in waiters {
            self.hand_out((number, Role::A), waiting, now);
        }
        self.hand_out((number, Role::B), waiter, now);
        Ok(())
    }

    /// Checks policy and bounds; returns both ends with their owners.
    fn admit(&self, partner: SocketId, endpoint: &Endpoint, waiter: Waiter) -> Result<[(Endpoint, u32); 2], Reason> {
        let offer = self.offers.get(partner).ok_or(Reason::NoPartner)?;
        let first = offer.waiters.first().and_then(|w| self.peer(w.client)).ok_or(Reason::NoPartner)?;
        let second = self.peer(waiter.client).ok_or(Reason::NoPartner)?;
        self.policy.judge(&self.party(first, partner), &self.party(second, endpoint.id), ports(endpoint))?;
        if self.connections.len() as u64 >= self.connections_max() {
            return Err(Reason::TableFull);
        }
        let charged = |uid| self.connections.charged_bytes(uid) + self.meetings.charged_bytes(uid);
        let over = |uid| charged(uid) + CONNECTION_BYTES_MIN > self.policy.memory_per_uid_bytes;
        if over(first.uid) || over(second.uid) {
            return Err(Reason::MemoryCap);
        }
        Ok([(offer.endpoint, first.uid), (*endpoint, second.uid)])
    }

    fn peer(&self, id: u64) -> Option<&Peer> {
        self.clients.get(&id).map(|client| &client.peer)
    }

    fn party<'a>(&self, peer: &'a Peer, id: SocketId) -> Party<'a> {
        let netns_is_own = id.netns == self.own_netns;
        Party { uid: peer.uid, gid: peer.gid, cgroup: &peer.cgroup, netns: id.netns, netns_is_own }
    }

    /// Takes a waiting socket out of the table and tells all who wait for it.
    pub(crate) fn refuse_offer(&mut self, id: SocketId, reason: Reason, now: Instant) {
        if let Some(offer) = self.offers.remove(id) {
            self.refuse_waiters(offer, reason, now);
        }
    }

    pub(crate) fn refuse_waiters(&mut self, offer: Offer, reason: Reason, now: Instant) {
        for waiter in offer.waiters {
            self.remember(offer.endpoint, waiter.client, reason);
            if let Some(client) = self.clients.get_mut(&waiter.client) {
                client.offers.remove(&waiter.token);
            }
            self.refuse(waiter.client, waiter.token, reason, now);
        }
    }

    /// A socket that nobody asks for any more: its `ringway run` learns why it was not upgraded.
    fn account_for(&mut self, id: u64, token: u64, now: Instant) {
        if let Some(client) = self.clients.get(&id)
            && let Some(offer) = client.offers.get(&token).and_then(|socket| self.offers.get(*socket))
        {
            self.runs.count_refusal(client.run_id, client.peer.uid, offer.verdict(now));
        }
    }

    fn withdraw(&mut self, id: u64, token: u64) {
        if let Some(socket) = self.clients.get_mut(&id).and_then(|client| client.offers.remove(&token)) {
            self.offers.withdraw(socket, Waiter { client: id, token });
        }
    }

    fn on_closed(&mut self, id: u64, cookie: u64, now: Instant) {
        if let Some(end) = self.clients.get_mut(&id).and_then(|client| client.ends.remove(&cookie)) {
            self.connections.leave(end, id, now);
        }
    }

    fn on_demoted(&mut self, id: u64, message: Message) {
        if let Some(end) = self.clients.get(&id).and_then(|client| client.ends.get(&message.cookie)) {
            self.connections.demote(*end, message.reason);
        }
    }

    pub(crate) fn flush_client(&mut self, id: u64, now: Instant) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        match client.flush(&self.connections) {
            Flush::Done if client.closing => self.drop_client(id, "", now),
            Flush::Dead => self.drop_client(id, "", now),
            Flush::Done | Flush::Full => self.rewatch(id),
        }
    }

    /// Watches the client for what can make progress. (A queue held up by descriptors in flight is tried
    /// again by the sweep; being writable does not help it.)
    pub(crate) fn rewatch(&mut self, id: u64) {
        if let Some(client) = self.clients.get(&id) {
            if client.stuck {
                self.restless.insert(id);
            }
            let (read, write) = (client.paused_until.is_none(), !client.queue.is_empty() && !client.stuck);
            let _ = self.poller.watch(&client.socket, Source::Client(id), read, write);
        }
    }

    /// Forgets a client: its offers leave the table, its ends become suspect. A line is logged if there is
    /// a problem to tell.
    pub(crate) fn drop_client(&mut self, id: u64, problem: &str, now: Instant) {
        let tokens: Vec<u64> = self.clients.get(&id).into_iter().flat_map(|c| c.offers.keys().copied()).collect();
        for token in tokens {
            self.account_for(id, token, now);
        }
        let Some(client) = self.clients.remove(&id) else { return };
        self.restless.remove(&id);
        self.verdicts.forget_client(id);
        if let Some(session) = &client.session {
            self.retired.add(session.page());
            self.runs.retire(client.run_id, client.peer.uid, session.page());
        }
        if !problem.is_empty() {
            self.totals.clients_dropped += 1;
            self.throttle.warn(now, format_args!("{} dropped: {problem}", describe(&client)));
        }
        for (token, socket) in &client.offers {
            self.offers.withdraw(*socket, Waiter { client: id, token: *token });
        }
        for end in client.ends.values() {
            self.connections.leave(*end, id, now);
        }
        if let Some(count) = self.clients_by_uid.get_mut(&client.peer.uid) {
            *count -= 1;
            if *count == 0 {
                self.clients_by_uid.remove(&client.peer.uid);
            }
        }
    }
}

fn ports(endpoint: &Endpoint) -> [u16; 2] {
    [endpoint.tuple.local.port(), endpoint.tuple.remote.port()]
}

fn describe(client: &Client) -> String {
    format!("client pid {} (uid {}, {:?})", client.peer.pid, client.peer.uid, client.peer.comm)
}
