//! How long to poll before sleeping: what a call asks of `polling`, and what that needs to know of the machine.

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use crate::sys;

mod polling;

pub(crate) use polling::SpinState;

/// Waiting profile: how much CPU time a shorter answer may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    Latency = 0,
    Balanced = 1,
    Efficient = 2,
}

static PROFILE: AtomicU32 = AtomicU32::new(Profile::Balanced as u32);
static CYCLES_PER_US: AtomicU64 = AtomicU64::new(2_000);
/// Until when nobody in this process polls, because others want its CPUs; 0: nobody does.
static CONTENDED_UNTIL: AtomicU64 = AtomicU64::new(0);
static CPUS: AtomicU32 = AtomicU32::new(1);
/// Where glibc keeps the thread's rseq area, from the thread pointer; 0 = it has none.
static RSEQ_OFFSET: AtomicU64 = AtomicU64::new(0);

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

/// Looks for an answer that comes at once: some two microseconds, short enough to hold a lock meanwhile.
const LOOKS_AT_ONCE: u32 = 64;

/// The time-stamp counter and the scheduler.
struct Hardware;

impl polling::Machine for Hardware {
    #[inline(always)]
    fn now(&self) -> u64 {
        tsc()
    }

    fn yield_cpu(&self) {
        sys::sched_yield();
    }
}

/// Polls until `ready` or the budget is used up. Returns whether it became ready.
/// `peer_cpu` is where the peer last ran, plus one.
#[inline]
pub(crate) fn spin(state: &SpinState, peer_cpu: u32, ready: impl FnMut() -> bool) -> bool {
    let shares_cpu = shares_cpu(peer_cpu);
    let profile = PROFILE.load(Relaxed) as usize % 3;
    polling::Polling { machine: &Hardware, contended_until: &CONTENDED_UNTIL, profile }.poll(state, shares_cpu, ready)
}

/// Whether the peer, which last ran on `peer_cpu` (plus one), has to wait for this thread's CPU.
#[inline(always)]
fn shares_cpu(peer_cpu: u32) -> bool {
    let here = cpu_plus_one();
    CPUS.load(Relaxed) == 1 || (here != 0 && here == peer_cpu)
}

/// Polls for a moment, without the clock, where the last polls have paid. Returns whether it became ready; if not,
/// nothing is learnt from that.
#[inline(always)]
pub(crate) fn spin_at_once(state: &SpinState, peer_cpu: u32, mut ready: impl FnMut() -> bool) -> bool {
    let streak = state.streak.load(Relaxed);
    if streak == 0 || CONTENDED_UNTIL.load(Relaxed) != 0 || shares_cpu(peer_cpu) {
        return false;
    }
    state.streak.store(streak.saturating_add(1), Relaxed);
    for _ in 0..LOOKS_AT_ONCE {
        if ready() {
            return true;
        }
        core::hint::spin_loop();
    }
    state.streak.store(streak, Relaxed);
    false
}
