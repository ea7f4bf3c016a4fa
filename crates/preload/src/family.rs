//! What the processes of one fork family know together about a connection that is not upgraded yet.
//!
//! An anonymous shared mapping, made before the first connection is watched and inherited over fork.
//! A slot belongs to one connection in all processes that hold it, so that a child never writes to
//! TCP while its parent, unseen, moves the connection to a ring.
//!
//! The bound is [`SLOTS`] connections per family. Connections beyond it are not watched: plain TCP.
//! What a killed process held is taken back when slots run short ([`members`]).

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*, fence};

use crate::sys;

mod members;

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

/// The words of one connection, or of one epoll set, of which only the holders are counted.
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

/// The common memory.
#[repr(C)]
struct Arena {
    slots: [Slot; SLOTS],
    members: [members::Member; members::MEMBERS],
}

static ARENA: AtomicPtr<Arena> = AtomicPtr::new(core::ptr::null_mut());
static HINT: AtomicU32 = AtomicU32::new(0);
/// Set at the first fork: other processes may use the same slots and end regions.
static FORKED: AtomicBool = AtomicBool::new(false);

pub(crate) fn has_forked() -> bool {
    FORKED.load(Relaxed)
}

pub(crate) fn note_fork() {
    FORKED.store(true, Relaxed);
}

fn arena_if_any() -> Option<&'static Arena> {
    // SAFETY: null or mapped by `arena`: zeroed at first, which is valid, never unmapped; all fields are atomic.
    unsafe { ARENA.load(Acquire).as_ref() }
}

fn arena() -> Option<&'static Arena> {
    if let Some(known) = arena_if_any() {
        return Some(known);
    }
    let bytes = size_of::<Arena>();
    let fresh = map_shared(bytes)?;
    if ARENA.compare_exchange(core::ptr::null_mut(), fresh.cast(), AcqRel, Acquire).is_err() {
        // SAFETY: made above, seen by nobody.
        unsafe { sys::munmap(fresh, bytes) };
    }
    arena_if_any()
}

fn map_shared(bytes: usize) -> Option<*mut u8> {
    let (prot, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
    let base = unsafe { sys::syscall6(libc::SYS_mmap, 0, bytes, prot as usize, flags as usize, usize::MAX, 0) };
    (base > 0).then_some(base as *mut u8)
}

/// The slot with this index.
#[inline]
pub(crate) fn slot(index: u32) -> &'static Slot {
    let base = ARENA.load(Relaxed);
    debug_assert!(!base.is_null() && (index as usize) < SLOTS);
    // SAFETY: indices come from `claim`, so the arena exists and the index is below SLOTS; the slots are the arena's
    // first field, and it is never unmapped; all fields are atomic.
    unsafe { &*base.cast::<Slot>().add(index as usize % SLOTS) }
}

/// Takes a free slot for a new connection of this process alone.
pub(crate) fn claim() -> Option<u32> {
    let arena = arena()?;
    let index = take_free(arena).or_else(|| members::reclaim(arena).then(|| take_free(arena))?)?;
    members::note(arena, index);
    Some(index)
}

fn take_free(arena: &Arena) -> Option<u32> {
    let start = HINT.fetch_add(1, Relaxed);
    for i in 0..SLOTS as u32 {
        let index = start.wrapping_add(i) % SLOTS as u32;
        let s = arena.slots.get(index as usize)?;
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

/// This process holds the slot again.
pub(crate) fn rejoin(index: u32) {
    slot(index).add_holder();
    if let Some(arena) = arena_if_any() {
        members::note(arena, index);
    }
}

/// This process has let go of the connection. True if it was the last one known.
pub(crate) fn leave(index: u32) -> bool {
    if let Some(arena) = arena_if_any() {
        members::forget(arena, index);
    }
    slot(index).drop_holder()
}

/// The child that fork is about to make will hold the slot, too.
pub(crate) fn add_child(index: u32) {
    slot(index).add_holder();
    if let Some(arena) = arena_if_any() {
        members::note_for_child(arena, index);
    }
}

pub(crate) use members::{after_fork_child, after_fork_parent};

/// Takes back what members held that have been killed.
pub(crate) fn forget_the_dead() {
    if let Some(arena) = arena_if_any() {
        members::reclaim(arena);
    }
}

impl Slot {
    fn add_holder(&self) {
        self.holders.fetch_add(1, AcqRel);
    }

    /// True if it was the last one.
    fn drop_holder(&self) -> bool {
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
    use crate::testing::in_child;

    #[test]
    fn a_family_decides_once() {
        let index = claim().unwrap();
        let s = slot(index);
        assert_eq!(s.decide(PLAIN), WATCHED);
        assert_eq!(s.decide(UPGRADED), PLAIN);
        assert_eq!(s.state.load(Relaxed), PLAIN);
        assert!(leave(index));
    }

    #[test]
    fn slots_are_claimed_once_and_reused() {
        let a = claim().unwrap();
        let b = claim().unwrap();
        assert_ne!(a, b);
        slot(a).add_holder();
        assert!(!leave(a));
        assert!(leave(a));
        assert!(leave(b));
    }

    /// A family of this process's own.
    fn start_anew() {
        ARENA.store(core::ptr::null_mut(), Relaxed);
        members::start_anew();
    }

    /// Forks as `process` does; the child ends by SIGKILL when `body` is over.
    fn fork_and_kill(held: &[u32], body: impl FnOnce()) {
        held.iter().for_each(|&index| add_child(index));
        // SAFETY: the child runs `body` and dies.
        unsafe {
            let pid = libc::fork();
            assert!(pid >= 0);
            if pid == 0 {
                after_fork_child();
                body();
                libc::kill(libc::getpid(), libc::SIGKILL);
            }
            after_fork_parent();
            assert_eq!(libc::waitpid(pid, core::ptr::null_mut(), 0), pid);
        }
    }

    #[test]
    fn slots_of_killed_members_come_back() {
        in_child(|| {
            start_anew();
            let kept = claim().unwrap();
            // Each round wastes 60,000: 15,000 of the parent's, and 45,000 of the child's own.
            for _ in 0..5 {
                let held: Vec<u32> = (0..15_000).map(|_| claim().unwrap()).collect();
                fork_and_kill(&held, || assert!((0..45_000).all(|_| claim().is_some())));
                assert!(held.iter().all(|&index| !leave(index)));
                assert_eq!(slot(kept).holders(), 1);
            }
            // A living member's are left alone, and so are this process's.
            let all: Vec<u32> = core::iter::from_fn(claim).collect();
            assert_eq!(all.len(), SLOTS - 1);
            assert!(all.iter().all(|&index| index != kept && slot(index).holders() == 1));
        });
    }

    #[test]
    fn more_members_than_entries_come_and_go() {
        in_child(|| {
            start_anew();
            let held = [claim().unwrap()];
            (0..members::MEMBERS + 10).for_each(|_| fork_and_kill(&held, || {}));
            assert!(slot(held[0]).holders() < 20, "entries of killed members come back as well");
        });
    }
}
