//! The life of a socket: made, bound, listening or connected, shut down, closed; with Linux's errors.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use libc::c_int;
use ringway_stack::{ConnId, Endpoint, ListenerId, Shutdown, SocketOptions, Sockets};
use ringway_tcp::State as TcpState;

use crate::address::Family;
use crate::errno::{Errno, Result};
use crate::pipe::Pipe;
use crate::state::{Kind, Patience, State};

/// Ranges that `mtcp_init_rss` can set.
const RANGES_MAX: usize = 1024;

/// What a socket is at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Fresh,
    Listening(ListenerId),
    Open {
        conn: ConnId,
        /// A call to connect has not yet learnt how it went.
        is_connecting: bool,
    },
}

#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) family: Family,
    pub(crate) role: Role,
    /// Where it was bound to.
    pub(crate) local: Option<Endpoint>,
    pub(crate) options: SocketOptions,
    pub(crate) receive_timeout: Option<Duration>,
    pub(crate) send_timeout: Option<Duration>,
    pub(crate) reuse_address: bool,
}

impl Socket {
    /// Without Nagle's delay, which mTCP does not have.
    fn new(family: Family, role: Role) -> Socket {
        let options = SocketOptions { nodelay: true, ..SocketOptions::default() };
        Socket { family, role, local: None, options, receive_timeout: None, send_timeout: None, reuse_address: false }
    }
}

/// Source addresses for connections to one place, taken in turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceRange {
    to: Endpoint,
    first: Ipv4Addr,
    count: u32,
    next: u32,
}

/// A call on a closed connection or listener: it is not there.
fn gone(_: ringway_tcp::Error) -> Errno {
    Errno::BADF
}

impl State {
    /// # Errors
    /// Those of `socket`; `EMFILE` beyond `max_concurrency`.
    pub(crate) fn open(&mut self, domain: c_int, kind: c_int, protocol: c_int) -> Result<usize> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let family = match domain {
            libc::AF_INET => Family::V4,
            libc::AF_INET6 => Family::V6,
            _ => return Err(Errno(libc::EAFNOSUPPORT)),
        };
        match (kind & !flags, protocol) {
            (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => {}
            (libc::SOCK_STREAM, _) => return Err(Errno(libc::EPROTONOSUPPORT)),
            (1..=10, _) => return Err(Errno(libc::ESOCKTNOSUPPORT)),
            _ => return Err(Errno::INVAL),
        }
        let mut socket = Socket::new(family, Role::Fresh);
        socket.options.keepalive = self.keepalive;
        self.insert(Kind::Socket(Box::new(socket)), kind & libc::SOCK_NONBLOCK != 0)
    }

    /// # Errors
    /// Those of `bind`.
    pub(crate) fn bind(&mut self, number: usize, address: &[u8]) -> Result<()> {
        let socket = self.socket(number)?;
        let local = socket.family.read(address)?;
        if socket.local.is_some() || socket.role != Role::Fresh {
            return Err(Errno::INVAL);
        }
        let is_ours = self.stack.addresses().iter().any(|prefix| prefix.address == local.address);
        if !local.address.is_unspecified() && !is_ours {
            return Err(Errno(libc::EADDRNOTAVAIL));
        }
        let port = match local.port {
            0 => self.choose_port(local.address)?,
            port if self.is_taken(number, Endpoint::new(local.address, port)) => return Err(Errno(libc::EADDRINUSE)),
            port => port,
        };
        self.bound.entry(port).or_default().push(number);
        self.socket(number)?.local = Some(Endpoint::new(local.address, port));
        Ok(())
    }

    /// Whether a bound socket is in the way; those that both want it share, unless one listens (`SO_REUSEADDR`).
    fn is_taken(&mut self, number: usize, at: Endpoint) -> bool {
        let shares = self.socket(number).is_ok_and(|socket| socket.reuse_address);
        let others = self.bound.get(&at.port).cloned().unwrap_or_default();
        others.into_iter().any(|other| {
            let Ok(other) = self.socket(other) else { return false };
            let Some(theirs) = other.local else { return false };
            let any = at.address.is_unspecified() || theirs.address.is_unspecified();
            let meets = theirs.address == at.address || any;
            meets && !(shares && other.reuse_address && !matches!(other.role, Role::Listening(_)))
        })
    }

    /// A port that nobody is bound to, each in turn.
    fn choose_port(&mut self, address: IpAddr) -> Result<u16> {
        let config = self.stack.engine().config();
        let (first, last) = (config.ip_local_port_first as u16, config.ip_local_port_last as u16);
        for _ in first..=last {
            let port = self.next_port.clamp(first, last);
            self.next_port = if port == last { first } else { port + 1 };
            if !self.is_taken(usize::MAX, Endpoint::new(address, port)) {
                return Ok(port);
            }
        }
        Err(Errno(libc::EADDRINUSE))
    }

    /// # Errors
    /// Those of `listen`.
    pub(crate) fn listen(&mut self, number: usize, backlog: c_int) -> Result<()> {
        let socket = self.socket(number)?;
        let (family, role, options) = (socket.family, socket.role, socket.options.clone());
        if role != Role::Fresh {
            // Listening again changes the backlog in Linux; ours keeps the first.
            return if matches!(role, Role::Listening(_)) { Ok(()) } else { Err(Errno::INVAL) };
        }
        if socket.local.is_none() {
            let any = family.write(Endpoint::new(family.any(), 0));
            self.bind(number, &any)?;
        }
        let local = self.socket(number)?.local.ok_or(Errno::INVAL)?;
        // Negative: as many as there may be.
        let listener = self.stack.engine().listen(local, backlog as u32, &options)?;
        self.own_listener(listener, number);
        self.socket(number)?.role = Role::Listening(listener);
        self.mark(number);
        Ok(())
    }

    /// The number of an accepted connection.
    ///
    /// # Errors
    /// Those of `accept`.
    pub(crate) fn accept(&mut self, number: usize, nonblocking: bool) -> Result<usize> {
        let patience = Patience { timeout: self.socket(number)?.receive_timeout, ..self.patience(number)? };
        self.block(patience, |state| {
            let socket = state.socket(number)?;
            let (Role::Listening(listener), family) = (socket.role, socket.family) else { return Err(Errno::INVAL) };
            state.room()?;
            let conn = state.stack.accept(listener)?;
            let mut socket = Socket::new(family, Role::Open { conn, is_connecting: false });
            socket.options = state.stack.engine().options(conn).cloned().unwrap_or(socket.options);
            let accepted = state.insert(Kind::Socket(Box::new(socket)), nonblocking)?;
            state.own(conn, accepted);
            Ok(accepted)
        })
    }

    pub(crate) fn patience(&mut self, number: usize) -> Result<Patience> {
        Ok(Patience { nonblocking: self.entry(number)?.nonblocking, timeout: None })
    }

    /// # Errors
    /// Those of `connect`.
    pub(crate) fn connect(&mut self, number: usize, address: &[u8]) -> Result<()> {
        let socket = self.socket(number)?;
        let to = socket.family.read(address)?;
        match socket.role {
            Role::Listening(_) => return Err(Errno(libc::EISCONN)),
            Role::Fresh => self.start_connect(number, to)?,
            Role::Open { is_connecting: false, .. } => return Err(Errno(libc::EISCONN)),
            Role::Open { .. } => {
                let already = self.connected(number);
                if self.entry(number)?.nonblocking || already != Err(Errno::AGAIN) {
                    return already.map_err(|e| if e == Errno::AGAIN { Errno(libc::EALREADY) } else { e });
                }
            }
        }
        if self.entry(number)?.nonblocking {
            return Err(Errno(libc::EINPROGRESS));
        }
        let patience = Patience { timeout: self.socket(number)?.send_timeout, ..self.patience(number)? };
        let answer = self.block(patience, |state| state.connected(number));
        // The attempt goes on, as Linux's does.
        answer.map_err(|errno| if errno == Errno::AGAIN { Errno(libc::EINPROGRESS) } else { errno })
    }

    fn start_connect(&mut self, number: usize, to: Endpoint) -> Result<()> {
        let socket = self.socket(number)?;
        let (local, options) = (socket.local, socket.options.clone());
        let to = match to.address {
            // As Linux: to nowhere means to oneself.
            any if any.is_unspecified() => Endpoint::new(self.stack.addresses()[0].address, to.port),
            _ => to,
        };
        let source = local.map(|local| local.address).filter(|address| !address.is_unspecified());
        let source = source.or_else(|| self.source_in_range(to)).or_else(|| self.stack.source_for(to.address));
        let source = source.ok_or(Errno(libc::ENETUNREACH))?;
        let from = Endpoint::new(source, local.map_or(0, |local| local.port));
        let now = self.stack.now();
        let conn = self.stack.engine().connect(now, from, to, &options)?;
        self.own(conn, number);
        self.socket(number)?.role = Role::Open { conn, is_connecting: true };
        self.mark(number);
        Ok(())
    }

    /// How connecting went; `EAGAIN` while it goes on. A socket that could not connect may try again.
    fn connected(&mut self, number: usize) -> Result<()> {
        let Role::Open { conn, .. } = self.socket(number)?.role else { return Err(Errno::INVAL) };
        let answer = match self.stack.engine().state(conn).map_err(gone)? {
            TcpState::SynSent | TcpState::SynReceived => return Err(Errno::AGAIN),
            TcpState::Closed => Err(self.stack.take_error(conn).map_or(Errno(libc::ECONNABORTED), Errno::from)),
            _ => Ok(()),
        };
        if answer.is_err() {
            self.stack.close(conn);
            self.socket(number)?.role = Role::Fresh;
        } else {
            self.socket(number)?.role = Role::Open { conn, is_connecting: false };
        }
        answer
    }

    /// Source addresses for connections to a place; all ports of a core's own port come back to it.
    ///
    /// # Errors
    /// `EADDRNOTAVAIL` for addresses that are not ours, `ENOBUFS` beyond the bound.
    pub(crate) fn set_range(&mut self, first: Ipv4Addr, count: u32, to: Endpoint) -> Result<()> {
        self.ranges.retain(|range| range.to != to);
        if first.is_unspecified() {
            return Ok(());
        }
        let base = u32::from(first);
        let is_ours = |n: u32| {
            let address = IpAddr::from(Ipv4Addr::from(base.wrapping_add(n)));
            self.stack.addresses().iter().any(|prefix| prefix.address == address)
        };
        if count == 0 || count as usize > self.stack.addresses().len() || !(0..count).all(is_ours) {
            return Err(Errno(libc::EADDRNOTAVAIL));
        }
        if self.ranges.len() == RANGES_MAX {
            return Err(Errno(libc::ENOBUFS));
        }
        self.ranges.push(SourceRange { to, first, count, next: 0 });
        Ok(())
    }

    fn source_in_range(&mut self, to: Endpoint) -> Option<IpAddr> {
        let range = self.ranges.iter_mut().find(|range| range.to == to)?;
        let address = Ipv4Addr::from(u32::from(range.first).wrapping_add(range.next));
        range.next = (range.next + 1) % range.count;
        Some(address.into())
    }

    /// # Errors
    /// Those of `shutdown`.
    pub(crate) fn shutdown(&mut self, number: usize, how: c_int) -> Result<()> {
        let role = self.socket(number)?.role;
        let how = match how {
            libc::SHUT_RD => Shutdown::Receive,
            libc::SHUT_WR => Shutdown::Send,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(Errno::INVAL),
        };
        match role {
            Role::Open { conn, .. } => Ok(Sockets::shutdown(&mut self.stack, conn, how)?),
            // A listener stops listening, and stays bound.
            Role::Listening(listener) if how != Shutdown::Send => {
                self.end_listener(listener);
                self.socket(number)?.role = Role::Fresh;
                Ok(())
            }
            _ => Err(Errno::NOTCONN),
        }
    }

    fn end_listener(&mut self, listener: ListenerId) {
        let now = self.stack.now();
        // Gone already is as good.
        let _ = self.stack.engine().close_listener(now, listener);
        self.disown_listener(listener);
    }

    /// # Errors
    /// `EBADF`.
    pub(crate) fn close(&mut self, number: usize) -> Result<()> {
        self.let_go(number, |state, conn| state.stack.close(conn))
    }

    /// Like [`State::close`], but a connection is reset.
    ///
    /// # Errors
    /// `EBADF`.
    pub(crate) fn abort(&mut self, number: usize) -> Result<()> {
        self.let_go(number, |state, conn| state.stack.abort(conn))
    }

    fn let_go(&mut self, number: usize, end: impl FnOnce(&mut State, ConnId)) -> Result<()> {
        let entry = self.remove(number).ok_or(Errno::BADF)?;
        match entry.kind {
            Kind::Socket(socket) => {
                if let Some(sharers) = socket.local.and_then(|local| self.bound.get_mut(&local.port)) {
                    sharers.retain(|sharer| *sharer != number);
                }
                match socket.role {
                    Role::Open { conn, .. } => end(self, conn),
                    Role::Listening(listener) => self.end_listener(listener),
                    Role::Fresh => {}
                }
            }
            Kind::Epoll(epoll) => {
                for member in epoll.sockets() {
                    if let Ok(entry) = self.entry(member) {
                        entry.watchers.retain(|set| *set != number);
                    }
                }
            }
            Kind::Pipe { pipe, is_writer } => {
                let ends = &mut self.pipes[pipe];
                let other = if is_writer { ends.reader } else { ends.writer };
                *(if is_writer { &mut ends.writer } else { &mut ends.reader }) = None;
                if let Some(other) = other {
                    self.mark(other);
                }
            }
        }
        Ok(())
    }

    /// The numbers of a new pipe's ends, the one to read first.
    ///
    /// # Errors
    /// `EMFILE`.
    pub(crate) fn pipe(&mut self) -> Result<[usize; 2]> {
        let unused = self.pipes.iter().position(|pipe| pipe.reader.is_none() && pipe.writer.is_none());
        let pipe = unused.unwrap_or(self.pipes.len());
        let reader = self.insert(Kind::Pipe { pipe, is_writer: false }, false)?;
        let writer = self.insert(Kind::Pipe { pipe, is_writer: true }, false);
        let writer = writer.inspect_err(|_| drop(self.remove(reader)))?;
        let ends = Pipe::new(reader, writer);
        match unused {
            Some(place) => self.pipes[place] = ends,
            None => self.pipes.push(ends),
        }
        Ok([reader, writer])
    }

    /// Where a socket is, as C's address.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub(crate) fn local_name(&mut self, number: usize) -> Result<Vec<u8>> {
        let socket = self.socket(number)?;
        let (family, role, bound) = (socket.family, socket.role, socket.local);
        let open = match role {
            Role::Open { conn, .. } => self.stack.engine().endpoints(conn).ok().map(|(local, _)| local),
            _ => None,
        };
        Ok(family.write(open.or(bound).unwrap_or(Endpoint::new(family.any(), 0))))
    }

    /// The other end of a connection, as C's address.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `ENOTCONN`.
    pub(crate) fn peer_name(&mut self, number: usize) -> Result<Vec<u8>> {
        let socket = self.socket(number)?;
        let (Role::Open { conn, .. }, family) = (socket.role, socket.family) else { return Err(Errno::NOTCONN) };
        let state = self.stack.engine().state(conn).map_err(gone)?;
        if matches!(state, TcpState::SynSent | TcpState::Closed) {
            return Err(Errno::NOTCONN);
        }
        Ok(family.write(self.stack.peer(conn).map_err(gone)?))
    }
}
