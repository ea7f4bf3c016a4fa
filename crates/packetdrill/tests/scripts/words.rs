//! The names that scripts use for numbers.

use libc as c;

macro_rules! words {
    ($($name:ident)+) => { &[$((stringify!($name), c::$name as i64),)+] };
}

const WORDS: &[(&str, i64)] = words! {
    SOCK_STREAM SOCK_NONBLOCK IPPROTO_TCP IPPROTO_IP IPPROTO_IPV6 SOL_SOCKET SOL_TCP SOL_IP IP_TTL
    F_GETFL F_SETFL O_RDWR O_NONBLOCK SHUT_RD SHUT_WR SHUT_RDWR
    MSG_MORE MSG_OOB MSG_PEEK MSG_DONTWAIT MSG_WAITALL MSG_FASTOPEN MSG_ZEROCOPY MSG_EOR MSG_NOSIGNAL MSG_TRUNC
    SO_REUSEADDR SO_KEEPALIVE SO_LINGER SO_RCVBUF SO_SNDBUF SO_ERROR SO_RCVTIMEO SO_SNDTIMEO SO_OOBINLINE SO_RCVLOWAT
    SO_ZEROCOPY TCP_NODELAY TCP_CORK TCP_MAXSEG TCP_KEEPIDLE TCP_KEEPINTVL TCP_KEEPCNT TCP_SYNCNT TCP_LINGER2
    TCP_DEFER_ACCEPT TCP_USER_TIMEOUT TCP_CONGESTION TCP_FASTOPEN TCP_QUICKACK TCP_WINDOW_CLAMP
    POLLIN POLLOUT POLLERR POLLHUP POLLRDHUP POLLPRI
    EPOLLIN EPOLLOUT EPOLLERR EPOLLHUP EPOLLRDHUP EPOLLPRI EPOLLET EPOLLONESHOT EPOLL_CTL_ADD EPOLL_CTL_MOD EPOLL_CTL_DEL
    EAGAIN EPIPE EINPROGRESS ECONNRESET ECONNREFUSED ECONNABORTED ETIMEDOUT ENOTCONN EALREADY EISCONN EINVAL
    EHOSTUNREACH ENETUNREACH EBADF EADDRINUSE EOPNOTSUPP EPROTO ENOENT ENOPROTOOPT EMSGSIZE EEXIST
};
const MORE_WORDS: &[(&str, i64)] = &[
    ("SIOCINQ", c::FIONREAD as i64),
    ("FIONREAD", c::FIONREAD as i64),
    ("SIOCOUTQ", c::TIOCOUTQ as i64),
    ("SIOCOUTQNSD", 0x894b),
    ("SIOCATMARK", 0x8905),
    ("TCP_FASTOPEN_CONNECT", 30),
    ("TCP_NOTSENT_LOWAT", 25),
    ("TCP_INQ", 36),
];

/// A number: decimal, hexadecimal, a name, or several joined by `|`; brackets around it say nothing.
pub(crate) fn number(text: &str) -> Result<i64, String> {
    text.split('|').map(str::trim).map(one).try_fold(0, |all, part| Ok(all | part?))
}

fn one(text: &str) -> Result<i64, String> {
    let text = text.trim_start_matches('[').trim_end_matches(']');
    if let Some(digits) = text.strip_prefix("0x") {
        return i64::from_str_radix(digits, 16).map_err(|_| format!("`{text}` is no number"));
    }
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let known = WORDS.iter().chain(MORE_WORDS).find(|(name, _)| *name == text);
    known.map(|(_, value)| *value).ok_or_else(|| format!("`{text}` is unknown"))
}

/// The members of `{a=1, b=2}`.
pub(crate) fn members(text: &str) -> Vec<(&str, &str)> {
    let inside = text.trim().trim_start_matches(['[', '{']).trim_end_matches(['}', ']']);
    let parts = crate::syntax::split(inside, ',');
    parts.into_iter().filter_map(|part| part.split_once('=')).map(|(n, v)| (n.trim(), v.trim())).collect()
}

/// The number of a member; 0 if it is not there.
pub(crate) fn member(text: &str, wanted: &str) -> Result<i64, String> {
    members(text).into_iter().find(|(name, _)| *name == wanted).map_or(Ok(0), |(_, value)| number(value))
}
