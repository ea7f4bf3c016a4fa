//! Loss recovery: what is in flight, what of it is lost, what to send again and how much at once.
//!
//! [`Recovery`] is the sender's side of a connection but for its bytes: it is told of every segment that leaves and of
//! every acknowledgement, and says what may leave, what must leave again, and when to look again.
//!
//! ```text
//!   on_transmit, on_retransmit ---> [scoreboard] <--- ack: reads cumulative and selective acknowledgements
//!                                        |
//!                    rack: who is lost?  |   undo, frto: was that wrong?   tlp: is the tail lost?
//!                                        v
//!   window() <--- prr, congestion <--- episode: Open - Disorder - Cwr - Recovery - Loss
//!   next_retransmission()
//!   alarm() <---- alarms: retransmission timeout, tail loss probe, reordering
//! ```
//!
//! The states and their order of questions are Linux's (`tcp_fastretrans_alert` in `net/ipv4/tcp_input.c`), for
//! RFC 9293, 6675, 8985, 6937, 5682 and 3522 speak of one of them each and not of how they share a connection.
//!
//! - [`scoreboard`], with [`segment`], [`time_order`], [`bit_ring`]: the segments in flight (RFC 6675).
//! - [`ack`]: what an ACK changes there (RFC 2018, 2883, 6298); `calm`: the short ways.
//! - [`rack`], [`tlp`]: what is lost (RFC 8985). RFC 6675's IsLost() is RACK with a window of nothing.
//! - [`episode`]: from the first doubt to the end of recovery (RFC 5681, 6582, 6675).
//! - [`prr`], [`frto`], [`undo`] (and `undoing`): the window meanwhile; doubts about the doubt (RFC 6937, 5682, 3522).
//! - [`alarms`]: timers (RFC 6298 5, RFC 8985 7).
//!
//! Limited transmit (RFC 3042) needs no code: a segment that is SACKed, or counted by a duplicate ACK, is not in
//! the pipe any more, so a new one may leave.

pub mod ack;
pub mod alarms;
mod audit;
pub mod bit_ring;
mod calm;
pub mod episode;
pub mod frto;
pub mod prr;
pub mod rack;
pub mod scoreboard;
pub mod segment;
pub mod time_order;
pub mod tlp;
pub mod undo;
mod undoing;

use crate::congestion::window::SendReport;
use crate::congestion::{Algorithm, Congestion};
use crate::rate::RateEstimator;
use crate::rtt::{RttConfig, RttEstimator};
use crate::span::Span;
use crate::time::Instant;

use alarms::Alarm;
use frto::Frto;
use prr::{Prr, PrrAck};
use rack::{PathTimes, Rack, Reordering};
use scoreboard::{Scoreboard, ScoreboardFull};
use tlp::Tlp;
use undo::Undo;

/// What a connection may choose.
#[derive(Clone, Copy, Debug)]
pub struct RecoveryConfig {
    pub algorithm: Algorithm,
    /// Segments (RFC 6928).
    pub initial_window: u32,
    pub rtt: RttConfig,
    /// Whether the peer sends SACK blocks.
    pub sack: bool,
    /// Whether an idle connection shrinks its window (`tcp_slow_start_after_idle`).
    pub slow_start_after_idle: bool,
    /// Whether to send tail loss probes (`tcp_early_retrans`).
    pub tail_loss_probes: bool,
    /// Whether to doubt timeouts (`tcp_frto`).
    pub frto: bool,
    /// The duplicate threshold to begin with (`tcp_reordering`).
    pub reordering: u32,
}

impl Default for RecoveryConfig {
    fn default() -> RecoveryConfig {
        RecoveryConfig {
            algorithm: Algorithm::default(),
            initial_window: crate::congestion::window::INITIAL_WINDOW,
            rtt: RttConfig::default(),
            sack: true,
            slow_start_after_idle: true,
            tail_loss_probes: true,
            frto: true,
            reordering: rack::DUP_THRESHOLD,
        }
    }
}

/// Where a connection is between "all is well" and "begin anew" (Linux's `tcp_ca_state`, `tcpi_ca_state`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum State {
    /// Nothing is amiss.
    #[default]
    Open,
    /// Segments arrived out of order; perhaps one is lost.
    Disorder,
    /// The window is being reduced for marks of ECN, or a tail loss.
    Cwr,
    /// A loss was found by ACKs; the window is being reduced.
    Recovery,
    /// The retransmission timer expired.
    Loss,
}

/// Counts since the beginning of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Transmissions deemed lost.
    pub lost: u32,
    /// Segments sent again (`tcpi_total_retrans`).
    pub retransmitted: u32,
    /// Segments that DSACKs reported as duplicates (`tcpi_dsack_dups`).
    pub duplicates: u32,
    /// Retransmission timeouts.
    pub timeouts: u32,
    /// Tail loss probes sent.
    pub probes: u32,
    /// Times that the receiver took back what it had SACKed.
    pub reneged: u32,
    /// Window reductions that were undone.
    pub undone: u32,
}

/// A segment to send again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resend {
    /// Its number on the scoreboard.
    pub number: u32,
    pub span: Span,
}

/// Whether retransmissions wait while F-RTO looks what new data brings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Hold {
    #[default]
    No,
    /// Until new data has been sent, or it turns out that none can be.
    UntilNewData,
    /// New data was sent: until the next ACK.
    UntilAck,
}

/// The sender's side of one connection, but for its bytes.
#[derive(Clone, Debug)]
pub struct Recovery {
    pub board: Scoreboard,
    pub rtt: RttEstimator,
    pub rate: RateEstimator,
    pub congestion: Congestion,
    config: RecoveryConfig,
    mss: u32,
    state: State,
    /// What was sent when the state was entered: the episode ends when this is acknowledged.
    high: u64,
    rack: Rack,
    reordering: Reordering,
    tlp: Tlp,
    prr: Prr,
    frto: Frto,
    undo: Undo,
    hold: Hold,
    reneged: bool,
    /// Timeouts in a row, without progress between.
    timeouts: u32,
    totals: Totals,
    alarm: Option<(Alarm, Instant)>,
    last_sent: Instant,
}

impl Default for Recovery {
    fn default() -> Recovery {
        Recovery::new(RecoveryConfig::default(), 0, 536, Instant::ZERO)
    }
}

impl Recovery {
    /// Nothing in flight; the next segment begins at `offset`.
    pub fn new(config: RecoveryConfig, offset: u64, mss: u32, now: Instant) -> Recovery {
        Recovery {
            board: Scoreboard::new(offset),
            rtt: RttEstimator::new(config.rtt),
            rate: RateEstimator::default(),
            congestion: Congestion::new(config.algorithm, config.initial_window),
            config,
            mss: mss.max(1),
            state: State::Open,
            high: offset,
            rack: Rack::default(),
            reordering: Reordering { degree: config.reordering, seen: 0 },
            tlp: Tlp::default(),
            prr: Prr::default(),
            frto: Frto::Off,
            undo: Undo::default(),
            hold: Hold::No,
            reneged: false,
            timeouts: 0,
            totals: Totals::default(),
            alarm: None,
            last_sent: now,
        }
    }

    /// To be called before anything is sent, at every chance to send: ends idleness.
    pub fn before_sending(&mut self, now: Instant) {
        if self.board.segments() == 0 {
            let idle_us = now.since_us(self.last_sent);
            self.congestion.on_restart(now, idle_us, self.rtt.rto_us(), self.config.slow_start_after_idle);
            self.last_sent = now;
        }
    }

    /// How many segments may leave now: what the window has free.
    pub fn room(&self) -> u32 {
        self.congestion.window.cwnd().saturating_sub(self.board.pipe())
    }

    /// The segment that must leave next, before any new one; `None` if there is none or the window is full.
    pub fn next_retransmission(&self) -> Option<Resend> {
        if self.hold != Hold::No || self.room() == 0 {
            return None;
        }
        let number = self.board.next_waiting()?;
        Some(Resend { number, span: self.board.span(number) })
    }

    /// A new segment of `len` octets leaves.
    pub fn on_transmit(&mut self, now: Instant, len: u16) -> Result<(), ScoreboardFull> {
        let first = self.board.segments() == 0;
        let snapshot = self.rate.on_send(now.into(), !first);
        self.board.push(len, now, snapshot, self.rate.is_app_limited())?;
        self.last_sent = now;
        if self.is_reducing() {
            self.prr.on_sent(1);
        }
        if self.hold == Hold::UntilNewData {
            self.hold = Hold::UntilAck;
        }
        // RFC 6298 5.1: if the timer is not running, start it.
        if first {
            self.rearm_timeout(now);
        }
        Ok(())
    }

    /// Segment `number` leaves again; `tsval` is the timestamp clock's value.
    pub fn on_retransmit(&mut self, now: Instant, number: u32, tsval: u32) {
        let snapshot = self.rate.on_send(now.into(), true);
        self.board.retransmitted(number, now, snapshot, self.rate.is_app_limited());
        self.undo.on_retransmit(now, tsval, 1);
        self.totals.retransmitted = self.totals.retransmitted.saturating_add(1);
        self.last_sent = now;
        if self.is_reducing() {
            self.prr.on_sent(1);
        }
        let head = self.board.first() == Some(number);
        if head && !matches!(self.alarm, Some((Alarm::Reordering, _))) {
            self.rearm_timeout(now);
        }
    }

    /// The sender has stopped sending. `window_limited`: only the congestion window held it back; `out_of_data`: less
    /// than a full segment is left to send. Answers whether retransmissions may leave now that could not before.
    pub fn after_sending(&mut self, now: Instant, window_limited: bool, out_of_data: bool, sent_new: bool) -> bool {
        let board = &self.board;
        let pipe = board.pipe();
        let limited = window_limited || pipe >= self.congestion.window.cwnd();
        if sent_new || limited {
            let (una, nxt, segments) = (board.una(), board.nxt(), board.segments());
            let decay_us = (self.config.slow_start_after_idle && self.state == State::Open).then(|| self.rtt.rto_us());
            self.congestion.window.on_sent(SendReport { now, una, nxt, segments, limited }, decay_us);
        }
        if out_of_data && !limited && board.lost_out() <= board.retransmitted_out() {
            self.rate.on_app_limited(pipe);
        }
        if sent_new {
            self.schedule_probe(now, self.until_timeout_us(now));
        }
        let held = self.hold == Hold::UntilNewData;
        if held {
            // RFC 5682 3.1 step 2 (b): no new data could be sent: recover as usual.
            self.hold = Hold::No;
            self.frto = Frto::Off;
        }
        held && self.board.waiting_out() > 0
    }

    /// The path takes segments of at most `mss` octets now; larger ones in flight will not arrive.
    pub fn set_mss(&mut self, mss: u32) {
        let shrunk = mss < self.mss;
        self.mss = mss.max(1);
        if shrunk && self.board.resegment(self.mss) > 0 {
            self.resend_without_reduction();
        }
    }

    /// SACK, timestamps and the initial window were agreed on; nothing but the handshake has been sent.
    pub fn set_sack(&mut self, sack: bool) {
        self.config.sack = sack;
    }

    pub fn state(&self) -> State {
        self.state
    }

    pub fn reordering(&self) -> Reordering {
        self.reordering
    }

    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Timeouts in a row, without progress between (`tcpi_retransmits`).
    pub fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// When the first of the retransmissions was sent that are still unanswered.
    pub fn retransmitting_since(&self) -> Option<Instant> {
        self.undo.first_retransmission()
    }

    /// When something was sent last.
    pub fn last_sent(&self) -> Instant {
        self.last_sent
    }

    /// Whether PRR governs the window.
    fn is_reducing(&self) -> bool {
        matches!(self.state, State::Cwr | State::Recovery)
    }

    fn times(&self) -> PathTimes {
        let min_rtt_us = self.rtt.min_rtt_us().unwrap_or(0);
        PathTimes { min_rtt_us, srtt_us: self.rtt.srtt_us().unwrap_or(0) }
    }

    /// RACK's pass over the scoreboard.
    fn detect_losses(&mut self, now: Instant) -> rack::Detection {
        let in_recovery = self.state >= State::Recovery;
        let window_us = self.rack.window_us(self.reordering, in_recovery, self.board.sacked_out(), self.times());
        let found = self.rack.detect(&mut self.board, now, window_us);
        self.totals.lost = self.totals.lost.saturating_add(found.lost);
        found
    }

    fn mark_lost(&mut self, number: u32) {
        let news = self.board.mark_lost(number);
        self.totals.lost = self.totals.lost.saturating_add(u32::from(news));
    }

    /// Sets the window while it is being reduced.
    fn reduce(&mut self, delivered: u32, safe: bool) {
        let (pipe, ssthresh) = (self.board.pipe(), self.congestion.window.ssthresh());
        if let Some(cwnd) = self.prr.on_ack(PrrAck { delivered, pipe, ssthresh, safe }) {
            self.congestion.window.set_cwnd(cwnd);
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
