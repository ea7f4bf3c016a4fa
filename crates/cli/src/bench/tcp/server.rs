//! What answers, on any [`Sockets`].

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use ringway_stack::{ConnId, Error, Event, Sockets, Source};

use super::duel::Ends;
use super::listen_at;
use crate::bench::case::Kind;

/// Received at a time.
const BUFFER_BYTES: usize = 64 << 10;
/// Between two looks whether the server should end.
const NAP: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// Sends back what comes.
    Echo,
    /// The same, and ends the connection.
    EchoOnce,
    /// Counts what comes.
    Sink,
}

impl Service {
    pub(super) fn of(kind: Kind) -> Result<Service> {
        Ok(match kind {
            Kind::Requests(_) => Service::Echo,
            Kind::Connect(_) => Service::EchoOnce,
            Kind::Bulk => Service::Sink,
            _ => bail!("no case of `bench tcp`"),
        })
    }
}

/// Serves until the client is done.
pub(super) fn serve(
    sockets: &mut impl Sockets,
    at: &[ringway_stack::Endpoint],
    service: Service,
    ends: &Ends,
    ready: &dyn Fn(),
) -> Result<()> {
    listen_at(sockets, at)?;
    ready();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut events: Vec<Event> = Vec::new();
    while !ends.is_over() {
        sockets.poll(&mut events, Some(NAP))?;
        for event in &events {
            match event.source {
                Source::Connection(id) => answer(sockets, id, service, &mut buffer, ends)?,
                // What is accepted is told of by itself.
                Source::Listener(id) => while sockets.accept(id).is_ok() {},
            }
        }
    }
    Ok(())
}

fn answer(sockets: &mut impl Sockets, id: ConnId, service: Service, buffer: &mut [u8], ends: &Ends) -> Result<()> {
    loop {
        let bytes = match sockets.recv(id, buffer) {
            Ok(0) => {
                sockets.close(id);
                return Ok(());
            }
            Ok(bytes) => bytes,
            Err(Error::WouldBlock | Error::BadHandle) => return Ok(()),
            Err(_) => {
                // The client is done and has gone.
                sockets.abort(id);
                return Ok(());
            }
        };
        if service == Service::Sink {
            ends.received_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        } else {
            let sent = sockets.send(id, &buffer[..bytes])?;
            ensure!(sent == bytes, "an answer of {bytes} bytes found no room");
        }
        if service == Service::EchoOnce {
            sockets.close(id);
            return Ok(());
        }
        if bytes < buffer.len() && service == Service::Echo {
            return Ok(());
        }
    }
}
