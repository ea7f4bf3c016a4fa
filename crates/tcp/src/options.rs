//! What an application can choose for a connection or a listener: Linux's socket options.

use crate::congestion::Algorithm;

/// Options of a connection, or those that a listener hands to its connections. `None` means the engine's setting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SocketOptions {
    /// `TCP_NODELAY`: send small segments at once.
    pub nodelay: bool,
    /// `TCP_CORK`: hold partial segments back, for at most 200 ms.
    pub cork: bool,
    /// `SO_KEEPALIVE`.
    pub keepalive: bool,
    /// `TCP_KEEPIDLE`, seconds.
    pub keepalive_idle_s: Option<u32>,
    /// `TCP_KEEPINTVL`, seconds.
    pub keepalive_interval_s: Option<u32>,
    /// `TCP_KEEPCNT`.
    pub keepalive_probes: Option<u32>,
    /// `TCP_USER_TIMEOUT`, milliseconds; 0 means none (RFC 5482).
    pub user_timeout_ms: u32,
    /// `SO_LINGER`: what close does with unsent data; `Some(0)` resets. Waiting is the caller's business.
    pub linger_s: Option<u32>,
    /// `TCP_LINGER2`, seconds in FIN-WAIT-2 after close; negative ends at once.
    pub fin_timeout_s: Option<i32>,
    /// `SO_RCVBUF` in bytes of payload; set, the buffer does not grow by itself.
    pub receive_buffer_bytes: Option<u32>,
    /// `SO_SNDBUF` in bytes of payload; set, the buffer does not grow by itself.
    pub send_buffer_bytes: Option<u32>,
    /// `TCP_MAXSEG`.
    pub mss_bytes: Option<u16>,
    /// `TCP_SYNCNT`.
    pub syn_retries: Option<u32>,
    /// `TCP_CONGESTION`.
    pub congestion_control: Option<Algorithm>,
    /// `TCP_WINDOW_CLAMP`; 0 means none.
    pub window_clamp_bytes: u32,
    /// `TCP_NOTSENT_LOWAT`.
    pub notsent_lowat_bytes: Option<u32>,
    /// `TCP_DEFER_ACCEPT`, seconds: a connection is accepted once data has arrived.
    pub defer_accept_s: u32,
    /// `TCP_FASTOPEN` of a listener: how many connections may wait for their handshake with data; 0 means none.
    pub fast_open_queue: u32,
    /// `TCP_FASTOPEN_CONNECT`: connect sends nothing; the first data go with the SYN.
    pub fast_open_connect: bool,
    /// `SO_OOBINLINE`: urgent data stay in the stream.
    pub urgent_inline: bool,
    /// `IP_TOS` or `IPV6_TCLASS`; the ECN bits are not the application's.
    pub traffic_class: u8,
    /// `IP_TTL` or `IPV6_UNICAST_HOPS`.
    pub ttl: Option<u8>,
    /// `SO_MAX_PACING_RATE`, bytes a second; 0 means none.
    pub pacing_rate_max: u64,
}

bitflags::bitflags! {
    /// How data are to be sent: Linux's `MSG_` flags that mean something here.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SendFlags: u8 {
        /// `MSG_MORE`: more will follow, hold a partial segment back.
        const MORE = 1;
        /// `MSG_OOB`: the last byte is urgent.
        const URGENT = 2;
    }
}

bitflags::bitflags! {
    /// How data are to be received.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ReceiveFlags: u8 {
        /// `MSG_PEEK`: leave the data in place.
        const PEEK = 1;
        /// `MSG_OOB`: the urgent byte.
        const URGENT = 2;
    }
}

/// Which half of a connection `shutdown` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    Receive,
    Send,
    Both,
}
