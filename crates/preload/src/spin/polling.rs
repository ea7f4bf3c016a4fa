//! The policy of polling.
//!
//! Polling is worth it only while the peer runs on another CPU and answers soon. Three signs end it:
//! the peer last ran on this CPU (it cannot answer while we spin), the clock jumped between two looks (somebody else
//! wanted this CPU), or polling has not paid lately. With the peer on this CPU, the waiter yields to it for as long as
//! that is who gets the CPU: a yield that takes a time slice went to a thread that has nothing to do with us.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use super::{Profile, cycles};

/// Longest stretch of polling before a sleep, in microseconds, by profile. Longer than it takes a peer that
/// sleeps to wake up and answer: of two ends that sleep, one must see that polling would pay.
const SPIN_MAX_US: [u64; 3] = [200, 100, 0];
/// A jump of the clock that only losing the CPU explains, in microseconds.
const PREEMPTED_US: u64 = 25;
/// A yield that takes longer did not go to the peer, in microseconds: more than a peer's work for one answer, less
/// than the scheduler's tick.
const YIELDED_US: u64 = 500;
/// After losing the CPU nobody polls for so many times the time lost: if it is lost each time, polling costs a sixteenth.
const TIMES_LOST: u64 = 16;
/// Bounds of that time, in microseconds.
const PAUSE_MIN_US: u64 = 500;
const PAUSE_MAX_US: u64 = 200_000;
/// Looks between two readings of the clock, which take as long as a look.
const LOOKS: u32 = 8;

/// What one connection (or waiter) has learnt about polling.
pub(crate) struct SpinState {
    /// Current budget in cycles.
    budget: AtomicU64,
    /// Waits since the budget fell to nothing.
    idle_waits: AtomicU32,
    /// Successful polls in a row.
    pub(crate) streak: AtomicU32,
}

impl SpinState {
    pub(crate) const fn new() -> Self {
        SpinState { budget: AtomicU64::new(u64::MAX), idle_waits: AtomicU32::new(0), streak: AtomicU32::new(0) }
    }

    pub(crate) fn reset(&self) {
        self.budget.store(u64::MAX, Relaxed);
        self.idle_waits.store(0, Relaxed);
        self.streak.store(0, Relaxed);
    }
}

/// What polling needs of the machine. Tests bring one of their own.
pub(super) trait Machine {
    /// The time, in cycles.
    fn now(&self) -> u64;
    fn yield_cpu(&self);
}

/// One wait's rules.
pub(super) struct Polling<'a, M> {
    pub(super) machine: &'a M,
    /// Until when nobody polls, in cycles; for the whole process.
    pub(super) contended_until: &'a AtomicU64,
    /// [`Profile`] as a number.
    pub(super) profile: usize,
}

impl<M: Machine> Polling<'_, M> {
    /// Polls until `ready` or the budget is used up. Returns whether it became ready.
    #[inline(always)]
    pub(super) fn poll(&self, state: &SpinState, shares_cpu: bool, mut ready: impl FnMut() -> bool) -> bool {
        if self.max_us() == 0 {
            return ready();
        }
        let start = self.machine.now();
        if self.is_contended(start) {
            return ready();
        }
        if shares_cpu {
            return self.yield_to_peer(start, &mut ready);
        }
        let budget = self.budget(state);
        if budget == 0 {
            return ready();
        }
        let mut before = start;
        loop {
            for _ in 0..LOOKS {
                if ready() {
                    self.hit(state, before - start);
                    return true;
                }
                core::hint::spin_loop();
            }
            let now = self.machine.now();
            if now - before > cycles(PREEMPTED_US) {
                self.lost(now, now - before);
                break;
            }
            if now - start > budget {
                break;
            }
            before = now;
        }
        self.miss(state);
        false
    }

    /// Whether others still want this process's CPUs. What has passed is set to 0, which can be seen without the clock.
    #[inline(always)]
    fn is_contended(&self, now: u64) -> bool {
        let until = self.contended_until.load(Relaxed);
        if until != 0 && now >= until {
            let _ = self.contended_until.compare_exchange(until, 0, Relaxed, Relaxed);
        }
        now < until
    }

    /// The peer last ran on this CPU: it gets the CPU instead of being waited for. Both staying runnable,
    /// the scheduler moves one of them to another CPU if there is an idle one.
    #[cold]
    fn yield_to_peer(&self, start: u64, ready: &mut impl FnMut() -> bool) -> bool {
        let mut before = start;
        while !ready() {
            if before - start > cycles(self.max_us()) {
                return false;
            }
            self.machine.yield_cpu();
            let now = self.machine.now();
            if now - before > cycles(YIELDED_US) {
                self.lost(now, now - before);
                return ready();
            }
            before = now;
        }
        true
    }

    /// Somebody else wants this CPU: nobody polls for a while. One who sleeps and is woken gets the CPU at once, which
    /// one who has used it up for polling does not.
    #[cold]
    fn lost(&self, now: u64, lost: u64) {
        let pause = (lost * TIMES_LOST).clamp(cycles(PAUSE_MIN_US), cycles(PAUSE_MAX_US));
        self.contended_until.store(now + pause, Relaxed);
    }

    fn max_us(&self) -> u64 {
        SPIN_MAX_US[self.profile]
    }

    #[inline]
    fn budget(&self, state: &SpinState) -> u64 {
        let max = cycles(self.max_us());
        if self.profile == Profile::Latency as usize {
            return max;
        }
        let budget = state.budget.load(Relaxed).min(max);
        if budget > 0 {
            return budget;
        }
        // Now and then a try, in case the peer has become quick again, or would be if this end were.
        let waits = state.idle_waits.fetch_add(1, Relaxed);
        if waits.is_multiple_of(16) { max } else { 0 }
    }

    #[inline]
    fn hit(&self, state: &SpinState, took: u64) {
        let max = cycles(self.max_us());
        state.budget.store((took * 4).clamp(max / 4, max), Relaxed);
        state.streak.store(state.streak.load(Relaxed).saturating_add(1), Relaxed);
    }

    fn miss(&self, state: &SpinState) {
        let max = cycles(self.max_us());
        let halved = state.budget.load(Relaxed).min(max) / 2;
        state.budget.store(if halved < max / 8 { 0 } else { halved }, Relaxed);
        state.streak.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests;
