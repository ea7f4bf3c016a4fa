//! A lock that processes of one fork family share and that survives the death of its holder.
//!
//! The word follows the kernel's robust futex ABI: holder's thread id, `FUTEX_WAITERS`, `FUTEX_OWNER_DIED`.
//! While a thread takes, holds or gives up the lock, the `list_op_pending` field of its robust list points to it, so
//! that the kernel marks the word and wakes a waiter when the thread dies, by `kill -9` too. That field
//! has room for one lock: a thread may hold only one [`RobustLock`] at a time.

use core::ffi::c_void;
use core::hint::spin_loop;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use crate::sys;
use crate::thread::{Critical, RobustHead};

const WAITERS: u32 = libc::FUTEX_WAITERS;
const OWNER_DIED: u32 = libc::FUTEX_OWNER_DIED;
const TID_MASK: u32 = libc::FUTEX_TID_MASK;

/// Looks at a held lock before the first sleep.
const SPINS: u32 = 100;

/// Longest single sleep: bounds the harm of a lost wake-up.
const NAP_US: u64 = 10_000;

/// Lives in memory that the sharers map; all zero is unlocked.
#[repr(transparent)]
pub(crate) struct RobustLock {
    word: AtomicU32,
}

/// A lock being held; dropping it unlocks.
#[must_use]
pub(crate) struct Held<'a> {
    lock: &'a RobustLock,
    critical: &'a Critical,
    /// What `list_op_pending` was before.
    pending: *mut c_void,
    /// Other threads or processes may want it.
    shared: bool,
    owner_died: bool,
}

impl RobustLock {
    #[cfg(test)]
    pub(crate) const fn new() -> RobustLock {
        RobustLock { word: AtomicU32::new(0) }
    }

    /// The lock that a word of a shared page is.
    #[inline(always)]
    pub(crate) fn of(word: &AtomicU32) -> &RobustLock {
        // SAFETY: a transparent wrapper around the same atomic.
        unsafe { &*core::ptr::from_ref(word).cast() }
    }

    /// Takes the lock, waiting at most about `limit_us` (u64::MAX: for ever). None if that was too short.
    #[inline(always)]
    pub(crate) fn lock<'a>(&'a self, critical: &'a Critical, limit_us: u64) -> Option<Held<'a>> {
        let pending = self.announce(critical);
        let owner_died = self.take(critical, 0).or_else(|| self.wait(critical, limit_us));
        self.outcome(critical, pending, owner_died)
    }

    /// Takes the lock if nobody holds it.
    #[inline(always)]
    pub(crate) fn try_lock<'a>(&'a self, critical: &'a Critical) -> Option<Held<'a>> {
        let pending = self.announce(critical);
        let owner_died = self.take(critical, 0);
        self.outcome(critical, pending, owner_died)
    }

    /// Takes the lock without atomic exchanges or registration.
    ///
    /// Only while no other thread and no other process can reach the lock, and until it is dropped:
    /// process single threaded, memory not shared by a fork. None: it is held (by a dead sharer, say); use
    /// [`RobustLock::lock`].
    #[inline(always)]
    pub(crate) fn lock_unshared<'a>(&'a self, critical: &'a Critical) -> Option<Held<'a>> {
        if self.word.load(Ordering::Relaxed) != 0 {
            return None;
        }
        self.word.store(critical.tid() as u32, Ordering::Relaxed);
        Some(Held { lock: self, critical, pending: ptr::null_mut(), shared: false, owner_died: false })
    }

    /// Tells the kernel which lock to release if this thread dies from now on.
    #[inline(always)]
    fn announce(&self, critical: &Critical) -> *mut c_void {
        let Some(head) = critical.robust_head() else { return ptr::null_mut() };
        let entry = (&raw const self.word).cast::<c_void>().cast_mut().wrapping_byte_offset(-head.futex_offset);
        let before = head.pending.load(Ordering::Relaxed);
        head.pending.store(entry, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        before
    }

    #[inline(always)]
    fn outcome<'a>(
        &'a self,
        critical: &'a Critical,
        pending: *mut c_void,
        owner_died: Option<bool>,
    ) -> Option<Held<'a>> {
        let Some(owner_died) = owner_died else {
            retract(critical, pending);
            return None;
        };
        Some(Held { lock: self, critical, pending, shared: true, owner_died })
    }

    /// One try. `extra` is WAITERS for a thread that slept: others may still sleep.
    #[inline(always)]
    fn take(&self, critical: &Critical, extra: u32) -> Option<bool> {
        let tid = critical.tid() as u32;
        let mut word = 0;
        while word & TID_MASK == 0 {
            let new = tid | (word & WAITERS) | extra;
            match self.word.compare_exchange(word, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(word & OWNER_DIED != 0),
                Err(found) => word = found,
            }
        }
        None
    }

    #[cold]
    fn wait(&self, critical: &Critical, limit_us: u64) -> Option<bool> {
        for _ in 0..SPINS {
            spin_loop();
            if self.word.load(Ordering::Relaxed) & TID_MASK == 0
                && let Some(owner_died) = self.take(critical, 0)
            {
                return Some(owner_died);
            }
        }
        let deadline_ns = sys::monotonic_ns().saturating_add(limit_us.saturating_mul(1000));
        loop {
            if let Some(owner_died) = self.take(critical, WAITERS) {
                return Some(owner_died);
            }
            let left_us = deadline_ns.saturating_sub(sys::monotonic_ns()) / 1000;
            if left_us == 0 {
                return None;
            }
            self.nap(left_us.min(NAP_US));
        }
    }

    /// Sleeps until the holder unlocks or dies, or `us` have passed.
    fn nap(&self, us: u64) {
        let word = self.word.load(Ordering::Relaxed);
        if word & TID_MASK == 0 {
            return;
        }
        let marked = word | WAITERS;
        if word != marked && self.word.compare_exchange(word, marked, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        // SAFETY: `self` is alive; other processes may share it.
        unsafe { sys::futex_wait(self.word.as_ptr(), marked, Some(&sys::timespec_from_us(us)), false) };
    }
}

/// Puts `list_op_pending` back.
#[inline(always)]
fn retract(critical: &Critical, pending: *mut c_void) {
    compiler_fence(Ordering::SeqCst);
    if let Some(RobustHead { pending: field, .. }) = critical.robust_head() {
        field.store(pending, Ordering::Relaxed);
    }
}

impl Held<'_> {
    /// Whether the holder before died inside: what the lock guards may be half-changed.
    pub(crate) fn owner_died(&self) -> bool {
        self.owner_died
    }
}

impl Drop for Held<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let word = &self.lock.word;
        if !self.shared {
            return word.store(0, Ordering::Release);
        }
        if word.swap(0, Ordering::Release) & WAITERS != 0 {
            // SAFETY: the lock is alive: borrowed by `self`.
            unsafe { sys::futex_wake(word.as_ptr(), 1, false) };
        }
        retract(self.critical, self.pending);
    }
}

#[cfg(test)]
mod tests;
