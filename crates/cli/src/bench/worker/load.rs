//! Many connections over epoll: an echo server, and a load generator for any protocol whose answers
//! have a known length.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::client::per_second;
use super::net::{Address, Listener};
use super::server::BUFFER_BYTES;
use super::tally::Tally;
use super::{Task, conclude, warm_up};

/// Events taken at once.
const EVENTS: usize = 512;
/// Answers awaited for each connection in one bout of warming up.
const BOUT: usize = 12;
/// A server that says nothing for so long has failed.
const SILENCE: Duration = Duration::from_secs(20);
/// Marks the listener among the events.
const LISTENER: u64 = u64::MAX;

/// Sends back what comes, on any number of connections.
pub(super) fn echo(listener: Listener) -> Result<()> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    listener.set_nonblocking()?;
    match &listener {
        Listener::Tcp(l) => epoll.add(l, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?,
        Listener::Unix(l) => epoll.add(l, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?,
    }
    let mut streams: Vec<Option<TcpStream>> = Vec::new();
    let mut events = [EpollEvent::empty(); EVENTS];
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let n = epoll.wait(&mut events, EpollTimeout::NONE)?;
        for event in &events[..n] {
            if event.data() == LISTENER {
                accept_all(&listener, &epoll, &mut streams)?;
                continue;
            }
            let slot = &mut streams[event.data() as usize];
            if let Some(stream) = slot
                && !echo_once(stream, &mut buffer)?
            {
                *slot = None;
            }
        }
    }
}

fn accept_all(listener: &Listener, epoll: &Epoll, streams: &mut Vec<Option<TcpStream>>) -> Result<()> {
    loop {
        let stream = match listener.accept() {
            Ok(stream) => stream,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(e) => return Err(e.into()),
        };
        stream.set_nonblocking(true)?;
        epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, streams.len() as u64))?;
        streams.push(Some(stream));
    }
}

/// `false` if the client has gone.
fn echo_once(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<bool> {
    match stream.read(buffer) {
        Ok(0) => Ok(false),
        // Requests are small and answered one by one, so the answer always fits.
        Ok(n) => stream.write_all(&buffer[..n]).map(|()| true).map_err(Into::into),
        Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(true),
        Err(e) if e.kind() == ErrorKind::ConnectionReset => Ok(false),
        Err(e) => Err(e.into()),
    }
}

struct Link {
    stream: TcpStream,
    /// Since when an answer is awaited, and how much of it is missing.
    asked: Option<Instant>,
    missing_bytes: usize,
}

struct Generator {
    epoll: Epoll,
    links: Vec<Link>,
    request: Vec<u8>,
    response_bytes: usize,
    /// Whose turn it is to ask.
    next: usize,
    answers: u64,
    buffer: Vec<u8>,
}

/// The client.
pub(super) fn run(address: &Address, task: &Task, duration: Duration) -> Result<()> {
    let Task::Load { connections, window, request, response_bytes } = task else { bail!("no load") };
    let mut generator = Generator::connect(address, *connections, request.as_bytes(), *response_bytes)?;
    let window = (*window).min(*connections);
    warm_up(|| {
        let enough = generator.answers + (BOUT * connections) as u64;
        generator.keep_asking(window, |_, answers| answers < enough)
    })?;
    let mut tally = Tally::new();
    let (started, before) = (Instant::now(), generator.answers);
    generator.keep_asking(window, |span, _| {
        tally.record(span);
        started.elapsed() < duration
    })?;
    let elapsed = started.elapsed();
    let answers = generator.answers - before;
    let mut metrics = tally.metrics("latency");
    metrics.insert("requests_per_s".into(), per_second(answers, elapsed));
    conclude(metrics, answers * request.len() as u64)
}

impl Generator {
    fn connect(address: &Address, connections: usize, request: &[u8], response_bytes: usize) -> Result<Generator> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let mut links = Vec::with_capacity(connections);
        for number in 0..connections {
            let stream = address.connect()?;
            stream.set_nonblocking(true)?;
            epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, number as u64))?;
            links.push(Link { stream, asked: None, missing_bytes: 0 });
        }
        let (request, buffer) = (request.to_vec(), vec![0; BUFFER_BYTES]);
        Ok(Generator { epoll, links, request, response_bytes, next: 0, answers: 0, buffer })
    }

    /// Keeps `window` requests under way while `more` says so, then awaits the last answers.
    fn keep_asking(&mut self, window: usize, mut more: impl FnMut(Duration, u64) -> bool) -> Result<()> {
        let mut events = [EpollEvent::empty(); EVENTS];
        let (mut under_way, mut going_on) = (0, true);
        for _ in 0..window {
            self.ask()?;
            under_way += 1;
        }
        while under_way > 0 {
            let n = self.epoll.wait(&mut events, EpollTimeout::try_from(SILENCE)?)?;
            ensure!(n > 0, "{under_way} answers did not come within {} s", SILENCE.as_secs());
            for event in &events[..n] {
                let Some(span) = self.answered(event.data() as usize)? else { continue };
                under_way -= 1;
                going_on = going_on && more(span, self.answers);
                if going_on {
                    self.ask()?;
                    under_way += 1;
                }
            }
        }
        Ok(())
    }

    /// Sends the next request, on the next connection that waits for nothing.
    fn ask(&mut self) -> Result<()> {
        while self.links[self.next].asked.is_some() {
            self.next = (self.next + 1) % self.links.len();
        }
        let link = &mut self.links[self.next];
        link.asked = Some(Instant::now());
        link.missing_bytes = self.response_bytes;
        link.stream.write_all(&self.request)?;
        self.next = (self.next + 1) % self.links.len();
        Ok(())
    }

    /// Takes what has come; how long the answer took, once it is complete.
    fn answered(&mut self, number: usize) -> Result<Option<Duration>> {
        let link = &mut self.links[number];
        let got = match link.stream.read(&mut self.buffer) {
            Ok(0) => bail!("the server closed a connection"),
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        ensure!(got <= link.missing_bytes, "{got} bytes came where {} were missing", link.missing_bytes);
        link.missing_bytes -= got;
        if link.missing_bytes > 0 {
            return Ok(None);
        }
        self.answers += 1;
        Ok(link.asked.take().map(|asked| asked.elapsed()))
    }
}
