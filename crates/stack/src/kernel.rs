//! The kernel's TCP behind the same trait: non-blocking sockets and one edge-triggered `epoll` set.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use ringway_port::clock;
use ringway_tcp::{ConnId, Error, Event, Instant, ListenerId, Ready, Shutdown, Source};
use ringway_wire::Endpoint;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use crate::sockets::Sockets;

/// Events of one poll.
const EVENTS_MAX: usize = 512;
/// Marks a listener in an event's data; the rest is number and generation.
const LISTENER: u64 = 1 << 63;

#[derive(Default)]
struct Slot {
    fd: Option<OwnedFd>,
    generation: u32,
}

/// Sockets of the kernel, of one thread.
pub struct KernelSockets {
    epoll: OwnedFd,
    now: Instant,
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl KernelSockets {
    /// # Errors
    /// The kernel has no descriptor left.
    pub fn new() -> io::Result<KernelSockets> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let now = Instant::from_us(clock::monotonic_ns() / 1000);
        Ok(KernelSockets { epoll, now, slots: vec![], free: vec![] })
    }

    /// Gives a socket a number and has its events told.
    fn add(&mut self, fd: OwnedFd, mark: u64) -> io::Result<(u32, u32)> {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1) & (u32::MAX >> 1);
        let data = mark | u64::from(slot.generation) << 32 | u64::from(index);
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        if let Err(errno) = epoll::add(&self.epoll, &fd, EventData::new_u64(data), flags) {
            self.free.push(index);
            return Err(errno.into());
        }
        slot.fd = Some(fd);
        Ok((index, slot.generation))
    }

    fn fd(&self, index: u32, generation: u32) -> Result<&OwnedFd, Error> {
        let slot = self.slots.get(index as usize).filter(|slot| slot.generation == generation);
        slot.and_then(|slot| slot.fd.as_ref()).ok_or(Error::BadHandle)
    }

    fn conn(&self, conn: ConnId) -> Result<&OwnedFd, Error> {
        self.fd(conn.index, conn.generation)
    }

    /// Closing a socket takes it out of the set.
    fn remove(&mut self, conn: ConnId) {
        if self.conn(conn).is_ok() {
            self.slots[conn.index as usize].fd = None;
            self.free.push(conn.index);
        }
    }
}

fn socket(address: &SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(net::socket_with(family, SocketType::STREAM, flags, Some(net::ipproto::TCP))?)
}

/// The kernel's refusal by our name for it; one that TCP's calls do not give means that the call was wrong.
fn translate(errno: Errno) -> Error {
    Error::from_errno(errno.raw_os_error()).unwrap_or(Error::Invalid)
}

impl Sockets for KernelSockets {
    fn now(&self) -> Instant {
        self.now
    }

    fn listen(&mut self, at: Endpoint, backlog: u32) -> io::Result<ListenerId> {
        let address = SocketAddr::from(at);
        let fd = socket(&address)?;
        sockopt::set_socket_reuseaddr(&fd, true)?;
        if address.is_ipv6() {
            // As the engine does, whatever net.ipv6.bindv6only says.
            sockopt::set_ipv6_v6only(&fd, false)?;
        }
        net::bind(&fd, &address)?;
        net::listen(&fd, backlog.min(i32::MAX as u32) as i32)?;
        let (index, generation) = self.add(fd, LISTENER)?;
        Ok(ListenerId { index, generation })
    }

    fn connect(&mut self, to: Endpoint) -> io::Result<ConnId> {
        let address = SocketAddr::from(to);
        let fd = socket(&address)?;
        sockopt::set_tcp_nodelay(&fd, true)?;
        match net::connect(&fd, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => return Err(errno.into()),
        }
        let (index, generation) = self.add(fd, 0)?;
        Ok(ConnId { index, generation })
    }

    fn accept(&mut self, listener: ListenerId) -> Result<ConnId, Error> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = self.fd(listener.index, listener.generation)?;
        let fd = loop {
            match net::accept_with(fd, flags) {
                Ok(fd) => break fd,
                // The connection ended before it was accepted: the next one.
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(errno) => return Err(translate(errno)),
            }
        };
        sockopt::set_tcp_nodelay(&fd, true).map_err(translate)?;
        let (index, generation) = self.add(fd, 0).map_err(|_| Error::NoBuffers)?;
        Ok(ConnId { index, generation })
    }

    fn recv(&mut self, conn: ConnId, out: &mut [u8]) -> Result<usize, Error> {
        let fd = self.conn(conn)?;
        net::recv(fd, out, RecvFlags::empty()).map(|(_, bytes)| bytes).map_err(translate)
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) -> Result<usize, Error> {
        net::send(self.conn(conn)?, bytes, SendFlags::NOSIGNAL).map_err(translate)
    }

    fn shutdown(&mut self, conn: ConnId, how: Shutdown) -> Result<(), Error> {
        let how = match how {
            Shutdown::Receive => net::Shutdown::Read,
            Shutdown::Send => net::Shutdown::Write,
            Shutdown::Both => net::Shutdown::Both,
        };
        net::shutdown(self.conn(conn)?, how).map_err(translate)
    }

    fn close(&mut self, conn: ConnId) {
        self.remove(conn);
    }

    fn abort(&mut self, conn: ConnId) {
        if let Ok(fd) = self.conn(conn) {
            // Without it the close below is an orderly one.
            let _ = sockopt::set_socket_linger(fd, Some(Duration::ZERO));
        }
        self.remove(conn);
    }

    fn take_error(&mut self, conn: ConnId) -> Option<Error> {
        let error = sockopt::socket_error(self.conn(conn).ok()?);
        error.map_or_else(|errno| Some(translate(errno)), |pending| pending.err().map(translate))
    }

    fn peer(&self, conn: ConnId) -> Result<Endpoint, Error> {
        let address = net::getpeername(self.conn(conn)?).map_err(translate)?;
        address.and_then(|address| SocketAddr::try_from(address).ok()).map(Endpoint::from).ok_or(Error::NotConnected)
    }

    fn poll(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<()> {
        events.clear();
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs().min(i32::MAX as u64) as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        let mut space = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        let ready = match epoll::wait(&self.epoll, &mut space, timeout.as_ref()) {
            Ok((ready, _)) => &*ready,
            Err(Errno::INTR) => &[],
            Err(errno) => return Err(errno.into()),
        };
        self.now = Instant::from_us(clock::monotonic_ns() / 1000);
        for event in ready {
            let (data, flags) = (event.data.u64(), event.flags);
            let (index, generation) = (data as u32, ((data & !LISTENER) >> 32) as u32);
            let source = match data & LISTENER {
                0 => Source::Connection(ConnId { index, generation }),
                _ => Source::Listener(ListenerId { index, generation }),
            };
            // The bits are the same by definition.
            events.push(Event { source, ready: Ready::from_bits_truncate(flags.bits() as u16) });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_talk_and_stale_handles_are_refused() {
        let mut sockets = KernelSockets::new().unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let listener = sockets.listen(free.into(), 8).unwrap();
        let client = sockets.connect(free.into()).unwrap();
        let (mut events, mut accepted) = (vec![], None);
        while accepted.is_none() {
            sockets.poll(&mut events, None).unwrap();
            accepted = sockets.accept(listener).ok();
        }
        let server = accepted.unwrap();
        assert_eq!(sockets.send(client, b"hello"), Ok(5));
        let mut out = [0; 16];
        let told = |event: &Event| event.source == Source::Connection(server) && event.ready.contains(Ready::READABLE);
        while !events.iter().any(told) {
            sockets.poll(&mut events, None).unwrap();
        }
        assert_eq!(sockets.recv(server, &mut out), Ok(5));
        assert_eq!(sockets.recv(server, &mut out), Err(Error::WouldBlock));
        assert_eq!(sockets.peer(client).unwrap(), free.into());
        sockets.abort(server);
        assert_eq!(sockets.recv(server, &mut out), Err(Error::BadHandle));
        let reset = |event: &Event| event.source == Source::Connection(client) && event.ready.contains(Ready::ERROR);
        while !events.iter().any(reset) {
            sockets.poll(&mut events, None).unwrap();
        }
        assert_eq!(sockets.take_error(client), Some(Error::ConnectionReset));
    }

    #[test]
    fn nobody_listens() {
        let mut sockets = KernelSockets::new().unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        match sockets.connect(free.into()) {
            Err(error) => assert_eq!(error.raw_os_error(), Some(Error::ConnectionRefused.errno())),
            Ok(conn) => {
                let mut events = vec![];
                while !events.iter().any(|event: &Event| event.ready.contains(Ready::ERROR)) {
                    sockets.poll(&mut events, None).unwrap();
                }
                assert_eq!(sockets.take_error(conn), Some(Error::ConnectionRefused));
            }
        }
    }
}
