//! What netmap's kernel keeps for each ring: how far its side has come, and who sleeps for it.
//!
//! ```text
//!              line 0, the ring's own syncs      line 1            line 2            line 3
//!              lock, last head, cur, tail        hwcur             hwtail            waiters
//!  tx ring     the sender's                      taken up to here  free up to here   sender waits for space
//!  rx ring     the receiver's                    released up to    filled up to      receiver waits for slots
//! ```
//! Slots `hwcur..hwtail` (a ring of indices) are the user's, `hwtail..hwcur` the port's, and one slot always stays
//! unused, so equal means empty. The two words have a writer each: on an rx ring `hwtail` belongs to whoever
//! delivers and `hwcur` to the receiver's syncs. Readers bound what they read by the slot count that they know
//! themselves.

use crate::sync::{AtomicU32, AtomicU64, Ordering::*, fence};

/// Lock word; see `lock`.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct LockWord(pub(crate) AtomicU32);

/// What the syncs of a ring's own side keep. Guarded by `lock`.
#[repr(C, align(128))]
pub struct OwnLine {
    /// Held by the thread that syncs the ring.
    pub lock: LockWord,
    /// The head that the last sync accepted.
    pub rhead: AtomicU32,
    /// And its cur.
    pub rcur: AtomicU32,
    /// The tail that the last sync showed.
    pub rtail: AtomicU32,
    /// What a transfer out of this ring is about to do; 0 when none is under way (`pool::transfer`).
    pub journal: AtomicU64,
    _pad: AtomicU64,
    /// Frames that went through, counted by their last fragment.
    pub packets: AtomicU64,
    pub bytes: AtomicU64,
    /// Slots thrown away: no room, impossible buffer or length.
    pub dropped: AtomicU64,
    /// Syncs refused because head or cur were impossible.
    pub reinits: AtomicU64,
    pub syncs: AtomicU64,
    _rest: [AtomicU64; 7],
}

/// One index on a cache line of its own (neighbouring lines are fetched in pairs), with a stamp above it that only
/// [leases](crate::lease) use.
#[repr(C, align(128))]
#[derive(Default)]
pub struct IndexLine(AtomicU64);

/// What an [`IndexLine`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// Not bounded.
    pub index: u32,
    pub stamp: u32,
}

impl Stamped {
    fn word(self) -> u64 {
        u64::from(self.index) | u64::from(self.stamp) << 32
    }
}

impl IndexLine {
    /// The index, with everything that its writer did before; anything that is not below `num_slots` is
    /// taken for 0, which at worst misplaces the liar's own slots.
    #[inline]
    pub fn get(&self, num_slots: u32) -> u32 {
        let index = self.0.load(Acquire) as u32;
        if index < num_slots { index } else { 0 }
    }

    /// Shows the index, and everything done before, to the other side.
    #[inline]
    pub fn set(&self, index: u32) {
        self.0.store(u64::from(index), Release);
    }

    /// Index and stamp, with everything that their writer did before.
    #[inline]
    pub fn stamped(&self) -> Stamped {
        let word = self.0.load(Acquire);
        Stamped { index: word as u32, stamp: (word >> 32) as u32 }
    }

    /// Like [`IndexLine::set`], with a stamp.
    pub fn set_stamped(&self, index: u32, stamp: u32) {
        self.0.store(Stamped { index, stamp }.word(), Release);
    }

    /// Shows another index and stamp if both are still `seen`.
    pub fn exchange(&self, seen: Stamped, index: u32, stamp: u32) -> bool {
        let new = Stamped { index, stamp }.word();
        self.0.compare_exchange(seen.word(), new, AcqRel, Relaxed).is_ok()
    }
}

/// Who sleeps until the ring moves: bits, each a bell that somebody waits to hear.
#[repr(C, align(128))]
#[derive(Default)]
pub struct WaitLine {
    bells: AtomicU32,
    /// Numbers of the sockets that want to hear BELL_SOCKET; 0 is nobody.
    callers: [AtomicU32; CALLERS_MAX],
}

/// The futex on the port's turn word; see `pool::PortRecord`.
pub const BELL_FUTEX: u32 = 1;
/// The sockets of `bell`, for those who wait in poll(2).
pub const BELL_SOCKET: u32 = 2;

/// Threads that can wait in poll(2) for one ring at a time.
pub const CALLERS_MAX: usize = 31;

impl WaitLine {
    /// Sleeper, before its last look at the ring: asks for `bells`.
    pub fn arm(&self, bells: u32) {
        self.bells.fetch_or(bells, SeqCst);
        fence(SeqCst);
    }

    /// Like [`WaitLine::arm`], for a sleeper in poll(2) whose bell has this number. False if [`CALLERS_MAX`] others wait.
    pub fn arm_caller(&self, number: u32) -> bool {
        let place = |caller: &AtomicU32| {
            caller.load(Relaxed) == number || caller.compare_exchange(0, number, AcqRel, Relaxed).is_ok()
        };
        let found = self.callers.iter().any(place);
        if found {
            self.arm(BELL_SOCKET);
        }
        found
    }

    /// The sleeper is awake and wants to hear no more.
    pub fn disarm_caller(&self, number: u32) {
        for caller in &self.callers {
            let _ = caller.compare_exchange(number, 0, Relaxed, Relaxed);
        }
    }

    /// Waker, after moving an index: the bells to ring (0 almost always), each arming answered once.
    #[inline]
    pub fn take(&self) -> u32 {
        fence(SeqCst);
        if self.bells.load(Relaxed) == 0 { 0 } else { self.bells.swap(0, AcqRel) }
    }

    /// Waker that took BELL_SOCKET: the numbers to ring, each once.
    pub fn take_callers(&self) -> impl Iterator<Item = u32> {
        self.callers.iter().map(|caller| caller.swap(0, AcqRel)).filter(|number| *number != 0)
    }
}

/// See the module's drawing.
#[repr(C, align(128))]
pub struct Kring {
    pub own: OwnLine,
    pub hwcur: IndexLine,
    pub hwtail: IndexLine,
    pub waiters: WaitLine,
}

#[cfg(not(loom))]
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<OwnLine>() == 128 && size_of::<IndexLine>() == 128 && size_of::<WaitLine>() == 128);
    assert!(size_of::<Kring>() == KRING_BYTES && align_of::<Kring>() == 128);
    assert!(offset_of!(Kring, hwcur) == 128 && offset_of!(Kring, hwtail) == 256 && offset_of!(Kring, waiters) == 384);
};

/// Bytes of a [`Kring`] in shared memory.
pub const KRING_BYTES: usize = 512;

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use crate::slot::{Slot, SlotCell};
    use loom::sync::Arc;
    use loom::thread;

    #[derive(Default)]
    struct Ring {
        slots: [SlotCell; 2],
        hwtail: IndexLine,
        hwcur: IndexLine,
        waiters: WaitLine,
    }

    /// A slot that the tail shows is there as a whole, and a slot given back is written only afterwards.
    #[test]
    fn slots_are_seen_as_they_were_published() {
        loom::model(|| {
            let ring = Arc::new(Ring::default());
            let theirs = ring.clone();
            let sender = thread::spawn(move || {
                theirs.slots[0].store(Slot { buf_idx: 7, len: 60, flags: 0, ptr: 7 });
                theirs.hwtail.set(1);
                if theirs.hwcur.get(2) == 1 {
                    assert_eq!(theirs.slots[0].load().buf_idx, 9);
                }
            });
            if ring.hwtail.get(2) == 1 {
                assert_eq!(ring.slots[0].load(), Slot { buf_idx: 7, len: 60, flags: 0, ptr: 7 });
                ring.slots[0].store(Slot { buf_idx: 9, ..Slot::default() });
                ring.hwcur.set(1);
            }
            sender.join().unwrap();
        });
    }

    /// Whoever armed before looking either sees the slot or is woken.
    #[test]
    fn no_wake_up_is_lost() {
        loom::model(|| {
            let ring = Arc::new(Ring::default());
            let theirs = ring.clone();
            let waker = thread::spawn(move || {
                theirs.hwtail.set(1);
                theirs.waiters.take()
            });
            ring.waiters.arm(BELL_FUTEX);
            let seen = ring.hwtail.get(2);
            let rung = waker.join().unwrap();
            assert!(seen == 1 || rung == BELL_FUTEX);
        });
    }
}
