//! The two cache lines that a segment of an established connection touches.

use ringway_wire::SeqNumber;

use super::state::State;
use crate::event::Ready;
use crate::tables::FlowKey;

bitflags::bitflags! {
    /// What is to be sent as soon as there is room in a batch.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Owed: u8 {
        /// An acknowledgement, now.
        const ACK = 1;
        /// New data or FIN may be sendable.
        const DATA = 2;
        /// SYN or SYN-ACK, first or again.
        const SYN = 4;
        /// Something in flight is to be sent again.
        const RESEND = 8;
        /// A probe of a closed window or of a silent peer.
        const PROBE = 16;
        /// A tail loss probe.
        const TAIL_PROBE = 32;
    }
}

bitflags::bitflags! {
    /// Facts about a connection that the short way must see.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Flags: u16 {
        /// The application holds the connection.
        const OPEN = 1;
        /// It waits in the engine's list of connections that may have something to send.
        const IN_TX_LIST = 2;
        /// It waits in the engine's list of connections with events.
        const IN_EVENT_LIST = 4;
        /// Timestamps were agreed on.
        const TIMESTAMPS = 8;
        /// SACK was agreed on.
        const SACK = 16;
        /// The application has ended sending; FIN follows the last byte.
        const FIN_QUEUED = 32;
        /// FIN was sent at least once.
        const FIN_SENT = 64;
        /// The application reads no more.
        const READ_SHUTDOWN = 128;
        /// The peer's FIN was received in order.
        const FIN_RECEIVED = 256;
        /// The flow table knows the connection.
        const IN_TABLE = 512;
        /// The protocol has ended; the connection leaves the flow table.
        const DONE = 1024;
        /// As `DONE`, and a TIME-WAIT record takes its place.
        const LINGERS = 2048;
        /// ECN was agreed on.
        const ECN = 4096;
        /// The application was refused space or data, and waits.
        const SEND_BLOCKED = 8192;
        /// The next segment that is not the expected one takes the long way anyway, and so must this one: gaps,
        /// recovery, urgent data, a closed window.
        const LONG_WAY = 16384;
    }
}

/// The hot block: 128 bytes, two cache lines.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Hot {
    pub(crate) key: FlowKey,
    /// Oldest unacknowledged sequence number.
    pub(crate) snd_una: SeqNumber,
    /// Next to be sent; never moves back.
    pub(crate) snd_nxt: SeqNumber,
    /// The peer's window in bytes, counted from `snd_una`.
    pub(crate) snd_wnd: u32,
    /// Sequence number of the segment that the window was taken from (RFC 9293 SND.WL1).
    pub(crate) snd_wl1: SeqNumber,
    /// Behind the last byte that the application gave us.
    pub(crate) write_seq: SeqNumber,
    pub(crate) rcv_nxt: SeqNumber,
    /// `rcv_nxt` when we last told the peer our window.
    pub(crate) rcv_wup: SeqNumber,
    /// The window told then, counted from `rcv_wup`.
    pub(crate) rcv_wnd: u32,
    /// The next byte that the application reads.
    pub(crate) copied: SeqNumber,
    /// TS.Recent (RFC 7323 4.3).
    pub(crate) ts_recent: u32,
    /// When it was taken, in seconds.
    pub(crate) ts_recent_s: u32,
    /// What is added to the clock for our timestamps.
    pub(crate) ts_offset: u32,
    /// Payload bytes of a full segment, options subtracted.
    pub(crate) mss: u16,
    pub(crate) snd_wscale: u8,
    pub(crate) rcv_wscale: u8,
    pub(crate) flags: Flags,
    pub(crate) owed: Owed,
    pub(crate) state: State,
    /// Readiness not told yet.
    pub(crate) news: Ready,
    /// How many acknowledgements are owed at once: one for each segment out of order, so that a peer without SACK
    /// can count them.
    pub(crate) acks_owed: u16,
    pub(crate) generation: u32,
    pub(crate) index: u32,
}

const _: () = assert!(size_of::<Hot>() == 128);

impl Default for Hot {
    fn default() -> Hot {
        Hot {
            key: FlowKey::default(),
            snd_una: SeqNumber(0),
            snd_nxt: SeqNumber(0),
            snd_wnd: 0,
            snd_wl1: SeqNumber(0),
            write_seq: SeqNumber(0),
            rcv_nxt: SeqNumber(0),
            rcv_wup: SeqNumber(0),
            rcv_wnd: 0,
            copied: SeqNumber(0),
            ts_recent: 0,
            ts_recent_s: 0,
            ts_offset: 0,
            mss: 536,
            snd_wscale: 0,
            rcv_wscale: 0,
            flags: Flags::empty(),
            owed: Owed::empty(),
            state: State::Closed,
            news: Ready::empty(),
            acks_owed: 0,
            generation: 0,
            index: 0,
        }
    }
}

impl Hot {
    /// Reads a word of each cache line, so that they are there when they are needed.
    #[inline]
    pub(crate) fn warm(&self) {
        core::hint::black_box((self.snd_una, self.generation));
    }

    /// Sequence space sent and not acknowledged.
    #[inline]
    pub(crate) fn flight(&self) -> u32 {
        self.snd_nxt.offset_from(self.snd_una)
    }

    /// What the peer may still send of the window that it was told (`tcp_receive_window`).
    #[inline]
    pub(crate) fn receive_window(&self) -> u32 {
        let window = (self.rcv_wup + self.rcv_wnd) - self.rcv_nxt;
        window.max(0) as u32
    }
}
