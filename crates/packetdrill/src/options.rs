//! Socket options by C's levels and names, and the requests of `ioctl`.

use ringway_tcp::State;
use ringway_tcp::info::TcpInfo;

use crate::errno::{Errno, Result};
use crate::socket::{Role, Socket};
use crate::stack::Stack;

// Names that libc does not have everywhere (include/uapi/linux/tcp.h).
pub(crate) const TCP_INFO: i32 = 11;
pub(crate) const TCP_CC_INFO: i32 = 26;
const TCP_INQ: i32 = 36;
pub(crate) const SO_MEMINFO: i32 = 55;
const SO_MEMINFO_BYTES: usize = 9 * 4;

impl Stack {
    pub(crate) fn set_option(&mut self, fd: i32, level: i32, name: i32, value: &[u8]) -> Result<()> {
        let now = self.now;
        let socket = self.socket_at(fd)?;
        if set_own(socket, level, name, value)? {
            return Ok(());
        }
        let role = socket.role;
        let mut options = match role {
            Role::Open { id, .. } => self.engine.options(id)?.clone(),
            _ => socket.options.clone(),
        };
        if !options.set(level, name, value)? {
            let kept = &mut self.socket_at(fd)?.kept;
            kept.retain(|(l, n, _)| (*l, *n) != (level, name));
            kept.push((level, name, value.to_vec()));
            return Ok(());
        }
        match role {
            Role::Open { id, .. } => {
                let lets_go = match name {
                    libc::TCP_NODELAY => options.nodelay,
                    libc::TCP_CORK => options.nodelay && !options.cork,
                    _ => false,
                };
                self.engine.configure(now, id, |now_set| *now_set = options)?;
                if lets_go && level == libc::IPPROTO_TCP {
                    self.engine.let_go(now, id)?;
                }
            }
            Role::Listening(id) => {
                self.engine.configure_listener(id, |now_set| now_set.clone_from(&options))?;
                self.socket_at(fd)?.options = options;
            }
            Role::Fresh => self.socket_at(fd)?.options = options,
        }
        Ok(())
    }

    pub(crate) fn option(&mut self, fd: i32, level: i32, name: i32) -> Result<Vec<u8>> {
        let role = self.socket_at(fd)?.role;
        if let Some(value) = self.measured(role, level, name)? {
            return Ok(value);
        }
        let options = match role {
            Role::Open { id, .. } => self.engine.options(id)?.clone(),
            _ => self.socket_at(fd)?.options.clone(),
        };
        let socket = self.socket_at(fd)?;
        if let Some(value) = own_option(socket, level, name) {
            return Ok(value.to_ne_bytes().to_vec());
        }
        let kept = socket.kept.iter().find(|(l, n, _)| (*l, *n) == (level, name));
        let kept = kept.map(|(_, _, value)| value.clone());
        kept.or_else(|| options.get(level, name, self.engine.config())).ok_or(Errno::NOPROTOOPT)
    }

    /// Options whose value the engine knows at each moment.
    fn measured(&mut self, role: Role, level: i32, name: i32) -> Result<Option<Vec<u8>>> {
        let int = |value: i32| Some(value.to_ne_bytes().to_vec());
        let id = match role {
            Role::Open { id, .. } => Some(id),
            _ => None,
        };
        Ok(match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => {
                let error = id.map_or(Ok(None), |id| self.engine.take_error(id))?;
                int(error.map_or(0, |error| error.errno()))
            }
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => int(i32::from(matches!(role, Role::Listening(_)))),
            (libc::SOL_SOCKET, libc::SO_TYPE) => int(libc::SOCK_STREAM),
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => int(libc::IPPROTO_TCP),
            (libc::SOL_SOCKET, SO_MEMINFO) => Some(vec![0; SO_MEMINFO_BYTES]),
            (libc::IPPROTO_TCP, TCP_INFO) => Some(self.tcp_info(role)?.to_bytes().to_vec()),
            // The controls here have nothing to show beyond TCP_INFO; CUBIC and Reno have nothing in Linux either.
            (libc::IPPROTO_TCP, TCP_CC_INFO) => Some(Vec::new()),
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => match id {
                Some(id) => int(self.engine.tcp_info(self.now, id)?.snd_mss as i32),
                None => None,
            },
            (libc::IPPROTO_IP, libc::IP_MTU) | (libc::IPPROTO_IPV6, libc::IPV6_MTU) => {
                let id = id.ok_or(Errno::NOTCONN)?;
                int(self.engine.tcp_info(self.now, id)?.pmtu as i32)
            }
            _ => None,
        })
    }

    fn tcp_info(&mut self, role: Role) -> Result<TcpInfo> {
        Ok(match role {
            Role::Open { id, .. } => self.engine.tcp_info(self.now, id)?,
            Role::Fresh => TcpInfo { state: State::Closed.linux_number(), ..TcpInfo::default() },
            Role::Listening(_) => TcpInfo { state: State::Listen.linux_number(), ..TcpInfo::default() },
        })
    }

    /// The integer that a request of `ioctl` answers; `FIONBIO` is told `value`.
    pub(crate) fn ioctl(&mut self, fd: i32, request: u64, value: i32) -> Result<i32> {
        match request {
            libc::FIONBIO => self.socket_at(fd)?.nonblocking = value != 0,
            libc::FIONREAD => return Ok(self.unread(fd)? as i32),
            libc::TIOCOUTQ => return Ok(self.unsent(fd)?.0 as i32),
            SIOCOUTQNSD => return Ok(self.unsent(fd)?.1 as i32),
            SIOCATMARK => {
                let id = self.socket_at(fd)?.connection().ok_or(Errno::INVAL)?;
                return Ok(i32::from(self.engine.is_at_mark(id)?));
            }
            _ => return Err(Errno(libc::ENOTTY)),
        }
        Ok(value)
    }
}

pub(crate) const SIOCATMARK: u64 = 0x8905;
pub(crate) const SIOCOUTQNSD: u64 = 0x894b;

fn int(value: &[u8]) -> Result<i32> {
    value.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(Errno::INVAL)
}

/// A `timeval`; zero means none.
fn timeout(value: &[u8]) -> Result<Option<u64>> {
    let word = |at: usize| value.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_ne_bytes);
    let us = word(0).zip(word(8)).map(|(s, us)| s.saturating_mul(1_000_000).saturating_add(us)).ok_or(Errno::INVAL)?;
    Ok((us > 0).then_some(us))
}

/// Options that this library keeps itself; `false` if it is none of them.
fn set_own(socket: &mut Socket, level: i32, name: i32, value: &[u8]) -> Result<bool> {
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => socket.receive_timeout_us = timeout(value)?,
        (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => socket.send_timeout_us = timeout(value)?,
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => socket.receive_least = int(value)?.max(1) as usize,
        (libc::SOL_SOCKET, libc::SO_ZEROCOPY) => socket.tells_sent = int(value)? != 0,
        (libc::IPPROTO_TCP, TCP_INQ) => socket.tells_unread = int(value)? != 0,
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => socket.v6_only = int(value)? != 0,
        _ => return Ok(false),
    }
    Ok(true)
}

fn own_option(socket: &Socket, level: i32, name: i32) -> Option<i32> {
    Some(match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => socket.receive_least as i32,
        (libc::SOL_SOCKET, libc::SO_ZEROCOPY) => i32::from(socket.tells_sent),
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => socket.family.domain(),
        (libc::IPPROTO_TCP, TCP_INQ) => i32::from(socket.tells_unread),
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => i32::from(socket.v6_only),
        _ => return None,
    })
}
