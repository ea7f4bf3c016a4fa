//! Heads of replies, and whole refusals.

use std::time::SystemTime;

macro_rules! statuses {
    ($($name:ident = $code:literal $reason:literal, $text:literal;)+) => {
        /// What a reply says of its request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Status {
            $($name,)+
        }

        impl Status {
            const fn line(self) -> &'static str {
                match self { $(Status::$name => concat!("HTTP/1.1 ", $code, " ", $reason, "\r\n"),)+ }
            }

            /// For people who read the body.
            const fn text(self) -> &'static str {
                match self { $(Status::$name => $text,)+ }
            }
        }
    };
}

statuses! {
    Ok = 200 "OK", "";
    BadRequest = 400 "Bad Request", "This is no HTTP/1.1 request, or not an unambiguous one.\n";
    NotFound = 404 "Not Found", "There is no such file.\n";
    Method = 405 "Method Not Allowed", "Only GET and HEAD are answered here.\n";
    Timeout = 408 "Request Timeout", "The request did not come to its end in time.\n";
    BodyTooLarge = 413 "Content Too Large", "Bodies of requests have at most 1 MiB here.\n";
    UriTooLong = 414 "URI Too Long", "The request line is longer than 16 KiB.\n";
    HeadTooLarge = 431 "Request Header Fields Too Large", "The request's head has more than 16 KiB or 64 fields.\n";
    Failed = 500 "Internal Server Error", "The file cannot be read.\n";
    NotImplemented = 501 "Not Implemented", "The method or the transfer coding is not known here.\n";
    Version = 505 "HTTP Version Not Supported", "HTTP/1.1 and HTTP/1.0 are spoken here.\n";
}

/// What a head says besides its status.
pub(crate) struct Head<'a> {
    pub(crate) status: Status,
    pub(crate) content_type: &'a str,
    pub(crate) content_bytes: u64,
    pub(crate) modified: Option<SystemTime>,
    pub(crate) keep_alive: bool,
    pub(crate) tell_keep_alive: bool,
}

/// The `Date` field, made once a second.
pub(crate) struct Date {
    second: u64,
    field: String,
}

impl Date {
    pub(crate) fn new() -> Date {
        Date { second: u64::MAX, field: String::new() }
    }

    /// Makes the field anew if `second`, counted by any clock, is another one.
    pub(crate) fn refresh(&mut self, second: u64) {
        if second != self.second {
            self.second = second;
            self.field = format!("Date: {}\r\n", httpdate::fmt_http_date(SystemTime::now()));
        }
    }
}

/// Appends a head to `out`.
pub(crate) fn write_head(out: &mut Vec<u8>, head: &Head, date: &Date) {
    out.extend_from_slice(head.status.line().as_bytes());
    out.extend_from_slice(date.field.as_bytes());
    out.extend_from_slice(b"Content-Type: ");
    out.extend_from_slice(head.content_type.as_bytes());
    out.extend_from_slice(b"\r\nContent-Length: ");
    write_number(out, head.content_bytes);
    out.extend_from_slice(b"\r\n");
    if let Some(modified) = head.modified {
        out.extend_from_slice(format!("Last-Modified: {}\r\n", httpdate::fmt_http_date(modified)).as_bytes());
    }
    if head.status == Status::Method {
        out.extend_from_slice(b"Allow: GET, HEAD\r\n");
    }
    if !head.keep_alive {
        out.extend_from_slice(b"Connection: close\r\n");
    } else if head.tell_keep_alive {
        out.extend_from_slice(b"Connection: keep-alive\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a whole refusal; `with_body` unless the request was HEAD.
pub(crate) fn write_refusal(out: &mut Vec<u8>, status: Status, keep: (bool, bool), with_body: bool, date: &Date) {
    let (keep_alive, tell_keep_alive) = keep;
    let content_bytes = status.text().len() as u64;
    let head = Head { status, content_type: "text/plain", content_bytes, modified: None, keep_alive, tell_keep_alive };
    write_head(out, &head, date);
    if with_body {
        out.extend_from_slice(status.text().as_bytes());
    }
}

fn write_number(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let (mut at, mut rest) = (digits.len(), number);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_a_whole_message() {
        let mut out = Vec::new();
        let mut date = Date::new();
        date.refresh(0);
        write_refusal(&mut out, Status::Method, (false, false), true, &date);
        let text = String::from_utf8(out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 405 Method Not Allowed\r\nDate: "), "{head}");
        assert!(head.contains(&format!("Content-Length: {}", body.len())) && head.contains("Allow: GET, HEAD"));
        assert!(head.ends_with("Connection: close"));
    }

    #[test]
    fn numbers() {
        let mut out = Vec::new();
        [0, 7, 1024, u64::MAX].iter().for_each(|n| write_number(&mut out, *n));
        assert_eq!(out, b"07102418446744073709551615");
    }
}
