//! Who holds which slot, so that the claims of a killed process can be taken back.
//!
//! Each process of the family has an entry with one bit per slot. Whoever finds the slots or the entries used up
//! frees those of processes that are gone. The bound is [`MEMBERS`] processes at a time; others hold slots without
//! saying so, and keep them when they are killed. So does a child that dies before it can enter its number, or that
//! fork could not make.

use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::*};

use super::{Arena, SLOTS, arena_if_any};
use crate::sys;

/// Processes of one family that are told apart.
pub(super) const MEMBERS: usize = 1024;

const WORD_BITS: usize = u64::BITS as usize;

/// Values of [`Member::pid`] that are no process: nobody's; reserved for a child; being given back.
const FREE: i32 = 0;
const RESERVED: i32 = -1;
const LEAVING: i32 = -2;

/// One process. Zeroed memory is a free entry.
#[repr(C)]
pub(super) struct Member {
    pid: AtomicI32,
    /// The PID namespace that the number belongs to; 0 = not known.
    namespace: AtomicU64,
    /// The slots that it holds.
    held: [AtomicU64; SLOTS / WORD_BITS],
}

/// This process's entry plus one; 0 = none yet.
static OWN: AtomicU32 = AtomicU32::new(0);
/// The entry plus one for the child that is about to be forked; 0 = none.
static CHILD: AtomicU32 = AtomicU32::new(0);
/// Of [`OWN`]: all entries are taken.
const NO_ENTRY: u32 = u32::MAX;

/// This process holds the slot. Said after it does, so that nobody drops a claim that was not made.
pub(super) fn note(arena: &Arena, slot: u32) {
    // A child of a fork that nobody saw has its parent's memory, but is another process.
    if let Some(member) = own(arena).filter(|member| member.pid.load(Relaxed) == sys::getpid()) {
        member.note(slot);
    }
}

/// This process is about to let go of the slot.
pub(super) fn forget(arena: &Arena, slot: u32) {
    if let Some(member) = entry(arena, &OWN) {
        member.forget(slot);
    }
}

/// The child that is about to be forked holds the slot as well.
pub(super) fn note_for_child(arena: &Arena, slot: u32) {
    if CHILD.load(Relaxed) == 0 {
        let reserved = reserve(arena).or_else(|| reclaim(arena).then(|| reserve(arena))?);
        CHILD.store(reserved.map_or(NO_ENTRY, |index| index + 1), Relaxed);
    }
    if let Some(member) = entry(arena, &CHILD) {
        member.note(slot);
    }
}

/// The fork is over, for the parent.
pub(crate) fn after_fork_parent() {
    CHILD.store(0, Relaxed);
}

/// In the child: its entry is the one that the parent has reserved.
pub(crate) fn after_fork_child() {
    OWN.store(CHILD.swap(0, Relaxed), Relaxed);
    if let Some(member) = arena_if_any().and_then(|arena| entry(arena, &OWN)) {
        member.enter();
    }
}

/// Takes back what processes hold that are gone. Whether there were any.
pub(super) fn reclaim(arena: &Arena) -> bool {
    let namespace = pid_namespace();
    let mut found = false;
    for member in arena.members.iter() {
        let pid = member.pid.load(Acquire);
        if pid > 0
            && namespace != 0
            && member.namespace.load(Relaxed) == namespace
            && is_gone(pid)
            && member.pid.compare_exchange(pid, LEAVING, AcqRel, Relaxed).is_ok()
        {
            member.drop_all(arena);
            member.pid.store(FREE, Release);
            found = true;
        }
    }
    found
}

/// A number that another process has taken meanwhile counts as alive: its claims wait for that one's end.
fn is_gone(pid: i32) -> bool {
    // SAFETY: signal 0 only asks.
    unsafe { sys::syscall6(libc::SYS_kill, pid as usize, 0, 0, 0, 0, 0) == -(libc::ESRCH as isize) }
}

/// Names this process's PID namespace; 0 where the kernel does not say.
fn pid_namespace() -> u64 {
    const PATH: &CStr = c"/proc/self/ns/pid";
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    let (at, path, to) = (libc::AT_FDCWD as usize, PATH.as_ptr() as usize, status.as_mut_ptr() as usize);
    // SAFETY: a path of ours, and room for the answer; zeroes are one, too.
    unsafe {
        sys::syscall6(libc::SYS_newfstatat, at, path, to, 0, 0, 0);
        status.assume_init().st_ino
    }
}

fn own(arena: &Arena) -> Option<&Member> {
    if OWN.load(Relaxed) == 0 {
        let index = reserve(arena);
        let fresh = index.map_or(NO_ENTRY, |index| index + 1);
        let taken = OWN.compare_exchange(0, fresh, AcqRel, Relaxed);
        if let Some(member) = index.and_then(|index| arena.members.get(index as usize)) {
            match taken {
                Ok(_) => member.enter(),
                // Another thread was quicker.
                Err(_) => member.pid.store(FREE, Release),
            }
        }
    }
    entry(arena, &OWN)
}

fn entry<'a>(arena: &'a Arena, which: &AtomicU32) -> Option<&'a Member> {
    arena.members.get(which.load(Relaxed).checked_sub(1)? as usize)
}

fn reserve(arena: &Arena) -> Option<u32> {
    let free = |member: &Member| {
        member.pid.load(Relaxed) == FREE && member.pid.compare_exchange(FREE, RESERVED, AcqRel, Relaxed).is_ok()
    };
    arena.members.iter().position(free).map(|index| index as u32)
}

impl Member {
    /// The calling process's, from now on.
    fn enter(&self) {
        self.namespace.store(pid_namespace(), Relaxed);
        self.pid.store(sys::getpid(), Release);
    }

    fn word(&self, slot: u32) -> Option<(&AtomicU64, u64)> {
        let word = self.held.get(slot as usize / WORD_BITS)?;
        Some((word, 1 << (slot as usize % WORD_BITS)))
    }

    fn note(&self, slot: u32) {
        if let Some((word, bit)) = self.word(slot) {
            word.fetch_or(bit, AcqRel);
        }
    }

    fn forget(&self, slot: u32) {
        if let Some((word, bit)) = self.word(slot) {
            word.fetch_and(!bit, AcqRel);
        }
    }

    fn drop_all(&self, arena: &Arena) {
        for (word, number) in self.held.iter().zip(0u32..) {
            let mut left = word.swap(0, AcqRel);
            while left != 0 {
                let slot = number * WORD_BITS as u32 + left.trailing_zeros();
                left &= left - 1;
                if let Some(slot) = arena.slots.get(slot as usize) {
                    slot.drop_holder();
                }
            }
        }
    }
}

#[cfg(test)]
pub(super) fn start_anew() {
    OWN.store(0, Relaxed);
    CHILD.store(0, Relaxed);
}
