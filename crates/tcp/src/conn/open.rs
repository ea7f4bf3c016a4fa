//! How connections begin: those that we open, those that both sides open at once, and what a SYN's options agree on.

use ringway_wire::SeqNumber;
use ringway_wire::tcp::{Flags as Bits, Options, Timestamps};

use super::{Conn, Flags, Owed, Push, ReceiveWindow, State, Timer};
use crate::config::Config;
use crate::error::Error;
use crate::event::Ready;
use crate::packet::Segment;
use crate::tables::FlowKey;
use crate::time::Instant;

/// Bytes of IP and TCP headers without options.
const HEADERS_V4: u16 = 40;
const HEADERS_V6: u16 = 60;
/// Bytes that timestamps take in every segment.
const TIMESTAMP_BYTES: u16 = 12;

/// What the peer's SYN offered, and what of it was taken up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) mss: u16,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack: bool,
    pub(crate) timestamps: Option<Timestamps>,
    pub(crate) ecn: bool,
}

/// What a half-open connection knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handshake {
    pub(crate) peer: Peer,
    pub(crate) iss: SeqNumber,
    pub(crate) irs: SeqNumber,
    /// When the SYN-ACK was sent first, if that is known, and how often again.
    pub(crate) sent_at: Option<Instant>,
    pub(crate) resent: u32,
}

impl Peer {
    /// Reads a SYN: what it offers and `config` allows.
    pub(crate) fn of(segment: &Segment, config: &Config, mss_default: u16) -> Peer {
        let options = &segment.options;
        Peer {
            mss: options.mss.unwrap_or(mss_default),
            window_scale: options.window_scale.filter(|_| config.tcp_window_scaling),
            sack: options.sack_permitted && config.tcp_sack,
            timestamps: options.timestamps.filter(|_| config.tcp_timestamps > 0),
            ecn: false,
        }
    }
}

/// The MSS that fits into packets of `mtu` bytes, options not subtracted.
pub(crate) fn mss_for(mtu: u16, key: &FlowKey) -> u16 {
    mtu.saturating_sub(if key.is_v4() { HEADERS_V4 } else { HEADERS_V6 })
}

impl Conn<'_> {
    /// Begins an active open (RFC 9293 3.10.1).
    pub(crate) fn start_connect(&mut self, iss: Option<SeqNumber>) {
        let iss = iss.unwrap_or_else(|| self.shared.isn.choose(&self.hot.key, self.shared.now));
        self.prepare(iss);
        self.hot.snd_nxt = iss;
        self.cold.peer.mss = super::window::MSS_DEFAULT;
        self.set_state(State::SynSent);
        if !self.plan_fast_open() {
            self.owe(Owed::SYN);
        }
    }

    /// A half-open connection becomes a real one; the acknowledgement that completes it is about to arrive.
    pub(crate) fn begin_passive(&mut self, handshake: Handshake) {
        let Handshake { peer, iss, irs, sent_at, resent } = handshake;
        self.prepare(iss);
        self.set_state(State::SynReceived);
        (self.cold.peer, self.cold.irs) = (peer, irs);
        self.agree(irs + 1);
        self.begin_ecn();
        self.hot.snd_nxt = iss + 1;
        self.cold.timeouts = resent;
        self.cold.retransmitting_since = sent_at;
    }

    /// Everything that is known of ourselves before the first segment.
    pub(crate) fn prepare(&mut self, iss: SeqNumber) {
        let config = &self.shared.config;
        self.cold.path_mtu = config.mtu as u16;
        let largest = mss_for(self.cold.path_mtu, &self.hot.key);
        let mss = self.cold.options.mss_bytes.map_or(largest, |chosen| chosen.min(largest));
        let options = &self.cold.options;
        let (window, scale) =
            ReceiveWindow::open(config, options.receive_buffer_bytes, options.window_clamp_bytes, mss);
        self.hot.rcv_wnd = window.threshold;
        self.hot.rcv_wscale = if config.tcp_window_scaling { scale } else { 0 };
        self.cold.window = window;
        self.hot.ts_offset = self.shared.isn.timestamp_offset(&self.hot.key, config);
        self.cold.iss = iss;
        (self.hot.snd_una, self.hot.snd_nxt) = (iss, iss);
        (self.hot.write_seq, self.cold.tx_base) = (iss + 1, iss + 1);
        self.cold.push = Push::begin(iss + 1);
        self.cold.last_received = self.shared.now;
        self.cold.last_sent = self.shared.now;
        self.cold.last_ack_received = self.shared.now;
        self.reset_recovery();
    }

    /// The options of our SYN or SYN-ACK.
    pub(super) fn syn_options(&self) -> Options {
        let config = &self.shared.config;
        let answers = self.state() == State::SynReceived;
        let peer = &self.cold.peer;
        Options {
            mss: Some(self.cold.window.advertised_mss),
            // RFC 7323 2.2, 3.2; RFC 2018 2: a SYN-ACK has these only if the SYN had them.
            window_scale: (config.tcp_window_scaling && (!answers || peer.window_scale.is_some()))
                .then_some(self.hot.rcv_wscale),
            sack_permitted: config.tcp_sack && (!answers || peer.sack),
            timestamps: (config.tcp_timestamps > 0 && (!answers || peer.timestamps.is_some()))
                .then(|| Timestamps { value: self.timestamp(), echo: self.hot.ts_recent }),
            fast_open: self.cold.fast_open.option(),
            ..Options::NONE
        }
    }

    /// A segment arrives in SYN-SENT (RFC 9293 3.10.7.3).
    pub(super) fn arrive_in_syn_sent(&mut self, segment: &Segment) {
        if segment.has(Bits::ACK) {
            // RFC 9293 3.10.7.3: "If SEG.ACK =< ISS or SEG.ACK > SND.NXT, send a reset (unless the RST bit is set)."
            let acceptable = segment.ack > self.cold.iss && segment.ack <= self.hot.snd_nxt;
            if !acceptable || !self.echo_is_ours(segment) {
                if !segment.has(Bits::RST) {
                    self.shared.reply_with_reset(&self.hot.key, segment);
                }
                return;
            }
        }
        if segment.has(Bits::RST) {
            // RFC 9293 3.10.7.3: "If the ACK was acceptable, then signal to the user 'error: connection reset'."
            if segment.has(Bits::ACK) {
                self.end(Error::ConnectionRefused);
            }
            return;
        }
        if !segment.has(Bits::SYN) {
            // RFC 9293 3.10.7.3: "if neither of the SYN or RST bits is set, then drop the segment and return."
            return;
        }
        self.take_syn(segment);
        if segment.has(Bits::ACK) {
            self.complete_connect(segment);
        } else {
            // RFC 9293 3.10.7.3: "Otherwise, enter SYN-RECEIVED, form a SYN,ACK segment and send it."
            self.set_state(State::SynReceived);
            self.hot.snd_wnd = u32::from(segment.window);
            self.hot.snd_wl1 = segment.seq;
            self.owe(Owed::SYN);
        }
    }

    /// A timestamp that echoes none of ours shows an old segment (Linux: `PAWSACTIVEREJECTED`).
    fn echo_is_ours(&self, segment: &Segment) -> bool {
        let Some(timestamps) = segment.options.timestamps.filter(|t| t.echo != 0) else { return true };
        let sent_ms = self.shared.now.since_us(self.cold.retransmitting_since.unwrap_or(self.shared.now)) / 1000;
        self.timestamp().wrapping_sub(timestamps.echo) <= sent_ms as u32 + 1
    }

    /// Reads the peer's SYN: its sequence number and its options.
    pub(crate) fn take_syn(&mut self, segment: &Segment) {
        self.cold.peer = Peer::of(segment, &self.shared.config, super::window::MSS_DEFAULT);
        self.cold.irs = segment.seq;
        if self.state() == State::SynSent {
            self.agree_by_syn_ack(segment);
        }
        self.agree(segment.seq + 1);
    }

    /// Applies what both SYNs agree on; `rcv_nxt` is the first sequence number behind the peer's SYN.
    pub(crate) fn agree(&mut self, rcv_nxt: SeqNumber) {
        let peer = self.cold.peer;
        (self.hot.rcv_nxt, self.hot.copied, self.hot.rcv_wup) = (rcv_nxt, rcv_nxt, rcv_nxt);
        self.begin_assembling();
        self.hot.flags.set(Flags::SACK, peer.sack);
        self.hot.flags.set(Flags::TIMESTAMPS, peer.timestamps.is_some());
        if let Some(timestamps) = peer.timestamps {
            self.store_timestamp(timestamps.value);
        }
        match peer.window_scale {
            Some(shift) => self.hot.snd_wscale = shift,
            // RFC 7323 2.2: both or none.
            None => (self.hot.snd_wscale, self.hot.rcv_wscale) = (0, 0),
        }
        self.update_mss();
    }

    /// The payload of a full segment, from the path, the peer, the application and the window (RFC 9293 3.7.1,
    /// MUST-16; `tcp_sync_mss`, `tcp_bound_to_half_wnd`).
    pub(super) fn update_mss(&mut self) {
        let path = mss_for(self.cold.path_mtu, &self.hot.key);
        let chosen = self.cold.options.mss_bytes.unwrap_or(u16::MAX);
        let floor = self.shared.config.tcp_min_snd_mss as u16;
        let mut mss = path.min(self.cold.peer.mss).min(chosen).max(floor);
        let half = match self.cold.max_window {
            small if small < u32::from(super::window::MSS_DEFAULT) => small,
            large => large / 2,
        };
        if half > 0 {
            mss = mss.min(half.clamp(28, 65_535) as u16);
        }
        let options = if self.hot.flags.contains(Flags::TIMESTAMPS) { TIMESTAMP_BYTES } else { 0 };
        self.hot.mss = mss.saturating_sub(options).max(8);
        self.cold.recovery.set_mss(u32::from(self.hot.mss));
        if self.cold.recovery.board.waiting_out() > 0 {
            self.owe(Owed::RESEND);
        }
    }

    /// SYN-ACK: our SYN is acknowledged and theirs is known.
    fn complete_connect(&mut self, segment: &Segment) {
        self.settle_syn_data(segment);
        // RFC 7323 2.2: "The window field in a segment where the SYN bit is set MUST NOT be scaled."
        self.set_send_window(u32::from(segment.window), segment.seq);
        self.on_syn_acknowledged(segment);
        self.establish();
        self.tell(Ready::WRITABLE);
        self.finish_opening(segment);
    }

    /// Payload and FIN that came with the SYN-ACK, and the acknowledgement of it.
    fn finish_opening(&mut self, segment: &Segment) {
        let behind = Segment { seq: segment.seq + 1, flags: segment.flags - Bits::SYN, ..*segment };
        self.owe(Owed::ACK | Owed::DATA);
        if behind.seq_len() > 0 {
            self.receive(&behind);
        }
    }

    /// Both sides know each other: ESTABLISHED.
    pub(crate) fn establish(&mut self) {
        self.set_state(State::Established);
        self.cold.timers.stop(Timer::Retransmit);
        (self.cold.timeouts, self.cold.retransmitting_since) = (0, None);
        self.cold.window.established(self.shared.now, self.hot.mss, self.hot.rcv_wnd, self.hot.rcv_nxt);
        self.cold.last_received = self.shared.now;
        self.restart_keepalive();
        if self.hot.flags.contains(Flags::FIN_QUEUED) {
            self.set_state(State::FinWait1);
        }
    }
}
