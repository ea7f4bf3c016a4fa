//! What the path says of itself: ICMP errors, and the MTU found by them or by black holes.

use super::{Conn, State};
use crate::error::Error;
use crate::packet::{PathError, What};
use crate::stats::Counter;

/// RFC 1191 7.1: likely MTUs, for routers that do not say theirs.
const PLATEAUS: [u16; 9] = [32_000, 17_914, 8166, 4352, 2002, 1492, 1006, 508, 296];
/// Linux's `ip_rt_min_pmtu`, and IPv6's least MTU (RFC 8201 4).
const MTU_MIN_V4: u32 = 552;
const MTU_MIN_V6: u32 = 1280;

impl Conn<'_> {
    /// An ICMP error arrived for a segment of this connection.
    pub(crate) fn on_path_error(&mut self, error: &PathError) {
        // RFC 5927 4.1: only errors about something in flight are believed.
        if error.seq < self.hot.snd_una || error.seq > self.hot.snd_nxt || self.state() == State::Closed {
            return self.shared.count(Counter::IcmpIgnored);
        }
        match error.what {
            What::TooBig(mtu) => self.on_too_big(mtu),
            What::Unreachable(error) => self.on_unreachable(error),
        }
    }

    // RFC 9293 3.9.2.2 (MUST-56): errors on an established connection are hints; a connection that is not yet open has no
    // other news, and ends (Linux: `tcp_v4_err`).
    fn on_unreachable(&mut self, error: Error) {
        match self.state() {
            State::SynSent | State::SynReceived => self.end(error),
            _ => self.cold.soft_error = Some(error),
        }
    }

    // RFC 1191 3, RFC 8201 4: the next hop's MTU replaces the path's if it is smaller.
    fn on_too_big(&mut self, mtu: u32) {
        let mtu = match mtu {
            0 => PLATEAUS.into_iter().find(|plateau| *plateau < self.cold.path_mtu).map_or(MTU_MIN_V4, u32::from),
            said => said,
        };
        let least = if self.hot.key.is_v4() { MTU_MIN_V4 } else { MTU_MIN_V6 };
        let mtu = mtu.max(least);
        if mtu < u32::from(self.cold.path_mtu) {
            self.cold.path_mtu = mtu as u16;
            self.update_mss();
        }
    }

    /// Several time-outs in a row: perhaps large packets vanish (RFC 4821 7.7; Linux: `tcp_mtu_probing`).
    pub(super) fn doubt_path_mtu(&mut self) {
        let config = &self.shared.config;
        if config.tcp_mtu_probing == 0 || self.cold.timeouts < config.tcp_retries1 {
            return;
        }
        let floor = config.tcp_mtu_probe_floor.max(config.tcp_min_snd_mss);
        let headers = self.cold.path_mtu - super::mss_for(self.cold.path_mtu, &self.hot.key);
        let mss = (u32::from(self.cold.path_mtu - headers) / 2).min(config.tcp_base_mss).max(floor);
        let mtu = mss as u16 + headers;
        if mtu < self.cold.path_mtu {
            self.cold.path_mtu = mtu;
            self.update_mss();
        }
    }
}
