//! TCP fast open (RFC 7413): cookies that we hand out, and those that we were given.

use std::collections::VecDeque;

use ringway_wire::tcp::FastOpen;
use ringway_wire::{Endpoint, IpAddress};

use crate::config::FastOpenKey;
use crate::hash::Key;
use crate::tables::FlowKey;

/// Bits of `tcp_fastopen`.
pub(crate) const CLIENT: u32 = 1;
pub(super) const SERVER: u32 = 2;
pub(crate) const CLIENT_WITHOUT_COOKIE: u32 = 4;
pub(super) const SERVER_WITHOUT_COOKIE: u32 = 0x200;
pub(super) const SERVER_EVERYWHERE: u32 = 0x400;
/// Remote hosts whose cookies are kept; the oldest goes first.
const COOKIES_KEPT: usize = 256;

/// Both sides' cookies.
pub(crate) struct FastOpenCookies {
    key: Key,
    known: VecDeque<(IpAddress, FastOpen, u16)>,
}

impl FastOpenCookies {
    pub(super) fn new(seed: u64) -> FastOpenCookies {
        FastOpenCookies { key: Key::new(seed, 6), known: VecDeque::new() }
    }

    // RFC 7413 4.1.2: "a Fast Open cookie... is a message authentication code... of the source IP address of the SYN".
    /// The cookie that we give to the remote end of `flow`, made with the configured key or one of our own.
    pub(super) fn ours(&self, key: Option<FastOpenKey>, flow: &FlowKey, experimental: bool) -> Option<FastOpen> {
        if let Some(key) = key {
            return FastOpen::with_cookie(&cookie_of_linux(key, flow), experimental);
        }
        let without_ports = |end: Endpoint| Endpoint::new(end.address, 0);
        let pair = FlowKey::new(without_ports(flow.local()), without_ports(flow.remote()));
        FastOpen::with_cookie(&pair.hash(self.key).to_be_bytes(), experimental)
    }

    /// Whether a SYN carries the cookie that we gave.
    pub(super) fn is_ours(&self, key: Option<FastOpenKey>, flow: &FlowKey, given: &FastOpen) -> bool {
        self.ours(key, flow, given.experimental).is_some_and(|ours| ours.cookie() == given.cookie())
    }

    /// The cookie that `remote` gave us, and the MSS that it then offered.
    pub(crate) fn theirs(&self, remote: IpAddress) -> Option<(FastOpen, u16)> {
        self.known.iter().find(|(address, ..)| *address == remote).map(|(_, cookie, mss)| (*cookie, *mss))
    }

    /// `remote` gave us a cookie.
    pub(crate) fn remember(&mut self, remote: IpAddress, cookie: FastOpen, mss: u16) {
        self.known.retain(|(address, ..)| *address != remote);
        if self.known.len() == COOKIES_KEPT {
            self.known.pop_front();
        }
        self.known.push_back((remote, cookie, mss));
    }
}

/// Linux's `__tcp_fastopen_cookie_gen_cipher`: SipHash-2-4 of both addresses, the client's first.
fn cookie_of_linux(FastOpenKey([a, b, c, d]): FastOpenKey, flow: &FlowKey) -> [u8; 8] {
    let wide = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let mut bytes = Vec::with_capacity(32);
    for end in [flow.remote(), flow.local()] {
        match end.address {
            IpAddress::V4(v4) => bytes.extend(v4.octets()),
            IpAddress::V6(v6) => bytes.extend(v6.octets()),
        }
    }
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    Key::hash_2_4(wide(a, b), wide(c, d), &words).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Linux answers under this key, over both versions.
    #[test]
    fn cookies_are_linuxs_under_the_same_key() {
        let key = FastOpenKey([0xa1a1_a1a1, 0xb2b2_b2b2, 0xc3c3_c3c3, 0xd4d4_d4d4]);
        let cookie = |local: &str, remote: &str| {
            let end = |text: &str| Endpoint::from(text.parse::<std::net::SocketAddr>().unwrap());
            u64::from_be_bytes(cookie_of_linux(key, &FlowKey::new(end(local), end(remote))))
        };
        assert_eq!(cookie("192.168.0.1:80", "192.0.2.1:9"), 0x3021_b9d8_8901_7eeb);
        assert_eq!(cookie("[fd3d:0a0b:17d6::1]:80", "[fd3d:fa7b:d17d::1]:9"), 0xc1d1_e974_2a47_a9bc);
    }
}
