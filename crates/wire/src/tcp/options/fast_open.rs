//! Fast open cookies (RFC 7413, 4.1.1), as option 34 or as the experiment that came before it.

use super::{Words, kind};

/// Fast open's identifier within an experimental option (IANA "TCP Experimental Option Experiment Identifiers").
pub(super) const EXPERIMENT: u16 = 0xf989;

/// A cookie, or the request for one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FastOpen {
    /// Bytes behind `len` are zero.
    cookie: [u8; Self::COOKIE_LEN_MAX],
    len: u8,
    /// By option 254 instead of 34; an answer uses what the request used.
    pub experimental: bool,
}

impl FastOpen {
    pub const COOKIE_LEN_MIN: usize = 4;
    pub const COOKIE_LEN_MAX: usize = 16;

    /// Asks for a cookie.
    pub const fn request(experimental: bool) -> FastOpen {
        FastOpen { cookie: [0; Self::COOKIE_LEN_MAX], len: 0, experimental }
    }

    /// `None` unless the cookie has 4 to 16 bytes, an even number.
    pub fn with_cookie(cookie: &[u8], experimental: bool) -> Option<FastOpen> {
        let fits = (Self::COOKIE_LEN_MIN..=Self::COOKIE_LEN_MAX).contains(&cookie.len());
        if !fits || !cookie.len().is_multiple_of(2) {
            return None;
        }
        let mut fast_open = FastOpen::request(experimental);
        fast_open.cookie[..cookie.len()].copy_from_slice(cookie);
        fast_open.len = cookie.len() as u8;
        Some(fast_open)
    }

    pub(super) fn parse(data: &[u8], experimental: bool) -> Option<FastOpen> {
        if data.is_empty() { Some(FastOpen::request(experimental)) } else { FastOpen::with_cookie(data, experimental) }
    }

    /// Empty for a request.
    pub fn cookie(&self) -> &[u8] {
        &self.cookie[..usize::from(self.len).min(Self::COOKIE_LEN_MAX)]
    }

    pub fn is_request(&self) -> bool {
        self.len == 0
    }

    fn head_len(&self) -> usize {
        if self.experimental { 4 } else { 2 }
    }

    /// Padding included.
    pub(super) fn wire_len(&self) -> usize {
        (self.head_len() + self.cookie().len()).next_multiple_of(4)
    }

    /// Padded with NOPs at the end, as Linux does.
    pub(super) fn write(&self, out: &mut Words) {
        let mut bytes = [kind::NOP; 4 + Self::COOKIE_LEN_MAX];
        let (head_len, len) = (self.head_len(), self.head_len() + self.cookie().len());
        if self.experimental {
            let [high, low] = EXPERIMENT.to_be_bytes();
            bytes[..4].copy_from_slice(&[kind::EXPERIMENT_254, len as u8, high, low]);
        } else {
            bytes[..2].copy_from_slice(&[kind::FAST_OPEN, len as u8]);
        }
        bytes[head_len..len].copy_from_slice(self.cookie());
        bytes[..self.wire_len()].as_chunks().0.iter().for_each(|word| out.put(*word));
    }
}

impl core::fmt::Debug for FastOpen {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let kind = if self.experimental { "experimental" } else { "fast open" };
        write!(f, "{kind} {:02x?}", self.cookie())
    }
}
