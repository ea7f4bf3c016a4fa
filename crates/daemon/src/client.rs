//! One connected library: what it may send, and what waits to be sent to it.

use std::collections::{HashMap, VecDeque};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ringway_channel::Reason;
use ringway_channel::rendezvous::{DESCRIPTORS_MAX, Kind, MESSAGE_BYTES, Malformed, Message};
use ringway_mem::region::{Region, RegionError, create_sealed};
use ringway_mem::stats::{PROCESS_PAGE_BYTES, ProcessPage};
use ringway_mem::sync::Ordering;
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::connections::{ConnectionTable, EndRef};
use crate::endpoint::SocketId;
use crate::peer::Peer;

/// What goes along with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attachment {
    Nothing,
    /// The client's process page.
    Page,
    /// The ring region and the end region of this end, looked up when the message leaves.
    Regions(EndRef),
}

/// A message that waits until the client's socket has room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) message: Message,
    pub(crate) attachment: Attachment,
}

/// What a client has after Hello.
pub(crate) struct Session {
    pub(crate) page_fd: OwnedFd,
    page: Region,
}

impl Session {
    /// Makes the statistics page of a process.
    pub(crate) fn create(pid: u32, profile: u8) -> Result<Session, RegionError> {
        let session = Session::adopt(create_sealed("ringway-process", PROCESS_PAGE_BYTES)?)?;
        session.page().pid.store(pid, Ordering::Relaxed);
        session.page().profile.store(u32::from(profile), Ordering::Relaxed);
        Ok(session)
    }

    /// Takes over a page that a predecessor made.
    pub(crate) fn adopt(page_fd: OwnedFd) -> Result<Session, RegionError> {
        let page = Region::open(&page_fd, PROCESS_PAGE_BYTES, PROCESS_PAGE_BYTES)?;
        Ok(Session { page_fd, page })
    }

    pub(crate) fn page(&self) -> &ProcessPage {
        // SAFETY: the region maps PROCESS_PAGE_BYTES bytes, page-aligned, for as long as `self` lives; a
        // ProcessPage fits (asserted beside it) and consists of atomics only, so that the process may
        // write at any time and every bit pattern is a value.
        unsafe { self.page.base().cast::<ProcessPage>().as_ref() }
    }
}

/// Messages per second with a burst of one second's worth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Bucket {
    pub(crate) fn full(rate: u64, now: Instant) -> Bucket {
        Bucket { tokens: rate as f64, at: now }
    }

    pub(crate) fn take(&mut self, rate: u64, now: Instant) -> bool {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * rate as f64;
        self.tokens = (self.tokens + gained).min(rate as f64);
        self.at = now;
        let enough = self.tokens >= 1.0;
        if enough {
            self.tokens -= 1.0;
        }
        enough
    }
}

/// How far `flush` came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    Done,
    /// The socket is full and will say when it has room; or, if the client is `stuck`, too many
    /// descriptors are in flight for our user, and nobody will say when that ends.
    Full,
    Dead,
}

/// One message with what came along.
pub(crate) struct Received {
    pub(crate) message: Message,
    pub(crate) fds: Vec<OwnedFd>,
    /// Descriptors were sent that this process had no room for.
    pub(crate) fds_lost: bool,
}

pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) socket: OwnedFd,
    pub(crate) peer: Peer,
    /// The `ringway run` that it belongs to; 0 = none.
    pub(crate) run_id: u64,
    pub(crate) session: Option<Session>,
    /// Offers that wait, by the client's own token.
    pub(crate) offers: HashMap<u64, SocketId>,
    /// Ends that it was given, by socket cookie.
    pub(crate) ends: HashMap<u64, EndRef>,
    pub(crate) queue: VecDeque<Outgoing>,
    pub(crate) bucket: Bucket,
    pub(crate) since: Instant,
    /// Over its message rate: not read from until then.
    pub(crate) paused_until: Option<Instant>,
    /// Close once the queue is empty.
    pub(crate) closing: bool,
    /// The queue waits for descriptors in flight, not for room in the socket.
    pub(crate) stuck: bool,
}

/// How long an over-active client is left alone.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

impl Client {
    pub(crate) fn new(id: u64, socket: OwnedFd, peer: Peer, rate: u64, now: Instant) -> Client {
        Client {
            id,
            socket,
            peer,
            run_id: 0,
            session: None,
            offers: HashMap::new(),
            ends: HashMap::new(),
            queue: VecDeque::new(),
            bucket: Bucket::full(rate, now),
            since: now,
            paused_until: None,
            closing: false,
            stuck: false,
        }
    }

    /// Next message; `Ok(None)` when there is none at the moment.
    ///
    /// # Errors
    /// Why the client must be dropped; an empty text means that it left.
    pub(crate) fn receive(&self) -> Result<Option<Received>, String> {
        let mut bytes = [0u8; MESSAGE_BYTES + 1];
        // Room for one descriptor more than allowed, to tell "too many" from "we have no room".
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX + 1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let got = match recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
            Ok(got) => got,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(_) => return Err(String::new()),
        };
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                fds.extend(received);
            }
        }
        if got.bytes == 0 {
            return Err(String::new());
        }
        let fds_lost = got.flags.contains(ReturnFlags::CTRUNC);
        let message = Message::decode(&bytes[..got.bytes]).map_err(|problem: Malformed| problem.to_string())?;
        if fds.len() > DESCRIPTORS_MAX {
            return Err(format!("message with {} descriptors, allowed are {DESCRIPTORS_MAX}", fds.len()));
        }
        Ok(Some(Received { message, fds, fds_lost }))
    }

    /// Sends what waits, in order.
    pub(crate) fn flush(&mut self, connections: &ConnectionTable) -> Flush {
        self.stuck = false;
        while let Some(next) = self.queue.front().copied() {
            match self.transmit(next, connections) {
                Ok(()) => {}
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Flush::Full,
                Err(Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM) => {
                    self.stuck = true;
                    return Flush::Full;
                }
                Err(_) => return Flush::Dead,
            }
            self.queue.pop_front();
            // The library polls this word: only now can it find the message.
            if let Some(session) = &self.session {
                session.page().mailbox.fetch_add(1, Ordering::Release);
            }
        }
        Flush::Done
    }

    fn transmit(&self, outgoing: Outgoing, connections: &ConnectionTable) -> Result<(), Errno> {
        match outgoing.attachment {
            Attachment::Nothing => self.send(&outgoing.message, &[]),
            Attachment::Page => match &self.session {
                Some(session) => self.send(&outgoing.message, &[session.page_fd.as_fd()]),
                None => Err(Errno::INVAL),
            },
            Attachment::Regions((number, role)) => match (connections.get(number), connections.end_regions(number)) {
                (Some(connection), Some(regions)) => {
                    let fds = [connection.ring.as_fd(), regions[role as usize].as_fd()];
                    self.send(&outgoing.message, &fds)
                }
                // It ended while the message waited.
                _ => {
                    let reason = Reason::UnknownConnection;
                    let refused = Message { token: outgoing.message.token, reason, ..Message::new(Kind::Refused) };
                    self.send(&refused, &[])
                }
            },
        }
    }

    fn send(&self, message: &Message, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Errno::INVAL);
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.socket, &[IoSlice::new(&message.encode())], &mut control, flags).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_a_burst_and_then_the_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::full(10, start);
        assert_eq!((0..20).filter(|_| bucket.take(10, start)).count(), 10);
        let later = start + Duration::from_millis(500);
        assert_eq!((0..20).filter(|_| bucket.take(10, later)).count(), 5);
        assert_eq!((0..20).filter(|_| bucket.take(10, start)).count(), 0, "a clock that steps back gives nothing");
    }
}
