//! What a connection keeps beside its hot block.

use ringway_wire::SeqNumber;

use super::open::Peer;
use super::{Answering, Bundle, FastOpening, Push, ReceiveWindow, Tally, Timers, Urgent};
use crate::assembler::Assembler;
use crate::buffer::Ring;
use crate::ecn::Ecn;
use crate::error::Error;
use crate::options::SocketOptions;
use crate::pacing::Pacer;
use crate::recovery::Recovery;
use crate::time::Instant;

/// The cold block.
#[derive(Default)]
pub(crate) struct Cold {
    pub(crate) options: SocketOptions,
    /// It waits in a listener's queue.
    pub(crate) waits_for_accept: bool,
    pub(crate) error: Option<Error>,
    /// The latest ICMP error, which becomes `error` if the connection ends by time-out (RFC 9293 3.9.2.2).
    pub(crate) soft_error: Option<Error>,
    pub(crate) timers: Timers,
    pub(crate) answering: Answering,
    pub(crate) window: ReceiveWindow,

    pub(crate) recovery: Recovery,
    pub(crate) ecn: Ecn,
    pub(crate) pacer: Pacer,

    pub(crate) fast_open: FastOpening,
    pub(crate) iss: SeqNumber,
    pub(crate) irs: SeqNumber,
    pub(crate) peer: Peer,
    /// Largest IP packet that the path takes, as far as we know.
    pub(crate) path_mtu: u16,
    /// The largest window that the peer ever told.
    pub(crate) max_window: u32,

    /// From `tx_base` to `write_seq`: sent and not acknowledged, then not yet sent.
    pub(crate) tx: Ring,
    pub(crate) tx_base: SeqNumber,
    /// Behind the last segment that was sent small (Minshall's variant of Nagle's rule).
    pub(crate) small_end: SeqNumber,
    /// The application said `MSG_MORE` with its last data.
    pub(crate) more_follows: bool,
    /// The application let go what waits, however small it is.
    pub(crate) let_go: bool,
    pub(crate) push: Push,
    pub(crate) bundle: Bundle,
    /// From `copied` to `rcv_nxt`, and behind that what came early.
    pub(crate) rx: Ring,
    /// What of the sequence space behind `rcv_nxt` came early.
    pub(crate) early: Assembler,
    /// Where the peer's FIN is, once one was seen.
    pub(crate) fin_at: Option<SeqNumber>,

    pub(crate) urgent: Urgent,
    /// Behind the last urgent byte that we send.
    pub(crate) urgent_sent: Option<SeqNumber>,
    pub(crate) tally: Tally,

    /// Time-outs in a row without an acknowledgement of anything new.
    pub(crate) timeouts: u32,
    /// When the first of these was sent that is now sent again.
    pub(crate) retransmitting_since: Option<Instant>,
    /// Probes of a closed window, or keepalive probes, without an answer.
    pub(crate) probes: u32,
    /// How often the interval between probes of a closed window was doubled.
    pub(crate) probe_backoff: u8,
    pub(crate) last_received: Instant,
    pub(crate) last_ack_received: Instant,
    pub(crate) last_sent: Instant,
    /// When the last challenge or out-of-window acknowledgement was sent.
    pub(crate) last_rate_limited_ack: Option<Instant>,
}

impl Cold {
    /// Reads a word of each part that a segment needs, all at once: the caches fetch them side by side.
    #[inline]
    pub(crate) fn warm(&self) {
        let Cold { recovery, window, answering, tally, .. } = self;
        core::hint::black_box((
            self.options.cork,
            self.early.is_empty(),
            self.timers.is_unarmed,
            answering.pingpong,
            window.capacity,
        ));
        core::hint::black_box((
            recovery.last_sent(),
            recovery.timeouts(),
            recovery.rtt.rto_us(),
            recovery.rtt.latest_us(),
        ));
        core::hint::black_box((recovery.congestion.window.cwnd(), recovery.rate.delivered(), recovery.board.warm()));
        core::hint::black_box((self.tx.len(), self.rx.len(), tally.bytes_sent, self.last_received, self.small_end));
    }

    /// Sequence number's offset in `tx`.
    pub(crate) fn tx_offset(&self, seq: SeqNumber) -> usize {
        seq.offset_from(self.tx_base) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conn::Hot;

    /// Both blocks, the flow table's slot and the timer's node; half of it is the state of loss recovery.
    #[test]
    fn an_idle_connection_is_small() {
        let sizes = [
            size_of::<Hot>(),
            size_of::<Cold>(),
            size_of::<Recovery>(),
            size_of::<SocketOptions>(),
            size_of::<Assembler>(),
            size_of::<Tally>(),
        ];
        let (slot, node) = (8 * 4 / 3 * 2, 24);
        assert!(size_of::<Hot>() + size_of::<Cold>() + slot + node <= 1600, "{sizes:?}");
    }
}
