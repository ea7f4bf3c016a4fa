//! `xdp:IF/QUEUE` and `netmap:IF`: a network interface by XDP sockets.
//!
//! ```text
//!   frame arrives at queue k -> program: ours? --yes--> socket of queue k -> rx slots
//!                                         \--no---> the host's stack, untouched
//!   tx slots -> socket of queue k -> driver
//!
//!   rx slot: free    in the fill ring    in the rx ring     the user's
//!   tx slot: the user's   in the tx ring    in the completion ring   the user's
//! ```
//! The pool's buffers themselves are registered with the kernel. The headroom that it leaves before a received frame
//! is the end of the buffer before, so that the frame begins where its buffer does and no byte is moved. That is
//! for chunks that overlap, and these only where the kernel copies frames; a driver that moves frames itself gets chunks that
//! are the buffers, and a received frame is moved to its buffer's front.
//!
//! - [`program`]: the BPF program; [`Rule`]: which frames it takes. `attach` attaches it; it goes with the process.
//! - `queue`: one socket and the slots of its rings; `open` makes the port.

mod attach;
mod open;
mod program;
mod queue;
mod rule;

pub use rule::{RULES_MAX, Rule, RuleError};

pub(crate) use attach::{refused_program, replace_rules};
pub(crate) use open::open;
pub(crate) use program::{redirect_to, redirect_to_ingress};

use std::sync::Arc;

use rustix::event::PollFlags;

use crate::backend::{Backend, Wakers};
use crate::error::PortError;
use crate::kring::{RxKring, TxKring};
use attach::Attachment;
use queue::Queue;

/// After this long a frame on its way out may have been sent, in nanoseconds.
const SENT_NS: u64 = 50_000;

/// The port's sockets, and what brings them frames.
pub(crate) struct Xdp {
    queues: Vec<Queue>,
    /// Which queue serves the port's i-th tx and rx ring.
    tx: Vec<usize>,
    rx: Vec<usize>,
    /// Dropped last: the program stays as long as a socket may get frames.
    _attachment: Arc<Attachment>,
}

impl Xdp {
    fn queue(&mut self, at: Option<usize>, ring: usize) -> Result<&mut Queue, PortError> {
        let rings = self.queues.len() as u32;
        at.and_then(|at| self.queues.get_mut(at)).ok_or(PortError::NoRing { ring: ring as u32, rings })
    }
}

impl Backend for Xdp {
    fn sync_tx(&mut self, ring: usize, tx: &TxKring, _now_ns: u64) -> Result<(), PortError> {
        let at = self.tx.get(ring).copied();
        self.queue(at, ring)?.send(tx)
    }

    fn sync_rx(&mut self, ring: usize, rx: &RxKring, _released: u32, _now_ns: u64) -> Result<(), PortError> {
        let at = self.rx.get(ring).copied();
        self.queue(at, ring)?.receive(rx);
        Ok(())
    }

    /// Only received frames make a descriptor ready; a tx ring always has room for the kernel's taste, and polling for
    /// it would never sleep. Room in our ring is looked for after a while.
    fn wakers(&self, wakers: &mut Wakers) {
        for at in &self.rx {
            let copy = self.queues[*at].fd().try_clone_to_owned();
            wakers.fds.extend(copy.ok().map(|fd| (fd, PollFlags::IN)));
        }
        if self.tx.iter().any(|at| self.queues[*at].is_sending()) {
            wakers.at(crate::clock::monotonic_ns() + SENT_NS);
        }
    }
}
