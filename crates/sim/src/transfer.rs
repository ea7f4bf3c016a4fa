//! An application that sends a pattern, and one that reads it and looks at every byte.

use ringway_tcp::{ConnId, Error, Event, ListenerId, ReceiveFlags, SendFlags, Shutdown, SocketOptions, Source};
use ringway_wire::Endpoint;

use crate::world::{HostId, World};

/// The octet at `offset` of a transfer's stream.
pub fn pattern(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// How the applications behave.
#[derive(Clone, Debug)]
pub struct TransferConfig {
    /// From the one that opens to the one that accepts, in octets.
    pub up_bytes: u64,
    /// Back, in octets.
    pub down_bytes: u64,
    /// Octets of each call to send; small ones make small segments.
    pub write_bytes: usize,
    /// Octets of each call to receive.
    pub read_bytes: usize,
    /// The readers take at most this much each millisecond; `None` for all there is.
    pub read_bytes_per_ms: Option<u64>,
    pub client: SocketOptions,
    pub server: SocketOptions,
    pub port: u16,
}

impl Default for TransferConfig {
    fn default() -> TransferConfig {
        TransferConfig {
            up_bytes: 1 << 20,
            down_bytes: 0,
            write_bytes: 64 << 10,
            read_bytes: 64 << 10,
            read_bytes_per_ms: None,
            client: SocketOptions::default(),
            server: SocketOptions::default(),
            port: 80,
        }
    }
}

/// One end's progress.
#[derive(Clone, Debug, Default)]
struct End {
    id: Option<ConnId>,
    to_send: u64,
    sent: u64,
    to_read: u64,
    read: u64,
    saw_end: bool,
    ended: bool,
    closed: bool,
    /// It has something to do though no event says so: it is new, or its allowance was used up.
    eager: bool,
    /// What the reader may take, and when that was reckoned.
    allowance: u64,
    reckoned_ms: u64,
}

/// A transfer at work between two hosts.
pub struct Transfer {
    config: TransferConfig,
    hosts: [HostId; 2],
    listener: ListenerId,
    ends: [End; 2],
    /// What ended the transfer before its time.
    failure: Option<Error>,
}

impl Transfer {
    /// Opens a connection from host `client` to host `server`.
    pub fn start(world: &mut World, client: HostId, server: HostId, config: TransferConfig) -> Transfer {
        let there = Endpoint::new(world.address(server), config.port);
        let here = Endpoint::new(world.address(client), 0);
        let listener = world.hosts[server].engine.listen(there, 16, &config.server);
        let listener = listener.expect("a free port to listen at");
        let id = world.hosts[client].engine.connect(world.now, here, there, &config.client);
        let id = id.expect("a free port to connect from");
        let up =
            End { id: Some(id), to_send: config.up_bytes, to_read: config.down_bytes, eager: true, ..End::default() };
        let down = End { to_send: config.down_bytes, to_read: config.up_bytes, ..End::default() };
        Transfer { config, hosts: [client, server], listener, ends: [up, down], failure: None }
    }

    /// Does what an application would do on `events`, which are edges: an engine that forgets one stalls it.
    pub fn poll(&mut self, world: &mut World, events: &[(HostId, Event)]) {
        let told = |host, source| events.iter().any(|(at, event)| *at == host && event.source == source);
        if self.ends[1].id.is_none() && told(self.hosts[1], Source::Listener(self.listener)) {
            self.ends[1].id = world.hosts[self.hosts[1]].engine.accept(self.listener).ok();
            self.ends[1].eager = true;
        }
        for end in 0..2 {
            let Some(id) = self.ends[end].id else { continue };
            if !core::mem::take(&mut self.ends[end].eager) && !told(self.hosts[end], Source::Connection(id)) {
                continue;
            }
            if let Err(error) = self.poll_end(world, end) {
                self.failure.get_or_insert(error);
            }
        }
    }

    /// Whether everything has arrived and both ends have closed.
    pub fn is_done(&self) -> bool {
        self.ends.iter().all(|end| end.closed)
    }

    /// What ended the transfer before its time.
    pub fn failure(&self) -> Option<Error> {
        self.failure
    }

    /// Octets that have arrived at both ends.
    pub fn received(&self) -> u64 {
        self.ends.iter().map(|end| end.read).sum()
    }

    /// Octets that were to arrive at both ends.
    pub fn expected(&self) -> u64 {
        self.config.up_bytes + self.config.down_bytes
    }

    /// The next time at which a reader takes something though nothing happens.
    pub fn next_read_ms(&self) -> Option<u64> {
        self.ends.iter().filter(|end| end.eager).map(|end| end.reckoned_ms + 1).min()
    }

    fn poll_end(&mut self, world: &mut World, index: usize) -> Result<(), Error> {
        let Some(id) = self.ends[index].id.filter(|_| !self.ends[index].closed) else { return Ok(()) };
        self.read(world, index, id)?;
        self.write(world, index, id)?;
        let end = &mut self.ends[index];
        if end.saw_end && end.ended {
            assert_eq!(end.read, end.to_read, "end {index} saw the end of the stream before its time");
            end.closed = true;
            world.hosts[self.hosts[index]].engine.close(world.now, id)?;
        }
        Ok(())
    }

    fn write(&mut self, world: &mut World, index: usize, id: ConnId) -> Result<(), Error> {
        let end = &mut self.ends[index];
        let engine = &mut world.hosts[self.hosts[index]].engine;
        while end.sent < end.to_send {
            let bytes = (end.to_send - end.sent).min(self.config.write_bytes as u64);
            let piece: Vec<u8> = (end.sent..end.sent + bytes).map(pattern).collect();
            match engine.send(world.now, id, &piece, SendFlags::empty()) {
                Ok(taken) => end.sent += taken as u64,
                Err(Error::WouldBlock | Error::NotConnected) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        if !end.ended {
            match engine.shutdown(world.now, id, Shutdown::Send) {
                Ok(()) => end.ended = true,
                Err(Error::NotConnected) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read(&mut self, world: &mut World, index: usize, id: ConnId) -> Result<(), Error> {
        let end = &mut self.ends[index];
        let engine = &mut world.hosts[self.hosts[index]].engine;
        let mut buffer = vec![0; self.config.read_bytes];
        loop {
            let allowed = match self.config.read_bytes_per_ms {
                Some(rate) => {
                    end.allowance = (end.allowance + (world.now.ms() - end.reckoned_ms) * rate).min(rate * 4);
                    end.reckoned_ms = world.now.ms();
                    end.allowance.min(buffer.len() as u64) as usize
                }
                None => buffer.len(),
            };
            if end.saw_end || allowed == 0 {
                end.eager = !end.saw_end;
                return Ok(());
            }
            match engine.recv(world.now, id, &mut buffer[..allowed], ReceiveFlags::empty()) {
                Ok(0) => end.saw_end = true,
                Ok(bytes) => {
                    for (offset, byte) in (end.read..).zip(&buffer[..bytes]) {
                        assert_eq!(*byte, pattern(offset), "octet {offset} at end {index} is not what was sent");
                    }
                    end.read += bytes as u64;
                    end.allowance = end.allowance.saturating_sub(bytes as u64);
                }
                Err(Error::WouldBlock | Error::NotConnected) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// A line on how far it has come, for failures.
    pub fn progress(&self) -> String {
        let part = |end: &End| format!("sent {}/{}, read {}/{}", end.sent, end.to_send, end.read, end.to_read);
        format!("client {}; server {}; {:?}", part(&self.ends[0]), part(&self.ends[1]), self.failure)
    }
}
