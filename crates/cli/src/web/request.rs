//! One request out of the bytes that a client has sent.

use super::reply::Status;

/// The longest request head, in bytes.
pub(crate) const HEAD_BYTES_MAX: usize = 16 << 10;
/// Fields of a head at most.
const FIELDS_MAX: usize = 64;
/// The longest body that is read past, in bytes; requests that need more are refused.
const BODY_BYTES_MAX: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Head,
}

/// A request that can be answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request<'a> {
    pub(crate) method: Method,
    /// Path and query, as sent.
    pub(crate) target: &'a str,
    /// The connection stays open after the reply.
    pub(crate) keep_alive: bool,
    /// RFC 9112 9.3: an HTTP/1.0 client must be told that it does.
    pub(crate) tell_keep_alive: bool,
    pub(crate) head_bytes: usize,
    /// Bytes behind the head that belong to the request and mean nothing.
    pub(crate) body_bytes: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed<'a> {
    /// More bytes are needed.
    Partial,
    Request(Request<'a>),
    /// The connection ends after this answer, as nobody knows where the next request begins.
    Refused(Status),
}

/// Reads the request that `bytes` begins with.
pub(crate) fn parse(bytes: &[u8]) -> Parsed<'_> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Request::new(&mut fields);
    let head_bytes = match head.parse(bytes) {
        Ok(httparse::Status::Complete(bytes)) if bytes <= HEAD_BYTES_MAX => bytes,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => return Parsed::Partial,
        Ok(_) => {
            return Parsed::Refused(if head.version.is_none() { Status::UriTooLong } else { Status::HeadTooLarge });
        }
        Err(httparse::Error::TooManyHeaders) => return Parsed::Refused(Status::HeadTooLarge),
        Err(httparse::Error::Version) => return Parsed::Refused(Status::Version),
        Err(_) => return Parsed::Refused(Status::BadRequest),
    };
    match judge(&head, head_bytes) {
        Ok(request) => Parsed::Request(request),
        Err(status) => Parsed::Refused(status),
    }
}

fn judge<'a>(head: &httparse::Request<'_, 'a>, head_bytes: usize) -> Result<Request<'a>, Status> {
    let method = match head.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        Some("POST" | "PUT" | "DELETE" | "PATCH" | "OPTIONS" | "TRACE" | "CONNECT") => return Err(Status::Method),
        _ => return Err(Status::NotImplemented),
    };
    let is_1_1 = head.version == Some(1);
    let (mut keep_alive, mut hosts, mut body_bytes) = (is_1_1, 0, None);
    for field in head.headers.iter() {
        if field.name.eq_ignore_ascii_case("connection") {
            keep_alive = wants_connection(field.value, keep_alive);
        } else if field.name.eq_ignore_ascii_case("host") {
            hosts += 1;
        } else if field.name.eq_ignore_ascii_case("content-length") {
            let length = parse_length(field.value).ok_or(Status::BadRequest)?;
            // RFC 9112 6.3: several lengths that differ are an attempt to smuggle.
            if body_bytes.is_some_and(|before| before != length) {
                return Err(Status::BadRequest);
            }
            body_bytes = Some(length);
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(Status::NotImplemented);
        }
    }
    // RFC 9112 3.2: "A server MUST respond with a 400 (Bad Request) status code to any HTTP/1.1 request message that lacks a
    // Host header field and to any request message that contains more than one".
    if hosts > 1 || is_1_1 && hosts == 0 {
        return Err(Status::BadRequest);
    }
    let body_bytes = body_bytes.unwrap_or(0);
    if body_bytes > BODY_BYTES_MAX {
        return Err(Status::BodyTooLarge);
    }
    let target = head.path.unwrap_or_default();
    Ok(Request { method, target, keep_alive, tell_keep_alive: keep_alive && !is_1_1, head_bytes, body_bytes })
}

/// RFC 9112 9.3: `close` wins over `keep-alive`.
fn wants_connection(value: &[u8], before: bool) -> bool {
    let mut options = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    if options.clone().any(|option| option.eq_ignore_ascii_case(b"close")) {
        return false;
    }
    before || options.any(|option| option.eq_ignore_ascii_case(b"keep-alive"))
}

fn parse_length(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Request<'_> {
        match parse(text.as_bytes()) {
            Parsed::Request(request) => request,
            other => panic!("{text:?}: {other:?}"),
        }
    }

    fn refused(text: &str) -> Status {
        match parse(text.as_bytes()) {
            Parsed::Refused(status) => status,
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn connections_are_kept_as_the_versions_say() {
        let kept = |text| (request(text).keep_alive, request(text).tell_keep_alive);
        assert_eq!(kept("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), (true, false));
        assert_eq!(kept("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n"), (false, false));
        assert_eq!(kept("GET / HTTP/1.0\r\n\r\n"), (false, false));
        assert_eq!(kept("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"), (true, true));
        assert!(kept("GET / HTTP/1.0\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n").0);
    }

    #[test]
    fn the_first_of_many_requests_is_read_with_its_body() {
        let text = "HEAD /a?b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n";
        let head = request(text);
        assert_eq!((head.method, head.target, head.body_bytes), (Method::Head, "/a?b", 3));
        assert_eq!(&text[head.head_bytes + 3..][..3], "GET");
        assert_eq!(parse(b"GET / HT"), Parsed::Partial);
    }

    #[test]
    fn refusals_have_their_own_status() {
        let with = |field: &str| format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n");
        assert_eq!(refused("GET / HTTP/1.1\r\n\r\n"), Status::BadRequest);
        assert_eq!(refused(&with("Host: b")), Status::BadRequest);
        assert_eq!(refused(&with("Content-Length: +3")), Status::BadRequest);
        assert_eq!(refused(&with("Content-Length: 3\r\nContent-Length: 4")), Status::BadRequest);
        assert_eq!(refused(&with("Content-Length: 99999999")), Status::BodyTooLarge);
        assert_eq!(refused(&with("Transfer-Encoding: chunked")), Status::NotImplemented);
        assert_eq!(refused("POST / HTTP/1.1\r\nHost: a\r\n\r\n"), Status::Method);
        assert_eq!(refused("BREW / HTTP/1.1\r\nHost: a\r\n\r\n"), Status::NotImplemented);
        assert_eq!(refused("GET / HTTP/2.0\r\n\r\n"), Status::Version);
        assert_eq!(refused("\u{16}\u{3}\u{1}"), Status::BadRequest);
        assert_eq!(refused(&format!("GET /{}", "a".repeat(HEAD_BYTES_MAX))), Status::UriTooLong);
        assert_eq!(refused(&with(&format!("A: {}", "a".repeat(HEAD_BYTES_MAX)))), Status::HeadTooLarge);
        assert_eq!(refused(&with(&vec!["A: b"; 65].join("\r\n"))), Status::HeadTooLarge);
    }
}
