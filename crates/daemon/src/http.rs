//! Just enough HTTP/1.1 for a Prometheus server: `GET /metrics`, one request per connection.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{SendFlags, SocketFlags, accept_with, send};

use crate::DaemonError;
use crate::monitor::Monitor;
use crate::poller::{Ready, Source};

/// Scrapers connected at once.
const SCRAPERS_MAX: usize = 16;
/// Longest request head, in bytes.
const HEAD_BYTES_MAX: usize = 8192;
/// A scraper that is not done by then is dropped.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(10);

/// A connected Prometheus server.
pub(crate) struct Scraper {
    socket: OwnedFd,
    input: Vec<u8>,
    output: Vec<u8>,
    since: Instant,
}

/// Listens for scrapers.
pub(crate) fn listen(address: SocketAddr) -> Result<OwnedFd, DaemonError> {
    let fail = |source| DaemonError::Metrics { address, source };
    let listener = TcpListener::bind(address).map_err(fail)?;
    listener.set_nonblocking(true).map_err(fail)?;
    Ok(listener.into())
}

impl Monitor {
    pub(crate) fn accept_scrapers(&mut self, now: Instant) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Some(Ok(socket)) = self.scrapers_at.as_ref().map(|listener| accept_with(listener, flags)) {
            if self.scrapers.len() >= SCRAPERS_MAX {
                continue;
            }
            let id = self.next_id();
            if self.poller.add(&socket, Source::Scraper(id)).is_ok() {
                let scraper = Scraper { socket, input: Vec::new(), output: Vec::new(), since: now };
                self.scrapers.insert(id, scraper);
            }
        }
    }

    pub(crate) fn on_scraper(&mut self, id: u64, event: Ready) {
        let Some(mut scraper) = self.scrapers.remove(&id) else { return };
        if event.readable && scraper.output.is_empty() {
            let mut bytes = [0u8; 2048];
            match rustix::io::read(&scraper.socket, &mut bytes[..]) {
                Ok(got) if got > 0 => scraper.input.extend_from_slice(&bytes[..got]),
                Err(Errno::AGAIN | Errno::INTR) => {}
                _ => return,
            }
            if scraper.input.len() > HEAD_BYTES_MAX {
                return;
            }
            if scraper.input.windows(4).any(|four| four == b"\r\n\r\n") {
                scraper.output = respond(&scraper.input, || self.metrics_text());
            }
        }
        match scraper.flush() {
            Some(done) if !done => {
                let waiting = !scraper.output.is_empty();
                let _ = self.poller.watch(&scraper.socket, Source::Scraper(id), !waiting, waiting);
                self.scrapers.insert(id, scraper);
            }
            // Answered in full, or gone: closing ends the response.
            _ => {}
        }
    }

    pub(crate) fn drop_slow_scrapers(&mut self, now: Instant) {
        self.scrapers.retain(|_, scraper| now.saturating_duration_since(scraper.since) < SCRAPE_TIMEOUT);
    }
}

impl Scraper {
    /// Sends what fits: whether a response has left in full; `None` if the scraper is gone.
    fn flush(&mut self) -> Option<bool> {
        let answering = !self.output.is_empty();
        while !self.output.is_empty() {
            match send(&self.socket, &self.output, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.output.drain(..sent)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Some(false),
                Err(_) => return None,
            }
        }
        Some(answering)
    }
}

fn respond(head: &[u8], metrics: impl FnOnce() -> String) -> Vec<u8> {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (status, body) = match (words.next(), words.next()) {
        (Some(b"GET"), Some(b"/metrics")) => ("200 OK", metrics()),
        (Some(b"GET"), _) => ("404 Not Found", "only /metrics is here\n".into()),
        _ => ("405 Method Not Allowed", "only GET is understood\n".into()),
    };
    let length = body.len();
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
        .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_get_metrics_is_answered() {
        let status = |head: &[u8]| String::from_utf8(respond(head, || "m 1\n".into())).unwrap();
        assert!(
            status(b"GET /metrics HTTP/1.1\r\n\r\n").ends_with("Content-Length: 4\r\nConnection: close\r\n\r\nm 1\n")
        );
        assert!(status(b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(status(b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(status(b"\r\n\r\n").starts_with("HTTP/1.1 405"));
    }
}
