//! The sender's side in the connection's terms: sequence numbers and timers around [`crate::recovery::Recovery`].

use ringway_wire::SeqNumber;
use ringway_wire::tcp::Flags as Bits;

use super::timers::Waiting;
use super::{Conn, Flags, Owed, State, Timer};
use crate::packet::Segment;
use crate::recovery::ack::Ack;
use crate::recovery::alarms::AlarmAction;
use crate::recovery::scoreboard::{SEGMENTS_MAX, Scoreboard};
use crate::recovery::{Recovery, RecoveryConfig, Resend, State as RecoveryState};
use crate::rtt::RttConfig;
use crate::span::Span;
use crate::stats::Counter;

/// The most SACK blocks that a header holds.
const BLOCKS_MAX: usize = 4;

impl Conn<'_> {
    /// The handshake begins: nothing is known of the path.
    pub(super) fn reset_recovery(&mut self) {
        let config = &self.shared.config;
        let chosen = RecoveryConfig {
            algorithm: self.cold.options.congestion_control.unwrap_or(config.tcp_congestion_control),
            rtt: RttConfig {
                min_rto_us: config.tcp_rto_min_us,
                max_rto_us: config.tcp_rto_max_ms * 1000,
                min_rtt_window_us: u64::from(config.tcp_min_rtt_wlen) * 1_000_000,
            },
            slow_start_after_idle: config.tcp_slow_start_after_idle,
            tail_loss_probes: config.tcp_early_retrans >= 3,
            frto: config.tcp_frto > 0,
            reordering: config.tcp_reordering,
            ..RecoveryConfig::default()
        };
        // Offset 0 is the SYN, which the handshake looks after; 1 is the first byte.
        self.cold.recovery = Recovery::new(chosen, 1, u32::from(self.hot.mss), self.shared.now);
    }

    pub(super) fn rto_us(&self) -> u32 {
        self.cold.recovery.rtt.rto_us()
    }

    pub(super) fn srtt_us(&self) -> Option<u32> {
        self.cold.recovery.rtt.srtt_us()
    }

    /// Our SYN was acknowledged by `segment`: the first sample, and what of the options recovery must know.
    pub(super) fn on_syn_acknowledged(&mut self, segment: &Segment) {
        let now = self.shared.now;
        let resent = self.cold.timeouts > 0;
        let exact_us = self.cold.retransmitting_since.filter(|_| !resent).map(|at| now.since_us(at));
        // RFC 7323 4.1: the echo says which of several SYNs was answered.
        let sample_us = exact_us.or(self.echoed_rtt_us(segment).map(u64::from));
        let recovery = &mut self.cold.recovery;
        match sample_us {
            Some(us) => {
                let us = us.clamp(1, u64::from(u32::MAX)) as u32;
                recovery.rtt.on_sample(us, 1, 1);
                recovery.rtt.on_min_rtt(now, us, false);
            }
            None => recovery.rtt.on_retransmitted_handshake(),
        }
        if resent {
            // RFC 6298 5.7, RFC 5681 3.1: a SYN that was lost means a window of one segment.
            recovery.congestion.window.set_cwnd(1);
        }
        recovery.set_sack(self.hot.flags.contains(Flags::SACK));
        recovery.rate.count_handshake();
    }

    /// How old the echo of our timestamp is (RFC 7323 4.1).
    fn echoed_rtt_us(&self, segment: &Segment) -> Option<u32> {
        let timestamps = segment.options.timestamps.filter(|t| t.echo != 0)?;
        let age_ms = self.timestamp().wrapping_sub(timestamps.echo);
        (self.hot.flags.contains(Flags::TIMESTAMPS) && age_ms < 1 << 24).then(|| age_ms.max(1) * 1000)
    }

    /// A new segment of `len` in sequence space has left; a write ends there if it is `pushed`, and a bundle if `last`.
    pub(super) fn on_sent(&mut self, len: u32, pushed: bool, last: bool) {
        let full = self.cold.recovery.on_transmit(self.shared.now, len as u16);
        assert!(full.is_ok(), "new segments leave only while there is room for their records");
        self.cold.recovery.board.mark_newest(pushed, last);
    }

    /// Before new data are sent: perhaps the connection was idle.
    pub(super) fn before_sending(&mut self) {
        self.cold.recovery.before_sending(self.shared.now);
    }

    /// Sending has stopped, for want of data or of room in the windows.
    pub(super) fn after_sending(&mut self, sent_new: bool) {
        let unsent = (self.hot.write_seq - self.hot.snd_nxt).max(0) as u32;
        let peer_has_room = self.hot.flight() < self.hot.snd_wnd;
        let window_limited = unsent > 0 && peer_has_room && self.cold.recovery.room() == 0;
        let out_of_data = unsent < u32::from(self.hot.mss);
        let now = self.shared.now;
        if self.cold.recovery.after_sending(now, window_limited, out_of_data, sent_new) {
            self.owe(Owed::RESEND);
        }
        self.sync_alarm();
    }

    /// The peer acknowledged what lies between `before` and `snd_una`, and perhaps more selectively.
    pub(super) fn on_ack(&mut self, segment: &Segment, before: SeqNumber, window_changed: bool) {
        if self.hot.snd_una != before {
            (self.cold.timeouts, self.cold.retransmitting_since) = (0, None);
        }
        self.digest(segment, self.hot.snd_una, window_changed);
    }

    /// An acknowledgement from before; its SACK blocks may still tell something.
    pub(super) fn take_old_ack(&mut self, segment: &Segment) {
        if !segment.options.sack.is_empty() {
            self.digest(segment, segment.ack, true);
        }
    }

    fn digest(&mut self, segment: &Segment, ack: SeqNumber, window_changed: bool) {
        let una = self.cold.recovery.board.una();
        let nxt = self.cold.recovery.board.nxt();
        let snd_nxt = self.hot.snd_nxt;
        let offset = |seq: SeqNumber| nxt.saturating_add_signed(i64::from(seq - snd_nxt));
        let mut spans = [Span::default(); BLOCKS_MAX];
        let blocks = segment.options.sack.as_slice();
        for (span, block) in spans.iter_mut().zip(blocks) {
            *span = Span::new(offset(block.left), offset(block.right));
        }
        let ack = offset(ack).min(nxt);
        let before = (self.cold.recovery.state(), self.cold.recovery.totals().undone);
        let news = self.cold.recovery.on_ack(&Ack {
            now: self.shared.now,
            ack,
            sacks: &spans[..blocks.len()],
            ts_echo: segment.options.timestamps.filter(|_| self.hot.flags.contains(Flags::TIMESTAMPS)).map(|t| t.echo),
            ts_rtt_us: if ack > una { self.echoed_rtt_us(segment) } else { None },
            ece: self.cold.ecn.accepts_echo(segment.has(Bits::ECE)),
            plain: segment.seq_len() == 0 && !window_changed,
            can_send_new: self.may_send_bytes() > 0,
        });
        self.announce_reduction(before);
        if news.lost > 0 || self.cold.recovery.board.waiting_out() > 0 {
            self.owe(Owed::RESEND);
        }
        self.owe_data();
        self.sync_alarm();
    }

    /// RFC 3168 6.1.2: the peer learns by CWR that the window was reduced; Linux says so for losses too.
    fn announce_reduction(&mut self, (state, undone): (RecoveryState, u32)) {
        let recovery = &self.cold.recovery;
        if state < RecoveryState::Cwr && recovery.state() >= RecoveryState::Cwr {
            self.cold.ecn.owe_cwr();
            if recovery.state() == RecoveryState::Recovery {
                self.shared.count(Counter::FastRecoveries);
            }
        } else if recovery.totals().undone != undone {
            self.cold.ecn.withdraw_cwr();
            self.shared.count(Counter::SpuriousRecoveries);
        }
    }

    /// Bytes that wait, and that the peer's window has room for.
    fn may_send_bytes(&self) -> u32 {
        let room = (self.hot.snd_una + self.hot.snd_wnd) - self.hot.snd_nxt;
        room.min(self.hot.write_seq - self.hot.snd_nxt).max(0) as u32
    }

    /// The next segment to send again.
    pub(super) fn next_resend(&self) -> Option<Resend> {
        self.cold.recovery.next_retransmission()
    }

    /// Where a piece of our stream begins.
    pub(super) fn sent_seq(&self, span: Span) -> SeqNumber {
        self.hot.snd_nxt - (self.cold.recovery.board.nxt() - span.start) as u32
    }

    pub(super) fn on_resent(&mut self, number: u32) {
        let clock = self.timestamp();
        self.cold.retransmitting_since.get_or_insert(self.shared.now);
        self.cold.recovery.on_retransmit(self.shared.now, number, clock);
    }

    /// Whether congestion control lets a new segment out now.
    pub(super) fn has_room(&self) -> bool {
        self.cold.recovery.room() > 0 && self.cold.recovery.board.segments() < SEGMENTS_MAX
    }

    /// What recovery waits for is what the connection's timer waits for.
    pub(super) fn sync_alarm(&mut self) {
        if !self.state().is_synchronized() {
            return;
        }
        match self.cold.recovery.alarm() {
            Some((_, at)) => {
                self.cold.timers.waiting = Waiting::Recovery;
                let at = self.user_timeout_at().map_or(at, |end| end.min(at));
                self.cold.timers.set(Timer::Retransmit, at);
            }
            None if self.cold.timers.waiting == Waiting::Recovery => self.cold.timers.stop(Timer::Retransmit),
            None => {}
        }
    }

    /// Recovery's alarm has gone off.
    pub(super) fn on_recovery_alarm(&mut self) {
        if self.user_timeout_at().is_some_and(|end| end <= self.shared.now) {
            return self.give_up();
        }
        match self.cold.recovery.on_alarm(self.shared.now) {
            AlarmAction::Nothing => {}
            AlarmAction::Send => self.owe(Owed::RESEND | Owed::DATA),
            AlarmAction::Probe => self.owe(Owed::TAIL_PROBE),
            AlarmAction::TimedOut => {
                self.shared.count(Counter::Timeouts);
                self.on_data_timeout();
                self.owe(Owed::RESEND | Owed::DATA);
            }
        }
        if self.state() != State::Closed {
            self.sync_alarm();
        }
    }

    /// The handshake's timer: until the next SYN.
    pub(super) fn arm_syn_timer(&mut self) {
        self.cold.timers.waiting = Waiting::Handshake;
        self.cold.timers.set(Timer::Retransmit, self.shared.now + u64::from(self.rto_us()));
    }

    pub(super) fn back_off(&mut self) {
        self.cold.recovery.rtt.back_off();
    }

    /// The connection has ended: nothing is in flight any more.
    pub(super) fn release_recovery(&mut self) {
        self.cold.recovery.board = Scoreboard::new(self.cold.recovery.board.nxt());
    }
}
