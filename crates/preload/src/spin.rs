//! How long to poll before sleeping.
//!
//! Polling is worth it only while the peer runs on another CPU and answers soon. Three signs end it:
//! the peer last ran on this CPU (it cannot answer while we spin), the time-stamp counter jumped
//! between two looks (somebody else wanted this CPU), or polling has not paid lately.

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use crate::sys;

/// Waiting profile: how much CPU time a shorter answer may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    Latency = 0,
    Balanced = 1,
    Efficient = 2,
}

/// Longest stretch of polling before a sleep, in microseconds, by profile. Longer than it takes a peer that
/// sleeps to wake up and answer: of two ends that sleep, one must see that polling would pay.
const SPIN_MAX_US: [u64; 3] = [200, 100, 0];
/// After a sign of contention nobody polls for so long, in microseconds, by profile: at first, and when such
/// signs come one soon after the other.
const PENALTY_MIN_US: u64 = 500;
const PENALTY_MAX_US: [u64; 3] = [500, 5_000, 0];
/// A jump of the counter that only losing the CPU explains, in microseconds.
const PREEMPTED_US: u64 = 25;
/// Looks between two readings of the counter, which take as long as a look.
const LOOKS: u32 = 8;
/// Times that a CPU shared with the peer is yielded to it between two readings of the counter.
const YIELDS: u32 = 2;

static PROFILE: AtomicU32 = AtomicU32::new(Profile::Balanced as u32);
static CYCLES_PER_US: AtomicU64 = AtomicU64::new(2_000);
static PENALTY_UNTIL: AtomicU64 = AtomicU64::new(0);
/// Length of the last penalty, in cycles.
static PENALTY: AtomicU64 = AtomicU64::new(0);
static CPUS: AtomicU32 = AtomicU32::new(1);
/// Where glibc keeps the thread's rseq area, from the thread pointer; 0 = it has none.
static RSEQ_OFFSET: AtomicU64 = AtomicU64::new(0);

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

/// The time-stamp counter.
#[inline(always)]
pub(crate) fn tsc() -> u64 {
    // SAFETY: every x86_64 processor has the instruction.
    unsafe { _rdtsc() }
}

/// Cycles in this many microseconds.
#[inline]
pub(crate) fn cycles(us: u64) -> u64 {
    us * CYCLES_PER_US.load(Relaxed)
}

pub(crate) fn set_profile(profile: Profile) {
    PROFILE.store(profile as u32, Relaxed);
}

pub(crate) fn profile() -> u32 {
    PROFILE.load(Relaxed)
}

/// Finds glibc's rseq area. Called from the constructor.
pub(crate) fn find_rseq() {
    // SAFETY: dlsym with static names; both symbols are plain integers set before any constructor runs.
    unsafe {
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()) as *const isize;
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()) as *const u32;
        if !offset.is_null() && !size.is_null() && *size >= 8 {
            RSEQ_OFFSET.store(*offset as u64, Relaxed);
        }
    }
}

/// Measures the counter's rate and counts CPUs; once, when the first connection is upgraded.
pub(crate) fn calibrate() {
    let (t0, n0) = (tsc(), sys::monotonic_ns());
    let mut elapsed_ns = 0;
    while elapsed_ns < 50_000 {
        elapsed_ns = sys::monotonic_ns() - n0;
    }
    CYCLES_PER_US.store(((tsc() - t0) * 1_000 / elapsed_ns).max(1), Relaxed);
    // Online CPUs, not this thread's: the peer may run on one that is closed to us.
    // SAFETY: a query without arguments; libc reads it from /sys without allocating.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    CPUS.store(online.max(1) as u32, Relaxed);
}

/// The CPU this thread runs on, plus one; 0 = unknown. One load of the thread's rseq area.
#[inline]
pub(crate) fn cpu_plus_one() -> u32 {
    let offset = RSEQ_OFFSET.load(Relaxed);
    if offset == 0 {
        return 0;
    }
    let cpu: u32;
    // SAFETY: glibc registered an rseq area at this offset from the thread pointer; cpu_id is its
    // second word and always readable.
    unsafe {
        core::arch::asm!("mov {0:e}, dword ptr fs:[{1} + 4]", out(reg) cpu, in(reg) offset, options(nostack, readonly))
    };
    cpu.wrapping_add(1)
}

/// Polls until `ready` or the budget is used up. Returns whether it became ready.
/// `peer_cpu` is where the peer last ran, plus one.
#[inline]
pub(crate) fn spin(state: &SpinState, peer_cpu: u32, mut ready: impl FnMut() -> bool) -> bool {
    let profile = PROFILE.load(Relaxed) as usize % 3;
    if SPIN_MAX_US[profile] == 0 {
        return ready();
    }
    let here = cpu_plus_one();
    if CPUS.load(Relaxed) == 1 || (here != 0 && here == peer_cpu) {
        return yield_to_peer(&mut ready, SPIN_MAX_US[profile]);
    }
    let start = tsc();
    if start < PENALTY_UNTIL.load(Relaxed) {
        return ready();
    }
    let budget = budget(state, profile);
    if budget == 0 {
        return ready();
    }
    let mut before = start;
    loop {
        for _ in 0..LOOKS {
            if ready() {
                hit(state, before - start, profile);
                return true;
            }
            core::hint::spin_loop();
        }
        let now = tsc();
        if now - before > cycles(PREEMPTED_US) {
            punish(now, profile);
            break;
        }
        if now - start > budget {
            break;
        }
        before = now;
    }
    miss(state, profile);
    false
}

/// Somebody else wants this CPU: nobody polls for a while, for twice as long as last time if that was soon ago.
#[cold]
fn punish(now: u64, profile: usize) {
    let last = PENALTY.load(Relaxed);
    let soon = now.saturating_sub(PENALTY_UNTIL.load(Relaxed)) < 4 * last;
    let next = if soon { 2 * last } else { cycles(PENALTY_MIN_US) }.min(cycles(PENALTY_MAX_US[profile]));
    PENALTY.store(next, Relaxed);
    PENALTY_UNTIL.store(now + next, Relaxed);
}

/// The peer last ran on this CPU: it gets the CPU instead of being waited for. Both staying runnable,
/// the scheduler moves one of them to another CPU if there is an idle one.
#[cold]
fn yield_to_peer(ready: &mut impl FnMut() -> bool, budget_us: u64) -> bool {
    let until = tsc() + cycles(budget_us);
    loop {
        for _ in 0..YIELDS {
            if ready() {
                return true;
            }
            sys::sched_yield();
        }
        if tsc() > until {
            return ready();
        }
    }
}

#[inline]
fn budget(state: &SpinState, profile: usize) -> u64 {
    let max = cycles(SPIN_MAX_US[profile]);
    let budget = state.budget.load(Relaxed).min(max);
    if budget > 0 || profile == Profile::Latency as usize {
        return budget.max(if profile == 0 { max } else { 0 });
    }
    // Now and then a try, in case the peer has become quick again, or would be if this end were.
    let waits = state.idle_waits.fetch_add(1, Relaxed);
    if waits.is_multiple_of(16) { max } else { 0 }
}

#[inline]
fn hit(state: &SpinState, took: u64, profile: usize) {
    let max = cycles(SPIN_MAX_US[profile]);
    state.budget.store((took * 4).clamp(max / 4, max), Relaxed);
    state.streak.store(state.streak.load(Relaxed).saturating_add(1), Relaxed);
}

fn miss(state: &SpinState, profile: usize) {
    let max = cycles(SPIN_MAX_US[profile]);
    let halved = state.budget.load(Relaxed).min(max) / 2;
    state.budget.store(if halved < max / 8 { 0 } else { halved }, Relaxed);
    state.streak.store(0, Relaxed);
}
