//! Which processes have an epoll set.
//!
//! A child of fork has its parent's sets, and may wait on them; what is added afterwards it does not know, so that
//! stays on TCP. Most children never do: they execute something else, or do their work and go. A slot of the family counts
//! the processes that have a set, and once this one is alone with it, what is added can be upgraded again.

use core::sync::atomic::{AtomicU64, Ordering::*};

use super::set::{self, Set};
use crate::family;
use crate::sys;
use crate::table::{self, Entry};

/// Values of [`Set::foreign`]: nobody else has it; relatives may have it; anybody may have it, and nobody counts.
const OWN: u32 = 0;
const FORKED: u32 = 1;
const BEYOND: u32 = 2;

/// Pause between two looks for relatives that have died without a word, in nanoseconds.
const LOOK_NS: u64 = 10_000_000;

static LOOK_AT_NS: AtomicU64 = AtomicU64::new(0);

impl Set {
    #[inline]
    pub(crate) fn is_foreign(&self) -> bool {
        self.foreign.load(Relaxed) != OWN
    }

    /// Somebody gets it who is no relative.
    pub(super) fn make_foreign(&self) {
        self.foreign.store(BEYOND, Relaxed);
    }

    /// Whether what is added now stays on TCP, because others may wait on the set.
    pub(super) fn is_shared(&self) -> bool {
        self.is_foreign() && !self.is_alone_again()
    }

    #[cold]
    fn is_alone_again(&self) -> bool {
        // Fork holds this lock.
        let _inner = self.lock();
        let Some(slot) = self.slot.load(Relaxed).checked_sub(1) else { return false };
        if self.foreign.load(Relaxed) != FORKED {
            return false;
        }
        if family::slot(slot).holders() > 1 && is_due() {
            family::forget_the_dead();
        }
        let alone = family::slot(slot).holders() == 1;
        if alone {
            self.foreign.store(OWN, Relaxed);
        }
        alone
    }

    /// A child is about to get it; the set is locked.
    fn about_to_fork(&self) {
        if !self.is_open() || self.foreign.load(Relaxed) == BEYOND {
            return;
        }
        if self.slot.load(Relaxed) == 0 {
            let Some(slot) = family::claim() else { return self.make_foreign() };
            self.slot.store(slot + 1, Relaxed);
            self.holds.store(1, Relaxed);
        }
        if self.holds.load(Relaxed) != 0 {
            family::add_child(self.slot.load(Relaxed) - 1);
        }
        self.foreign.store(FORKED, Relaxed);
    }

    /// This process has it no more.
    fn leave(&self) {
        if self.holds.swap(0, AcqRel) != 0 {
            family::leave(self.slot.load(Relaxed) - 1);
        }
    }

    fn rejoin(&self) {
        if self.slot.load(Relaxed) != 0 && self.holds.swap(1, AcqRel) == 0 {
            family::rejoin(self.slot.load(Relaxed) - 1);
        }
    }

    /// Its last descriptor is gone.
    pub(super) fn disown(&self) {
        self.leave();
        self.slot.store(0, Relaxed);
        self.foreign.store(OWN, Relaxed);
    }
}

fn is_due() -> bool {
    let now = sys::monotonic_ns();
    let due = now >= LOOK_AT_NS.load(Relaxed);
    if due {
        LOOK_AT_NS.store(now + LOOK_NS, Relaxed);
    }
    due
}

/// Fork holds the locks of all sets.
pub(crate) fn fork_acquire() {
    set::for_each(|set| {
        set.raw_lock().acquire();
        set.about_to_fork();
    });
}

pub(crate) fn fork_release() {
    set::for_each(|set| set.raw_lock().release());
}

/// The process ends.
pub(crate) fn leave_all() {
    set::for_each(Set::leave);
}

/// The process becomes another program, which has the sets whose descriptors survive.
pub(crate) fn leave_all_but(survives: impl Fn(libc::c_int) -> bool) {
    leave_all();
    table::for_each(0, libc::c_int::MAX, |fd, entry| {
        if let Entry::Epoll(index) = entry
            && survives(fd)
            && let Some(set) = set::get(index)
        {
            set.rejoin();
        }
    });
}

/// The exec failed.
pub(crate) fn rejoin_all() {
    set::for_each(|set| {
        if set.is_open() {
            set.rejoin();
        }
    });
}
