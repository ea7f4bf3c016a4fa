//! Sleep words: how one end tells the other that it sleeps, and when a doorbell must be rung.
//!
//! ```text
//!   sleeper                               waker
//!   arm(bits)  (read-modify-write, fence) publish (tail or head, Release)
//!   look at the ring again                bells()  (fence, read the word)
//!   sleep in the kernel                     armed? clear the bits, ring those bells
//!   disarm(bits)
//! ```
//! Store-then-load on both sides with a full fence between: either the sleeper sees what was
//! published or the waker sees the armed word (Dekker); a wake-up is never lost.
//!
//! **HOT.** The waker's fence waits for its store buffer, which costs a cache miss per message while
//! the receiver polls. A receiver that has been polling with success sets HOT and thereby promises to
//! run a process-wide barrier (`membarrier`) between arming and its last look; the waker then skips
//! the fence. The barrier drains the waker's store buffer in its stead, at the rare moment of going to
//! sleep instead of at each message.

use ringway_mem::sync::{AtomicU32, Ordering::*, fence};

/// Ring by one byte on the TCP connection: the sleeper waits in poll, select or epoll.
pub const BELL_TCP: u32 = 1;
/// Ring by waking the futex on the word itself: the sleeper waits for this connection only.
pub const BELL_FUTEX: u32 = 2;
/// The sleeper is awake and polls; see the module's text.
pub const HOT: u32 = 4;

const BELLS: u32 = BELL_TCP | BELL_FUTEX;

/// A view of one word of a [`crate::layout::WaitLine`].
#[derive(Clone, Copy)]
pub struct SleepWord<'a>(pub &'a AtomicU32);

impl SleepWord<'_> {
    /// Sleeper: asks for these bells. Returns true if the word was HOT, in which case the caller
    /// must run `membarrier` before its last look at the ring.
    pub fn arm(self, bells: u32) -> bool {
        let mut seen = self.0.load(Relaxed);
        while let Err(now) = self.0.compare_exchange_weak(seen, (seen | bells) & !HOT, SeqCst, Relaxed) {
            seen = now;
        }
        fence(SeqCst);
        seen & HOT != 0
    }

    /// Sleeper: no longer wants these bells. Returns those that had not been rung.
    pub fn disarm(self, bells: u32) -> u32 {
        if self.0.load(Relaxed) & bells == 0 {
            return 0;
        }
        self.0.fetch_and(!bells, Relaxed) & bells
    }

    /// Sleeper: promises the barrier from now on. Does nothing while a bell is armed. Looks first: even an
    /// exchange that fails would take the line away from the waker.
    #[inline]
    pub fn heat(self) {
        if self.0.load(Relaxed) == 0 {
            let _ = self.0.compare_exchange(0, HOT, Relaxed, Relaxed);
        }
    }

    /// Sleeper: the value to pass to futex wait; the kernel returns at once if it has changed.
    pub fn futex_value(self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Waker, after publishing: the bells to ring (0 almost always). Clears them, so that each
    /// arming is answered once.
    #[inline]
    pub fn bells(self) -> u32 {
        if self.0.load(Relaxed) & (HOT | BELLS) == HOT {
            return 0;
        }
        fence(SeqCst);
        if self.0.load(Relaxed) & BELLS == 0 {
            return 0;
        }
        self.0.fetch_and(!BELLS, AcqRel) & BELLS
    }

    /// Whether any bell is armed; a hint.
    pub fn is_armed(self) -> bool {
        self.0.load(Relaxed) & BELLS != 0
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;
    use ringway_mem::sync::AtomicU64;

    /// Publish and sleep race in every order: the sleeper never sleeps on a published byte unless a
    /// bell is on its way.
    #[test]
    fn no_wake_up_is_lost() {
        loom::model(|| {
            let shared = Arc::new((AtomicU64::new(0), AtomicU32::new(0)));
            let theirs = shared.clone();
            let waker = thread::spawn(move || {
                theirs.0.store(1, Release);
                SleepWord(&theirs.1).bells()
            });
            SleepWord(&shared.1).arm(BELL_FUTEX);
            let seen = shared.0.load(Acquire);
            let rung = waker.join().unwrap();
            assert!(seen == 1 || rung == BELL_FUTEX, "slept on a published byte");
        });
    }

    /// Two sleepers with different bells: both are rung or have seen the byte.
    #[test]
    fn both_kinds_of_sleepers_are_rung() {
        loom::model(|| {
            let shared = Arc::new((AtomicU64::new(0), AtomicU32::new(0)));
            let (a, b) = (shared.clone(), shared.clone());
            let waker = thread::spawn(move || {
                a.0.store(1, Release);
                SleepWord(&a.1).bells()
            });
            let other = thread::spawn(move || {
                SleepWord(&b.1).arm(BELL_TCP);
                b.0.load(Acquire)
            });
            SleepWord(&shared.1).arm(BELL_FUTEX);
            let seen = shared.0.load(Acquire);
            let seen_other = other.join().unwrap();
            let rung = waker.join().unwrap();
            assert!(seen == 1 || rung & BELL_FUTEX != 0);
            assert!(seen_other == 1 || rung & BELL_TCP != 0);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_arming_is_answered_once() {
        let word = AtomicU32::new(0);
        let w = SleepWord(&word);
        assert_eq!(w.bells(), 0);
        assert!(!w.arm(BELL_TCP));
        w.arm(BELL_FUTEX);
        assert_eq!(w.bells(), BELL_TCP | BELL_FUTEX);
        assert_eq!(w.bells(), 0);
    }

    #[test]
    fn hot_needs_a_barrier_once() {
        let word = AtomicU32::new(0);
        let w = SleepWord(&word);
        w.heat();
        assert_eq!(w.bells(), 0);
        assert!(w.arm(BELL_FUTEX));
        assert!(!w.arm(BELL_FUTEX));
        w.heat();
        assert_eq!(w.bells(), BELL_FUTEX);
    }
}
