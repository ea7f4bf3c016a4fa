//! [`SocketOptions`] by the numbers and values of Linux's `setsockopt` and `getsockopt` (x86-64 and the generic ABI).

use crate::config::Config;
use crate::congestion::Algorithm;
use crate::error::{Error, Result};
use crate::options::SocketOptions;

/// Levels and names: include/uapi/asm-generic/socket.h, include/uapi/linux/in.h, in6.h and tcp.h.
pub mod number {
    pub const SOL_IP: i32 = 0;
    pub const SOL_SOCKET: i32 = 1;
    pub const SOL_TCP: i32 = 6;
    pub const SOL_IPV6: i32 = 41;

    pub const SO_SNDBUF: i32 = 7;
    pub const SO_RCVBUF: i32 = 8;
    pub const SO_KEEPALIVE: i32 = 9;
    pub const SO_OOBINLINE: i32 = 10;
    pub const SO_LINGER: i32 = 13;
    pub const SO_SNDBUFFORCE: i32 = 32;
    pub const SO_RCVBUFFORCE: i32 = 33;
    pub const SO_MAX_PACING_RATE: i32 = 47;

    pub const IP_TOS: i32 = 1;
    pub const IP_TTL: i32 = 2;
    pub const IPV6_UNICAST_HOPS: i32 = 16;
    pub const IPV6_TCLASS: i32 = 67;

    pub const TCP_NODELAY: i32 = 1;
    pub const TCP_MAXSEG: i32 = 2;
    pub const TCP_CORK: i32 = 3;
    pub const TCP_KEEPIDLE: i32 = 4;
    pub const TCP_KEEPINTVL: i32 = 5;
    pub const TCP_KEEPCNT: i32 = 6;
    pub const TCP_SYNCNT: i32 = 7;
    pub const TCP_LINGER2: i32 = 8;
    pub const TCP_DEFER_ACCEPT: i32 = 9;
    pub const TCP_WINDOW_CLAMP: i32 = 10;
    pub const TCP_CONGESTION: i32 = 13;
    pub const TCP_USER_TIMEOUT: i32 = 18;
    pub const TCP_FASTOPEN: i32 = 23;
    pub const TCP_NOTSENT_LOWAT: i32 = 25;
    pub const TCP_FASTOPEN_CONNECT: i32 = 30;
}
use number::*;

/// Linux counts its bookkeeping to a buffer and doubles what was asked for (`SO_SNDBUF` in socket(7)).
const BUFFER_FACTOR: u32 = 2;

impl SocketOptions {
    /// Sets an option from the bytes that `setsockopt` is given; `false` if these numbers name none of ours.
    ///
    /// # Errors
    /// `Invalid` for a value that is too short or out of bounds, `NotFound` for an unknown congestion control.
    pub fn set(&mut self, level: i32, name: i32, value: &[u8]) -> Result<bool> {
        match (level, name) {
            (SOL_SOCKET, SO_KEEPALIVE) => self.keepalive = int(value)? != 0,
            (SOL_SOCKET, SO_OOBINLINE) => self.urgent_inline = int(value)? != 0,
            (SOL_SOCKET, SO_RCVBUF | SO_RCVBUFFORCE) => self.receive_buffer_bytes = Some(unsigned(value)?),
            (SOL_SOCKET, SO_SNDBUF | SO_SNDBUFFORCE) => self.send_buffer_bytes = Some(unsigned(value)?),
            (SOL_SOCKET, SO_LINGER) => {
                let seconds = unsigned(value.get(4..).ok_or(Error::Invalid)?)?;
                self.linger_s = (int(value)? != 0).then_some(seconds);
            }
            (SOL_SOCKET, SO_MAX_PACING_RATE) => {
                let wide = value.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
                self.pacing_rate_max = wide.unwrap_or(u64::from(unsigned(value)?));
            }
            (SOL_TCP, _) => return self.set_tcp(name, value),
            // The ECN bits are TCP's own.
            (SOL_IP, IP_TOS) | (SOL_IPV6, IPV6_TCLASS) => self.traffic_class = int(value)? as u8 & !3,
            (SOL_IP, IP_TTL) | (SOL_IPV6, IPV6_UNICAST_HOPS) => {
                self.ttl = u8::try_from(int(value)?).ok().filter(|ttl| *ttl > 0);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_tcp(&mut self, name: i32, value: &[u8]) -> Result<bool> {
        let within = |low: i32, high: i32| match int(value)? {
            n if (low..=high).contains(&n) => Ok(n as u32),
            _ => Err(Error::Invalid),
        };
        match name {
            TCP_NODELAY => self.nodelay = int(value)? != 0,
            TCP_CORK => self.cork = int(value)? != 0,
            TCP_MAXSEG => self.mss_bytes = Some(within(48, 32_767)? as u16),
            TCP_KEEPIDLE => self.keepalive_idle_s = Some(within(1, 32_767)?),
            TCP_KEEPINTVL => self.keepalive_interval_s = Some(within(1, 32_767)?),
            TCP_KEEPCNT => self.keepalive_probes = Some(within(1, 127)?),
            TCP_SYNCNT => self.syn_retries = Some(within(1, 127)?),
            TCP_LINGER2 => self.fin_timeout_s = Some(int(value)?),
            TCP_DEFER_ACCEPT => self.defer_accept_s = within(0, i32::MAX)?,
            TCP_WINDOW_CLAMP => self.window_clamp_bytes = within(0, i32::MAX)?,
            TCP_USER_TIMEOUT => self.user_timeout_ms = within(0, i32::MAX)?,
            TCP_FASTOPEN => self.fast_open_queue = within(0, i32::MAX)?,
            TCP_FASTOPEN_CONNECT => self.fast_open_connect = within(0, 1)? != 0,
            TCP_NOTSENT_LOWAT => self.notsent_lowat_bytes = Some(unsigned(value)?),
            TCP_CONGESTION => {
                let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
                let known = core::str::from_utf8(name).ok().and_then(Algorithm::from_name);
                self.congestion_control = Some(known.ok_or(Error::NotFound)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// An option's value as `getsockopt` shows it; `config` has what was not chosen. `None` if these numbers name none of
    /// ours.
    pub fn get(&self, level: i32, name: i32, config: &Config) -> Option<Vec<u8>> {
        if (level, name) == (SOL_TCP, TCP_CONGESTION) {
            let algorithm = self.congestion_control.unwrap_or(config.tcp_congestion_control);
            return Some([algorithm.name().as_bytes(), &[0]].concat());
        }
        if (level, name) == (SOL_SOCKET, SO_LINGER) {
            let (on, seconds) = (i32::from(self.linger_s.is_some()), self.linger_s.unwrap_or(0));
            return Some([on.to_ne_bytes(), seconds.to_ne_bytes()].concat());
        }
        self.get_int(level, name, config).map(|value| value.to_ne_bytes().to_vec())
    }

    fn get_int(&self, level: i32, name: i32, config: &Config) -> Option<i32> {
        let doubled = |bytes: Option<u32>, unset: u32| bytes.map_or(unset, |b| b.saturating_mul(BUFFER_FACTOR));
        let value = match (level, name) {
            (SOL_SOCKET, SO_KEEPALIVE) => self.keepalive.into(),
            (SOL_SOCKET, SO_OOBINLINE) => self.urgent_inline.into(),
            (SOL_SOCKET, SO_RCVBUF) => doubled(self.receive_buffer_bytes, config.tcp_rmem.default),
            (SOL_SOCKET, SO_SNDBUF) => doubled(self.send_buffer_bytes, config.tcp_wmem.default),
            (SOL_SOCKET, SO_MAX_PACING_RATE) => self.pacing_rate_max.min(u32::MAX.into()) as u32,
            (SOL_TCP, TCP_NODELAY) => self.nodelay.into(),
            (SOL_TCP, TCP_CORK) => self.cork.into(),
            (SOL_TCP, TCP_MAXSEG) => self.mss_bytes.unwrap_or(0).into(),
            (SOL_TCP, TCP_KEEPIDLE) => self.keepalive_idle_s.unwrap_or(config.tcp_keepalive_time),
            (SOL_TCP, TCP_KEEPINTVL) => self.keepalive_interval_s.unwrap_or(config.tcp_keepalive_intvl),
            (SOL_TCP, TCP_KEEPCNT) => self.keepalive_probes.unwrap_or(config.tcp_keepalive_probes),
            (SOL_TCP, TCP_SYNCNT) => self.syn_retries.unwrap_or(config.tcp_syn_retries),
            (SOL_TCP, TCP_LINGER2) => self.fin_timeout_s.map_or(config.tcp_fin_timeout, |s| s as u32),
            (SOL_TCP, TCP_DEFER_ACCEPT) => self.defer_accept_s,
            (SOL_TCP, TCP_WINDOW_CLAMP) => self.window_clamp_bytes,
            (SOL_TCP, TCP_USER_TIMEOUT) => self.user_timeout_ms,
            (SOL_TCP, TCP_FASTOPEN) => self.fast_open_queue,
            (SOL_TCP, TCP_FASTOPEN_CONNECT) => self.fast_open_connect.into(),
            (SOL_TCP, TCP_NOTSENT_LOWAT) => self.notsent_lowat_bytes.unwrap_or(0),
            (SOL_IP, IP_TOS) | (SOL_IPV6, IPV6_TCLASS) => self.traffic_class.into(),
            (SOL_IP, IP_TTL) | (SOL_IPV6, IPV6_UNICAST_HOPS) => self.ttl.map_or(config.ip_default_ttl, u32::from),
            _ => return None,
        };
        Some(value as i32)
    }
}

fn int(value: &[u8]) -> Result<i32> {
    value.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(Error::Invalid)
}

fn unsigned(value: &[u8]) -> Result<u32> {
    int(value).map(|value| value as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every option of a number, and a value that it can have.
    const NUMBERS: [(i32, i32, i32); 19] = [
        (SOL_SOCKET, SO_KEEPALIVE, 1),
        (SOL_SOCKET, SO_OOBINLINE, 1),
        (SOL_SOCKET, SO_MAX_PACING_RATE, 9000),
        (SOL_TCP, TCP_NODELAY, 1),
        (SOL_TCP, TCP_CORK, 1),
        (SOL_TCP, TCP_MAXSEG, 1000),
        (SOL_TCP, TCP_KEEPIDLE, 5),
        (SOL_TCP, TCP_KEEPINTVL, 6),
        (SOL_TCP, TCP_KEEPCNT, 7),
        (SOL_TCP, TCP_SYNCNT, 3),
        (SOL_TCP, TCP_LINGER2, -1),
        (SOL_TCP, TCP_DEFER_ACCEPT, 8),
        (SOL_TCP, TCP_WINDOW_CLAMP, 20_000),
        (SOL_TCP, TCP_USER_TIMEOUT, 1500),
        (SOL_TCP, TCP_FASTOPEN, 16),
        (SOL_TCP, TCP_FASTOPEN_CONNECT, 1),
        (SOL_TCP, TCP_NOTSENT_LOWAT, 4096),
        (SOL_IP, IP_TOS, 0x20),
        (SOL_IPV6, IPV6_UNICAST_HOPS, 9),
    ];

    #[test]
    fn what_is_set_is_shown() {
        let config = Config::default();
        for (level, name, value) in NUMBERS {
            let mut options = SocketOptions::default();
            assert_eq!(options.set(level, name, &value.to_ne_bytes()), Ok(true), "{level} {name}");
            assert_ne!(options, SocketOptions::default(), "{level} {name}");
            assert_eq!(options.get(level, name, &config).unwrap(), value.to_ne_bytes(), "{level} {name}");
        }
        let mut options = SocketOptions::default();
        assert_eq!(options.set(SOL_SOCKET, SO_SNDBUF, &9000i32.to_ne_bytes()), Ok(true));
        assert_eq!(options.get(SOL_SOCKET, SO_SNDBUF, &config).unwrap(), 18_000i32.to_ne_bytes());
        assert_eq!(options.set(SOL_TCP, TCP_CONGESTION, b"reno\0rest"), Ok(true));
        assert_eq!(options.get(SOL_TCP, TCP_CONGESTION, &config).unwrap(), b"reno\0");
        let linger = [1i32.to_ne_bytes(), 0i32.to_ne_bytes()].concat();
        assert_eq!(options.set(SOL_SOCKET, SO_LINGER, &linger), Ok(true));
        assert_eq!((options.linger_s, options.get(SOL_SOCKET, SO_LINGER, &config)), (Some(0), Some(linger)));
    }

    #[test]
    fn wrong_values_and_unknown_names() {
        let mut options = SocketOptions::default();
        assert_eq!(options.set(SOL_TCP, TCP_KEEPCNT, &128i32.to_ne_bytes()), Err(Error::Invalid));
        assert_eq!(options.set(SOL_TCP, TCP_NODELAY, &[1, 0]), Err(Error::Invalid));
        assert_eq!(options.set(SOL_TCP, TCP_CONGESTION, b"none\0"), Err(Error::NotFound));
        assert_eq!(options.set(SOL_TCP, 99, &1i32.to_ne_bytes()), Ok(false));
        assert_eq!(options.get(99, 1, &Config::default()), None);
        assert_eq!(options, SocketOptions::default());
    }
}
