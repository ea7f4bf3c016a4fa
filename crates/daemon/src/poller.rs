//! epoll, with what became ready named by kind and number.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

/// What an event is about. Numbers are never used twice, so a late event cannot hit a successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Signals,
    Libraries,
    Tools,
    Scrapers,
    Ports,
    Client(u64),
    Tool(u64),
    Scraper(u64),
    Guest(u64),
}

impl Source {
    fn to_u64(self) -> u64 {
        match self {
            Source::Signals => 0,
            Source::Libraries => 1,
            Source::Tools => 2,
            Source::Scrapers => 3,
            Source::Ports => 4,
            Source::Client(id) => 8 | id << 4,
            Source::Tool(id) => 9 | id << 4,
            Source::Scraper(id) => 10 | id << 4,
            Source::Guest(id) => 11 | id << 4,
        }
    }

    fn from_u64(word: u64) -> Source {
        match word & 15 {
            0 => Source::Signals,
            1 => Source::Libraries,
            2 => Source::Tools,
            3 => Source::Scrapers,
            4 => Source::Ports,
            8 => Source::Client(word >> 4),
            9 => Source::Tool(word >> 4),
            10 => Source::Scraper(word >> 4),
            _ => Source::Guest(word >> 4),
        }
    }
}

/// One thing that became ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) source: Source,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) hung_up: bool,
}

/// Events taken in one go.
const EVENTS_MAX: usize = 256;

pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Poller> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Poller { epoll, events: Vec::with_capacity(EVENTS_MAX) })
    }

    pub(crate) fn add(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(source.to_u64()), EventFlags::IN)?)
    }

    /// Changes what `source` is watched for.
    pub(crate) fn watch(&self, fd: impl AsFd, source: Source, read: bool, write: bool) -> io::Result<()> {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, read);
        flags.set(EventFlags::OUT, write);
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(source.to_u64()), flags)?)
    }

    /// Waits up to `timeout` (`None` = until something happens).
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Vec<Ready>> {
        let timeout = timeout
            .map(|t| rustix::event::Timespec { tv_sec: t.as_secs() as i64, tv_nsec: i64::from(t.subsec_nanos()) });
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let ready = |event: &epoll::Event| {
            let (flags, data) = (event.flags, event.data);
            Ready {
                source: Source::from_u64(data.u64()),
                readable: flags.contains(EventFlags::IN),
                writable: flags.contains(EventFlags::OUT),
                hung_up: flags.intersects(EventFlags::HUP | EventFlags::ERR),
            }
        };
        Ok(self.events.iter().map(ready).collect())
    }
}
