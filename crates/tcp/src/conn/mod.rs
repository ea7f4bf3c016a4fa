//! One connection: its state in a hot and a cold block, and a folder of what can happen to it, one concern a file.
//!
//! - [`state`]: RFC 9293's states and what each allows.
//! - `hot`, `cold`: the two blocks.
//! - `open`: handshakes that we begin, and simultaneous ones.
//! - `fast_open`: data in SYNs (RFC 7413).
//! - `arrive`: a segment arrives (RFC 9293 3.10.7.4): its checks, in their order.
//! - `predicted`: the short way for the segment that was expected; `alone`: for the one that leaves when nothing else does.
//! - `ack`: what an acknowledgement says of what we sent.
//! - `receive`: payload and FIN.
//! - `early`: payload that came before its turn.
//! - `answer`: when to acknowledge.
//! - `path`: ICMP errors and the path's MTU. `marks`: ECN. `urgent`: urgent data. `info`: `TCP_INFO`.
//! - `stream`: the application's side.
//! - `window`: how much the peer may send.
//! - `recovery`: what is in flight, lost, or due to be sent again.
//! - `output`: what to send now; `emit`: how it is written; `push`: where
//!   writes end; `bundle`: which segments go together.
//! - `timers`: what happens when nothing does.
//! - `close`: how a connection ends.

mod ack;
mod alone;
mod answer;
mod arrive;
mod bundle;
mod close;
mod cold;
mod early;
mod emit;
mod fast_open;
mod hot;
mod info;
mod marks;
mod open;
mod output;
mod path;
mod predicted;
mod push;
mod receive;
mod recovery;
pub(crate) mod state;
mod stream;
mod timers;
mod urgent;
mod window;

use crate::engine::Shared;
pub(crate) use answer::Answering;
pub(crate) use bundle::Bundle;
pub(crate) use cold::Cold;
pub(crate) use fast_open::FastOpening;
pub(crate) use hot::{Flags, Hot, Owed};
pub(crate) use info::Tally;
pub(crate) use open::{Handshake, Peer, mss_for};
pub(crate) use push::Push;
use state::State;
pub(crate) use timers::{Timer, Timers};
pub(crate) use urgent::Urgent;
pub(crate) use window::ReceiveWindow;

/// A connection with what it needs of its engine while something happens to it.
pub(crate) struct Conn<'e> {
    pub(crate) hot: &'e mut Hot,
    pub(crate) cold: &'e mut Cold,
    pub(crate) shared: &'e mut Shared,
}

impl Conn<'_> {
    pub(crate) fn state(&self) -> State {
        self.hot.state
    }

    /// Puts the connection into `state` and tells the application what that changes.
    fn set_state(&mut self, state: State) {
        self.hot.state = state;
    }

    /// Whether the engine has nothing more to see to than what is to be sent, which this sees to.
    #[inline]
    pub(crate) fn settles(&mut self) -> bool {
        if self.hot.flags.contains(Flags::DONE) {
            return false;
        }
        self.shared.list_for_transmit(self.hot);
        !self.cold.timers.is_unarmed
    }

    /// New data may be sendable, if there are any.
    fn owe_data(&mut self) {
        if self.has_unsent() {
            self.owe(Owed::DATA);
        }
    }

    /// Something is to be sent; [`Conn::poll_transmit`] will find out what.
    pub(crate) fn owe(&mut self, owed: Owed) {
        self.hot.owed |= owed;
    }
}
