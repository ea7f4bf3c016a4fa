//! The generator: which link asks when, and what becomes of it.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use ringway_port::clock::monotonic_ns;
use ringway_stack::{ConnId, Error, Event, Ready, Sockets, Source};

use super::answer::{Outcome, Taken};
use super::links::{Links, Stage};
use super::schedule::Schedule;
use super::tally::Tally;
use super::target::{Request, Target};

/// Received at a time.
const BUFFER_BYTES: usize = 64 << 10;
/// Connections being opened at a time, so that no listener's queue overflows.
const OPENING_MAX: u32 = 512;
/// A link that failed begins again after this.
const REST_NS: u64 = 100_000_000;
/// Between two looks for requests that take too long.
const SWEEP_NS: u64 = 500_000_000;
/// The longest wait for events.
const NAP_NS: u64 = 50_000_000;

/// What becomes of a connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It takes the next request.
    Keep,
    /// The other side ends it.
    Peer,
    /// We end it, and its port is taken for another minute.
    Own,
    /// We reset it.
    Reset,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) connections: u32,
    pub(crate) ending: Ending,
    /// Requests in a second, whatever becomes of them; `None` asks again when there is an answer.
    pub(crate) rate: Option<f64>,
    /// A request that takes longer has failed.
    pub(crate) timeout: Duration,
    /// Requests in all.
    pub(crate) requests_max: u64,
}

pub(crate) struct Generator {
    targets: Vec<Target>,
    plan: Plan,
    links: Links,
    schedule: Schedule,
    tally: Tally,
    /// Links that can ask: open ones, or absent ones where each request has its own connection.
    ready: VecDeque<u32>,
    /// Links whose connection is to be opened.
    absent: VecDeque<u32>,
    /// Links that failed, until `rest_until_ns`.
    resting: Vec<u32>,
    rest_until_ns: u64,
    opening: u32,
    is_asking: bool,
    asked: u64,
    /// Whether the rate was missed by more than a second.
    was_late: bool,
    sweep_at_ns: u64,
    now_ns: u64,
    was_connected: bool,
    /// The first refusal.
    refusal: Option<Error>,
    buffer: Box<[u8]>,
}

impl Generator {
    /// Connections go to `targets` in turn; there is at least one.
    pub(crate) fn new(targets: Vec<Target>, plan: Plan) -> Generator {
        let keeps = plan.ending == Ending::Keep;
        let all = 0..plan.connections;
        Generator {
            links: Links::new(plan.connections),
            schedule: Schedule::new(plan.rate),
            tally: Tally::new(),
            ready: if keeps { VecDeque::new() } else { all.clone().collect() },
            absent: if keeps { all.collect() } else { VecDeque::new() },
            resting: Vec::new(),
            rest_until_ns: 0,
            opening: 0,
            is_asking: false,
            asked: 0,
            was_late: false,
            sweep_at_ns: 0,
            now_ns: monotonic_ns(),
            was_connected: false,
            refusal: None,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            targets,
            plan,
        }
    }

    /// Whether all connections are there that are kept.
    pub(crate) fn is_connected(&self) -> bool {
        self.plan.ending != Ending::Keep || self.ready.len() as u32 == self.links.len()
    }

    /// Connections that are there and kept.
    pub(crate) fn open_now(&self) -> u32 {
        self.ready.len() as u32
    }

    /// Why the first connection that could not be opened could not.
    pub(crate) fn refusal(&self) -> Option<Error> {
        self.refusal
    }

    /// From now on requests are made.
    pub(crate) fn start(&mut self) {
        self.is_asking = true;
        self.now_ns = monotonic_ns();
        self.schedule.start(self.now_ns);
    }

    /// Counts from zero.
    pub(crate) fn start_tally(&mut self) {
        self.tally = Tally::new();
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn was_late(&self) -> bool {
        self.was_late
    }

    /// Whether as many requests were made as wanted, and have come to their end.
    pub(crate) fn is_done(&self) -> bool {
        self.asked >= self.plan.requests_max && self.tally.answers() + self.tally.failures() >= self.asked
    }

    /// Why no connection could be opened, if that is so.
    pub(crate) fn hopeless(&self) -> Option<Error> {
        self.refusal.filter(|_| !self.was_connected)
    }

    /// How long to wait for events before the next turn.
    pub(crate) fn nap(&self) -> Duration {
        let due_ns = self.schedule.due_ns().filter(|_| self.is_asking && !self.ready.is_empty());
        let until_due_ns = due_ns.map_or(NAP_NS, |due_ns| due_ns.saturating_sub(monotonic_ns()));
        Duration::from_nanos(until_due_ns.min(NAP_NS))
    }

    /// Polls, and does what that allows.
    ///
    /// # Errors
    /// The port or the kernel failed.
    pub(crate) fn turn(&mut self, sockets: &mut impl Sockets, events: &mut Vec<Event>) -> io::Result<()> {
        self.begin(sockets);
        sockets.poll(events, Some(self.nap()))?;
        self.now_ns = monotonic_ns();
        for event in events.iter() {
            if let Source::Connection(id) = event.source {
                self.on_event(sockets, id, event.ready);
            }
        }
        if self.now_ns >= self.sweep_at_ns {
            self.sweep_at_ns = self.now_ns + SWEEP_NS;
            self.sweep(sockets);
        }
        Ok(())
    }

    /// Opens what is to be open, and makes the requests that are due.
    fn begin(&mut self, sockets: &mut impl Sockets) {
        if !self.resting.is_empty() && self.now_ns >= self.rest_until_ns {
            let keeps = self.plan.ending == Ending::Keep;
            let place = if keeps { &mut self.absent } else { &mut self.ready };
            place.extend(self.resting.drain(..));
        }
        while self.opening < OPENING_MAX {
            let Some(number) = self.absent.pop_front() else { break };
            self.open(sockets, number);
        }
        while self.may_ask() {
            let due_ns = self.schedule.due_ns().unwrap_or(self.now_ns);
            if due_ns > self.now_ns {
                break;
            }
            let Some(number) = self.ready.pop_front() else {
                self.was_late |= self.schedule.is_late(self.now_ns);
                break;
            };
            if self.plan.ending == Ending::Keep || self.open(sockets, number) {
                self.ask(sockets, number, due_ns);
            }
        }
    }

    #[inline]
    fn may_ask(&self) -> bool {
        self.is_asking && self.asked < self.plan.requests_max
    }

    /// Whether there is a connection now, which may still be opening.
    fn open(&mut self, sockets: &mut impl Sockets, number: u32) -> bool {
        let at = self.target(number).at;
        match sockets.connect(at) {
            Ok(id) => {
                self.links.bind(number, id);
                let link = self.links.get(number);
                (link.stage, link.due_ns) = (Stage::Opening, self.now_ns);
                self.opening += 1;
                true
            }
            Err(error) => {
                let error = error.raw_os_error().and_then(Error::from_errno).unwrap_or(Error::Invalid);
                self.links.get(number).stage = Stage::Absent;
                self.fail(sockets, number, error);
                false
            }
        }
    }

    #[inline]
    fn target(&self, number: u32) -> &Target {
        &self.targets[number as usize % self.targets.len()]
    }

    /// Makes the request that was due at `due_ns`.
    #[inline]
    fn ask(&mut self, sockets: &mut impl Sockets, number: u32, due_ns: u64) {
        self.schedule.asked();
        self.asked += 1;
        let answer = self.target(number).request.answer();
        let link = self.links.get(number);
        if link.stage == Stage::Opening {
            self.opening -= 1;
        }
        (link.stage, link.sent, link.answer, link.due_ns) = (Stage::Asking, 0, answer, due_ns);
        self.send(sockets, number);
    }

    /// Sends what is left of the request.
    #[inline]
    fn send(&mut self, sockets: &mut impl Sockets, number: u32) {
        let request = self.targets[number as usize % self.targets.len()].request.bytes();
        let link = self.links.get(number);
        let rest = &request[link.sent as usize..];
        if rest.is_empty() {
            return;
        }
        match sockets.send(link.id, rest) {
            Ok(bytes) => {
                link.sent += bytes as u32;
                self.tally.sent_bytes += bytes as u64;
            }
            Err(Error::WouldBlock) => {}
            Err(error) => self.fail(sockets, number, error),
        }
    }

    #[inline]
    fn on_event(&mut self, sockets: &mut impl Sockets, id: ConnId, ready: Ready) {
        let Some(number) = self.links.find(id) else { return };
        if !self.links.get(number).is_concerned(ready) {
            return;
        }
        if ready.contains(Ready::ERROR)
            && let Some(error) = sockets.take_error(id)
        {
            return self.fail(sockets, number, error);
        }
        if ready.contains(Ready::WRITABLE) {
            self.on_writable(sockets, number);
        }
        if ready.intersects(Ready::READABLE | Ready::READ_HANGUP | Ready::HANGUP) {
            let ends = ready.intersects(Ready::READ_HANGUP | Ready::HANGUP);
            self.receive(sockets, number, id, ends);
        }
    }

    fn on_writable(&mut self, sockets: &mut impl Sockets, number: u32) {
        self.was_connected = true;
        match self.links.get(number).stage {
            Stage::Opening => {
                self.opening -= 1;
                self.tally.opened += 1;
                self.links.get(number).stage = Stage::Idle;
                self.ready.push_back(number);
            }
            Stage::Asking => self.send(sockets, number),
            _ => {}
        }
    }

    /// Takes what has come, as long as it is of connection `id`. `ends` if an end follows what is there.
    #[inline]
    fn receive(&mut self, sockets: &mut impl Sockets, number: u32, id: ConnId, ends: bool) {
        loop {
            let received = sockets.recv(id, &mut self.buffer);
            let bytes = match received {
                Ok(bytes) => bytes,
                Err(Error::WouldBlock) => return,
                Err(error) => return self.fail(sockets, number, error),
            };
            if bytes == 0 {
                return self.on_end(sockets, number);
            }
            self.tally.received_bytes += bytes as u64;
            let link = self.links.get(number);
            match link.answer.take(&self.buffer[..bytes]) {
                Taken::More => {}
                Taken::Done(outcome) => self.finish(sockets, number, outcome),
                Taken::Wrong => return self.fail_by(sockets, number, "the answer is not what was asked for"),
            }
            if bytes < self.buffer.len() && !ends || self.links.find(id) != Some(number) {
                return;
            }
        }
    }

    /// The answer is complete.
    #[inline]
    fn finish(&mut self, sockets: &mut impl Sockets, number: u32, outcome: Outcome) {
        let link = self.links.get(number);
        let id = link.id;
        self.tally.answered(self.now_ns.saturating_sub(link.due_ns), outcome.status);
        match self.plan.ending {
            Ending::Keep if outcome.keeps => {
                link.stage = Stage::Idle;
                match self.schedule.due_ns() {
                    None if self.may_ask() => self.ask(sockets, number, self.now_ns),
                    _ => self.ready.push_back(number),
                }
            }
            Ending::Keep | Ending::Peer => link.stage = Stage::Ending,
            Ending::Own => {
                sockets.close(id);
                self.let_go(number);
            }
            Ending::Reset => {
                sockets.abort(id);
                self.let_go(number);
            }
        }
    }

    /// The other side sends no more.
    fn on_end(&mut self, sockets: &mut impl Sockets, number: u32) {
        let link = self.links.get(number);
        let (stage, id) = (link.stage, link.id);
        if stage == Stage::Asking {
            match link.answer.take_end() {
                Taken::Done(outcome) => self.finish(sockets, number, outcome),
                _ => return self.fail_by(sockets, number, "the server ended the connection before the answer"),
            }
        }
        sockets.close(id);
        if stage == Stage::Idle {
            self.ready.retain(|ready| *ready != number);
        }
        if self.links.find(id) == Some(number) {
            self.let_go(number);
        }
    }

    /// The link's connection has come to its end, as it should.
    fn let_go(&mut self, number: u32) {
        self.links.get(number).stage = Stage::Absent;
        let keeps = self.plan.ending == Ending::Keep;
        let place = if keeps { &mut self.absent } else { &mut self.ready };
        place.push_back(number);
    }

    fn fail(&mut self, sockets: &mut impl Sockets, number: u32, error: Error) {
        self.refusal.get_or_insert(error);
        self.fail_by(sockets, number, &error.to_string());
    }

    #[cold]
    fn fail_by(&mut self, sockets: &mut impl Sockets, number: u32, why: &str) {
        self.tally.failed(why);
        let link = self.links.get(number);
        match core::mem::replace(&mut link.stage, Stage::Absent) {
            Stage::Absent => {}
            stage => {
                sockets.abort(link.id);
                self.opening -= u32::from(stage == Stage::Opening);
                if stage == Stage::Idle {
                    self.ready.retain(|ready| *ready != number);
                }
            }
        }
        if self.resting.is_empty() {
            self.rest_until_ns = self.now_ns + REST_NS;
        }
        self.resting.push(number);
    }

    /// Gives up what takes too long.
    fn sweep(&mut self, sockets: &mut impl Sockets) {
        for number in self.links.overdue(self.now_ns, self.plan.timeout.as_nanos() as u64) {
            match self.links.get(number).stage {
                // It has its answer; only the end is missing.
                Stage::Ending => self.fail_by(sockets, number, "the server did not end the connection"),
                _ => self.fail(sockets, number, Error::TimedOut),
            }
        }
    }

    /// The generator's targets and kinds of requests, for people.
    pub(super) fn describe(&self) -> (Vec<String>, &'static str) {
        let targets = self.targets.iter().map(|target| std::net::SocketAddr::from(target.at).to_string());
        let kind = match self.targets[0].request {
            Request::Http(_) => "http",
            Request::Raw(..) => "raw",
        };
        (targets.collect(), kind)
    }

    /// Whether anything is under way.
    pub(crate) fn awaits(&self) -> bool {
        self.tally.answers() + self.tally.failures() < self.asked
    }
}

#[cfg(test)]
mod tests;
