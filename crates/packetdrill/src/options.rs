//! Socket options by C's levels and names, and the requests of `ioctl`.

use ringway_tcp::congestion::Algorithm;
use ringway_tcp::info::TcpInfo;
use ringway_tcp::{SocketOptions, State};

use crate::errno::{Errno, Result};
use crate::socket::{Role, Socket};
use crate::stack::Stack;

// Names that libc does not have everywhere (include/uapi/linux/tcp.h).
pub(crate) const TCP_INFO: i32 = 11;
const TCP_QUICKACK: i32 = 12;
const TCP_FASTOPEN: i32 = 23;
const TCP_NOTSENT_LOWAT: i32 = 25;
pub(crate) const TCP_CC_INFO: i32 = 26;
const TCP_FASTOPEN_CONNECT: i32 = 30;
const TCP_INQ: i32 = 36;
pub(crate) const SO_MEMINFO: i32 = 55;
const SO_MEMINFO_BYTES: usize = 9 * 4;
/// Linux counts its bookkeeping to a buffer and doubles what was asked for (`SO_SNDBUF` in socket(7)).
const BUFFER_FACTOR: u32 = 2;

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
        if !set_engine(&mut options, level, name, value)? {
            let kept = &mut self.socket_at(fd)?.kept;
            kept.retain(|(l, n, _)| (*l, *n) != (level, name));
            kept.push((level, name, value.to_vec()));
            return Ok(());
        }
        match role {
            Role::Open { id, .. } => self.engine.configure(now, id, |now_set| *now_set = options)?,
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
        if let Some(value) = own_option(socket, level, name).or_else(|| engine_option(&options, level, name)) {
            return Ok(value.to_ne_bytes().to_vec());
        }
        let kept = socket.kept.iter().find(|(l, n, _)| (*l, *n) == (level, name));
        kept.map(|(_, _, value)| value.clone()).ok_or(Errno::NOPROTOOPT)
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
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
                let chosen = match id {
                    Some(id) => self.engine.options(id)?.congestion_control,
                    None => None,
                };
                let algorithm = chosen.unwrap_or(self.engine.config().tcp_congestion_control);
                let mut name = algorithm.name().as_bytes().to_vec();
                name.push(0);
                Some(name)
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

fn unsigned(value: &[u8]) -> Result<u32> {
    int(value).map(|value| value as u32)
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

/// Options that the engine knows; `false` if it does not know the name.
fn set_engine(options: &mut SocketOptions, level: i32, name: i32, value: &[u8]) -> Result<bool> {
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => options.keepalive = int(value)? != 0,
        (libc::SOL_SOCKET, libc::SO_OOBINLINE) => options.urgent_inline = int(value)? != 0,
        (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_RCVBUFFORCE) => {
            options.receive_buffer_bytes = Some(unsigned(value)?)
        }
        (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE) => {
            options.send_buffer_bytes = Some(unsigned(value)?)
        }
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            let seconds = unsigned(value.get(4..).ok_or(Errno::INVAL)?)?;
            options.linger_s = (int(value)? != 0).then_some(seconds);
        }
        (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE) => {
            let wide = value.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
            options.pacing_rate_max = wide.unwrap_or(u64::from(unsigned(value)?));
        }
        (libc::IPPROTO_TCP, _) => return set_tcp(options, name, value),
        (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
            // The ECN bits are TCP's own.
            options.traffic_class = int(value)? as u8 & !3;
        }
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => {
            options.ttl = u8::try_from(int(value)?).ok().filter(|ttl| *ttl > 0);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn set_tcp(options: &mut SocketOptions, name: i32, value: &[u8]) -> Result<bool> {
    let within = |low: i32, high: i32| int(value).ok().filter(|n| (low..=high).contains(n)).ok_or(Errno::INVAL);
    match name {
        libc::TCP_NODELAY => options.nodelay = int(value)? != 0,
        libc::TCP_CORK => options.cork = int(value)? != 0,
        libc::TCP_MAXSEG => options.mss_bytes = Some(within(48, 32_767)? as u16),
        libc::TCP_KEEPIDLE => options.keepalive_idle_s = Some(within(1, 32_767)? as u32),
        libc::TCP_KEEPINTVL => options.keepalive_interval_s = Some(within(1, 32_767)? as u32),
        libc::TCP_KEEPCNT => options.keepalive_probes = Some(within(1, 127)? as u32),
        libc::TCP_SYNCNT => options.syn_retries = Some(within(1, 127)? as u32),
        libc::TCP_LINGER2 => options.fin_timeout_s = Some(int(value)?),
        libc::TCP_DEFER_ACCEPT => options.defer_accept_s = within(0, i32::MAX)? as u32,
        libc::TCP_WINDOW_CLAMP => options.window_clamp_bytes = within(0, i32::MAX)? as u32,
        libc::TCP_USER_TIMEOUT => options.user_timeout_ms = within(0, i32::MAX)? as u32,
        TCP_QUICKACK => return Ok(false),
        TCP_FASTOPEN => options.fast_open_queue = within(0, i32::MAX)? as u32,
        TCP_FASTOPEN_CONNECT => options.fast_open_connect = within(0, 1)? != 0,
        TCP_NOTSENT_LOWAT => options.notsent_lowat_bytes = Some(unsigned(value)?),
        libc::TCP_CONGESTION => {
            let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
            let known = core::str::from_utf8(name).ok().and_then(Algorithm::from_name);
            options.congestion_control = Some(known.ok_or(Errno(libc::ENOENT))?);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn engine_option(options: &SocketOptions, level: i32, name: i32) -> Option<i32> {
    let flag = |on: bool| Some(i32::from(on));
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => flag(options.keepalive),
        (libc::SOL_SOCKET, libc::SO_OOBINLINE) => flag(options.urgent_inline),
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => options.receive_buffer_bytes.map(|bytes| (bytes * BUFFER_FACTOR) as i32),
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => options.send_buffer_bytes.map(|bytes| (bytes * BUFFER_FACTOR) as i32),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => flag(options.nodelay),
        (libc::IPPROTO_TCP, libc::TCP_CORK) => flag(options.cork),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => Some(options.user_timeout_ms as i32),
        (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP) => Some(options.window_clamp_bytes as i32),
        (libc::IPPROTO_TCP, TCP_NOTSENT_LOWAT) => Some(options.notsent_lowat_bytes.unwrap_or(0) as i32),
        (libc::IPPROTO_TCP, TCP_FASTOPEN) => Some(options.fast_open_queue as i32),
        (libc::IPPROTO_TCP, TCP_FASTOPEN_CONNECT) => flag(options.fast_open_connect),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => Some(options.keepalive_idle_s.unwrap_or(7200) as i32),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => Some(options.keepalive_interval_s.unwrap_or(75) as i32),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => Some(options.keepalive_probes.unwrap_or(9) as i32),
        (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
            Some(i32::from(options.traffic_class))
        }
        _ => None,
    }
}
