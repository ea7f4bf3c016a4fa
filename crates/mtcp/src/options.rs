//! `getsockopt`, `setsockopt` and `ioctl`. TCP's own options are the engine's; a few are kept here.

use std::time::Duration;

use libc::c_int;
use ringway_stack::Sockets;
use ringway_tcp::State as TcpState;
use ringway_tcp::info::TcpInfo;

use crate::errno::{Errno, Result};
use crate::socket::{Role, Socket};
use crate::state::{Kind, State};

// Names that libc does not have everywhere (include/uapi/linux/tcp.h).
const TCP_INFO: c_int = 11;
const TCP_QUICKACK: c_int = 12;

impl State {
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `EINVAL` for a wrong value, `ENOPROTOOPT` for an unknown option.
    pub(crate) fn set_option(&mut self, number: usize, level: c_int, name: c_int, value: &[u8]) -> Result<()> {
        let socket = self.socket(number)?;
        if set_own(socket, level, name, value)? {
            return Ok(());
        }
        if !socket.options.set(level, name, value)? {
            return Err(Errno(libc::ENOPROTOOPT));
        }
        let (role, options) = (socket.role, socket.options.clone());
        let now = self.stack.now();
        match role {
            Role::Fresh => {}
            Role::Listening(listener) => self.stack.engine().configure_listener(listener, |set| *set = options)?,
            Role::Open { conn, .. } => self.stack.engine().configure(now, conn, |set| *set = options)?,
        }
        Ok(())
    }

    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `ENOPROTOOPT` for an unknown option.
    pub(crate) fn option(&mut self, number: usize, level: c_int, name: c_int) -> Result<Vec<u8>> {
        let role = self.socket(number)?.role;
        if let Some(value) = self.measured(role, level, name)? {
            return Ok(value);
        }
        let socket = self.socket(number)?;
        if let Some(value) = own(socket, level, name) {
            return Ok(value);
        }
        let options = socket.options.clone();
        options.get(level, name, self.stack.engine().config()).ok_or(Errno(libc::ENOPROTOOPT))
    }

    /// Options whose value is known at each moment.
    fn measured(&mut self, role: Role, level: c_int, name: c_int) -> Result<Option<Vec<u8>>> {
        let conn = if let Role::Open { conn, .. } = role { Some(conn) } else { None };
        let now = self.stack.now();
        let value = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => {
                let error = conn.and_then(|conn| self.stack.take_error(conn));
                error.map_or(0, ringway_tcp::Error::errno)
            }
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => matches!(role, Role::Listening(_)).into(),
            (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_STREAM,
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => libc::IPPROTO_TCP,
            (libc::IPPROTO_TCP, TCP_INFO) => {
                let without = |state: TcpState| TcpInfo { state: state.linux_number(), ..TcpInfo::default() };
                let info = match role {
                    Role::Fresh => without(TcpState::Closed),
                    Role::Listening(_) => without(TcpState::Listen),
                    Role::Open { conn, .. } => self.stack.engine().tcp_info(now, conn)?,
                };
                return Ok(Some(info.to_bytes().to_vec()));
            }
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => match conn {
                Some(conn) => self.stack.engine().tcp_info(now, conn)?.snd_mss as c_int,
                None => return Ok(None),
            },
            (libc::IPPROTO_IP, libc::IP_MTU) | (libc::IPPROTO_IPV6, libc::IPV6_MTU) => {
                let conn = conn.ok_or(Errno::NOTCONN)?;
                self.stack.engine().tcp_info(now, conn)?.pmtu as c_int
            }
            _ => return Ok(None),
        };
        Ok(Some(value.to_ne_bytes().to_vec()))
    }

    /// `ioctl`: the integer that it answers; `FIONBIO` is told `value`.
    ///
    /// # Errors
    /// `ENOTTY` for other requests than `FIONREAD`, `FIONBIO`, `TIOCOUTQ` and `SIOCATMARK`.
    pub(crate) fn ioctl(&mut self, number: usize, request: u64, value: c_int) -> Result<c_int> {
        let entry = self.entry(number)?;
        match request {
            FIONBIO => entry.nonblocking = value != 0,
            libc::FIONREAD if !matches!(entry.kind, Kind::Epoll(_)) => return Ok(self.unread(number)? as c_int),
            libc::TIOCOUTQ | SIOCATMARK => {
                let Role::Open { conn, .. } = self.socket(number)?.role else { return Err(Errno::INVAL) };
                if request == SIOCATMARK {
                    return Ok(self.stack.engine().is_at_mark(conn)?.into());
                }
                let now = self.stack.now();
                return Ok(unacknowledged(&self.stack.engine().tcp_info(now, conn)?));
            }
            _ => return Err(Errno(libc::ENOTTY)),
        }
        Ok(value)
    }
}

pub(crate) const FIONBIO: u64 = 0x5421;
const SIOCATMARK: u64 = 0x8905;

/// Bytes that were given to be sent and are not acknowledged.
fn unacknowledged(info: &TcpInfo) -> c_int {
    let in_flight = info.bytes_sent.saturating_sub(info.bytes_retrans).saturating_sub(info.bytes_acked);
    (in_flight + u64::from(info.notsent_bytes)).min(i32::MAX as u64) as c_int
}

fn int(value: &[u8]) -> Result<c_int> {
    value.first_chunk().map(|bytes| c_int::from_ne_bytes(*bytes)).ok_or(Errno::INVAL)
}

/// A `timeval`; zero means none.
fn timeout(value: &[u8]) -> Result<Option<Duration>> {
    let word = |at: usize| value.get(at..at + 8).and_then(|b| b.try_into().ok()).map(i64::from_ne_bytes);
    let (seconds, us) = word(0).zip(word(8)).ok_or(Errno::INVAL)?;
    if !(0..1_000_000).contains(&us) {
        return Err(Errno(libc::EDOM));
    }
    let timeout = Duration::from_secs(seconds.max(0) as u64) + Duration::from_micros(us as u64);
    Ok((!timeout.is_zero()).then_some(timeout))
}

fn timeval(timeout: Option<Duration>) -> Vec<u8> {
    let timeout = timeout.unwrap_or_default();
    [(timeout.as_secs() as i64).to_ne_bytes(), i64::from(timeout.subsec_micros()).to_ne_bytes()].concat()
}

/// Options that are kept here; `false` for others. Ports of one core are not shared, so `SO_REUSEPORT` means nothing more.
fn set_own(socket: &mut Socket, level: c_int, name: c_int, value: &[u8]) -> Result<bool> {
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => socket.receive_timeout = timeout(value)?,
        (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => socket.send_timeout = timeout(value)?,
        (libc::SOL_SOCKET, libc::SO_REUSEADDR | libc::SO_REUSEPORT) => socket.reuse_address = int(value)? != 0,
        // A listener for any IPv6 address takes IPv4, too, and cannot be told not to.
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) if int(value)? == 0 => {}
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => return Err(Errno(libc::EOPNOTSUPP)),
        // Advice for the next acknowledgement, which the engine decides by itself.
        (libc::IPPROTO_TCP, TCP_QUICKACK) => drop(int(value)?),
        _ => return Ok(false),
    }
    Ok(true)
}

fn own(socket: &Socket, level: c_int, name: c_int) -> Option<Vec<u8>> {
    let value = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => return Some(timeval(socket.receive_timeout)),
        (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => return Some(timeval(socket.send_timeout)),
        (libc::SOL_SOCKET, libc::SO_REUSEADDR | libc::SO_REUSEPORT) => c_int::from(socket.reuse_address),
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => socket.family.domain(),
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => 0,
        _ => return None,
    };
    Some(value.to_ne_bytes().to_vec())
}
