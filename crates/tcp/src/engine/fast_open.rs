//! TCP fast open (RFC 7413): cookies that we hand out, and those that we were given.

use std::collections::VecDeque;

use ringway_wire::tcp::FastOpen;
use ringway_wire::{Endpoint, IpAddress};

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
    /// The cookie that we give to the remote end of `flow`.
    pub(super) fn ours(&self, flow: &FlowKey, experimental: bool) -> Option<FastOpen> {
        let without_ports = |end: Endpoint| Endpoint::new(end.address, 0);
        let pair = FlowKey::new(without_ports(flow.local()), without_ports(flow.remote()));
        FastOpen::with_cookie(&pair.hash(self.key).to_be_bytes(), experimental)
    }

    /// Whether a SYN carries the cookie that we gave.
    pub(super) fn is_ours(&self, flow: &FlowKey, given: &FastOpen) -> bool {
        self.ours(flow, given.experimental).is_some_and(|ours| ours.cookie() == given.cookie())
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
