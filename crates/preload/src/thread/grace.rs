//! When memory that was unlinked may be unmapped.

use core::ptr;
use core::sync::atomic::{Ordering, fence};

use super::critical::FENCE;
use super::{OVERFLOW, SHARED, set_chore, tls_load};
use crate::{registry, sys};

/// A point in time: once it has passed, no critical section from before [`retire`] is open.
#[derive(Clone, Copy)]
pub(crate) struct Stamp(u64);

/// Call after memory was made unreachable.
pub(crate) fn retire() -> Stamp {
    fence(Ordering::SeqCst);
    let stamp = SHARED.epoch.fetch_add(1, Ordering::SeqCst) + 1;
    let fenced = SHARED.chores.load(Ordering::Relaxed) & FENCE != 0;
    if !fenced && sys::membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0 {
        // A sandbox took `membarrier` away. This once nothing can be proved, so the stamp never passes
        // and its memory stays mapped; from now on entering fences.
        set_chore(FENCE);
        return Stamp(u64::MAX);
    }
    Stamp(stamp)
}

/// From now on [`retire`] does without `membarrier`, which the program is about to lose.
pub(crate) fn fence_on_entering() {
    set_chore(FENCE);
    // For the sections that are being entered without having seen the chore.
    sys::membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

impl Stamp {
    /// Whether all sections that were open at the time of the stamp have been closed. The caller's own
    /// does not count: the caller itself has let go.
    ///
    /// A section that is not visible here yet began after the barrier in [`retire`], and so cannot reach
    /// what was unlinked before it.
    pub(crate) fn passed(self) -> bool {
        let own = tls_load();
        OVERFLOW.sections.load(Ordering::SeqCst) == 0
            && registry::all_slots(|slot| {
                let section = slot.section.load(Ordering::Acquire);
                section == 0 || section >= self.0 || ptr::eq(slot, own)
            })
    }
}

/// [`retire`], then waits until the stamp has passed, at most `limit_us`. False: a section did not end in
/// time (its thread is stopped, or waits for the caller); nothing may be unmapped.
#[must_use]
pub(crate) fn synchronize(limit_us: u64) -> bool {
    let stamp = retire();
    let deadline_ns = sys::monotonic_ns().saturating_add(limit_us.saturating_mul(1000));
    let mut round = 0u32;
    while !stamp.passed() {
        if sys::monotonic_ns() >= deadline_ns {
            return false;
        }
        round += 1;
        // Sections are short; one that lasts belongs to a preempted thread.
        if round < 16 { sys::sched_yield() } else { sys::sleep_us(50) }
    }
    true
}
