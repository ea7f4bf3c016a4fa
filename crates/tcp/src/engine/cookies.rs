//! SYN cookies (RFC 4987 3.6): when a listener's queue is full, the SYN-ACK itself holds all there is to remember.
//!
//! ```text
//!   sequence number   | MAC of addresses, ports, their ISN, minute, MSS: 24 bits | minute: 5 | MSS: 3 |
//!   timestamp         | our clock: 26 bits                          | ECN: 1 | SACK: 1 | window scale: 4 |
//! ```
//! A peer without timestamps gets neither window scaling nor SACK, as there is no place for them.

use ringway_wire::SeqNumber;
use ringway_wire::tcp::Timestamps;

use crate::conn::Peer;
use crate::hash::Key;
use crate::tables::FlowKey;
use crate::time::Instant;

/// The segment sizes that three bits can name, the nearest below is used (Linux: `msstab`).
const MSS: [u16; 8] = [536, 1024, 1220, 1300, 1440, 1452, 1460, 8960];
/// Cookies are believed for one to two minutes.
const MINUTE_US: u64 = 60_000_000;
const MINUTE_MASK: u64 = 31;
/// Bits of a timestamp that are options.
const OPTION_BITS: u32 = 63;
const NO_SCALE: u32 = 15;

pub(super) struct Cookies {
    key: Key,
    /// When a queue last overflowed: only then are cookies expected.
    overflowed: Option<Instant>,
}

impl Cookies {
    pub(super) fn new(seed: u64) -> Cookies {
        Cookies { key: Key::new(seed, 5), overflowed: None }
    }

    pub(super) fn note_overflow(&mut self, now: Instant) {
        self.overflowed = Some(now);
    }

    /// Whether an acknowledgement out of the blue may be an answer to a cookie.
    pub(super) fn are_expected(&self, now: Instant) -> bool {
        self.overflowed.is_some_and(|at| now.since_us(at) < 2 * MINUTE_US)
    }

    /// The sequence number for our SYN-ACK, and the MSS that it stands for.
    pub(super) fn make(&self, flow: &FlowKey, irs: SeqNumber, peer: &Peer, now: Instant) -> SeqNumber {
        let mss = MSS.iter().rposition(|mss| *mss <= peer.mss).unwrap_or(0) as u64;
        let minute = now.us() / MINUTE_US;
        SeqNumber(self.mac(flow, irs, minute, mss) << 8 | ((minute & MINUTE_MASK) << 3 | mss) as u32)
    }

    /// Whether `iss` is a cookie of ours for this flow: the MSS in it.
    pub(super) fn check(&self, flow: &FlowKey, iss: SeqNumber, irs: SeqNumber, now: Instant) -> Option<u16> {
        let (minute_low, mss) = (u64::from(iss.0 >> 3) & MINUTE_MASK, u64::from(iss.0 & 7));
        let present = now.us() / MINUTE_US;
        let age = present.wrapping_sub(minute_low) & MINUTE_MASK;
        if age > 1 || age > present {
            return None;
        }
        (self.mac(flow, irs, present - age, mss) == iss.0 >> 8).then_some(MSS[mss as usize])
    }

    fn mac(&self, flow: &FlowKey, irs: SeqNumber, minute: u64, mss: u64) -> u32 {
        let hash = self.key.hash(&[flow.hash(self.key), u64::from(irs.0), minute << 3 | mss]);
        hash as u32 >> 8
    }
}

/// Our clock with what `peer` agreed on in its low bits; never ahead of the clock.
pub(super) fn timestamp_with_options(clock: u32, peer: &Peer) -> u32 {
    let scale = peer.window_scale.map_or(NO_SCALE, u32::from);
    let bits = scale | u32::from(peer.sack) << 4 | u32::from(peer.ecn) << 5;
    let with_bits = clock & !OPTION_BITS | bits;
    if (with_bits.wrapping_sub(clock) as i32) > 0 { with_bits.wrapping_sub(OPTION_BITS + 1) } else { with_bits }
}

/// What a peer agreed on, from the echo of such a timestamp.
pub(super) fn peer_from(mss: u16, timestamps: Option<Timestamps>) -> Peer {
    let Some(timestamps) = timestamps else { return Peer { mss, ..Peer::default() } };
    let scale = timestamps.echo & 15;
    Peer {
        mss,
        window_scale: (scale != NO_SCALE).then_some(scale as u8),
        sack: timestamps.echo & 16 != 0,
        ecn: timestamps.echo & 32 != 0,
        timestamps: Some(timestamps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddr;

    fn flow(port: u16) -> FlowKey {
        let end = |text: &str| text.parse::<SocketAddr>().unwrap();
        let mut remote = end("10.0.0.2:1");
        remote.set_port(port);
        FlowKey::new(end("10.0.0.1:80").into(), remote.into())
    }

    #[test]
    fn a_cookie_is_ours_for_its_flow_and_its_time() {
        let cookies = Cookies::new(9);
        let now = Instant::from_ms(1_000_000_000);
        for (offered, taken) in [(100, 536), (1460, 1460), (1459, 1452), (9000, 8960)] {
            let peer = Peer { mss: offered, ..Peer::default() };
            let cookie = cookies.make(&flow(7), SeqNumber(55), &peer, now);
            assert_eq!(cookies.check(&flow(7), cookie, SeqNumber(55), now), Some(taken));
            assert_eq!(cookies.check(&flow(7), cookie, SeqNumber(55), now + MINUTE_US), Some(taken));
            assert_eq!(cookies.check(&flow(7), cookie, SeqNumber(55), now + 2 * MINUTE_US), None);
            assert_eq!(cookies.check(&flow(8), cookie, SeqNumber(55), now), None);
            assert_eq!(cookies.check(&flow(7), cookie, SeqNumber(56), now), None);
            assert_eq!(cookies.check(&flow(7), cookie + 256, SeqNumber(55), now), None);
        }
    }

    #[test]
    fn options_survive_in_a_timestamp_that_is_not_ahead() {
        for clock in [0u32, 63, 64, 1_000_037] {
            for (scale, sack, ecn) in [(None, false, false), (Some(0), true, false), (Some(14), true, true)] {
                let peer = Peer { mss: 1460, window_scale: scale, sack, ecn, timestamps: None };
                let value = timestamp_with_options(clock, &peer);
                assert!(clock.wrapping_sub(value) <= 63 + 64);
                let timestamps = Timestamps { value: 5, echo: value };
                assert_eq!(peer_from(1460, Some(timestamps)), Peer { timestamps: Some(timestamps), ..peer });
            }
        }
    }
}
