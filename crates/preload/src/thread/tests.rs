use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread as threads;

use super::*;
use crate::hooks::signal as hook;
use crate::testing::{in_child, until};

const LONG_US: u64 = 60_000_000;

fn slots_used() -> usize {
    let mut used = 0;
    registry::all_slots(|_| {
        used += 1;
        true
    });
    used
}

#[test]
fn every_thread_has_its_own_slot_and_keeps_it() {
    let here = current().unwrap();
    assert!(ptr::eq(here, current().unwrap()));
    assert_eq!(here.tid.load(Ordering::Relaxed), sys::gettid());
    let there = threads::spawn(|| ptr::from_ref(current().unwrap()).addr()).join().unwrap();
    assert_ne!(ptr::from_ref(here).addr(), there);
}

#[test]
fn slots_of_ended_threads_are_used_again() {
    // With the exit hook at once; without, when a chunk of slots is full.
    for (with_hook, most_more) in [(true, 2), (false, 512)] {
        in_child(|| {
            if with_hook {
                init();
            }
            let before = slots_used();
            for _ in 0..2000 {
                threads::spawn(|| drop(enter())).join().unwrap();
            }
            let more = slots_used() - before;
            assert!(more <= most_more, "{more} slots for one thread at a time");
        });
    }
}

#[test]
fn many_threads_at_once_grow_the_registry() {
    in_child(|| {
        init();
        let (ready, go) = (AtomicUsize::new(0), AtomicBool::new(false));
        let distinct = std::sync::Mutex::new(std::collections::HashSet::new());
        threads::scope(|scope| {
            for _ in 0..700 {
                scope.spawn(|| {
                    let slot = current().unwrap();
                    assert_eq!(slot.tid.load(Ordering::Relaxed), sys::gettid());
                    assert!(distinct.lock().unwrap().insert(ptr::from_ref(slot).addr()));
                    ready.fetch_add(1, Ordering::Relaxed);
                    until(|| go.load(Ordering::Relaxed));
                });
            }
            until(|| ready.load(Ordering::Relaxed) == 700);
            go.store(true, Ordering::Relaxed);
        });
    });
}

/// Runs `body` once per way of ordering: fences on entering, and membarrier.
fn with_each_barrier(body: impl Fn()) {
    for membarrier in [false, true] {
        in_child(|| {
            if membarrier {
                init();
                assert_eq!(SHARED.chores.load(Ordering::Relaxed), 0, "this kernel has membarrier");
            }
            body();
        });
    }
}

#[test]
fn a_stamp_passes_when_the_sections_before_it_end() {
    with_each_barrier(|| {
        let (entered, end) = (AtomicBool::new(false), AtomicBool::new(false));
        threads::scope(|scope| {
            scope.spawn(|| {
                let outer = enter();
                drop(enter());
                entered.store(true, Ordering::Release);
                until(|| end.load(Ordering::Acquire));
                drop(outer);
                // Sections after the stamp do not matter, however long.
                let _later = enter();
                until(|| !end.load(Ordering::Acquire));
            });
            until(|| entered.load(Ordering::Acquire));
            let stamp = retire();
            assert!(!stamp.passed());
            assert!(!synchronize(1000));
            end.store(true, Ordering::Release);
            until(|| stamp.passed());
            end.store(false, Ordering::Release);
        });
        let _own = enter();
        assert!(synchronize(LONG_US), "the caller's own section does not count");
    });
}

#[test]
fn retired_memory_is_never_seen_unmapped() {
    const BYTES: usize = 4096;
    with_each_barrier(|| {
        let page = || sys::map_anonymous(BYTES).unwrap().as_ptr();
        let (shared, stop) = (AtomicPtr::new(page()), AtomicBool::new(false));
        threads::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let _critical = enter();
                        let seen = shared.load(Ordering::Acquire);
                        for offset in 0..8 {
                            // SAFETY: what this test is about: mapped while the section is open.
                            assert_eq!(unsafe { seen.add(offset * 512).read_volatile() }, 0);
                        }
                    }
                });
            }
            for _ in 0..3000 {
                let old = shared.swap(page(), Ordering::AcqRel);
                assert!(synchronize(LONG_US));
                // SAFETY: unlinked, and all sections that could know it have ended.
                unsafe { sys::munmap(old, BYTES) };
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn a_child_of_fork_starts_with_one_live_slot() {
    in_child(|| {
        init();
        let (ready, go) = (AtomicUsize::new(0), AtomicBool::new(false));
        threads::scope(|scope| {
            for _ in 0..5 {
                scope.spawn(|| {
                    let _critical = enter();
                    ready.fetch_add(1, Ordering::Relaxed);
                    until(|| go.load(Ordering::Relaxed));
                });
            }
            until(|| ready.load(Ordering::Relaxed) == 5);
            drop(enter());
            in_child(|| {
                assert!(!is_borrower());
                assert_eq!(enter().tid(), sys::gettid());
                assert!(enter().robust_head().is_some());
                assert!(synchronize(LONG_US), "sections of threads that are not here");
                assert_eq!(SHARED.chores.load(Ordering::Relaxed), 0, "membarrier works in the child");
                let used = slots_used();
                for _ in 0..20 {
                    threads::spawn(|| drop(enter())).join().unwrap();
                }
                assert_eq!(slots_used(), used);
            });
            go.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn threads_without_a_slot_block_signals_instead() {
    in_child(|| {
        let before = sys::rt_sigprocmask(libc::SIG_BLOCK, 0);
        let critical = critical::overflow::enter();
        assert_eq!(critical.tid(), sys::gettid());
        let during = sys::rt_sigprocmask(libc::SIG_BLOCK, 0);
        assert_eq!(during & crate::signals::DEFERRABLE, crate::signals::DEFERRABLE & !(1 << 8) & !(1 << 18));
        let stamp = retire();
        assert!(!stamp.passed());
        drop(critical);
        assert!(stamp.passed());
        assert_eq!(sys::rt_sigprocmask(libc::SIG_BLOCK, 0), before);
    });
}

#[test]
fn a_child_that_borrows_the_memory_changes_nothing() {
    extern "C" fn on_signal(_: libc::c_int) {}
    static HANDLER: extern "C" fn(libc::c_int) = on_signal;
    extern "C" fn borrower(_: *mut c_void) -> libc::c_int {
        // SAFETY: zeroed structs on this frame.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            let mut old: libc::sigaction = core::mem::zeroed();
            let read = hook::sigaction(libc::SIGUSR1, ptr::null(), &raw mut old);
            action.sa_sigaction = libc::SIG_IGN;
            let write = hook::sigaction(libc::SIGUSR1, &raw const action, ptr::null_mut());
            let fine = read == 0 && write == 0 && old.sa_sigaction == HANDLER as usize;
            libc::c_int::from(!fine || !is_borrower())
        }
    }
    in_child(|| {
        crate::signals::arm();
        let mut stack = vec![0u128; 16_384];
        // SAFETY: handler and stack live on; the child ends before clone's parent goes on (CLONE_VFORK).
        unsafe {
            hook::signal(libc::SIGUSR1, HANDLER as usize);
            let top = stack.as_mut_ptr().add(stack.len()).cast();
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            let pid = libc::clone(borrower, top, flags, ptr::null_mut());
            let mut status = -1;
            assert_eq!(libc::waitpid(pid, &raw mut status, 0), pid);
            assert_eq!(status, 0);
            assert_eq!(hook::signal(libc::SIGUSR1, libc::SIG_DFL), HANDLER as usize);
        }
        assert!(!is_borrower());
    });
}
