//! Where requests go and what they look like: `http://ADDRESS:PORT/PATH`, or ADDRESS:PORT for bytes that mean nothing.

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::{Context, Result, bail, ensure};
use ringway_stack::Endpoint;

use super::answer::Answer;

const HTTP_PORT: u16 = 80;
/// What requests without a meaning are made of.
const FILLING: u8 = b'q';

/// Bytes of a request and an answer that mean nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) request_bytes: u64,
    pub(crate) response_bytes: u64,
}

#[derive(Debug)]
pub(crate) enum Request {
    Http(Vec<u8>),
    Raw(Vec<u8>, u64),
}

#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) at: Endpoint,
    pub(crate) request: Request,
}

impl Target {
    /// Reads a target. `last` if each request has a connection of its own.
    ///
    /// # Errors
    /// It is neither a URL of HTTP nor an address with a port; the name is not known.
    pub(crate) fn parse(text: &str, sizes: Sizes, last: bool) -> Result<Target> {
        let Some((scheme, rest)) = text.split_once("://") else {
            let at = resolve(text, None).with_context(|| expected(text))?;
            return Ok(Target::raw(at, sizes.request_bytes as usize, sizes.response_bytes));
        };
        ensure!(scheme == "http", "{text}: {scheme} is not spoken here; give http://ADDRESS[:PORT]/PATH");
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let path = if path.is_empty() { "/" } else { path };
        let is_clean = |part: &str| part.bytes().all(|byte| byte.is_ascii_graphic());
        ensure!(is_clean(authority) && is_clean(path), "{text}: write blanks and what is not ASCII as %20 and so on");
        let at = resolve(authority, Some(HTTP_PORT)).with_context(|| expected(text))?;
        let end = if last { "Connection: close\r\n" } else { "" };
        let request = format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\n{end}\r\n");
        Ok(Target { at, request: Request::Http(request.into_bytes()) })
    }
}

impl Target {
    /// Requests and answers that mean nothing.
    pub(crate) fn raw(at: Endpoint, request_bytes: usize, response_bytes: u64) -> Target {
        Target { at, request: Request::Raw(vec![FILLING; request_bytes], response_bytes) }
    }
}

impl Request {
    pub(super) fn bytes(&self) -> &[u8] {
        let (Request::Http(bytes) | Request::Raw(bytes, _)) = self;
        bytes
    }

    /// What is awaited once it is sent.
    #[inline]
    pub(super) fn answer(&self) -> Answer {
        match self {
            Request::Http(_) => Answer::Head(Vec::new()),
            Request::Raw(_, bytes) => Answer::Bytes(*bytes),
        }
    }
}

fn expected(text: &str) -> String {
    format!("`{text}` is no target; write http://10.0.0.2/PATH, or 10.0.0.2:7000 for requests without a meaning")
}

/// The first address of a host; names are asked of the system's resolver.
fn resolve(authority: &str, port: Option<u16>) -> Result<Endpoint> {
    let has_port = authority.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
    let full = match port {
        Some(port) if !has_port => format!("{authority}:{port}"),
        _ => authority.to_owned(),
    };
    let mut found = full.to_socket_addrs().context("cannot find the address")?;
    let at: SocketAddr = found.next().context("the name has no address")?;
    if at.port() == 0 || at.ip().is_unspecified() {
        bail!("nobody can be reached at {at}");
    }
    Ok(at.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { request_bytes: 3, response_bytes: 7 };

    #[test]
    fn targets_are_read() {
        let target = Target::parse("http://10.0.0.2/a?b=c", SIZES, false).unwrap();
        assert_eq!(target.at, Endpoint::new([10, 0, 0, 2].into(), 80));
        assert_eq!(target.request.bytes(), b"GET /a?b=c HTTP/1.1\r\nHost: 10.0.0.2\r\n\r\n");
        let target = Target::parse("http://[fd00::2]:8080", SIZES, true).unwrap();
        assert_eq!((target.at.port, target.at.address.is_ipv6()), (8080, true));
        assert_eq!(target.request.bytes(), b"GET / HTTP/1.1\r\nHost: [fd00::2]:8080\r\nConnection: close\r\n\r\n");
        let target = Target::parse("10.0.0.2:7000", SIZES, false).unwrap();
        assert_eq!((target.at.port, target.request.bytes()), (7000, &b"qqq"[..]));
        assert!(matches!(target.request.answer(), Answer::Bytes(7)));
    }

    #[test]
    fn what_is_no_target_is_refused_with_an_example() {
        for text in ["", "10.0.0.2", "https://10.0.0.2/", "http:///", "http://10.0.0.2/a b", "0.0.0.0:80", "10.0.0.2:0"]
        {
            let error = format!("{:#}", Target::parse(text, SIZES, false).unwrap_err());
            assert!(["http://", "%20"].iter().any(|hint| error.contains(hint)), "{error}");
        }
    }
}
