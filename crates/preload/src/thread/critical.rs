//! Critical sections: what a hook is in while it uses rings and tables.

use core::marker::PhantomData;
use core::mem;
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};

use super::{OVERFLOW, RobustHead, SHARED, ThreadSlot, current};
use crate::{signals, sys};

/// [`ThreadSlot::chores`]: entering must fence, because the kernel has no `membarrier` for us.
pub(super) const FENCE: u32 = 1;

/// [`ThreadSlot::chores`]: SIGSEGV and SIGBUS may be blocked in this thread, and must not be any more.
pub(super) const ADMIT_FAULTS: u32 = 2;

/// Opens a critical section on the calling thread. Sections nest; only the outermost counts.
#[inline(always)]
pub(crate) fn enter() -> Critical {
    match current() {
        Some(slot) => slot.enter(),
        None => overflow::enter(),
    }
}

/// Opens a critical section without a value to hold on to, for pairs of callbacks (fork handlers).
/// [`let_go`] closes it, in the child of a fork, too.
pub(crate) fn hold() {
    let critical = enter();
    if critical.slot.is_none() {
        overflow::HELD_MASK.store(critical.mask, Ordering::Relaxed);
    }
    mem::forget(critical);
}

/// Closes what [`hold`] opened.
pub(crate) fn let_go() {
    let slot = current();
    drop(Critical { slot, mask: overflow::HELD_MASK.load(Ordering::Relaxed), _not_send: PhantomData });
}

impl ThreadSlot {
    #[inline(always)]
    fn enter(&'static self) -> Critical {
        let depth = self.depth.load(Ordering::Relaxed);
        // Depth first: from here on no handler can run that opens and closes a section of its own.
        self.depth.store(depth + 1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        if depth == 0 {
            self.section.store(SHARED.epoch.load(Ordering::Relaxed), Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            let chores = self.chores.load(Ordering::Relaxed);
            if chores != 0 {
                self.work_off(chores);
            }
        }
        Critical { slot: Some(self), mask: 0, _not_send: PhantomData }
    }

    #[cold]
    fn work_off(&self, chores: u32) {
        if chores & ADMIT_FAULTS != 0 {
            self.chores.fetch_and(!ADMIT_FAULTS, Ordering::Relaxed);
            let old = sys::rt_sigprocmask(libc::SIG_UNBLOCK, signals::FAULTS);
            self.hidden_mask.fetch_or(old & signals::FAULTS, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
    }
}

/// An open critical section; dropping it closes it. Must not block for long, nor outlive its frame.
pub(crate) struct Critical {
    slot: Option<&'static ThreadSlot>,
    /// For a thread without a slot: the signal mask to restore.
    mask: u64,
    _not_send: PhantomData<*mut ()>,
}

impl Critical {
    /// The calling thread's id.
    #[inline(always)]
    pub(crate) fn tid(&self) -> i32 {
        self.slot.map_or_else(sys::gettid, |slot| slot.tid.load(Ordering::Relaxed))
    }

    /// Where the kernel looks for locks when this thread dies; None: it does not.
    pub(crate) fn robust_head(&self) -> Option<&RobustHead> {
        // SAFETY: the thread's registered list head, in its libc descriptor or in the slot: alive as
        // long as the thread, and a Critical stays on its thread.
        unsafe { self.slot?.robust.load(Ordering::Relaxed).as_ref() }
    }
}

impl Drop for Critical {
    #[inline(always)]
    fn drop(&mut self) {
        let Some(slot) = self.slot else { return overflow::leave(self.mask) };
        let depth = slot.depth.load(Ordering::Relaxed).saturating_sub(1);
        if depth == 0 {
            slot.section.store(0, Ordering::Release);
        }
        compiler_fence(Ordering::SeqCst);
        slot.depth.store(depth, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        if depth == 0 && slot.deferred_signal.load(Ordering::Relaxed) != 0 {
            signals::redeliver(slot);
        }
    }
}

/// Threads without a slot: real signal masks and one shared counter do the same work.
pub(super) mod overflow {
    use super::*;

    /// The mask under a section opened by [`hold`]. Forks come one at a time.
    pub(super) static HELD_MASK: AtomicU64 = AtomicU64::new(0);

    #[inline]
    pub(in crate::thread) fn enter() -> Critical {
        Critical { slot: None, mask: block(), _not_send: PhantomData }
    }

    /// Returns the mask from before.
    #[cold]
    fn block() -> u64 {
        let mask = sys::rt_sigprocmask(libc::SIG_BLOCK, signals::DEFERRABLE);
        sys::rt_sigprocmask(libc::SIG_UNBLOCK, signals::FAULTS);
        OVERFLOW.sections.fetch_add(1, Ordering::SeqCst);
        mask
    }

    #[cold]
    pub(super) fn leave(mask: u64) {
        // A child of fork starts at 0, even inside a section.
        let _ = OVERFLOW.sections.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |open| open.checked_sub(1));
        sys::rt_sigprocmask(libc::SIG_SETMASK, mask);
    }
}
