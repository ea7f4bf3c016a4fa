//! The trampoline: what the kernel calls instead of the program's handlers.

use core::arch::global_asm;
use core::mem::{MaybeUninit, transmute};
use core::sync::atomic::Ordering;

use libc::{c_int, siginfo_t, ucontext_t};

use super::{DEFERRABLE, SYNCHRONOUS, bit, is_fault, is_handler, table, take_one_shot};
use crate::copy;
use crate::sys::{self, KernelSigaction};
use crate::thread::{self, ThreadSlot};

pub(super) const SA_SIGINFO: u64 = libc::SA_SIGINFO as u64;
pub(super) const SA_ONSTACK: u64 = libc::SA_ONSTACK as u64;
pub(super) const SA_RESTART: u64 = libc::SA_RESTART as u64;
pub(super) const SA_RESTORER: u64 = 0x0400_0000;
pub(super) const SA_RESETHAND: u64 = 0x8000_0000;
const SA_NODEFER: u64 = libc::SA_NODEFER as u64;
const SA_EXPOSE_TAGBITS: u64 = 0x800;

/// Flags that the kernel keeps; it drops all others.
pub(super) const KNOWN_FLAGS: u64 = SA_SIGINFO
    | SA_ONSTACK
    | SA_RESTART
    | SA_RESTORER
    | SA_RESETHAND
    | SA_NODEFER
    | SA_EXPOSE_TAGBITS
    | (libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT) as u64;

/// Memory error found in the background: not tied to the instruction that it interrupts.
const BUS_MCEERR_AO: c_int = 5;

type Handler = unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut ucontext_t);

unsafe extern "C" {
    fn ringway_restorer();
}

// Unwinders and debuggers know a signal frame by exactly these bytes, if no unwind entry covers them
// or the byte before.
global_asm!(
    ".pushsection .text.ringway_restorer,\"ax\",@progbits",
    "nop",
    ".p2align 4",
    "nop",
    ".globl ringway_restorer",
    ".hidden ringway_restorer",
    ".type ringway_restorer, @function",
    "ringway_restorer:",
    ".byte 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00", // mov rax, SYS_rt_sigreturn
    "syscall",
    ".size ringway_restorer, . - ringway_restorer",
    ".popsection"
);

/// Kept in one place, because the compiler may give a function several addresses.
static TRAMPOLINE: Handler = trampoline;

pub(super) fn trampoline_address() -> usize {
    TRAMPOLINE as usize
}

/// How handlers without a restorer of their own return to the kernel.
pub(crate) fn restorer_address() -> usize {
    ringway_restorer as *const () as usize
}

/// Runs on whatever stack and with whatever mask the program chose for its handler. Handlers may leave it
/// by siglongjmp, cancellation or an exception, so it has nothing to clean up when it calls one.
unsafe extern "C-unwind" fn trampoline(signal: c_int, info: *mut siginfo_t, context: *mut ucontext_t) {
    // SAFETY: the kernel passes valid pointers; both are on this thread's signal frame.
    let (code, machine) = unsafe { ((*info).si_code, &mut (*context).uc_mcontext) };
    let synchronous = bit(signal) & SYNCHRONOUS != 0 && code > 0;
    if synchronous && is_fault(signal) {
        let [.., rip] = &mut machine.gregs[..=libc::REG_RIP as usize] else { return };
        if let Some(resume) = copy::resume_address(*rip as usize) {
            *rip = resume as i64;
            return;
        }
    }
    if !synchronous && let Some(slot) = thread::critical_slot() {
        // SAFETY: the pointers as above; the slot is this thread's.
        return unsafe { defer(slot, signal, info, context) };
    }
    // SAFETY: as above.
    unsafe { deliver(signal, synchronous, info, context) }
}

/// Does what the program wants done about `signal`.
unsafe fn deliver(signal: c_int, synchronous: bool, info: *mut siginfo_t, context: *mut ucontext_t) {
    let mut action = table::read(signal);
    while is_handler(action.handler) && action.flags & SA_RESETHAND != 0 {
        if take_one_shot(signal, &action).is_some() {
            break;
        }
        action = table::read(signal);
    }
    if !is_handler(action.handler) {
        // SAFETY: the kernel's siginfo.
        return unsafe { settle(signal, synchronous, &action, info) };
    }
    thread::count_handler(action.flags & SA_RESTART != 0);
    // SAFETY: the program registered this function for this purpose; the last two arguments are ignored by one-argument
    // handlers, as they are when the kernel calls them.
    unsafe { transmute::<usize, Handler>(action.handler)(signal, info, context) }
}

/// The program has no handler: a fault that is not ours, or the handler went away just now.
unsafe fn settle(signal: c_int, synchronous: bool, action: &KernelSigaction, info: *mut siginfo_t) {
    if action.handler == libc::SIG_IGN && !synchronous {
        return;
    }
    if is_fault(signal) {
        // SAFETY: the default action; the process is about to end.
        let _ = unsafe { sys::rt_sigaction(signal, Some(&KernelSigaction::default())) };
        // SAFETY: the kernel's siginfo.
        if synchronous && unsafe { (*info).si_code } != BUS_MCEERR_AO {
            // The instruction faults again, and the kernel ends and reports it as if we were not there.
            return;
        }
    }
    // SAFETY: as above. The signal is taken again, by the kernel's action, when this handler returns.
    unsafe { queue(signal, info) };
}

/// Sends `info` to the calling thread.
unsafe fn queue(signal: c_int, info: *const siginfo_t) -> bool {
    // SAFETY: the caller's promise that `info` is readable.
    unsafe { sys::rt_tgsigqueueinfo(sys::getpid(), sys::gettid(), signal, info) == 0 }
}

/// Keeps the signal for the end of the critical section; until then all that can be blocked are.
///
/// A second signal may have been delivered on top of this one before anything was blocked. Whoever finds the place taken
/// leaves its signal pending in the kernel; the outermost runs last and records the mask that was in force.
unsafe fn defer(slot: &ThreadSlot, signal: c_int, info: *mut siginfo_t, context: *mut ucontext_t) {
    if slot.deferred_signal.compare_exchange(0, signal as u32, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        // SAFETY: the slot is this thread's and the place was free: nobody reads or writes it now.
        unsafe { (*slot.deferred_info.get()).write(*info) };
    } else {
        // SAFETY: the kernel's siginfo.
        unsafe { queue(signal, info) };
    }
    // SAFETY: the kernel's frame holds a mask of 64 bits, of which libc's larger type is a superset.
    let mask = unsafe { &mut *(&raw mut (*context).uc_sigmask).cast::<u64>() };
    slot.deferred_mask.store(*mask, Ordering::Relaxed);
    *mask |= DEFERRABLE;
}

/// In place of a signal number: nothing to deliver, only a mask to restore.
const NO_SIGNAL: u32 = u32::MAX;

/// In a child of `fork`: a signal that its parent put off is the parent's.
pub(crate) fn disown_deferred(slot: &ThreadSlot) {
    if slot.deferred_signal.load(Ordering::Relaxed) != 0 {
        slot.deferred_signal.store(NO_SIGNAL, Ordering::Relaxed);
    }
}

/// Lets the kernel deliver the signal that came during the critical section which just ended.
///
/// The handler runs inside this call and may not return.
#[cold]
pub(crate) fn redeliver(slot: &ThreadSlot) {
    let deferred = slot.deferred_signal.load(Ordering::Relaxed);
    let (signal, mask) = (deferred as c_int, slot.deferred_mask.load(Ordering::Relaxed));
    if deferred == NO_SIGNAL {
        slot.deferred_signal.store(0, Ordering::Relaxed);
        let _ = sys::change_mask(libc::SIG_SETMASK, Some(mask));
        return;
    }
    // SAFETY: written by `defer`, on this thread; all that could defer is blocked until the mask is restored.
    let mut info = unsafe { (*slot.deferred_info.get()).assume_init_read() };
    slot.deferred_signal.store(0, Ordering::Relaxed);
    // SAFETY: `info` is on this frame.
    if unsafe { queue(signal, &info) } {
        let _ = sys::change_mask(libc::SIG_SETMASK, Some(mask));
        return;
    }
    // The kernel's queue is full or a sandbox forbids the call: run the handler from here.
    let action = table::read(signal);
    let own = if action.flags & SA_NODEFER != 0 { 0 } else { bit(signal) };
    let _ = sys::change_mask(libc::SIG_SETMASK, Some(mask | action.mask | own));
    let mut context = MaybeUninit::<ucontext_t>::zeroed();
    // SAFETY: getcontext fills what handlers look at; zero is valid for the rest.
    unsafe {
        libc::getcontext(context.as_mut_ptr());
        deliver(signal, false, &mut info, context.as_mut_ptr());
    }
    let _ = sys::change_mask(libc::SIG_SETMASK, Some(mask));
}
