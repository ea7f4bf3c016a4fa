//! The server: a listener, its clients, and who of them has been silent for too long.

use std::io;
use std::time::Duration;

use ringway_stack::{ConnId, Endpoint, Event, Instant, ListenerId, Ready, Sockets, Source};

use super::client::{Client, Desk, Next};
use super::content::Content;

/// Connections that wait to be accepted, at most.
const BACKLOG: u32 = 4096;
/// Between two looks for silent clients.
const SWEEP_US: u64 = 1_000_000;
/// How long a client may take to end after its last answer.
const LINGER_US: u64 = 2_000_000;

pub(crate) struct Limits {
    /// Clients at a time; those beyond are reset.
    pub(crate) clients_max: usize,
    /// A client that is silent for so long is let go.
    pub(crate) idle: Duration,
}

/// What a server has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) accepted: u64,
    /// Reset, because there were too many.
    pub(crate) turned_away: u64,
    pub(crate) requests: u64,
    pub(crate) refused: u64,
}

pub(crate) struct Server {
    listener: ListenerId,
    limits: Limits,
    desk: Desk,
    /// By the number of the connection.
    clients: Vec<Option<Client>>,
    connected: usize,
    accepted: u64,
    turned_away: u64,
    sweep_at: Instant,
}

impl Server {
    /// # Errors
    /// Nobody can listen at `at`.
    pub(crate) fn new(
        sockets: &mut impl Sockets,
        at: Endpoint,
        content: Content,
        limits: Limits,
    ) -> io::Result<Server> {
        let listener = sockets.listen(at, BACKLOG)?;
        Ok(Server {
            listener,
            limits,
            desk: Desk::new(content),
            clients: Vec::new(),
            connected: 0,
            accepted: 0,
            turned_away: 0,
            sweep_at: Instant::ZERO,
        })
    }

    /// Does what `events` allow; call it after each poll, also without events.
    pub(crate) fn serve(&mut self, sockets: &mut impl Sockets, events: &[Event]) {
        let now = sockets.now();
        self.desk.date.refresh(now.us() / 1_000_000);
        for event in events {
            match event.source {
                Source::Connection(id) => self.advance(sockets, id, event.ready),
                Source::Listener(_) => self.accept(sockets),
            }
        }
        if now >= self.sweep_at {
            self.sweep_at = now + SWEEP_US;
            self.sweep(sockets, now);
        }
    }

    pub(crate) fn done(&self) -> Done {
        Done {
            accepted: self.accepted,
            turned_away: self.turned_away,
            requests: self.desk.requests,
            refused: self.desk.refused,
        }
    }

    fn accept(&mut self, sockets: &mut impl Sockets) {
        while let Ok(id) = sockets.accept(self.listener) {
            if self.connected >= self.limits.clients_max {
                self.turned_away += 1;
                sockets.abort(id);
                continue;
            }
            self.accepted += 1;
            self.connected += 1;
            let index = id.index as usize;
            if index >= self.clients.len() {
                self.clients.resize_with(index + 1, || None);
            }
            self.clients[index] = Some(Client::new(id, sockets.now()));
        }
    }

    fn advance(&mut self, sockets: &mut impl Sockets, id: ConnId, ready: Ready) {
        let client = self.clients.get_mut(id.index as usize).and_then(Option::as_mut);
        let Some(client) = client.filter(|client| client.id == id) else { return };
        let next = client.advance(sockets, &mut self.desk, ready);
        self.end(sockets, id, next);
    }

    fn end(&mut self, sockets: &mut impl Sockets, id: ConnId, next: Next) {
        match next {
            Next::Keep => return,
            Next::Close => sockets.close(id),
            Next::Reset => sockets.abort(id),
        }
        self.clients[id.index as usize] = None;
        self.connected -= 1;
    }

    /// Lets go of clients that are silent, and accepts those that found no room before.
    fn sweep(&mut self, sockets: &mut impl Sockets, now: Instant) {
        let idle_us = self.limits.idle.as_micros() as u64;
        for index in 0..self.clients.len() {
            let Some(client) = &mut self.clients[index] else { continue };
            let limit_us = if client.is_lingering() { LINGER_US } else { idle_us };
            if now.since_us(client.active) >= limit_us {
                let (id, next) = (client.id, client.time_out(sockets, &mut self.desk));
                self.end(sockets, id, next);
            }
        }
        self.accept(sockets);
    }
}

#[cfg(test)]
mod tests;
