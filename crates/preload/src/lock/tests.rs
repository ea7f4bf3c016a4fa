use std::sync::atomic::AtomicU64;

use super::*;
use crate::testing::{in_child, shared_memory, status_of_child, until};
use crate::thread;

#[repr(C)]
struct Guarded {
    lock: RobustLock,
    /// Changed in two halves, which must always agree.
    low: AtomicU64,
    high: AtomicU64,
    progress: AtomicU64,
}

impl Guarded {
    /// One increment that two holders at a time would tear or lose.
    fn bump(&self) {
        let critical = thread::enter();
        let _held = self.lock.lock(&critical, u64::MAX).unwrap();
        let before = self.low.load(Ordering::Relaxed);
        assert_eq!(before, self.high.load(Ordering::Relaxed));
        self.low.store(before + 1, Ordering::Relaxed);
        if before.is_multiple_of(64) {
            std::thread::yield_now();
        }
        self.high.store(before + 1, Ordering::Relaxed);
    }
}

#[test]
fn counts_exactly_across_threads_and_processes() {
    const ROUNDS: u64 = 20_000;
    let shared = shared_memory::<Guarded>();
    let work = || {
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..ROUNDS).for_each(|_| shared.bump()));
            }
        });
    };
    std::thread::scope(|scope| {
        scope.spawn(|| in_child(work));
        scope.spawn(work);
    });
    assert_eq!(shared.low.load(Ordering::Relaxed), 6 * ROUNDS);
    assert_eq!(shared.lock.word.load(Ordering::Relaxed), 0);
}

#[test]
fn the_survivor_takes_over_from_a_killed_holder() {
    let shared = shared_memory::<Guarded>();
    let status = status_of_child(|| {
        let critical = thread::enter();
        let _held = shared.lock.lock(&critical, u64::MAX).unwrap();
        // SAFETY: ends this child only.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    });
    assert!(libc::WIFSIGNALED(status));
    let critical = thread::enter();
    assert!(shared.lock.lock_unshared(&critical).is_none(), "a dead holder must be noticed");
    let held = shared.lock.lock(&critical, u64::MAX).unwrap();
    assert!(held.owner_died());
    drop(held);
    assert!(!shared.lock.lock(&critical, u64::MAX).unwrap().owner_died(), "told once");
}

#[test]
fn a_sleeping_waiter_is_woken_by_the_holders_death() {
    let shared = shared_memory::<Guarded>();
    let killer = std::thread::spawn(move || {
        status_of_child(|| {
            let critical = thread::enter();
            let _held = shared.lock.lock(&critical, u64::MAX).unwrap();
            shared.progress.store(1, Ordering::Release);
            until(|| shared.lock.word.load(Ordering::Relaxed) & WAITERS != 0);
            // SAFETY: ends this child only.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        })
    });
    until(|| shared.progress.load(Ordering::Acquire) == 1);
    let critical = thread::enter();
    assert!(shared.lock.lock(&critical, u64::MAX).unwrap().owner_died());
    assert!(libc::WIFSIGNALED(killer.join().unwrap()));
}

#[test]
fn random_deaths_never_leave_it_stuck_or_the_halves_unnoticed() {
    let shared = shared_memory::<Guarded>();
    for round in 0..40 {
        let victim = std::thread::spawn(move || {
            status_of_child(|| {
                loop {
                    shared.progress.fetch_add(1, Ordering::Relaxed);
                    shared.bump();
                    if shared.progress.load(Ordering::Relaxed) > 1000 + round * 37 {
                        // SAFETY: ends this child only; another of its threads may hold the lock.
                        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
                    }
                }
            })
        });
        while !victim.is_finished() {
            let critical = thread::enter();
            let held = shared.lock.lock(&critical, u64::MAX).unwrap();
            let low = shared.low.load(Ordering::Relaxed);
            if low != shared.high.load(Ordering::Relaxed) {
                assert!(held.owner_died());
                shared.high.store(low, Ordering::Relaxed);
            }
        }
        victim.join().unwrap();
        shared.progress.store(0, Ordering::Relaxed);
    }
}

#[test]
fn a_held_lock_is_refused_and_times_out() {
    let lock = RobustLock::new();
    let critical = thread::enter();
    let held = lock.try_lock(&critical).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let critical = thread::enter();
            assert!(lock.try_lock(&critical).is_none());
            assert!(lock.lock_unshared(&critical).is_none());
            assert!(lock.lock(&critical, 1000).is_none());
            assert!(critical.robust_head().unwrap().pending.load(Ordering::Relaxed).is_null());
        });
    });
    drop(held);
    assert!(critical.robust_head().unwrap().pending.load(Ordering::Relaxed).is_null());
    drop(lock.lock_unshared(&critical).unwrap());
    assert!(lock.try_lock(&critical).is_some());
}

#[test]
fn who_takes_over_still_owes_the_other_sleepers_a_wake_up() {
    let lock = RobustLock::new();
    lock.word.store(WAITERS | OWNER_DIED, Ordering::Relaxed);
    let critical = thread::enter();
    let held = lock.lock(&critical, u64::MAX).unwrap();
    assert!(held.owner_died());
    assert_eq!(lock.word.load(Ordering::Relaxed), critical.tid() as u32 | WAITERS);
    drop(held);
    assert_eq!(lock.word.load(Ordering::Relaxed), 0);
}
