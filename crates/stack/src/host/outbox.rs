//! What the host itself has to say, until there are slots for it; and how often it may.

use std::collections::VecDeque;

use ringway_tcp::Instant;

/// Frames and packets that wait, at most.
const OUTBOX_MAX: usize = 1024;
/// Answers to what strangers send, each second (errors and echoes).
const ANSWERS_PER_S: u32 = 10_000;

/// One thing to send.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outgoing {
    /// With its link header.
    Frame(Vec<u8>),
    /// An IP packet whose next station has to be found.
    Packet(Vec<u8>),
}

#[derive(Default)]
pub(crate) struct Outbox {
    waiting: VecDeque<Outgoing>,
    second: u64,
    answers: u32,
}

impl Outbox {
    /// `false` if too much waits already.
    pub(super) fn push(&mut self, what: Outgoing) -> bool {
        let room = self.waiting.len() < OUTBOX_MAX;
        if room {
            self.waiting.push_back(what);
        }
        room
    }

    /// Whether one more answer may be given to a stranger in this second.
    pub(super) fn may_answer(&mut self, now: Instant) -> bool {
        let second = now.us() / 1_000_000;
        if second != self.second {
            (self.second, self.answers) = (second, 0);
        }
        self.answers = self.answers.saturating_add(1);
        self.answers <= ANSWERS_PER_S
    }

    pub(crate) fn pop(&mut self) -> Option<Outgoing> {
        self.waiting.pop_front()
    }

    /// Takes back what found no slot.
    pub(crate) fn unpop(&mut self, what: Outgoing) {
        self.waiting.push_front(what);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
