//! A core's sockets: numbers over a `Stack`, and the turns of its loop, each of which tells the epoll sets.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::{Duration, Instant};

use ringway_stack::{ConnId, Event, ListenerId, Ready, Source, Stack};

use crate::conf::Conf;
use crate::epoll::Epoll;
use crate::errno::{Errno, Result};
use crate::pipe::Pipe;
use crate::signal;
use crate::socket::{Role, Socket, SourceRange};

/// Sockets beside the connections: listeners, epoll sets, ends of pipes.
const OTHERS_MAX: usize = 1024;
/// A wait looks at least so often whether a signal has come.
const SLICE: Duration = Duration::from_millis(100);
/// After so many calls that had to answer `EAGAIN` the stack moves by itself: the program polls without waiting.
const IDLE_CALLS: u32 = 64;
/// How long the end of a context waits until everything that was sent has arrived.
const FAREWELL: Duration = Duration::from_secs(2);

/// What a socket number stands for.
#[derive(Debug)]
pub(crate) enum Kind {
    Socket(Box<Socket>),
    Epoll(Epoll),
    /// An end of the pipe of that index.
    Pipe {
        pipe: usize,
        is_writer: bool,
    },
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) nonblocking: bool,
    /// Epoll sets that it is in.
    pub(crate) watchers: Vec<usize>,
}

/// Whether and how long a call may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) nonblocking: bool,
    /// None is for ever.
    pub(crate) timeout: Option<Duration>,
}

pub(crate) struct State {
    pub(crate) stack: Stack,
    entries: Vec<Option<Entry>>,
    free: BinaryHeap<Reverse<usize>>,
    entries_max: usize,
    /// Numbers of connections, by their index, with their generation.
    connections: Vec<(u32, usize)>,
    listeners: HashMap<ListenerId, usize>,
    pub(crate) pipes: Vec<Pipe>,
    /// Sockets that were bound to a port, by it.
    pub(crate) bound: HashMap<u16, Vec<usize>>,
    pub(crate) next_port: u16,
    pub(crate) ranges: Vec<SourceRange>,
    /// Of sockets that are made from now on (`tcp_timeout`).
    pub(crate) keepalive: bool,
    events: Vec<Event>,
    idle_calls: u32,
}

impl State {
    pub(crate) fn new(stack: Stack, conf: &Conf) -> State {
        State {
            stack,
            entries: Vec::new(),
            free: BinaryHeap::new(),
            entries_max: conf.max_concurrency as usize + OTHERS_MAX,
            connections: Vec::new(),
            listeners: HashMap::new(),
            pipes: Vec::new(),
            bound: HashMap::new(),
            next_port: 0,
            ranges: Vec::new(),
            keepalive: conf.timeout_s > 0,
            events: Vec::new(),
            idle_calls: 0,
        }
    }

    /// Gives the lowest free number to something.
    ///
    /// # Errors
    /// `EMFILE`: `max_concurrency` is reached.
    pub(crate) fn insert(&mut self, kind: Kind, nonblocking: bool) -> Result<usize> {
        let entry = Entry { kind, nonblocking, watchers: Vec::new() };
        if let Some(Reverse(number)) = self.free.pop() {
            self.entries[number] = Some(entry);
            return Ok(number);
        }
        self.room()?;
        self.entries.push(Some(entry));
        Ok(self.entries.len() - 1)
    }

    /// Whether there is a number left.
    ///
    /// # Errors
    /// `EMFILE`.
    pub(crate) fn room(&self) -> Result<()> {
        let has_room = !self.free.is_empty() || self.entries.len() < self.entries_max;
        if has_room { Ok(()) } else { Err(Errno(libc::EMFILE)) }
    }

    /// Numbers that there can be.
    pub(crate) fn numbers_max(&self) -> usize {
        self.entries_max
    }

    /// # Errors
    /// `EBADF`.
    pub(crate) fn entry(&mut self, number: usize) -> Result<&mut Entry> {
        self.entries.get_mut(number).and_then(Option::as_mut).ok_or(Errno::BADF)
    }

    /// # Errors
    /// `EBADF`; `ENOTSOCK` for an epoll set or a pipe.
    pub(crate) fn socket(&mut self, number: usize) -> Result<&mut Socket> {
        match &mut self.entry(number)?.kind {
            Kind::Socket(socket) => Ok(socket),
            _ => Err(Errno::NOTSOCK),
        }
    }

    /// # Errors
    /// `EBADF`; `EINVAL` for what is no epoll set.
    pub(crate) fn epoll(&mut self, number: usize) -> Result<&mut Epoll> {
        match &mut self.entry(number)?.kind {
            Kind::Epoll(epoll) => Ok(epoll),
            _ => Err(Errno::INVAL),
        }
    }

    /// Takes the number away from what it stands for.
    pub(crate) fn remove(&mut self, number: usize) -> Option<Entry> {
        let entry = self.entries.get_mut(number)?.take()?;
        self.free.push(Reverse(number));
        for set in &entry.watchers {
            if let Ok(epoll) = self.epoll(*set) {
                let _ = epoll.remove(number);
            }
        }
        Some(entry)
    }

    /// From now on events of `conn` are `number`'s.
    pub(crate) fn own(&mut self, conn: ConnId, number: usize) {
        let index = conn.index as usize;
        if index >= self.connections.len() {
            self.connections.resize(index + 1, (0, usize::MAX));
        }
        self.connections[index] = (conn.generation, number);
    }

    pub(crate) fn own_listener(&mut self, listener: ListenerId, number: usize) {
        self.listeners.insert(listener, number);
    }

    pub(crate) fn disown_listener(&mut self, listener: ListenerId) {
        self.listeners.remove(&listener);
    }

    fn owner(&self, source: Source) -> Option<usize> {
        match source {
            Source::Listener(listener) => self.listeners.get(&listener).copied(),
            Source::Connection(conn) => {
                let (generation, number) = *self.connections.get(conn.index as usize)?;
                let is_ours = generation == conn.generation && number != usize::MAX;
                is_ours.then_some(number)
            }
        }
    }

    /// Something happened at a socket: the sets that it is in look at it.
    pub(crate) fn mark(&mut self, number: usize) {
        let Some(Some(entry)) = self.entries.get(number) else { return };
        for i in 0..entry.watchers.len() {
            let Some(Some(entry)) = self.entries.get(number) else { return };
            let set = entry.watchers[i];
            if let Ok(epoll) = self.epoll(set) {
                epoll.mark(number);
            }
        }
    }

    /// What a socket is ready for at present, in epoll's bits.
    pub(crate) fn level(&mut self, number: usize) -> u32 {
        let Some(Some(entry)) = self.entries.get(number) else { return 0 };
        let ready = match &entry.kind {
            Kind::Epoll(_) => Ready::empty(),
            Kind::Pipe { pipe, is_writer } => self.pipes[*pipe].readiness(*is_writer),
            Kind::Socket(socket) => match socket.role {
                // As Linux shows a socket that was never connected.
                Role::Fresh => Ready::WRITABLE | Ready::HANGUP,
                Role::Listening(listener) => self.stack.engine().acceptable(listener).unwrap_or_default(),
                Role::Open { conn, .. } => self.stack.engine().readiness(conn).unwrap_or(Ready::HANGUP),
            },
        };
        ready.bits().into()
    }

    /// Sends, receives, runs timers, and tells the epoll sets; waits until something happens, no longer than `timeout`.
    ///
    /// # Errors
    /// `EIO` if the port failed, which is said once more by each call.
    pub(crate) fn turn(&mut self, timeout: Duration) -> Result<()> {
        self.idle_calls = 0;
        let mut events = std::mem::take(&mut self.events);
        let result = self.stack.wait(&mut events, Some(timeout));
        for event in &events {
            if let Some(number) = self.owner(event.source) {
                self.mark(number);
            }
        }
        self.events = events;
        result.map_err(|_| Errno(libc::EIO))
    }

    /// Calls `attempt` until it answers something else than `EAGAIN`, with turns in between.
    ///
    /// # Errors
    /// Those of `attempt`; `EAGAIN` if the time is over or there is none, `EINTR` if a registered signal came.
    pub(crate) fn block<T>(
        &mut self,
        patience: Patience,
        mut attempt: impl FnMut(&mut State) -> Result<T>,
    ) -> Result<T> {
        let signals = signal::seen();
        let deadline = patience.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            match attempt(self) {
                Err(Errno::AGAIN) => {}
                answer => return answer,
            }
            if patience.nonblocking {
                self.idle_calls += 1;
                if self.idle_calls < IDLE_CALLS {
                    return Err(Errno::AGAIN);
                }
                self.turn(Duration::ZERO)?;
                return attempt(self);
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Errno::AGAIN);
            }
            self.turn(left.unwrap_or(SLICE).min(SLICE))?;
            if signal::seen() != signals {
                return Err(Errno::INTR);
            }
        }
    }

    /// Closes everything, and goes on until what was sent has arrived or the time is over.
    pub(crate) fn end(&mut self) {
        for number in 0..self.entries.len() {
            let _ = self.close(number);
        }
        let deadline = Instant::now() + FAREWELL;
        while self.stack.engine().counts().0 > 0 && Instant::now() < deadline {
            if self.turn(Duration::from_millis(10)).is_err() {
                return;
            }
        }
        // The last acknowledgements leave.
        let _ = self.turn(Duration::ZERO);
    }
}
