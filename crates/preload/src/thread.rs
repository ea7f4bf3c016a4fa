//! What the library keeps per thread, and the critical sections built on it.
//!
//! A thread's [`ThreadSlot`] is found through one initial-exec TLS pointer: a single load, no call of
//! `__tls_get_addr`, no allocation, usable in signal handlers. Slots live in a registry of mapped chunks
//! that only grows, to at most [`MAX_THREADS`]; threads beyond that do without, slower (`overflow`).
//!
//! Inside a [`Critical`] section
//! * signals with handlers are put off until it ends (`signals`), so locks may be held;
//! * memory that was reachable when it began stays mapped: who unlinks memory takes a [`Stamp`]
//!   afterwards and unmaps when the stamp has [passed](Stamp::passed).
//!
//! Entering costs a few plain stores. The memory barrier that this needs is on the side of [`retire`]
//! (`membarrier`); where the kernel has none, entering pays for a fence.

use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::{registry, signals, sys};

mod critical;
mod grace;

pub(crate) use critical::{Critical, enter, hold, let_go};
#[cfg(test)]
use grace::retire;
pub(crate) use grace::{fence_on_entering, synchronize};

/// Most threads of a process that can have a slot at the same time.
pub(crate) const MAX_THREADS: usize = 65_536;

/// The head of a thread's robust futex list, in the kernel's layout.
#[repr(C)]
pub(crate) struct RobustHead {
    next: AtomicPtr<RobustHead>,
    pub(crate) futex_offset: isize,
    /// The lock being taken or given up: the kernel releases it if the thread dies.
    pub(crate) pending: AtomicPtr<c_void>,
}

/// One thread's state. Written by its thread only, except where noted.
#[repr(C, align(128))]
pub(crate) struct ThreadSlot {
    /// Epoch in which the thread entered its outermost critical section; 0 outside. Others read it.
    section: AtomicU64,
    /// How many critical sections are open.
    depth: AtomicU32,
    /// What to do on entering the next one (`critical`). Others set bits, the thread clears them.
    chores: AtomicU32,
    /// Thread that owns the slot; 0 is free. Reclaimed by others when that thread is dead.
    pub(crate) tid: AtomicI32,
    /// Signal that waits for the end of the critical section; 0 for none.
    pub(crate) deferred_signal: AtomicU32,
    /// Handlers run so far whose action lacks SA_RESTART. Wraps.
    pub(crate) interrupted: AtomicU32,
    /// All handlers run so far. Wraps.
    handlers: AtomicU32,
    robust: AtomicPtr<RobustHead>,
    /// Index + 1 of the next free slot while this one is free.
    pub(crate) next_free: AtomicU32,
    /// SIGSEGV and SIGBUS if the program believes that it has blocked them.
    pub(crate) hidden_mask: AtomicU64,
    /// The mask to restore with the deferred signal.
    pub(crate) deferred_mask: AtomicU64,
    pub(crate) deferred_info: UnsafeCell<MaybeUninit<libc::siginfo_t>>,
    /// For threads that libc gave no robust list.
    own_robust: RobustHead,
}

// SAFETY: every shared field is atomic; `deferred_info` is touched by the owning thread only.
unsafe impl Sync for ThreadSlot {}

const _: () = assert!(size_of::<ThreadSlot>() == 256);

/// What every thread reads on entering; changed rarely.
#[repr(align(128))]
struct Shared {
    epoch: AtomicU64,
    /// What new threads must do on entering (`critical`). Fencing, until `membarrier` is registered.
    chores: AtomicU32,
    process: AtomicI32,
}

static SHARED: Shared =
    Shared { epoch: AtomicU64::new(1), chores: AtomicU32::new(critical::FENCE), process: AtomicI32::new(0) };

/// Stands in for the slots of threads that have none.
struct Overflow {
    /// Critical sections open.
    sections: AtomicU32,
    interrupted: AtomicU32,
    handlers: AtomicU32,
}

static OVERFLOW: Overflow =
    Overflow { sections: AtomicU32::new(0), interrupted: AtomicU32::new(0), handlers: AtomicU32::new(0) };

// Initial-exec TLS needs no call, but stable Rust cannot ask for it.
global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".balign 8",
    ".globl ringway_thread_slot",
    ".hidden ringway_thread_slot",
    ".type ringway_thread_slot, @object",
    ".size ringway_thread_slot, 8",
    "ringway_thread_slot: .zero 8",
    ".popsection"
);

#[inline(always)]
fn tls_load() -> *const ThreadSlot {
    let slot: *const ThreadSlot;
    // SAFETY: reads the thread's own TLS word.
    unsafe {
        asm!(
            "mov {slot}, qword ptr [rip + ringway_thread_slot@GOTTPOFF]",
            "mov {slot}, qword ptr fs:[{slot}]",
            slot = out(reg) slot, options(readonly, nostack, preserves_flags)
        );
    }
    slot
}

/// Replaces `old` by `new` in one instruction, so that a signal handler comes before or after, never
/// in between. Returns what was there.
fn tls_exchange(old: *const ThreadSlot, new: *const ThreadSlot) -> *const ThreadSlot {
    let found: *const ThreadSlot;
    // SAFETY: changes the thread's own TLS word only.
    unsafe {
        asm!(
            "mov {offset}, qword ptr [rip + ringway_thread_slot@GOTTPOFF]",
            "cmpxchg qword ptr fs:[{offset}], {new}",
            offset = out(reg) _, new = in(reg) new, inlateout("rax") old => found, options(nostack)
        );
    }
    found
}

/// Called once from the constructor, while the process is (nearly always) single threaded.
pub(crate) fn init() {
    SHARED.process.store(sys::getpid(), Ordering::Relaxed);
    registry::init();
    // Registering waits for a grace period of the kernel in a process that has threads, but not here.
    if sys::membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 {
        SHARED.chores.store(0, Ordering::Relaxed);
    }
}

/// Sets a chore for all threads.
fn set_chore(chore: u32) {
    SHARED.chores.fetch_or(chore, Ordering::SeqCst);
    registry::all_slots(|slot| {
        slot.chores.fetch_or(chore, Ordering::SeqCst);
        true
    });
}

/// From now on faults must reach the process, in every thread: signals are armed.
pub(crate) fn admit_faults() {
    set_chore(critical::ADMIT_FAULTS);
}

/// The calling thread's slot, claimed on first use. None beyond [`MAX_THREADS`] threads or when
/// memory is short.
#[inline(always)]
pub(crate) fn current() -> Option<&'static ThreadSlot> {
    // SAFETY: the word is null or a registry slot; those are never unmapped.
    match unsafe { tls_load().as_ref() } {
        Some(slot) => Some(slot),
        None => adopt(),
    }
}

#[cold]
fn adopt() -> Option<&'static ThreadSlot> {
    let slot = registry::claim(sys::gettid())?;
    let found = tls_exchange(ptr::null(), slot);
    // SAFETY: as in `current`.
    if let Some(earlier) = unsafe { found.as_ref() } {
        // A signal handler on this thread was faster.
        registry::release(slot);
        return Some(earlier);
    }
    slot.find_robust_list();
    // Again, now that the slot is visible: whoever sets a chore for all finds it, or has said so before.
    slot.chores.fetch_or(SHARED.chores.load(Ordering::SeqCst), Ordering::SeqCst);
    registry::release_at_thread_exit(slot);
    Some(slot)
}

/// Gives the calling thread's slot back; runs while the thread exits.
pub(crate) fn leave_process(slot: &'static ThreadSlot) {
    tls_exchange(slot, ptr::null());
    registry::release(slot);
}

/// In the child, right after `fork`: this thread is the only one and has a new id.
pub(crate) fn after_fork_child() {
    SHARED.process.store(sys::getpid(), Ordering::Relaxed);
    let own = tls_load();
    registry::keep_only(own);
    OVERFLOW.sections.store(0, Ordering::Relaxed);
    signals::after_fork_child();
    // SAFETY: as in `current`.
    if let Some(slot) = unsafe { own.as_ref() } {
        slot.tid.store(sys::gettid(), Ordering::Relaxed);
        slot.find_robust_list();
        signals::disown_deferred(slot);
    }
}

/// The id of the process that owns this library's state. Differs from `getpid` in a child of `vfork` or
/// `clone(CLONE_VM)`, which borrows the parent's memory and must not edit what it finds there.
pub(crate) fn process_id() -> i32 {
    SHARED.process.load(Ordering::Relaxed)
}

/// Whether the caller is such a borrower. One system call: not for the data path.
pub(crate) fn is_borrower() -> bool {
    process_id() != sys::getpid()
}

/// Whether the process has never had a second thread, as far as libc knows.
pub(crate) fn is_single_threaded() -> bool {
    registry::is_single_threaded()
}

/// The calling thread's slot if it is inside a critical section (asked by its signal handlers).
pub(crate) fn critical_slot() -> Option<&'static ThreadSlot> {
    // SAFETY: as in `current`.
    let slot = unsafe { tls_load().as_ref() }?;
    (slot.depth.load(Ordering::Relaxed) != 0).then_some(slot)
}

/// Handlers that ran so far on the calling thread and whose action lacks SA_RESTART. Wraps.
#[inline(always)]
pub(crate) fn interrupted_count() -> u32 {
    current().map_or(&OVERFLOW.interrupted, |slot| &slot.interrupted).load(Ordering::Relaxed)
}

/// Handlers that ran so far on the calling thread, whatever their action. Wraps.
#[inline(always)]
pub(crate) fn handlers_run() -> u32 {
    current().map_or(&OVERFLOW.handlers, |slot| &slot.handlers).load(Ordering::Relaxed)
}

/// Counts a handler that is about to run (called by the signal trampoline).
pub(crate) fn count_handler(restarts: bool) {
    let slot = current();
    slot.map_or(&OVERFLOW.handlers, |slot| &slot.handlers).fetch_add(1, Ordering::Relaxed);
    if !restarts {
        slot.map_or(&OVERFLOW.interrupted, |slot| &slot.interrupted).fetch_add(1, Ordering::Relaxed);
    }
}

impl ThreadSlot {
    /// Asks the kernel for the thread's robust list; registers one of ours if libc did not.
    fn find_robust_list(&self) {
        let mut head: *mut c_void = ptr::null_mut();
        let mut bytes = 0usize;
        // SAFETY: both are on this frame.
        unsafe { sys::get_robust_list(&raw mut head, &raw mut bytes) };
        if head.is_null() {
            let own = (&raw const self.own_robust).cast_mut();
            self.own_robust.next.store(own, Ordering::Relaxed);
            // SAFETY: slots are never unmapped; the list is empty: it points to itself.
            if unsafe { sys::set_robust_list(own.cast(), size_of::<RobustHead>()) } == 0 {
                head = own.cast();
            }
        }
        self.robust.store(head.cast(), Ordering::Relaxed);
    }

    /// As good as new, for `tid` (0: free).
    pub(crate) fn reset(&self, tid: i32) {
        self.section.store(0, Ordering::Release);
        self.depth.store(0, Ordering::Relaxed);
        self.deferred_signal.store(0, Ordering::Relaxed);
        self.hidden_mask.store(0, Ordering::Relaxed);
        self.chores.store(SHARED.chores.load(Ordering::SeqCst), Ordering::SeqCst);
        self.robust.store(ptr::null_mut(), Ordering::Relaxed);
        self.tid.store(tid, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
