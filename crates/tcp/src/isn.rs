//! Initial sequence numbers and timestamp offsets that strangers cannot guess (RFC 6528, RFC 7323 5.4).

use ringway_wire::SeqNumber;

use crate::config::Config;
use crate::hash::Key;
use crate::tables::FlowKey;
use crate::time::Instant;

pub(crate) struct Isn {
    sequence: Key,
    timestamp: Key,
}

impl Isn {
    pub(crate) fn new(seed: u64) -> Isn {
        Isn { sequence: Key::new(seed, 1), timestamp: Key::new(seed, 2) }
    }

    // RFC 6528 3: "ISN = M + F(localip, localport, remoteip, remoteport, secretkey)", M ticking every 4 microseconds.
    pub(crate) fn choose(&self, key: &FlowKey, now: Instant) -> SeqNumber {
        SeqNumber((now.us() / 4).wrapping_add(key.hash(self.sequence)) as u32)
    }

    /// What a connection adds to the clock for its timestamps.
    pub(crate) fn timestamp_offset(&self, key: &FlowKey, config: &Config) -> u32 {
        if config.tcp_timestamps == 1 { key.hash(self.timestamp) as u32 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddr;

    #[test]
    fn numbers_advance_by_the_clock_and_differ_by_flow_and_secret() {
        let end = |text: &str| text.parse::<SocketAddr>().unwrap().into();
        let one = FlowKey::new(end("10.0.0.1:80"), end("10.0.0.2:4000"));
        let other = FlowKey::new(end("10.0.0.1:80"), end("10.0.0.2:4001"));
        let isn = Isn::new(1);
        let at = Instant::from_ms(5);
        assert_eq!(isn.choose(&one, at + 400) - isn.choose(&one, at), 100);
        assert_ne!(isn.choose(&one, at), isn.choose(&other, at));
        assert_ne!(isn.choose(&one, at), Isn::new(2).choose(&one, at));
        let config = Config { tcp_timestamps: 2, ..Config::default() };
        assert_eq!(isn.timestamp_offset(&one, &config), 0);
        assert_ne!(isn.timestamp_offset(&one, &Config::default()), isn.timestamp_offset(&other, &Config::default()));
    }
}
