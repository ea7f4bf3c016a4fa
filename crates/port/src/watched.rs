//! A ring whose frames monitors want to see: what its syncs copy to them, and when (`ringway_mem::pool`'s feeds).

use ringway_mem::pool::{Feed, Ring};

/// What the syncs of one ring know of its monitors.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// The generation in which `feeds` were read.
    seen: u32,
    feeds: Vec<Feed>,
    /// Where the frame begins whose end has not come, of what was sent or received.
    passing: Option<u32>,
    /// The same of what was given back.
    released: Option<u32>,
}

impl Watched {
    /// Slots `from..to` were sent or have come.
    #[inline]
    pub(crate) fn passed(&mut self, ring: &Ring, from: u32, to: u32) {
        if let Some(generation) = ring.record().monitored() {
            self.passing = self.copy(ring, generation, (self.passing.unwrap_or(from), to), false);
        }
    }

    /// Received slots `from..to` are given back, and not filled anew yet.
    #[inline]
    pub(crate) fn released(&mut self, ring: &Ring, from: u32, to: u32) {
        if let Some(generation) = ring.record().monitored() {
            self.released = self.copy(ring, generation, (self.released.unwrap_or(from), to), true);
        }
    }

    #[cold]
    fn copy(&mut self, ring: &Ring, generation: u32, (from, to): (u32, u32), released: bool) -> Option<u32> {
        if self.seen != generation {
            self.feeds = ring.pool().feeds_for(ring);
            self.seen = generation;
        }
        let from = from.min(ring.num_slots() - 1);
        let feeds = self.feeds.iter().filter(|feed| feed.after_release == released);
        let open = feeds.fold(to, |_, feed| feed.copy(ring, from, to));
        (open != to).then_some(open)
    }
}
