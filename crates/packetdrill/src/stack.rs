//! The stack under test: an engine, its clock, and what descriptors mean.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::fd::AsRawFd;

use ringway_tcp::{Engine, Error, Instant, PacketBatch, Ready, Shutdown, Source, State};
use ringway_wire::Endpoint;

use crate::address::{self, Family};
use crate::epoll::{Change, EpollSet};
use crate::errno::{Errno, Result};
use crate::settings::{self, Settings};
use crate::socket::{Patience, Role, Socket};

/// Seed of every run, so that the same script sees the same bytes.
const SEED: u64 = 1;
/// Where the clock begins: far enough from 0 that nothing in the past is needed.
const START: Instant = Instant::from_ms(1_000_000);
/// Packets taken from the engine at a time.
const BATCH: usize = 64;
/// Bytes that a pipe holds, as Linux's.
pub(crate) const PIPE_BYTES: usize = 65_536;

pub(crate) enum Object {
    Socket(Box<Socket>),
    Epoll(EpollSet),
    /// The end of a pipe to read from or to write to; the number names the pipe.
    PipeReader(usize),
    PipeWriter(usize),
}

/// A descriptor: an object and the number that the kernel keeps free for it.
struct Entry {
    object: Object,
    _number: File,
}

pub(crate) struct Stack {
    pub(crate) engine: Engine,
    pub(crate) now: Instant,
    pub(crate) silence_is_error: bool,
    settings_flags: String,
    settings_text: String,
    entries: BTreeMap<i32, Entry>,
    pub(crate) pipes: Vec<VecDeque<u8>>,
    left: VecDeque<(Instant, Vec<u8>)>,
}

impl Stack {
    pub(crate) fn new(flags: &str) -> Stack {
        let settings = Settings::new(flags);
        Stack {
            engine: Engine::new(settings.config, SEED),
            now: START,
            silence_is_error: settings.silence_is_error,
            settings_flags: flags.to_owned(),
            settings_text: String::new(),
            entries: BTreeMap::new(),
            pipes: Vec::new(),
            left: VecDeque::new(),
        }
    }

    pub(crate) fn insert(&mut self, object: Object) -> Result<i32> {
        let number = File::open("/dev/null").map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EMFILE)))?;
        let fd = number.as_raw_fd();
        self.entries.insert(fd, Entry { object, _number: number });
        Ok(fd)
    }

    pub(crate) fn knows(&self, fd: i32) -> bool {
        self.entries.contains_key(&fd)
    }

    pub(crate) fn object(&mut self, fd: i32) -> Result<&mut Object> {
        self.entries.get_mut(&fd).map(|entry| &mut entry.object).ok_or(Errno::BADF)
    }

    pub(crate) fn socket_at(&mut self, fd: i32) -> Result<&mut Socket> {
        match self.object(fd)? {
            Object::Socket(socket) => Ok(socket),
            _ => Err(Errno(libc::ENOTSOCK)),
        }
    }

    pub(crate) fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Result<i32> {
        self.read_settings();
        let family = Family::from_domain(domain)?;
        let modes = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        if kind & !modes != libc::SOCK_STREAM || !matches!(protocol, 0 | libc::IPPROTO_TCP) {
            return Err(Errno(libc::EPROTONOSUPPORT));
        }
        self.insert(Object::Socket(Box::new(Socket::new(family, kind & libc::SOCK_NONBLOCK != 0))))
    }

    /// Scripts change sysctls on their way, each between two sockets.
    fn read_settings(&mut self) {
        let text = settings::file_text();
        if text != self.settings_text {
            let mut settings = Settings::new(&self.settings_flags);
            settings.apply_lines(&text);
            *self.engine.config_mut() = settings.config;
            self.settings_text = text;
        }
    }

    pub(crate) fn bind(&mut self, fd: i32, end: Option<Endpoint>) -> Result<()> {
        let socket = self.socket_at(fd)?;
        if socket.role != Role::Fresh || socket.local.is_some() {
            return Err(Errno::INVAL);
        }
        let end = end.ok_or(Errno(libc::EAFNOSUPPORT))?;
        let listens_there =
            |(_, other): (i32, &Socket)| matches!(other.role, Role::Listening(_)) && other.local == Some(end);
        if end.port != 0 && self.sockets().any(listens_there) {
            return Err(Errno(libc::EADDRINUSE));
        }
        self.socket_at(fd)?.local = Some(end);
        Ok(())
    }

    pub(crate) fn listen(&mut self, fd: i32, backlog: i32) -> Result<()> {
        let socket = self.socket_at(fd)?;
        if matches!(socket.role, Role::Listening(_)) {
            return Ok(());
        }
        let (Role::Fresh, Some(local)) = (socket.role, socket.local) else { return Err(Errno::INVAL) };
        let options = socket.options.clone();
        let id = self.engine.listen(local, backlog.max(0) as u32, &options)?;
        self.socket_at(fd)?.role = Role::Listening(id);
        Ok(())
    }

    /// The next connection of a listener: its number and its peer.
    pub(crate) fn accept(&mut self, fd: i32) -> Result<(i32, Endpoint, Family)> {
        let socket = self.socket_at(fd)?;
        let (Role::Listening(listener), family) = (socket.role, socket.family) else { return Err(Errno::INVAL) };
        let id = self.engine.accept(listener)?;
        let (local, remote) = self.engine.endpoints(id)?;
        let mut accepted = Socket::new(family, false);
        accepted.role = Role::Open { id, connecting: false };
        accepted.local = Some(local);
        let listening = self.socket_at(fd)?;
        (accepted.tells_sent, accepted.tells_unread) = (listening.tells_sent, listening.tells_unread);
        Ok((self.insert(Object::Socket(Box::new(accepted)))?, remote, family))
    }

    /// Begins to connect, or says how it went: `EINPROGRESS` while it has not ended.
    pub(crate) fn connect(&mut self, fd: i32, remote: Option<Endpoint>) -> Result<()> {
        let socket = self.socket_at(fd)?;
        let Some(remote) = remote else { return self.disconnect(fd) };
        match socket.role {
            Role::Listening(_) => Err(Errno(libc::EISCONN)),
            Role::Open { connecting: false, .. } => Err(Errno(libc::EISCONN)),
            Role::Open { connecting: true, .. } => {
                self.connected(fd).map_err(|errno| if errno == Errno::AGAIN { Errno(libc::EALREADY) } else { errno })
            }
            Role::Fresh => {
                let options = socket.options.clone();
                let bound = socket.local.filter(|local| !local.address.is_unspecified());
                let port = socket.local.map_or(0, |local| local.port);
                let local = bound.unwrap_or(Endpoint::new(address::own(remote.address), port));
                let id = self.engine.connect(self.now, local, remote, &options)?;
                self.socket_at(fd)?.role = Role::Open { id, connecting: true };
                // RFC 7413 4.2.1: with a cookie at hand, the SYN waits for the first data.
                if self.engine.syn_data_room(id)?.is_some() { Ok(()) } else { Err(Errno(libc::EINPROGRESS)) }
            }
        }
    }

    /// How a connect ended; `EAGAIN` while it has not.
    pub(crate) fn connected(&mut self, fd: i32) -> Result<()> {
        let socket = self.socket_at(fd)?;
        let Role::Open { id, connecting } = socket.role else { return Err(Errno::NOTCONN) };
        match self.engine.state(id)? {
            State::SynSent | State::SynReceived if connecting => Err(Errno::AGAIN),
            State::Closed if connecting => {
                let error = self.engine.take_error(id)?.unwrap_or(Error::ConnectionAborted);
                self.engine.close(self.now, id)?;
                self.socket_at(fd)?.role = Role::Fresh;
                Err(error.into())
            }
            _ => {
                self.socket_at(fd)?.role = Role::Open { id, connecting: false };
                Ok(())
            }
        }
    }

    /// `connect` with `AF_UNSPEC`: the socket is as new, and the peer is told by a reset (Linux: `tcp_disconnect`).
    fn disconnect(&mut self, fd: i32) -> Result<()> {
        let socket = self.socket_at(fd)?;
        let role = core::mem::replace(&mut socket.role, Role::Fresh);
        self.let_go(role, true)
    }

    pub(crate) fn close(&mut self, fd: i32) -> Result<()> {
        let entry = self.entries.remove(&fd).ok_or(Errno::BADF)?;
        for other in self.entries.values_mut() {
            if let Object::Epoll(set) = &mut other.object {
                set.forget(fd);
            }
        }
        match entry.object {
            Object::Socket(socket) => self.let_go(socket.role, false),
            _ => Ok(()),
        }
    }

    fn let_go(&mut self, role: Role, abort: bool) -> Result<()> {
        match role {
            Role::Fresh => {}
            Role::Listening(id) => self.engine.close_listener(self.now, id)?,
            Role::Open { id, .. } if abort => self.engine.abort(self.now, id)?,
            Role::Open { id, .. } => self.engine.close(self.now, id)?,
        }
        Ok(())
    }

    pub(crate) fn shutdown(&mut self, fd: i32, how: i32) -> Result<()> {
        let how = match how {
            libc::SHUT_RD => Shutdown::Receive,
            libc::SHUT_WR => Shutdown::Send,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(Errno::INVAL),
        };
        let id = self.socket_at(fd)?.connection().ok_or(Errno::NOTCONN)?;
        Ok(self.engine.shutdown(self.now, id, how)?)
    }

    /// Whether a call on `fd` may wait: for as long as its timeout says, or not at all.
    pub(crate) fn patience(&mut self, fd: i32, flags: i32, sends: bool) -> Patience {
        let now = self.now;
        match self.object(fd) {
            Ok(Object::Socket(socket)) if !socket.nonblocking && flags & libc::MSG_DONTWAIT == 0 => {
                Patience::of(if sends { socket.send_timeout_us } else { socket.receive_timeout_us }, now)
            }
            _ => Patience::None,
        }
    }

    /// What a descriptor is ready for, in poll's bits (epoll's are the same).
    pub(crate) fn readiness(&mut self, fd: i32) -> u32 {
        let pending = u32::from(self.lent_back(fd).is_some()) * libc::POLLERR as u32;
        let ready = match self.object(fd) {
            Ok(Object::Socket(socket)) => match socket.role {
                // Linux: a socket that was never connected hangs up and takes anything, to refuse it.
                Role::Fresh => Ready::WRITABLE | Ready::HANGUP,
                Role::Listening(id) => self.engine.acceptable(id).unwrap_or_default(),
                Role::Open { id, .. } => self.engine.readiness(id).unwrap_or_default(),
            },
            Ok(Object::PipeReader(pipe)) => {
                let pipe = *pipe;
                if self.pipes[pipe].is_empty() { Ready::empty() } else { Ready::READABLE }
            }
            Ok(Object::PipeWriter(_)) => Ready::WRITABLE,
            Ok(Object::Epoll(_)) => Ready::empty(),
            Err(_) => return libc::POLLNVAL as u32,
        };
        let mut bits = u32::from(ready.bits());
        for (of, also) in
            [(libc::POLLIN, libc::POLLRDNORM), (libc::POLLOUT, libc::POLLWRNORM), (libc::POLLPRI, libc::POLLRDBAND)]
        {
            if bits & of as u32 != 0 {
                bits |= also as u32;
            }
        }
        bits | pending
    }

    pub(crate) fn epoll_change(&mut self, set: i32, change: Change, fd: i32, events: u32, data: u64) -> Result<()> {
        if !self.knows(fd) {
            return Err(Errno::BADF);
        }
        match self.object(set)? {
            Object::Epoll(set) => set.change(change, fd, events, data),
            _ => Err(Errno::INVAL),
        }
    }

    /// Who in an epoll set is ready; `EAGAIN` if nobody is.
    pub(crate) fn epoll_collect(&mut self, set: i32, max: usize) -> Result<Vec<(u32, u64)>> {
        let Object::Epoll(members) = self.object(set)? else { return Err(Errno::INVAL) };
        let mut members = core::mem::take(members);
        let found = members.collect(max, |fd| self.readiness(fd));
        *self.object(set)? = Object::Epoll(members);
        if found.is_empty() { Err(Errno::AGAIN) } else { Ok(found) }
    }

    pub(crate) fn arrive(&mut self, packet: &[u8]) {
        self.engine.on_packet(self.now, packet);
    }

    /// The oldest packet that has left, and when.
    pub(crate) fn departed(&mut self) -> Option<(Instant, Vec<u8>)> {
        self.left.pop_front()
    }

    /// Moves the clock to `at` and does what is due.
    pub(crate) fn tick(&mut self, at: Instant) {
        self.now = self.now.max(at);
        self.engine.on_timer(self.now);
    }

    /// Takes out of the engine what a call, a packet or a timer has caused: packets, and news for epoll sets.
    pub(crate) fn collect(&mut self) {
        loop {
            let mut batch = PacketBatch::new(BATCH);
            let done = self.engine.poll_transmit(self.now, &mut batch);
            self.left.extend(batch.iter().map(|packet| (self.now, packet.to_vec())));
            if done {
                break;
            }
        }
        let mut events = Vec::new();
        self.engine.poll_events(&mut events, usize::MAX);
        let mut news: Vec<i32> = events.iter().filter_map(|event| self.descriptor_of(event.source)).collect();
        news.extend(self.notices_to_tell());
        for entry in self.entries.values_mut() {
            if let Object::Epoll(set) = &mut entry.object {
                news.iter().for_each(|fd| set.notice(*fd));
            }
        }
    }

    fn descriptor_of(&self, source: Source) -> Option<i32> {
        let is_it = |role: Role| match (role, source) {
            (Role::Open { id, .. }, Source::Connection(of)) => id == of,
            (Role::Listening(id), Source::Listener(of)) => id == of,
            _ => false,
        };
        self.sockets().find(|(_, socket)| is_it(socket.role)).map(|(fd, _)| fd)
    }

    pub(crate) fn sockets(&self) -> impl Iterator<Item = (i32, &Socket)> {
        self.entries.iter().filter_map(|(fd, entry)| match &entry.object {
            Object::Socket(socket) => Some((*fd, &**socket)),
            _ => None,
        })
    }
}
