//! The hot list: the registrations that a wait looks at, and the glances that save most of the looks.
//!
//! A full look at a connection reads ten cache lines in four pages. Of thousands of connections a few dozen have
//! news, so that would be most of what a wait costs. Where a full look finds nothing, and only more bytes from the peer
//! can change that, it leaves the peer's tail with the entry: from then on a glance at this one word
//! is enough, and the word is on its way to the cache since some entries before.

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering::*};

use super::set::Inner;

/// How many entries ahead a tail is fetched.
const AHEAD: usize = 8;
/// A full look instead of a glance each time that the list has been gone through so often: in case that the kernel's
/// event for something rare was missed.
const FULL_LOOK_EVERY: usize = 512;

/// One entry.
#[derive(Clone, Copy)]
pub(super) struct Hot {
    pub(super) slot: u32,
    quiet: Option<Quiet>,
}

/// While the peer's tail is what was seen, there is nothing to report.
#[derive(Clone, Copy)]
pub(super) struct Quiet {
    tail: NonNull<AtomicU64>,
    seen: u64,
}

// SAFETY: an address, read under the set's lock by whichever thread holds it.
unsafe impl Send for Quiet {}

impl Quiet {
    /// `tail` belongs to the connection whose registration gets this.
    pub(super) fn new(tail: &AtomicU64, seen: u64) -> Quiet {
        Quiet { tail: NonNull::from(tail), seen }
    }

    #[inline]
    fn lasts(&self) -> bool {
        // SAFETY: the word is in the connection's ring region. That is unmapped after the connection's registrations
        // have been removed, which takes their entries off the list, under the lock that is held here.
        unsafe { self.tail.as_ref() }.load(Acquire) == self.seen
    }
}

impl Inner {
    /// Puts a registration on the list, or makes the next look at it a full one.
    pub(super) fn heat(&mut self, slot: u32) {
        let Some(r) = self.registration(slot).filter(|r| r.converted && !r.parked) else { return };
        r.idle_sleeps = 0;
        match r.hot_at {
            0 => self.list(slot),
            place => self.set_quiet(place as usize - 1, None),
        }
    }

    fn list(&mut self, slot: u32) {
        if self.hot.push(Hot { slot, quiet: None }) {
            self.note_place(self.hot.len() - 1);
        }
    }

    /// Takes a registration off the list.
    pub(super) fn cool(&mut self, slot: u32) {
        let Some(r) = self.registrations.as_mut_slice().get_mut(slot as usize) else { return };
        let Some(at) = core::mem::take(&mut r.hot_at).checked_sub(1) else { return };
        self.hot.swap_remove(at as usize);
        self.note_place(at as usize);
    }

    /// Notes with the registration of entry `at`, if there is one, that it is there.
    fn note_place(&mut self, at: usize) {
        if let Some(entry) = self.hot.as_slice().get(at)
            && let Some(r) = self.registrations.as_mut_slice().get_mut(entry.slot as usize)
        {
            r.hot_at = at as u32 + 1;
        }
    }

    /// What the last full look at an entry found.
    pub(super) fn set_quiet(&mut self, at: usize, quiet: Option<Quiet>) {
        if let Some(entry) = self.hot.as_mut_slice().get_mut(at) {
            entry.quiet = quiet;
        }
    }

    /// The slot of the entry whose turn it is, if it needs a full look; and in any case the turn passes on.
    #[inline]
    pub(super) fn take_turn(&mut self) -> Option<(usize, u32)> {
        if self.next >= self.hot.len() {
            self.next = 0;
            self.rounds = self.rounds.wrapping_add(1);
        }
        let at = self.next;
        self.next += 1;
        let hot = self.hot.as_slice();
        if let Some(Hot { quiet: Some(soon), .. }) = hot.get(at + AHEAD) {
            // SAFETY: a prefetch never faults.
            unsafe { _mm_prefetch(soon.tail.as_ptr().cast::<i8>().cast_const(), _MM_HINT_T0) };
        }
        let entry = hot.get(at)?;
        let quiet = entry.quiet.is_some_and(|q| q.lasts()) && !(at + self.rounds).is_multiple_of(FULL_LOOK_EVERY);
        (!quiet).then_some((at, entry.slot))
    }
}

#[cfg(test)]
mod tests;
