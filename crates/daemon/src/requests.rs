//! Serves the control socket.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use ringway_channel::Reason;
use ringway_channel::rendezvous::PROTOCOL_VERSION;
use ringway_mem::sync::Ordering;
use ringway_port::meeting::message::What;
use rustix::io::{Errno, IoSlice};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::Serialize;

use crate::control::{self, Done, Failure, Offers, ProcessName, Processes, Request, SCHEMA, Status, Tap};
use crate::monitor::Monitor;
use crate::peer::Peer;
use crate::poller::{Ready, Source};
use crate::{observe, paths};

/// Longest request, in bytes.
const REQUEST_BYTES_MAX: usize = 4096;
/// Requests on one connection; `ringway top` lasts for hours with it.
const REQUESTS_MAX: u32 = 100_000;
/// A tool that says or takes nothing for this long is dropped.
const TOOL_TIMEOUT: Duration = Duration::from_secs(60);
/// Rows in one answer.
const ROWS_MAX: usize = 2048;

/// A connected tool.
pub(crate) struct Tool {
    pub(crate) socket: OwnedFd,
    pub(crate) peer: Peer,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Goes with the first byte of `output`.
    attachment: Option<OwnedFd>,
    requests: u32,
    active: Instant,
}

/// An answer, encoded, with a descriptor if one belongs to it.
type Answer = (Vec<u8>, Option<OwnedFd>);

fn document(value: &impl Serialize) -> Answer {
    let mut bytes = serde_json::to_vec(value).unwrap_or_default();
    bytes.push(b'\n');
    (bytes, None)
}

fn failure(error: impl Into<String>) -> Answer {
    document(&Failure { schema: SCHEMA, error: error.into() })
}

impl Monitor {
    pub(crate) fn accept_tools(&mut self, now: Instant) {
        while let Some(socket) = self.accept(Source::Tools, now) {
            let Ok(peer) = Peer::of(&socket) else { continue };
            let most = self.budget.tools_max;
            if self.tools.len() >= most {
                self.throttle.warn(now, format_args!("more than {most} tools at once, uid {} refused", peer.uid));
                continue;
            }
            let id = self.next_id();
            if self.poller.add(&socket, Source::Tool(id)).is_ok() {
                let (input, output) = (Vec::new(), Vec::new());
                let tool = Tool { socket, peer, input, output, attachment: None, requests: 0, active: now };
                self.tools.insert(id, tool);
            }
        }
    }

    pub(crate) fn on_tool(&mut self, id: u64, event: Ready, now: Instant) {
        let Some(mut tool) = self.tools.remove(&id) else { return };
        let keep = if event.writable { tool.flush() } else { self.serve_tool(&mut tool, now) };
        if keep && (!event.hung_up || event.readable) {
            let waiting = !tool.output.is_empty();
            let _ = self.poller.watch(&tool.socket, Source::Tool(id), !waiting, waiting);
            tool.active = now;
            self.tools.insert(id, tool);
        }
    }

    /// Reads and answers at most one request; `false` ends the connection.
    fn serve_tool(&mut self, tool: &mut Tool, now: Instant) -> bool {
        let mut bytes = [0u8; REQUEST_BYTES_MAX];
        match rustix::io::read(&tool.socket, &mut bytes[..]) {
            Ok(0) => return false,
            Ok(got) => tool.input.extend_from_slice(&bytes[..got]),
            Err(Errno::AGAIN | Errno::INTR) => return true,
            Err(_) => return false,
        }
        let Some(end) = tool.input.iter().position(|byte| *byte == b'\n') else {
            return tool.input.len() < REQUEST_BYTES_MAX;
        };
        tool.requests += 1;
        let (answer, attachment) = match serde_json::from_slice::<Request>(&tool.input[..end]) {
            // What follows would be a second request before the first answer: not part of the protocol.
            _ if tool.input.len() > end + 1 => failure("one request at a time"),
            Err(e) => failure(format!("request not understood: {e}")),
            Ok(request) => self.answer(&tool.peer, request, now),
        };
        tool.input.clear();
        (tool.output, tool.attachment) = (answer, attachment);
        tool.requests < REQUESTS_MAX && tool.flush()
    }

    fn answer(&mut self, peer: &Peer, request: Request, now: Instant) -> Answer {
        let trusted = self.sees_all(peer);
        match request {
            Request::Status => document(&self.status(peer, now)),
            Request::Connections { from } => document(&self.list_connections(peer, from)),
            Request::Processes => document(&self.list_processes(peer)),
            Request::Offers => document(&self.list_offers(peer, now)),
            Request::Meetings => document(&self.list_meetings(peer)),
            Request::Run { run_id } => document(&self.describe_run(peer, run_id)),
            Request::Tap { connection } => self.tap(peer, connection),
            Request::Reload if trusted => match self.reload() {
                Ok(()) => document(&Done { schema: SCHEMA, done: true }),
                Err(e) => failure(format!("the old policy stays in force: {e}")),
            },
            Request::Takeover { format } if trusted => match self.prepare_handover(format) {
                Ok(successor) => (document(&Done { schema: SCHEMA, done: true }).0, Some(successor)),
                Err(problem) => failure(problem),
            },
            Request::Reload | Request::Takeover { .. } => failure("only root and the monitor's own user may do this"),
            Request::Metrics => document(&control::Metrics { schema: SCHEMA, text: self.metrics_text() }),
        }
    }

    /// Root and the monitor's own user see everything, others what is theirs.
    fn sees_all(&self, peer: &Peer) -> bool {
        peer.uid == 0 || peer.uid == rustix::process::geteuid().as_raw()
    }

    pub(crate) fn sees(&self, peer: &Peer, uid: u32) -> bool {
        peer.uid == uid || self.sees_all(peer)
    }

    fn status(&self, peer: &Peer, now: Instant) -> Status {
        let named = |(i, count): (usize, &u64)| {
            let reason = Reason::from_number(i as u16).filter(|_| *count > 0)?;
            Some((reason.name().to_string(), *count))
        };
        Status {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").into(),
            protocol_version: PROTOCOL_VERSION,
            pid: std::process::id(),
            uid: rustix::process::geteuid().as_raw(),
            uptime_s: now.saturating_duration_since(self.started).as_secs(),
            socket: paths::monitor_socket(&self.listeners.dir),
            policy_file: self.config.clone(),
            clients: self.clients.len() as u64,
            clients_max: self.clients_max(),
            offers: self.offers.len() as u64,
            offers_max: self.policy.limits.offers,
            connections: self.connections.len() as u64,
            connections_max: self.connections_max(),
            memory_bytes: self.connections.charged_by_uid().filter(|(uid, _)| self.sees(peer, *uid)).map(|c| c.1).sum(),
            memory_per_uid_bytes: self.policy.memory_per_uid_bytes,
            open_files_max: self.budget.descriptors,
            short_of_open_files: self.budget.is_short(&self.policy),
            offers_total: self.totals.offers,
            pairs_total: self.totals.pairs,
            attaches_total: self.totals.attaches,
            clients_dropped_total: self.totals.clients_dropped,
            refusals_total: self.totals.refusals.iter().enumerate().filter_map(named).collect(),
        }
    }

    fn list_connections(&self, peer: &Peer, from: u64) -> control::Connections {
        let visible = |c: &&crate::connections::Connection| c.ends.iter().any(|end| self.sees(peer, end.uid));
        let mut rows = self.connections.from(from).filter(visible);
        let connections: Vec<_> = rows.by_ref().take(ROWS_MAX).map(|c| self.describe_connection(c)).collect();
        control::Connections { schema: SCHEMA, connections, next: rows.next().map(|c| c.number) }
    }

    fn describe_connection(&self, connection: &crate::connections::Connection) -> control::Connection {
        let end = |i: usize| {
            let end = &connection.ends[i];
            let names = end.members.iter().filter_map(|id| self.process_name(*id)).collect();
            observe::end(end, ["a", "b"][i], names)
        };
        control::Connection {
            connection: connection.number,
            memory_bytes: connection.charged_bytes,
            ends: [end(0), end(1)],
            directions: observe::directions(&connection.ring),
        }
    }

    fn process_name(&self, id: u64) -> Option<ProcessName> {
        let peer = &self.clients.get(&id)?.peer;
        Some(ProcessName { pid: peer.pid, comm: peer.comm.clone() })
    }

    fn list_processes(&self, peer: &Peer) -> Processes {
        let rows = self.clients.values().filter(|client| self.sees(peer, client.peer.uid));
        let describe = |client: &crate::client::Client| {
            let page = client.session.as_ref()?.page();
            let counters = page.counters.snapshot().into_iter().map(|(name, n)| (name.to_string(), n)).collect();
            let refusals = Reason::ALL.iter().filter_map(|reason| {
                let count = page.refusals.get(*reason as usize)?.load(Ordering::Relaxed);
                (count > 0).then(|| (reason.name().to_string(), count))
            });
            Some(control::Process {
                process: client.id,
                pid: client.peer.pid,
                uid: client.peer.uid,
                gid: client.peer.gid,
                comm: client.peer.comm.clone(),
                cgroup: client.peer.cgroup.clone(),
                profile: observe::profile(page.profile.load(Ordering::Relaxed)).into(),
                connections: client.ends.len() as u64,
                offers: client.offers.len() as u64,
                replies_queued: client.queue.len() as u64,
                counters,
                refusals: refusals.collect::<BTreeMap<_, _>>(),
            })
        };
        Processes { schema: SCHEMA, processes: rows.filter_map(describe).collect() }
    }

    fn list_meetings(&self, peer: &Peer) -> control::Meetings {
        let sees_all = self.sees_all(peer);
        let seen = self.meetings.iter().filter(|(_, meeting)| sees_all || meeting.owner.uid == peer.uid);
        let describe = |(name, meeting): (&String, &crate::meetings::Meeting)| control::Meeting {
            name: name.clone(),
            uid: meeting.owner.uid,
            is_switch: meeting.what == What::Switch,
            memory_bytes: meeting.memory_bytes(),
        };
        control::Meetings { schema: SCHEMA, meetings: seen.take(ROWS_MAX).map(describe).collect() }
    }

    fn list_offers(&self, peer: &Peer, now: Instant) -> Offers {
        let owner = |offer: &crate::offers::Offer| offer.waiters.first().and_then(|w| self.clients.get(&w.client));
        let visible = |offer: &&crate::offers::Offer| owner(offer).is_some_and(|c| self.sees(peer, c.peer.uid));
        let mut rows = self.offers.iter().filter(visible);
        let describe = |offer: &crate::offers::Offer| control::Offer {
            local: offer.endpoint.tuple.local,
            remote: offer.endpoint.tuple.remote,
            netns: offer.endpoint.id.netns,
            cookie: offer.endpoint.id.cookie,
            uid: owner(offer).map_or(u32::MAX, |client| client.peer.uid),
            age_ms: now.saturating_duration_since(offer.since).as_millis() as u64,
            reason: offer.reason.name().into(),
            processes: offer.waiters.iter().filter_map(|w| self.process_name(w.client)).collect(),
        };
        let offers: Vec<_> = rows.by_ref().take(ROWS_MAX).map(describe).collect();
        let decided = |verdict: &crate::verdicts::Verdict| control::Verdict {
            local: verdict.endpoint.tuple.local,
            remote: verdict.endpoint.tuple.remote,
            netns: verdict.endpoint.id.netns,
            cookie: verdict.endpoint.id.cookie,
            uid: verdict.uid,
            reason: verdict.reason.name().into(),
        };
        let verdicts = self.verdicts.iter().filter(|v| self.sees(peer, v.uid)).map(decided).collect();
        Offers { schema: SCHEMA, offers, verdicts, left_out: rows.count() as u64 }
    }

    fn tap(&self, peer: &Peer, number: u64) -> Answer {
        let Some(connection) = self.connections.get(number) else {
            return failure(format!("there is no connection {number}"));
        };
        if !connection.ends.iter().any(|end| self.sees(peer, end.uid)) {
            return failure(format!("connection {number} belongs to another user"));
        }
        // A second open file: reading it is all that can be done with it.
        match std::fs::File::open(format!("/proc/self/fd/{}", connection.ring.as_raw_fd())) {
            Ok(ring) => {
                let connection = self.describe_connection(connection);
                (document(&Tap { schema: SCHEMA, connection }).0, Some(ring.into()))
            }
            Err(e) => failure(format!("the ring cannot be opened for reading: {e}")),
        }
    }

    pub(crate) fn drop_silent_tools(&mut self, now: Instant) {
        self.tools.retain(|_, tool| now.saturating_duration_since(tool.active) < TOOL_TIMEOUT);
    }
}

impl Tool {
    /// Sends what fits; `false` if the tool is gone.
    fn flush(&mut self) -> bool {
        while !self.output.is_empty() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let fds: Vec<_> = self.attachment.iter().map(|fd| fd.as_fd()).collect();
            if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&fds)) {
                return false;
            }
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match sendmsg(&self.socket, &[IoSlice::new(&self.output)], &mut control, flags) {
                Ok(sent) => {
                    drop(fds);
                    self.output.drain(..sent);
                    self.attachment = None;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        true
    }
}
