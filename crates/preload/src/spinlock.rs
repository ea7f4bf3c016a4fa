//! A small lock for this process's own tables. Holding it is a critical section (signals wait), so a
//! handler can never spin on a lock that its own thread holds. Held for a few hundred instructions
//! at most, never across a system call that can sleep.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering::*};

use crate::{sys, thread};

pub(crate) struct SpinLock<T> {
    held: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through the guard, which one thread holds at a time.
unsafe impl<T: Send> Sync for SpinLock<T> {}

pub(crate) struct Guard<'a, T> {
    lock: &'a SpinLock<T>,
    _critical: thread::Critical,
}

impl<T> SpinLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        SpinLock { held: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let critical = thread::enter();
        self.acquire();
        Guard { lock: self, _critical: critical }
    }

    /// Takes the lock without a guard, for fork: `release` follows in parent and child.
    pub(crate) fn acquire(&self) {
        let mut spins = 0u32;
        while self.held.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            spins += 1;
            if spins.is_multiple_of(64) {
                sys::sched_yield();
            }
            core::hint::spin_loop();
        }
    }

    pub(crate) fn release(&self) {
        self.held.store(0, Release);
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.lock.release();
    }
}
