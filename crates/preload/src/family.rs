//! What the processes of one fork family know together about a connection that is not upgraded yet.
//!
//! An anonymous shared mapping, made before the first connection is watched and inherited over fork.
//! A slot belongs to one connection in all processes that hold it, so that a child never writes to
//! TCP while its parent, unseen, moves the connection to a ring.
//!
//! The bound is [`SLOTS`] connections per family. Connections beyond it are not watched: plain TCP.
//! A process that is killed keeps its claim on a slot, which can waste slots but never share one.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*, fence};

use crate::sys;

/// Watched connections per fork family.
pub(crate) const SLOTS: usize = 65_536;

/// Not upgraded: bytes go to the kernel.
pub(crate) const WATCHED: u32 = 1;
/// Upgraded by some process of the family: whoever has not attached must do so first.
pub(crate) const UPGRADED: u32 = 2;
/// Will never be upgraded.
pub(crate) const PLAIN: u32 = 3;
/// Came from elsewhere, where it may have been upgraded: whoever uses it must try to attach first.
pub(crate) const UNSURE: u32 = 4;

/// One connection's words.
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// Processes that hold the connection; 0 = free.
    holders: AtomicU32,
    /// [`WATCHED`], [`UPGRADED`], [`PLAIN`] or [`UNSURE`].
    pub(crate) state: AtomicU32,
    /// Threads inside a kernel call that writes to the connection's TCP stream.
    pub(crate) senders: AtomicU32,
    /// Threads inside a kernel call that reads from it.
    pub(crate) receivers: AtomicU32,
}

static ARENA: AtomicPtr<Slot> = AtomicPtr::new(core::ptr::null_mut());
static HINT: AtomicU32 = AtomicU32::new(0);
/// Set at the first fork: other processes may use the same slots and end regions.
static FORKED: AtomicBool = AtomicBool::new(false);

pub(crate) fn has_forked() -> bool {
    FORKED.load(Relaxed)
}

pub(crate) fn note_fork() {
    FORKED.store(true, Relaxed);
}

fn arena() -> Option<*mut Slot> {
    let known = ARENA.load(Acquire);
    if !known.is_null() {
        return Some(known);
    }
    let bytes = SLOTS * size_of::<Slot>();
    let fresh = map_shared(bytes)?;
    match ARENA.compare_exchange(core::ptr::null_mut(), fresh, AcqRel, Acquire) {
        Ok(_) => Some(fresh),
        Err(other) => {
            // SAFETY: made above, seen by nobody.
            unsafe { sys::munmap(fresh.cast(), bytes) };
            Some(other)
        }
    }
}

fn map_shared(bytes: usize) -> Option<*mut Slot> {
    let (prot, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
    let base = unsafe { sys::syscall6(libc::SYS_mmap, 0, bytes, prot as usize, flags as usize, usize::MAX, 0) };
    (base > 0).then_some(base as *mut Slot)
}

/// The slot with this index.
#[inline]
pub(crate) fn slot(index: u32) -> &'static Slot {
    let base = ARENA.load(Relaxed);
    debug_assert!(!base.is_null() && (index as usize) < SLOTS);
    // SAFETY: indices come from `claim`, so the arena exists and the index is below SLOTS; the arena
    // is never unmapped; all fields are atomic.
    unsafe { &*base.add(index as usize % SLOTS) }
}

/// Takes a free slot for a new connection of this process alone.
pub(crate) fn claim() -> Option<u32> {
    arena()?;
    let start = HINT.fetch_add(1, Relaxed);
    for i in 0..SLOTS as u32 {
        let index = start.wrapping_add(i) % SLOTS as u32;
        let s = slot(index);
        if s.holders.load(Relaxed) == 0 && s.holders.compare_exchange(0, 1, AcqRel, Relaxed).is_ok() {
            s.senders.store(0, Relaxed);
            s.receivers.store(0, Relaxed);
            s.state.store(WATCHED, Release);
            HINT.store(index.wrapping_add(1), Relaxed);
            return Some(index);
        }
    }
    None
}

impl Slot {
    /// One more process holds the connection (fork).
    pub(crate) fn add_holder(&self) {
        self.holders.fetch_add(1, AcqRel);
    }

    /// This process has let go of the connection. True if it was the last one known.
    pub(crate) fn drop_holder(&self) -> bool {
        self.holders.fetch_sub(1, AcqRel) == 1
    }

    /// Decides for the family, once: [`UPGRADED`] or [`PLAIN`]. Returns the state before: [`WATCHED`] if the decision
    /// fell now, otherwise the one that stands.
    pub(crate) fn decide(&self, wanted: u32) -> u32 {
        let if_undecided = |state| matches!(state, WATCHED | UNSURE).then_some(wanted);
        match self.state.fetch_update(SeqCst, SeqCst, if_undecided) {
            Ok(_) => WATCHED,
            Err(decided) => decided,
        }
    }

    pub(crate) fn holders(&self) -> u32 {
        self.holders.load(Relaxed)
    }

    /// Registers a thread that is about to call the kernel on the TCP stream in this direction.
    /// False if the direction may have moved on: the caller must look again.
    #[inline]
    pub(crate) fn enter_kernel(&self, calls: &AtomicU32, still_on_tcp: impl FnOnce() -> bool) -> bool {
        calls.fetch_add(1, SeqCst);
        fence(SeqCst);
        if still_on_tcp() {
            return true;
        }
        calls.fetch_sub(1, Release);
        false
    }

    #[inline]
    pub(crate) fn leave_kernel(&self, calls: &AtomicU32) {
        calls.fetch_sub(1, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_decides_once() {
        let s = slot(claim().unwrap());
        assert_eq!(s.decide(PLAIN), WATCHED);
        assert_eq!(s.decide(UPGRADED), PLAIN);
        assert_eq!(s.state.load(Relaxed), PLAIN);
        assert!(s.drop_holder());
    }

    #[test]
    fn slots_are_claimed_once_and_reused() {
        let a = claim().unwrap();
        let b = claim().unwrap();
        assert_ne!(a, b);
        slot(a).add_holder();
        assert!(!slot(a).drop_holder());
        assert!(slot(a).drop_holder());
        assert!(slot(b).drop_holder());
    }
}
