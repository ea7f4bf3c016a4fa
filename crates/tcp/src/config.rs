//! The engine's configuration: Linux's `net.ipv4` names and defaults (kernel 6.18), one value each.

use core::fmt;

use crate::congestion::Algorithm;

/// Three sizes in bytes: the least, the one a connection begins with, and the most it may grow to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub min: u32,
    pub default: u32,
    pub max: u32,
}

/// Why a setting was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// No such name.
    Unknown(String),
    /// The name, the value given, and what it may be.
    Invalid(&'static str, String, String),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Unknown(name) => {
                write!(f, "unknown setting `{name}`; there are: {}", Config::NAMES.join(" "))
            }
            ConfigError::Invalid(name, value, accepted) => {
                write!(f, "`{name}` cannot be `{value}`; it takes {accepted}")
            }
        }
    }
}

impl core::error::Error for ConfigError {}

/// A value that can be read from and shown as Linux shows it.
trait Setting: Sized {
    type Bounds: Copy;
    fn parse(text: &str, bounds: Self::Bounds) -> Option<Self>;
    fn show(&self) -> String;
    fn accepted(bounds: Self::Bounds) -> String;
}

impl Setting for u32 {
    type Bounds = (u32, u32);

    fn parse(text: &str, (low, high): (u32, u32)) -> Option<u32> {
        let hex = text.strip_prefix("0x").map(|digits| u32::from_str_radix(digits, 16));
        hex.unwrap_or_else(|| text.parse()).ok().filter(|value| (low..=high).contains(value))
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn accepted((low, high): (u32, u32)) -> String {
        format!("a number from {low} to {high}")
    }
}

impl Setting for bool {
    type Bounds = ();

    fn parse(text: &str, (): ()) -> Option<bool> {
        u32::parse(text, (0, 1)).map(|value| value == 1)
    }

    fn show(&self) -> String {
        u32::from(*self).to_string()
    }

    fn accepted((): ()) -> String {
        "0 or 1".into()
    }
}

impl Setting for Sizes {
    type Bounds = ();

    fn parse(text: &str, (): ()) -> Option<Sizes> {
        let mut words = text.split_whitespace().map(|word| word.parse::<u32>().ok().filter(|n| *n <= BUFFER_BYTES_MAX));
        let sizes = Sizes { min: words.next()??, default: words.next()??, max: words.next()?? };
        let ordered = sizes.min <= sizes.default && sizes.default <= sizes.max;
        (ordered && words.next().is_none()).then_some(sizes)
    }

    fn show(&self) -> String {
        format!("{}\t{}\t{}", self.min, self.default, self.max)
    }

    fn accepted((): ()) -> String {
        format!("three ascending sizes in bytes, at most {BUFFER_BYTES_MAX}")
    }
}

/// The secret of fast open's cookies, as `tcp_fastopen_key` shows it: four numbers in hexadecimal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastOpenKey(pub [u32; 4]);

impl Setting for Option<FastOpenKey> {
    type Bounds = ();

    fn parse(text: &str, (): ()) -> Option<Option<FastOpenKey>> {
        if text.is_empty() {
            return Some(None);
        }
        let words: Vec<u32> =
            text.split('-').map(|word| u32::from_str_radix(word, 16)).collect::<Result<_, _>>().ok()?;
        words.try_into().ok().map(|words| Some(FastOpenKey(words)))
    }

    fn show(&self) -> String {
        let Some(FastOpenKey([a, b, c, d])) = self else { return String::new() };
        format!("{a:08x}-{b:08x}-{c:08x}-{d:08x}")
    }

    fn accepted((): ()) -> String {
        "four numbers in hexadecimal, joined by -".into()
    }
}

impl Setting for Algorithm {
    type Bounds = ();

    fn parse(text: &str, (): ()) -> Option<Algorithm> {
        Algorithm::from_name(text)
    }

    fn show(&self) -> String {
        self.name().into()
    }

    fn accepted((): ()) -> String {
        "reno, cubic or dctcp".into()
    }
}

/// No buffer of a connection grows beyond this: the largest window that RFC 7323 can describe.
pub const BUFFER_BYTES_MAX: u32 = 1 << 30;

macro_rules! settings {
    ($($(#[$doc:meta])+ $name:ident: $type:ty = $default:expr, $bounds:expr;)+) => {
        /// One engine's settings, under the names of Linux's sysctls and with their meanings and defaults.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Config {
            $($(#[$doc])+ pub $name: $type,)+
        }

        impl Default for Config {
            fn default() -> Config {
                Config { $($name: $default,)+ }
            }
        }

        impl Config {
            /// The names of all settings.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name),)+];

            /// Sets `name` (with or without `net.ipv4.`) from text as one would write it to the sysctl.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
                let value = value.trim();
                match name.strip_prefix("net.ipv4.").unwrap_or(name) {
                    $(stringify!($name) => self.$name = <$type as Setting>::parse(value, $bounds).ok_or_else(|| {
                        ConfigError::Invalid(stringify!($name), value.into(), <$type as Setting>::accepted($bounds))
                    })?,)+
                    unknown => return Err(ConfigError::Unknown(unknown.into())),
                }
                Ok(())
            }

            /// The value of `name` as the sysctl shows it.
            pub fn get(&self, name: &str) -> Option<String> {
                match name.strip_prefix("net.ipv4.").unwrap_or(name) {
                    $(stringify!($name) => Some(self.$name.show()),)+
                    _ => None,
                }
            }
        }
    };
}

settings! {
    /// Offer and use window scaling (RFC 7323).
    tcp_window_scaling: bool = true, ();
    /// Offer and use timestamps (RFC 7323): 0 no, 1 with a random offset for each connection, 2 without.
    tcp_timestamps: u32 = 1, (0, 2);
    /// Offer and use selective acknowledgements (RFC 2018).
    tcp_sack: bool = true, ();
    /// Report duplicates by SACK (RFC 2883).
    tcp_dsack: bool = true, ();
    /// Explicit congestion notification (RFC 3168): 0 never, 1 ask for it and agree, 2 agree.
    tcp_ecn: u32 = 2, (0, 2);
    /// A SYN that is sent again asks for no ECN.
    tcp_ecn_fallback: bool = true, ();
    /// Fast open (RFC 7413), bits: 1 client, 2 server, 4 client without cookie, 0x200 server without cookie, 0x400 every
    /// listener without asking for it. Others are ignored, as Linux does.
    tcp_fastopen: u32 = 1, (0, u32::MAX);
    /// Cookies of fast open are made with it, as Linux makes them; one of the engine's own if none is set.
    tcp_fastopen_key: Option<FastOpenKey> = None, ();
    /// The control that connections begin with.
    tcp_congestion_control: Algorithm = Algorithm::Cubic, ();

    /// How often a SYN is sent again.
    tcp_syn_retries: u32 = 6, (1, 127);
    /// How many of these without doubling the time-out.
    tcp_syn_linear_timeouts: u32 = 4, (0, 127);
    /// How often a SYN-ACK is sent again.
    tcp_synack_retries: u32 = 5, (0, 255);
    /// Answer SYNs without state when the queue is full: 0 never, 1 then, 2 always.
    tcp_syncookies: u32 = 1, (0, 2);
    /// Connections that a listener holds half-open; the backlog bounds it too.
    tcp_max_syn_backlog: u32 = 2048, (1, 1 << 20);
    /// The most that a listener's backlog can be.
    somaxconn: u32 = 4096, (1, 65535);
    /// Reset connections that the accept queue has no room for, rather than let the peer try again.
    tcp_abort_on_overflow: bool = false, ();

    /// Time-outs in a row after which the path is doubted (black-hole detection).
    tcp_retries1: u32 = 3, (0, 255);
    /// Time-outs in a row after which the connection ends; counted as the time they take (RFC 1122 4.2.3.5).
    tcp_retries2: u32 = 15, (0, 255);
    /// The same for connections that the application has closed; 0 means 8.
    tcp_orphan_retries: u32 = 0, (0, 255);
    /// Seconds in FIN-WAIT-2 after the application has closed.
    tcp_fin_timeout: u32 = 60, (1, 3600);
    /// Seconds of silence before keepalive probes (RFC 9293 3.8.4).
    tcp_keepalive_time: u32 = 7200, (1, 32767);
    /// Keepalive probes without an answer before the connection ends.
    tcp_keepalive_probes: u32 = 9, (1, 127);
    /// Seconds between keepalive probes.
    tcp_keepalive_intvl: u32 = 75, (1, 32767);

    /// Ignore resets in TIME-WAIT (RFC 1337).
    tcp_rfc1337: bool = false, ();
    /// New connections may take over a TIME-WAIT's ports: 0 no, 1 yes, 2 on loopback.
    tcp_tw_reuse: u32 = 2, (0, 2);
    /// Milliseconds that a TIME-WAIT is left alone before that.
    tcp_tw_reuse_delay: u32 = 1000, (1, 60_000);
    /// TIME-WAITs held; the ones beyond end at once.
    tcp_max_tw_buckets: u32 = 131_072, (0, 1 << 24);

    /// Duplicate acknowledgements that mean a loss.
    tcp_reordering: u32 = 3, (1, 127);
    /// Segments that go together at least, if the window lets them.
    tcp_min_tso_segs: u32 = 2, (1, 65535);
    /// Tail loss probes (RFC 8985 7): 0 no, 3 yes.
    tcp_early_retrans: u32 = 3, (0, 4);
    /// Detect spurious time-outs (RFC 5682): 0 no, 1 and 2 yes.
    tcp_frto: u32 = 2, (0, 2);
    /// Slow start again after an idle time-out (RFC 5681 4.1).
    tcp_slow_start_after_idle: bool = true, ();
    /// The least retransmission time-out.
    tcp_rto_min_us: u32 = 200_000, (1, 120_000_000);
    /// The largest retransmission time-out.
    tcp_rto_max_ms: u32 = 120_000, (1000, 120_000);
    /// Seconds for which the least round trip is remembered.
    tcp_min_rtt_wlen: u32 = 300, (0, 86400);

    /// Receive buffer of a connection.
    tcp_rmem: Sizes = Sizes { min: 4096, default: 131_072, max: 33_554_432 }, ();
    /// Send buffer of a connection.
    tcp_wmem: Sizes = Sizes { min: 4096, default: 16_384, max: 4_194_304 }, ();
    /// Grow the receive buffer with what the application reads.
    tcp_moderate_rcvbuf: bool = true, ();
    /// Never report a connection writable with more unsent bytes than this.
    tcp_notsent_lowat: u32 = u32::MAX, (0, u32::MAX);
    /// Milliseconds between two answers to segments that are out of window.
    tcp_invalid_ratelimit: u32 = 500, (0, 60_000);
    /// Challenge acknowledgements a second, all connections together (RFC 5961 7).
    tcp_challenge_ack_limit: u32 = 2_147_483_647, (0, u32::MAX);
    /// The urgent pointer names the last urgent byte (RFC 1122) instead of the one behind it.
    tcp_stdurg: bool = false, ();

    /// Probe for the path's MTU (RFC 4821): 0 no, 1 after a black hole, 2 always.
    tcp_mtu_probing: u32 = 0, (0, 2);
    /// The MSS that probing begins with.
    tcp_base_mss: u32 = 1024, (48, 65535);
    /// The least MSS that a peer or a router can force on us.
    tcp_min_snd_mss: u32 = 48, (48, 65535);
    /// The least MTU that probing goes down to.
    tcp_mtu_probe_floor: u32 = 48, (48, 65535);

    /// Local ports that connect chooses from: the first.
    ip_local_port_first: u32 = 32768, (1, 65535);
    /// The last of them.
    ip_local_port_last: u32 = 60999, (1, 65535);
    /// Time to live, or hop limit.
    ip_default_ttl: u32 = 64, (1, 255);
    /// Largest IP packet on the link, in bytes.
    mtu: u32 = 1500, (296, 65535);

    /// Connections held at a time, TIME-WAITs not counted.
    connections_max: u32 = 1 << 20, (1, 1 << 26);
    /// Listeners held at a time.
    listeners_max: u32 = 4096, (1, 65535);
    /// Bytes that all buffers together may take.
    buffer_bytes_max: u32 = 1 << 30, (1 << 16, u32::MAX);
    /// Segments that match the header prediction take the short way; off, all take the full one.
    fast_path: bool = true, ();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_set_and_shown_as_sysctls() {
        let mut config = Config::default();
        config.set("net.ipv4.tcp_rmem", "4096 540000\t15728640").unwrap();
        assert_eq!(config.tcp_rmem, Sizes { min: 4096, default: 540_000, max: 15_728_640 });
        config.set("tcp_congestion_control", "reno\n").unwrap();
        assert_eq!(config.get("tcp_congestion_control").as_deref(), Some("reno"));
        assert_eq!(config.get("tcp_sack").as_deref(), Some("1"));
        assert_eq!(config.get("tcp_none"), None);
    }

    #[test]
    fn every_default_is_a_value_that_is_accepted() {
        let mut config = Config::default();
        for name in Config::NAMES {
            let value = config.get(name).unwrap();
            config.set(name, &value).unwrap();
        }
        assert_eq!(config, Config::default());
    }

    #[test]
    fn refusals_name_the_setting_the_value_and_what_it_takes() {
        let mut config = Config::default();
        let text = |result: Result<(), ConfigError>| result.unwrap_err().to_string();
        assert_eq!(text(config.set("tcp_sack", "2")), "`tcp_sack` cannot be `2`; it takes 0 or 1");
        assert!(text(config.set("tcp_rmem", "9 4 5")).contains("three ascending sizes"));
        assert!(text(config.set("tcp_rmem", "9 10")).contains("three ascending sizes"));
        assert!(text(config.set("tcp_nothing", "1")).starts_with("unknown setting `tcp_nothing`"));
        assert_eq!(config, Config::default());
    }
}
