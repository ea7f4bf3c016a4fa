//! The segments that may still be deemed lost, in the order in which they were sent: RACK looks at the oldest
//! first and stops early (RFC 8985 6.2, step 5's note on efficiency).
//!
//! A doubly linked list through the scoreboard's records. A segment that is its own neighbour has none.

use super::scoreboard::Scoreboard;
use super::segment::LISTED;

impl Scoreboard {
    /// The segment that was sent first of all that are listed.
    pub fn oldest_sent(&self) -> Option<u32> {
        (self.listed > 0).then_some(self.oldest)
    }

    /// The segment that was sent last of all that are listed.
    pub fn newest_sent(&self) -> Option<u32> {
        (self.listed > 0).then_some(self.newest)
    }

    /// The listed segment that was sent next after `number`.
    pub fn sent_next(&self, number: u32) -> Option<u32> {
        let newer = self.at(number).newer;
        (newer != number).then_some(newer)
    }

    pub(super) fn list_newest(&mut self, number: u32) {
        let older = self.newest_sent().unwrap_or(number);
        self.at_mut(older).newer = number;
        self.newest = number;
        if self.listed == 0 {
            self.oldest = number;
        }
        self.link(number, older, number);
    }

    pub(super) fn list_oldest(&mut self, number: u32) {
        let newer = self.oldest_sent().unwrap_or(number);
        self.at_mut(newer).older = number;
        self.oldest = number;
        if self.listed == 0 {
            self.newest = number;
        }
        self.link(number, number, newer);
    }

    pub(super) fn unlist(&mut self, number: u32) {
        let segment = *self.at(number);
        if !segment.has(LISTED) {
            return;
        }
        let (is_oldest, is_newest) = (segment.older == number, segment.newer == number);
        if is_oldest {
            self.oldest = segment.newer;
            self.at_mut(segment.newer).older = segment.newer;
        } else {
            self.at_mut(segment.older).newer = if is_newest { segment.older } else { segment.newer };
        }
        if is_newest {
            self.newest = segment.older;
        } else if !is_oldest {
            self.at_mut(segment.newer).older = segment.older;
        }
        self.at_mut(number).flags &= !LISTED;
        self.listed -= 1;
    }

    fn link(&mut self, number: u32, older: u32, newer: u32) {
        let segment = self.at_mut(number);
        (segment.older, segment.newer) = (older, newer);
        segment.flags |= LISTED;
        self.listed += 1;
    }
}
