//! When an answer is complete: after a number of bytes, or by what its HTTP head says (RFC 9112, 6.3).

use super::chunks::Chunks;

/// Bytes and fields of a head, at most.
const HEAD_BYTES_MAX: usize = 16 << 10;
const FIELDS_MAX: usize = 64;

/// An answer that is under way.
#[derive(Debug)]
pub(super) enum Answer {
    /// Nothing is awaited.
    None,
    /// So many bytes are missing.
    Bytes(u64),
    /// Of HTTP, what has come of the head.
    Head(Vec<u8>),
    Body(Outcome, Body),
}

#[derive(Debug)]
pub(super) enum Body {
    Bytes(u64),
    Chunks(Chunks),
    /// Up to the end of the connection.
    UntilEnd,
}

/// What a complete answer was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// HTTP's, or 0.
    pub(super) status: u16,
    /// Whether the connection takes another request.
    pub(super) keeps: bool,
}

/// What bytes meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    More,
    /// The answer is complete.
    Done(Outcome),
    /// No HTTP, or bytes that nobody asked for.
    Wrong,
}

const RAW: Outcome = Outcome { status: 0, keeps: true };

impl Answer {
    pub(super) fn take(&mut self, bytes: &[u8]) -> Taken {
        match self {
            Answer::None => Taken::Wrong,
            Answer::Bytes(left) if bytes.len() as u64 > *left => Taken::Wrong,
            Answer::Bytes(left) => {
                *left -= bytes.len() as u64;
                self.done_if_empty()
            }
            Answer::Head(_) => self.take_head(bytes),
            Answer::Body(..) => self.take_body(bytes),
        }
    }

    /// The peer sends no more.
    pub(super) fn take_end(&mut self) -> Taken {
        match core::mem::replace(self, Answer::None) {
            Answer::Body(outcome, Body::UntilEnd) => Taken::Done(outcome),
            _ => Taken::Wrong,
        }
    }

    fn done_if_empty(&mut self) -> Taken {
        let outcome = match self {
            Answer::Bytes(0) => RAW,
            Answer::Body(outcome, Body::Bytes(0)) => *outcome,
            _ => return Taken::More,
        };
        *self = Answer::None;
        Taken::Done(outcome)
    }

    fn take_head(&mut self, bytes: &[u8]) -> Taken {
        let Answer::Head(partial) = self else { return Taken::Wrong };
        // Most heads come in one piece.
        let whole = if partial.is_empty() {
            bytes
        } else {
            partial.extend_from_slice(bytes);
            partial.as_slice()
        };
        let (used, body) = match parse(whole) {
            Ok(Some(found)) => found,
            Ok(None) if whole.len() < HEAD_BYTES_MAX => {
                if partial.is_empty() {
                    partial.extend_from_slice(bytes);
                }
                return Taken::More;
            }
            _ => return Taken::Wrong,
        };
        let rest = whole[used..].to_vec();
        *self = body;
        if rest.is_empty() { self.done_if_empty() } else { self.take_body(&rest) }
    }

    fn take_body(&mut self, bytes: &[u8]) -> Taken {
        let Answer::Body(outcome, body) = self else { return Taken::Wrong };
        let outcome = *outcome;
        match body {
            Body::Bytes(left) if bytes.len() as u64 > *left => Taken::Wrong,
            Body::Bytes(left) => {
                *left -= bytes.len() as u64;
                self.done_if_empty()
            }
            Body::UntilEnd => Taken::More,
            Body::Chunks(chunks) => match chunks.take(bytes) {
                Some((used, true)) if used == bytes.len() => {
                    *self = Answer::None;
                    Taken::Done(outcome)
                }
                Some((_, false)) => Taken::More,
                _ => Taken::Wrong,
            },
        }
    }
}

/// A whole head's length and what follows it; `None` if more of it is to come.
fn parse(bytes: &[u8]) -> Result<Option<(usize, Answer)>, ()> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    let used = match response.parse(bytes).map_err(drop)? {
        httparse::Status::Complete(used) => used,
        httparse::Status::Partial => return Ok(None),
    };
    let status = response.code.ok_or(())?;
    let field = |name: &str| {
        let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.and_then(|header| core::str::from_utf8(header.value).ok()).map(str::trim)
    };
    let says = |name: &str, word: &str| field(name).is_some_and(|value| value.to_ascii_lowercase().contains(word));
    let body = match (status, field("content-length")) {
        (100..=199, _) => return Ok(Some((used, Answer::Head(Vec::new())))),
        (204 | 304, _) => Body::Bytes(0),
        _ if says("transfer-encoding", "chunked") => Body::Chunks(Chunks::new()),
        (_, Some(length)) => Body::Bytes(length.parse().map_err(drop)?),
        (_, None) => Body::UntilEnd,
    };
    let is_old = response.version == Some(0);
    let keeps = match body {
        Body::UntilEnd => false,
        _ if is_old => says("connection", "keep-alive"),
        _ => !says("connection", "close"),
    };
    Ok(Some((used, Answer::Body(Outcome { status, keeps }, body))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(pieces: &[&[u8]]) -> Taken {
        let mut answer = Answer::Head(Vec::new());
        let mut last = Taken::More;
        for piece in pieces {
            assert_eq!(last, Taken::More, "{pieces:?}");
            last = answer.take(piece);
        }
        last
    }

    fn done(status: u16, keeps: bool) -> Taken {
        Taken::Done(Outcome { status, keeps })
    }

    #[test]
    fn answers_end_where_their_heads_say() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        for cut in 1..whole.len() {
            assert_eq!(taken(&[&whole[..cut], &whole[cut..]]), done(200, true), "{cut}");
        }
        assert_eq!(taken(&[b"HTTP/1.1 404 No\r\ncontent-length: 0\r\nConnection: Close\r\n\r\n"]), done(404, false));
        assert_eq!(taken(&[b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"]), done(304, true));
        assert_eq!(taken(&[b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx"]), done(200, false));
        let chunked = [&b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"[..], b"1\r\nx\r\n", b"0\r\n\r\n"];
        assert_eq!(taken(&chunked), done(200, true));
        assert_eq!(taken(&[b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy"]), Taken::Wrong);
        assert_eq!(taken(&[b"SSH-2.0-x\r\n"]), Taken::Wrong);
    }

    #[test]
    fn an_answer_without_a_length_ends_with_its_connection() {
        let mut answer = Answer::Head(Vec::new());
        assert_eq!(answer.take(b"HTTP/1.1 200 OK\r\n\r\nsome"), Taken::More);
        assert_eq!(answer.take(b"thing"), Taken::More);
        assert_eq!(answer.take_end(), done(200, false));
        assert_eq!(Answer::Head(Vec::new()).take_end(), Taken::Wrong);
    }

    #[test]
    fn bytes_are_counted() {
        let mut answer = Answer::Bytes(10);
        assert_eq!((answer.take(b"1234"), answer.take(b"567890")), (Taken::More, done(0, true)));
        assert_eq!(answer.take(b"x"), Taken::Wrong);
        assert_eq!(Answer::Bytes(1).take(b"xy"), Taken::Wrong);
    }
}
