//! One client: what it has sent and is not read, what it is owed and not sent.

use std::io::Read;

use ringway_stack::{ConnId, Error, Instant, Ready, Shutdown, Sockets};

use super::content::{Body, Content, Found};
use super::reply::{self, Date, Head, Status};
use super::request::{self, Method, Parsed, Request};

/// Bytes received, or read from a file, at a time.
const INPUT_BYTES: usize = 64 << 10;
/// Replies that are put together before they are sent; requests beyond wait.
const REPLIES_BYTES_MAX: usize = 64 << 10;
/// Bodies up to this length are copied behind their heads; longer ones follow as there is room.
const SHORT_BODY_BYTES: u64 = 16 << 10;
const FILLING: u8 = b'x';

/// What all clients share: buffers that are empty between two of them, and what there is to say.
pub(super) struct Desk {
    pub(super) content: Content,
    pub(super) date: Date,
    input: Box<[u8]>,
    replies: Vec<u8>,
    /// Requests answered, refusals included, and how many of them were refused.
    pub(super) requests: u64,
    pub(super) refused: u64,
}

impl Desk {
    pub(super) fn new(content: Content) -> Desk {
        let input = vec![0; INPUT_BYTES].into_boxed_slice();
        Desk { content, date: Date::new(), input, replies: Vec::new(), requests: 0, refused: 0 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// The connection ends once everything is sent.
    Last,
    /// Everything is sent; what still comes is thrown away until the client has ended, too. Closing at once would reset
    /// the connection, and the client might never read our answer (RFC 9112, 9.6).
    Lingering,
}

/// Whether the connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Keep,
    Close,
    Reset,
}

/// An error says that the client is at a halt: it waits for events (`Keep`), or ends.
type Step = Result<(), Next>;

pub(super) struct Client {
    pub(super) id: ConnId,
    /// When something last moved.
    pub(super) active: Instant,
    phase: Phase,
    /// `unread` may hold whole requests that wait for their turn.
    has_backlog: bool,
    unread: Vec<u8>,
    unsent: Vec<u8>,
    body: Option<Body>,
    /// Bytes of a request's body that mean nothing and are still to come.
    skip_bytes: u64,
}

impl Client {
    pub(super) fn new(id: ConnId, now: Instant) -> Client {
        Client {
            id,
            active: now,
            phase: Phase::Open,
            has_backlog: false,
            unread: Vec::new(),
            unsent: Vec::new(),
            body: None,
            skip_bytes: 0,
        }
    }

    pub(super) fn is_lingering(&self) -> bool {
        self.phase == Phase::Lingering
    }

    /// Does all that can be done: sends, receives, answers, until the connection blocks or ends.
    pub(super) fn advance(&mut self, sockets: &mut impl Sockets, desk: &mut Desk, ready: Ready) -> Next {
        self.active = sockets.now();
        // Without these a call that brings less than asked for has brought everything.
        let ends = ready.intersects(Ready::READ_HANGUP | Ready::HANGUP | Ready::ERROR);
        loop {
            match self.step(sockets, desk, ends) {
                Ok(()) => {}
                Err(next) => return next,
            }
        }
    }

    fn step(&mut self, sockets: &mut impl Sockets, desk: &mut Desk, ends: bool) -> Step {
        self.send_rest(sockets, desk)?;
        if self.phase == Phase::Last {
            self.phase = Phase::Lingering;
            sockets.shutdown(self.id, Shutdown::Send).map_err(|_| Next::Close)?;
        }
        let (bytes, drained) = self.receive(sockets, desk)?;
        if self.phase == Phase::Open {
            self.answer(desk, bytes);
            self.send_replies(sockets, desk)?;
        }
        let idle = self.unsent.is_empty() && self.body.is_none() && !self.has_backlog && self.phase != Phase::Last;
        if drained && idle && !ends { Err(Next::Keep) } else { Ok(()) }
    }

    /// The client was silent for too long: an answer if a request has begun, and the end.
    pub(super) fn time_out(&mut self, sockets: &mut impl Sockets, desk: &mut Desk) -> Next {
        if self.unread.is_empty() || !self.unsent.is_empty() || self.body.is_some() || self.phase != Phase::Open {
            return Next::Reset;
        }
        self.refuse(desk, Status::Timeout);
        self.unread.clear();
        match self.send_replies(sockets, desk) {
            Ok(()) => self.advance(sockets, desk, Ready::empty()),
            Err(next) => next,
        }
    }

    /// What was owed from before.
    fn send_rest(&mut self, sockets: &mut impl Sockets, desk: &mut Desk) -> Step {
        if !self.unsent.is_empty() {
            let sent = self.send(sockets, &self.unsent)?;
            self.unsent.drain(..sent);
            if !self.unsent.is_empty() {
                return Err(Next::Keep);
            }
            self.unsent = Vec::new();
        }
        while let Some(body) = &mut self.body {
            let bytes = body.fill(&mut desk.input).ok_or(Next::Reset)?;
            if bytes == 0 {
                self.body = None;
                break;
            }
            let sent = self.send(sockets, &desk.input[..bytes]);
            let taken = sent.or_else(|next| if next == Next::Keep { Ok(0) } else { Err(next) })?;
            if taken < bytes {
                self.unsent.extend_from_slice(&desk.input[taken..bytes]);
                return Err(Next::Keep);
            }
        }
        Ok(())
    }

    fn send(&self, sockets: &mut impl Sockets, bytes: &[u8]) -> Result<usize, Next> {
        match sockets.send(self.id, bytes) {
            Ok(sent) => Ok(sent),
            Err(Error::WouldBlock) => Err(Next::Keep),
            Err(_) => Err(Next::Close),
        }
    }

    /// Puts what has come behind what is unread into the desk's input; answers how many bytes lie there, and whether
    /// nothing more has come.
    fn receive(&mut self, sockets: &mut impl Sockets, desk: &mut Desk) -> Result<(usize, bool), Next> {
        let before = self.unread.len();
        let mut drained = false;
        let mut received = 0;
        if !self.has_backlog {
            let room = &mut desk.input[before..];
            received = match sockets.recv(self.id, room) {
                Ok(0) => return Err(Next::Close),
                Ok(bytes) => bytes,
                Err(Error::WouldBlock) => return Err(Next::Keep),
                Err(_) => return Err(Next::Close),
            };
            drained = received < room.len();
        }
        desk.input[..before].copy_from_slice(&self.unread);
        self.unread.clear();
        Ok((before + received, drained))
    }

    /// Answers the requests in the first `bytes` of the desk's input; what is left of these is unread.
    fn answer(&mut self, desk: &mut Desk, bytes: usize) {
        if matches!(desk.content, Content::Echo) {
            desk.requests += 1;
            desk.replies.extend_from_slice(&desk.input[..bytes]);
            return;
        }
        let input = std::mem::take(&mut desk.input);
        let (mut at, mut is_partial) = (0, false);
        while at < bytes && self.phase == Phase::Open && self.body.is_none() && desk.replies.len() < REPLIES_BYTES_MAX {
            if self.skip_bytes > 0 {
                let skipped = self.skip_bytes.min((bytes - at) as u64);
                self.skip_bytes -= skipped;
                at += skipped as usize;
                continue;
            }
            match request::parse(&input[at..bytes]) {
                Parsed::Partial => {
                    is_partial = true;
                    break;
                }
                Parsed::Refused(status) => self.refuse(desk, status),
                Parsed::Request(request) => {
                    at += request.head_bytes;
                    self.skip_bytes = request.body_bytes;
                    self.respond(desk, &request);
                }
            }
        }
        if self.phase == Phase::Open {
            self.unread.extend_from_slice(&input[at..bytes]);
        }
        self.has_backlog = !self.unread.is_empty() && !is_partial;
        desk.input = input;
    }

    fn respond(&mut self, desk: &mut Desk, request: &Request) {
        desk.requests += 1;
        let Request { keep_alive, tell_keep_alive, .. } = *request;
        if !keep_alive {
            self.phase = Phase::Last;
        }
        let with_body = request.method == Method::Get;
        let Found { body, bytes, content_type, modified } = match desk.content.find(request.target) {
            Ok(found) => found,
            Err(status) => {
                desk.refused += 1;
                let keep = (keep_alive, tell_keep_alive);
                return reply::write_refusal(&mut desk.replies, status, keep, with_body, &desk.date);
            }
        };
        let status = Status::Ok;
        let head = Head { status, content_type, content_bytes: bytes, modified, keep_alive, tell_keep_alive };
        reply::write_head(&mut desk.replies, &head, &desk.date);
        match body {
            _ if !with_body => {}
            Body::Filling(bytes) if bytes <= SHORT_BODY_BYTES => {
                desk.replies.resize(desk.replies.len() + bytes as usize, FILLING);
            }
            body => self.body = Some(body),
        }
    }

    fn refuse(&mut self, desk: &mut Desk, status: Status) {
        desk.requests += 1;
        desk.refused += 1;
        self.phase = Phase::Last;
        reply::write_refusal(&mut desk.replies, status, (false, false), true, &desk.date);
    }

    fn send_replies(&mut self, sockets: &mut impl Sockets, desk: &mut Desk) -> Step {
        if desk.replies.is_empty() {
            return Ok(());
        }
        let sent = self.send(sockets, &desk.replies);
        let taken = sent.or_else(|next| if next == Next::Keep { Ok(0) } else { Err(next) });
        if let Ok(taken) = taken {
            self.unsent.extend_from_slice(&desk.replies[taken..]);
        }
        desk.replies.clear();
        taken.map(drop)
    }
}

impl Body {
    /// Writes the next piece into `buffer`; 0 at the end. `None` if the file has become shorter than was told.
    fn fill(&mut self, buffer: &mut [u8]) -> Option<usize> {
        match self {
            Body::Filling(left) => {
                let bytes = (*left).min(buffer.len() as u64) as usize;
                buffer[..bytes].fill(FILLING);
                *left -= bytes as u64;
                Some(bytes)
            }
            Body::File(_, 0) => Some(0),
            Body::File(file, left) => {
                let most = (*left).min(buffer.len() as u64) as usize;
                let bytes = file.read(&mut buffer[..most]).ok().filter(|bytes| *bytes > 0)?;
                *left -= bytes as u64;
                Some(bytes)
            }
        }
    }
}
