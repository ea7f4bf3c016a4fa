//! How much the peer may send: the window that we tell, which never shrinks, avoids silly sizes and grows with
//! what the application reads (`net/ipv4/tcp_output.c`, `__tcp_select_window`; `tcp_input.c`, `tcp_rcv_space_adjust`).

use ringway_wire::SeqNumber;

use super::{Conn, Flags, Owed};
use crate::config::{Config, Sizes};
use crate::packet::Segment;
use crate::time::Instant;

/// Segments that a peer may send at first (RFC 6928), as the receiver assumes.
const INITIAL_SEGMENTS: u32 = 10;
const WINDOW_UNSCALED_MAX: u32 = 65_535;
/// RFC 9293 3.7.1 (MUST-15): the MSS of a peer that does not say.
pub(super) const MSS_DEFAULT: u16 = 536;
const MSS_MIN: u16 = 88;

/// The receiver's side of flow control.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReceiveWindow {
    /// Payload bytes that may wait, in order or early.
    pub(crate) capacity: u32,
    /// The window grows towards `capacity` with each segment; this is how far it has come.
    pub(crate) threshold: u32,
    /// Estimate of the peer's segment size.
    pub(crate) mss: u16,
    /// What we told the peer about ours.
    pub(crate) advertised_mss: u16,
    tuning: Tuning,
}

/// Measures what the application reads in a round trip.
#[derive(Clone, Debug, Default)]
struct Tuning {
    /// Bytes read in the round trip before.
    space: u32,
    since_seq: SeqNumber,
    since: Instant,
    /// The peer's round trip as a receiver sees it, microseconds; 0 before the first sample.
    rtt_us: u32,
    /// The echo of the latest sample: one for each is enough.
    last_echo: u32,
    /// Without timestamps: a window's worth begun at `window_since` ends here.
    window_end: SeqNumber,
    window_since: Instant,
}

/// Half of a buffer's bytes are for payload, as on Linux, where the rest is bookkeeping.
fn payload_bytes(buffer_bytes: u32) -> u32 {
    buffer_bytes / 2
}

impl ReceiveWindow {
    /// For a connection that is about to be opened: its window, and by how many bits it is shifted.
    pub(crate) fn open(config: &Config, fixed: Option<u32>, clamp: u32, advertised_mss: u16) -> (ReceiveWindow, u8) {
        let Sizes { default, max, min } = config.tcp_rmem;
        let clamp = if clamp == 0 { u32::MAX } else { clamp };
        let capacity = fixed.unwrap_or(payload_bytes(default)).clamp(payload_bytes(min), payload_bytes(max)).min(clamp);
        let whole = if capacity > u32::from(advertised_mss) {
            capacity / u32::from(advertised_mss) * u32::from(advertised_mss)
        } else {
            capacity
        };
        let threshold = whole.min(WINDOW_UNSCALED_MAX);
        // RFC 7323 2.3: the scale is fixed for the connection, so it must do for the largest window it may reach.
        // A buffer of a fixed size bounds it (Linux: `tcp_openreq_init_rwin`).
        let largest = fixed.map_or(max.max(whole), |_| capacity).min(clamp);
        let scale = (largest.max(1).ilog2().saturating_sub(15)).min(14) as u8;
        let window = ReceiveWindow { capacity, threshold, mss: MSS_DEFAULT, advertised_mss, tuning: Tuning::default() };
        (window, scale)
    }

    /// The handshake is over: first estimates.
    pub(super) fn established(&mut self, now: Instant, sending_mss: u16, window: u32, next: SeqNumber) {
        let hint = self.advertised_mss.min(sending_mss).min((window / 2).min(65_535) as u16);
        self.mss = hint.clamp(MSS_MIN, MSS_DEFAULT);
        let space = window.min(INITIAL_SEGMENTS * u32::from(self.advertised_mss)).max(1);
        let window_end = next + window;
        self.tuning = Tuning { space, since_seq: next, since: now, window_end, window_since: now, ..Tuning::default() };
    }

    /// A segment with `bytes` of payload arrived.
    pub(super) fn measure_mss(&mut self, bytes: usize) {
        if bytes >= usize::from(self.mss) {
            self.mss = bytes.min(usize::from(self.advertised_mss)) as u16;
        }
    }

    /// In-order data arrived: the sender uses its window, so more of the room may be told.
    fn grow(&mut self, free: u32, bytes: u32) {
        let room = free.min(self.capacity).saturating_sub(self.threshold);
        let step = (2 * u32::from(self.advertised_mss)).max(2 * bytes);
        self.threshold += room.min(step);
    }
}

impl Conn<'_> {
    /// Bytes that wait for the application.
    pub(super) fn unread(&self) -> u32 {
        self.cold.rx.len() as u32
    }

    fn free_space(&self) -> u32 {
        self.cold.window.capacity.saturating_sub(self.unread())
    }

    /// The window to tell now, in bytes and a multiple of the scale's unit.
    pub(super) fn select_window(&self) -> u32 {
        let current = self.hot.receive_window();
        let wanted = self.wanted_window();
        // RFC 9293 3.8.6 (SHLD-14): a receiver does not shrink the window.
        if wanted < current { align(current, self.hot.rcv_wscale) } else { wanted }
    }

    // RFC 9293 3.8.6.2.2 (MUST-39): silly window avoidance: the window's right edge moves by a segment or by half of
    // the buffer, or not at all.
    fn wanted_window(&self) -> u32 {
        let window = &self.cold.window;
        let (free, full) = (self.free_space(), window.capacity);
        let mss = u32::from(window.mss).min(full).max(1);
        let mut free = free;
        if free < full / 2 {
            if self.shared.pool.is_under_pressure() {
                free = free.min(4 * mss);
            }
            free &= !((1u32 << self.hot.rcv_wscale) - 1);
            if free < full / 16 || free < mss {
                return 0;
            }
        }
        let free = free.min(window.threshold);
        if self.hot.rcv_wscale > 0 {
            return align(free, self.hot.rcv_wscale);
        }
        let told = self.hot.rcv_wnd;
        if told.saturating_add(mss) <= free || told > free { free / mss * mss } else { told }
    }

    /// In-order data of `bytes` arrived.
    pub(super) fn grow_window(&mut self, bytes: u32) {
        if !self.shared.pool.is_under_pressure() {
            let free = self.free_space();
            self.cold.window.grow(free, bytes);
        }
    }

    /// The application has read: perhaps the peer should know of the room (`tcp_cleanup_rbuf`), and perhaps there
    /// should be more of it.
    pub(super) fn after_read(&mut self) {
        self.tune_receive_buffer();
        if !self.state().may_receive() {
            return;
        }
        if self.read_calls_for_answer() {
            self.owe(Owed::ACK);
            return;
        }
        let current = self.hot.receive_window();
        if 2 * u64::from(current) <= u64::from(self.cold.window.capacity) {
            let wanted = self.wanted_window();
            if wanted > 0 && wanted >= 2 * current {
                self.owe(Owed::ACK);
            }
        }
    }

    /// Once a round trip: the buffer holds twice what the application read in it, and the growth since the one before.
    fn tune_receive_buffer(&mut self) {
        let now = self.shared.now;
        let (max, moderate) = (self.shared.config.tcp_rmem.max, self.shared.config.tcp_moderate_rcvbuf);
        let fixed = self.cold.options.receive_buffer_bytes.is_some();
        let window = &mut self.cold.window;
        let tuning = &mut window.tuning;
        if tuning.rtt_us == 0 || now.since_us(tuning.since) < u64::from(tuning.rtt_us) {
            return;
        }
        let copied = self.hot.copied.offset_from(tuning.since_seq);
        if copied > tuning.space {
            if moderate && !fixed {
                let twice = 2 * u64::from(copied) + 16 * u64::from(window.advertised_mss);
                let growth = twice * u64::from(copied - tuning.space) / u64::from(tuning.space.max(1));
                let wanted = (twice + 2 * growth).min(u64::from(payload_bytes(max))) as u32;
                let clamp = self.cold.options.window_clamp_bytes;
                let wanted = if clamp == 0 { wanted } else { wanted.min(clamp) };
                window.capacity = window.capacity.max(wanted);
            }
            tuning.space = copied;
        }
        (tuning.since_seq, tuning.since) = (self.hot.copied, now);
    }

    /// Data arrived in order: perhaps a sample of the round trip as the receiver sees it (`tcp_rcv_rtt_measure_ts`).
    pub(super) fn measure_receive_rtt(&mut self, segment: &Segment) {
        let (now, clock) = (self.shared.now, self.timestamp());
        let full = segment.payload.len() >= usize::from(self.cold.window.mss);
        let tuning = &mut self.cold.window.tuning;
        match segment.options.timestamps.filter(|_| self.hot.flags.contains(Flags::TIMESTAMPS)) {
            Some(timestamps) if full && timestamps.echo != tuning.last_echo => {
                let age_ms = clock.wrapping_sub(timestamps.echo).max(1);
                smooth(&mut tuning.rtt_us, age_ms.saturating_mul(1000), false);
                tuning.last_echo = timestamps.echo;
            }
            None if self.hot.rcv_nxt >= tuning.window_end => {
                // Without timestamps: a whole window takes at least a round trip.
                let us = now.since_us(tuning.window_since).clamp(1, u64::from(u32::MAX)) as u32;
                smooth(&mut tuning.rtt_us, us, true);
                tuning.window_end = self.hot.rcv_nxt + self.hot.rcv_wnd;
                tuning.window_since = now;
            }
            _ => {}
        }
    }

    /// The round trip as the receiver sees it; 0 if unknown.
    pub(crate) fn receive_rtt_us(&self) -> u32 {
        self.cold.window.tuning.rtt_us
    }

    /// Bytes that the application read in the last round trip measured.
    pub(crate) fn receive_space(&self) -> u32 {
        self.cold.window.tuning.space
    }
}

/// Takes `sample` into an average; one that can only be too large counts if it is smaller.
fn smooth(average: &mut u32, sample: u32, upper_bound: bool) {
    *average = match (*average, upper_bound) {
        (0, _) => sample,
        (old, true) => old.min(sample),
        (old, false) => (u64::from(old) * 7 / 8 + u64::from(sample) / 8).max(1) as u32,
    };
}

fn align(bytes: u32, scale: u8) -> u32 {
    let unit = 1u32 << scale;
    (bytes.saturating_add(unit - 1)) & !(unit - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that Linux shows for these `tcp_rmem`.
    #[test]
    fn the_first_window_is_linuxs() {
        let mut config = Config::default();
        let (window, scale) = ReceiveWindow::open(&config, None, 0, 1460);
        assert_eq!((window.threshold, scale), (64_240, 10));
        config.set("tcp_rmem", "4096 540000 15728640").unwrap();
        let (window, scale) = ReceiveWindow::open(&config, None, 0, 1460);
        assert_eq!((window.threshold, scale), (65_535, 8));
        let (window, scale) = ReceiveWindow::open(&config, Some(10_000), 0, 1460);
        assert_eq!((window.threshold, scale), (8760, 0));
    }

    #[test]
    fn windows_are_whole_units() {
        assert_eq!([align(0, 8), align(1, 8), align(256, 8), align(257, 8)], [0, 256, 256, 512]);
        assert_eq!(align(7, 0), 7);
    }
}
