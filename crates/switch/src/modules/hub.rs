//! A hub: every frame to everybody else. The smallest forwarding module there is.

use crate::{Forward, Frame, Source, Verdict};

/// See the module's text.
pub struct Hub;

impl Forward for Hub {
    fn lookup(&self, _source: &mut Source, _now_ns: u64, frames: &mut [Frame]) {
        for frame in frames {
            frame.verdict = Verdict::Broadcast;
        }
    }
}
