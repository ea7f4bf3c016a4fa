//! A lock between processes that survives the death of its holder, by `kill -9` too.
//!
//! The word follows the kernel's robust futex ABI (`Documentation/locking/robust-futex-ABI.rst`): holder's thread
//! id, `FUTEX_WAITERS`, `FUTEX_OWNER_DIED`. While a thread takes, holds or gives up the lock, `list_op_pending` of
//! its robust list (which libc registers for every thread) points to the word, so the kernel marks the word and
//! wakes a waiter when the thread dies. That field has room for one: a thread holds one such lock at a time.
//!
//! The word lies in memory that others may scribble on, so nobody waits for it longer than [`LIMIT_US`].

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU32, Ordering, compiler_fence};
use std::time::{Duration, Instant};

use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::thread::futex;

use crate::kring::LockWord;

const WAITERS: u32 = 0x8000_0000;
const OWNER_DIED: u32 = 0x4000_0000;
const TID_MASK: u32 = 0x3fff_ffff;

/// Looks at a held lock before the first sleep.
const SPINS: u32 = 200;
/// Longest single sleep, in microseconds: bounds the harm of a lost wake-up.
const NAP_US: u64 = 10_000;
/// Longest wait for a lock, in microseconds.
pub const LIMIT_US: u64 = 2_000_000;

/// Somebody held the lock for [`LIMIT_US`], or this very thread holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck;

/// The lock, held; dropping it unlocks.
#[must_use]
pub struct Held<'a> {
    word: &'a AtomicU32,
    pending: Option<&'static AtomicPtr<c_void>>,
    before: *mut c_void,
    owner_died: bool,
    /// What unlocking writes into the word.
    left_behind: u32,
}

/// The head of a thread's robust list, in the kernel's layout.
#[repr(C)]
struct RobustHead {
    next: AtomicPtr<RobustHead>,
    futex_offset: AtomicIsize,
    pending: AtomicPtr<c_void>,
}

/// This thread: its id and robust list, as of a generation (see [`generation`]).
#[derive(Clone, Copy)]
struct Me {
    generation: u32,
    tid: u32,
    head: Option<&'static RobustHead>,
}

thread_local! {
    static ME: Cell<Me> = const { Cell::new(Me { generation: 0, tid: 0, head: None }) };
}

impl LockWord {
    /// Takes the lock. `owner_died` of what it returns says whether the holder before died inside.
    ///
    /// # Errors
    /// [`Stuck`] after [`LIMIT_US`], or at once if this thread (from a signal handler, say) holds it.
    #[inline]
    pub fn lock(&self) -> Result<Held<'_>, Stuck> {
        self.lock_with(wait).ok_or(Stuck)
    }

    /// Takes the lock if nobody holds it.
    pub fn try_lock(&self) -> Option<Held<'_>> {
        self.lock_with(|_, _| None)
    }

    /// Waits until whoever holds the lock now has given it up, by dying too; false after [`LIMIT_US`], or at once if it is
    /// this thread. A holder's death stays marked for the next one.
    pub fn wait_until_free(&self) -> bool {
        if self.holder_died() {
            return true;
        }
        let Ok(mut held) = self.lock() else { return false };
        held.left_behind = if held.owner_died { OWNER_DIED } else { 0 };
        true
    }

    /// Whether the last holder died inside, and nobody has taken the lock since.
    pub fn holder_died(&self) -> bool {
        self.0.load(Ordering::Relaxed) & (OWNER_DIED | TID_MASK) == OWNER_DIED
    }

    #[inline]
    fn lock_with(&self, wait: impl FnOnce(&AtomicU32, u32) -> Option<bool>) -> Option<Held<'_>> {
        let me = Me::current();
        let (pending, before) = me.announce(&self.0);
        let taken = take(&self.0, me.tid, 0).or_else(|| wait(&self.0, me.tid));
        if taken.is_none() {
            retract(pending, before);
        }
        taken.map(|owner_died| Held { word: &self.0, pending, before, owner_died, left_behind: 0 })
    }
}

impl Held<'_> {
    /// Whether the holder before died: what the lock guards may be half-changed.
    pub fn owner_died(&self) -> bool {
        self.owner_died
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.word.swap(self.left_behind, Ordering::Release) & WAITERS != 0 {
            let _ = futex::wake(self.word, futex::Flags::empty(), 1);
        }
        retract(self.pending, self.before);
    }
}

/// One try. `extra` is WAITERS for a thread that slept: others may still sleep.
#[inline]
fn take(word: &AtomicU32, tid: u32, extra: u32) -> Option<bool> {
    let mut seen = 0;
    while seen & TID_MASK == 0 {
        let new = tid | (seen & WAITERS) | extra;
        match word.compare_exchange(seen, new, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return Some(seen & OWNER_DIED != 0),
            Err(found) => seen = found,
        }
    }
    None
}

#[cold]
fn wait(word: &AtomicU32, tid: u32) -> Option<bool> {
    for _ in 0..SPINS {
        std::hint::spin_loop();
        let seen = word.load(Ordering::Relaxed);
        if seen & TID_MASK == tid {
            return None;
        }
        if seen & TID_MASK == 0
            && let Some(owner_died) = take(word, tid, 0)
        {
            return Some(owner_died);
        }
    }
    let deadline = Instant::now() + Duration::from_micros(LIMIT_US);
    loop {
        if let Some(owner_died) = take(word, tid, WAITERS) {
            return Some(owner_died);
        }
        if Instant::now() >= deadline {
            return None;
        }
        nap(word);
    }
}

/// Sleeps until the holder unlocks or dies, at most [`NAP_US`].
fn nap(word: &AtomicU32) {
    let seen = word.load(Ordering::Relaxed);
    if seen & TID_MASK == 0 {
        return;
    }
    let marked = seen | WAITERS;
    if seen != marked && word.compare_exchange(seen, marked, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return;
    }
    let nap = rustix::fs::Timespec { tv_sec: 0, tv_nsec: (NAP_US * 1000) as _ };
    let _ = futex::wait(word, futex::Flags::empty(), marked, Some(&nap));
}

impl Me {
    #[inline]
    fn current() -> Me {
        let me = ME.get();
        let known = generation().is_some_and(|word| word.load(Ordering::Relaxed) == me.generation);
        if known && me.generation != 0 { me } else { Me::learn() }
    }

    #[cold]
    fn learn() -> Me {
        static FORKS: AtomicU32 = AtomicU32::new(0);
        let word = generation();
        if let Some(word) = word.filter(|word| word.load(Ordering::Relaxed) == 0) {
            // First use, or a forked child: what it remembers is of an earlier generation.
            word.store(FORKS.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        let me = Me {
            generation: word.map_or(0, |word| word.load(Ordering::Relaxed)),
            tid: rustix::thread::gettid().as_raw_pid() as u32,
            head: robust_head(),
        };
        ME.set(me);
        me
    }

    /// Tells the kernel which lock to release if this thread dies from now on.
    #[inline]
    fn announce(&self, word: &AtomicU32) -> (Option<&'static AtomicPtr<c_void>>, *mut c_void) {
        let Some(head) = self.head else { return (None, ptr::null_mut()) };
        let before = head.pending.load(Ordering::Relaxed);
        let entry = word.as_ptr().cast::<c_void>().wrapping_byte_offset(-head.futex_offset.load(Ordering::Relaxed));
        head.pending.store(entry, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        (Some(&head.pending), before)
    }
}

/// Puts `list_op_pending` back.
#[inline]
fn retract(pending: Option<&'static AtomicPtr<c_void>>, before: *mut c_void) {
    compiler_fence(Ordering::SeqCst);
    if let Some(pending) = pending {
        pending.store(before, Ordering::Relaxed);
    }
}

/// A word that the kernel zeroes in forked children (`MADV_WIPEONFORK`), however they were forked: there, what
/// threads remember of themselves is no longer true. None where the kernel cannot; then nothing is remembered.
#[inline]
fn generation() -> Option<&'static AtomicU32> {
    static PAGE: OnceLock<WipedWord> = OnceLock::new();
    PAGE.get_or_init(WipedWord::map).0
}

struct WipedWord(Option<&'static AtomicU32>);

impl WipedWord {
    fn map() -> WipedWord {
        let (bytes, prot) = (4096, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a fresh private mapping, zeroed, never unmapped; an AtomicU32 fits at its start.
        let word = unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, prot, MapFlags::PRIVATE).ok().and_then(|page| {
                rustix::mm::madvise(page, bytes, Advice::LinuxWipeOnFork).ok()?;
                page.cast::<AtomicU32>().as_ref()
            })
        };
        WipedWord(word)
    }
}

/// The calling thread's robust list; None if libc registered none.
fn robust_head() -> Option<&'static RobustHead> {
    let (mut head, mut bytes) = (ptr::null::<RobustHead>(), 0usize);
    // SAFETY: the kernel writes a pointer and a length to the two places.
    let failed = unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut bytes) } != 0;
    if failed || bytes != size_of::<RobustHead>() {
        return None;
    }
    // SAFETY: what libc registered lives as long as the thread, and only this thread uses the reference
    // (it is kept in a thread local); all its fields are atomics.
    unsafe { head.as_ref() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns() {
        let (lock, counter) = (LockWord::default(), AtomicU32::new(0));
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..10_000 {
                        let held = lock.lock().unwrap();
                        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(counter.into_inner(), 40_000);
    }

    #[test]
    fn who_holds_it_is_told_and_does_not_wait_for_himself() {
        let lock = LockWord::default();
        let held = lock.lock().unwrap();
        assert!(!held.owner_died());
        assert_eq!(lock.lock().err(), Some(Stuck));
        drop(held);
        assert!(!lock.lock().unwrap().owner_died());
    }

    #[test]
    fn a_dead_holder_is_noticed_in_a_thread_and_in_a_forked_process() {
        let region = crate::region::create_sealed("lock-test", 4096).unwrap();
        let region = crate::region::Region::open(&region, 4096, 4096).unwrap();
        // SAFETY: a zeroed shared page that outlives the reference; a LockWord is an atomic.
        let lock: &LockWord = unsafe { region.base().cast().as_ref() };
        drop(lock.lock().unwrap());
        // SAFETY: the child only takes a lock and leaves at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            std::mem::forget(lock.lock());
            // SAFETY: ends the child without running anything else.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: waits for the child made above.
        unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
        assert!(lock.holder_died());
        assert!(lock.lock().unwrap().owner_died());
        assert!(!lock.holder_died());
        assert!(!lock.lock().unwrap().owner_died());
    }
}
