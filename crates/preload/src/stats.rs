//! Counting into the process page (see `ringway_mem::stats`), which the monitor hands out.

use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering::*};

use ringway_channel::Reason;
use ringway_mem::stats::{Counters, ProcessPage, REASON_SLOTS};

static PAGE: AtomicPtr<ProcessPage> = AtomicPtr::new(core::ptr::null_mut());
/// The process that was given the page: a forked child counts into its parent's until it gets its own.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// The page, once the monitor has given one.
#[inline]
pub(crate) fn page() -> Option<&'static ProcessPage> {
    // SAFETY: set once to a mapping that is never unmapped; all fields are atomic.
    unsafe { PAGE.load(Acquire).as_ref() }
}

/// Uses `fresh` from now on; an earlier page of this process hands its counts over and stays mapped.
pub(crate) fn set_page(fresh: &'static ProcessPage, process: i32) {
    if let Some(old) = page()
        && OWNER.load(Relaxed) == process
    {
        carry_over(old, fresh);
    }
    OWNER.store(process, Relaxed);
    PAGE.store(core::ptr::from_ref(fresh).cast_mut(), Release);
}

/// Adds one. Threads may lose a count to each other: statistics are not worth a locked instruction.
#[inline]
pub(crate) fn count(which: impl FnOnce(&Counters) -> &AtomicU64) {
    add(which, 1);
}

/// Adds `n`; as `count`.
#[inline]
pub(crate) fn add(which: impl FnOnce(&Counters) -> &AtomicU64, n: u64) {
    if let Some(page) = page() {
        let counter = which(&page.counters);
        counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
    }
}

/// Takes one off again that [`count`] has added.
pub(crate) fn take_back(which: impl FnOnce(&Counters) -> &AtomicU64) {
    add(which, u64::MAX);
}

/// Counts a call and its bytes.
#[inline(always)]
pub(crate) fn count_message(which: impl FnOnce(&Counters) -> [&AtomicU64; 2], bytes: usize) {
    if let Some(page) = page() {
        let [calls, all] = which(&page.counters);
        calls.store(calls.load(Relaxed).wrapping_add(1), Relaxed);
        all.store(all.load(Relaxed).wrapping_add(bytes as u64), Relaxed);
    }
}

/// Counts a connection that stays on or goes back to TCP.
pub(crate) fn refused(reason: Reason) {
    if let Some(counter) = page().and_then(|p| p.refusals.get(reason as usize % REASON_SLOTS)) {
        counter.fetch_add(1, Relaxed);
    }
}

/// The counters one after the other.
fn words(counters: &Counters) -> &[AtomicU64] {
    // SAFETY: Counters is a sequence of AtomicU64 (repr(C)) and nothing else.
    unsafe { core::slice::from_raw_parts(core::ptr::from_ref(counters).cast(), size_of::<Counters>() / 8) }
}

/// Adds the counts of an earlier page to a fresh one.
fn carry_over(old: &ProcessPage, fresh: &ProcessPage) {
    let old = words(&old.counters).iter().chain(&old.refusals);
    let fresh = words(&fresh.counters).iter().chain(&fresh.refusals);
    for (from, to) in old.zip(fresh) {
        to.fetch_add(from.load(Relaxed), Relaxed);
    }
}
