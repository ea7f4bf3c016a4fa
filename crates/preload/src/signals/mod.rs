//! Signals: deferral inside critical sections, what waits need to know about handlers, faults in copies.
//!
//! Until [`arm`] (the process's first upgrade) nothing changes. From then on the kernel knows one handler,
//! the trampoline (`deliver`), for every signal that the program handles, and the program's own action is in a
//! table that the `sigaction` family of hooks reads and writes: the program sees its own values only.
//! SIGSEGV and SIGBUS always go to the trampoline, which mends faults of `copy`.
//!
//! Left alone: SIGKILL and SIGSTOP, and glibc's two internal signals (32 and 33).

mod deliver;
mod table;

use core::sync::atomic::{AtomicU32, Ordering};

use libc::c_int;

use crate::sys::{self, KernelSigaction};
use crate::{copy, thread};

pub(crate) use deliver::{disown_deferred, redeliver, restorer_address};

/// Highest signal number.
const LAST: c_int = 64;

/// Raised by the thread's own instructions; deferring or blocking them would kill the process.
const SYNCHRONOUS: u64 = bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGSEGV)
    | bit(libc::SIGSYS);

/// What a bad buffer raises. Blocked, it would kill the process, so that from arming on no thread
/// really blocks them; the program is told that it does (`hooks::signal`).
pub(crate) const FAULTS: u64 = bit(libc::SIGSEGV) | bit(libc::SIGBUS);

/// glibc's internal signals: cancellation (32) and set*id in all threads (33).
pub(crate) const INTERNAL: u64 = bit(32) | bit(33);

/// Signals that a thread does without while they must not interrupt it. Cancellation waits too.
pub(crate) const DEFERRABLE: u64 = !SYNCHRONOUS & !bit(33);

const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Whether the trampoline takes part in `signal` at all.
fn is_managed(signal: c_int) -> bool {
    (1..=LAST).contains(&signal) && bit(signal) & (INTERNAL | bit(libc::SIGKILL) | bit(libc::SIGSTOP)) == 0
}

fn managed() -> impl Iterator<Item = c_int> {
    (1..=LAST).filter(|&signal| is_managed(signal))
}

/// Whether the kernel must always come to us.
fn is_fault(signal: c_int) -> bool {
    bit(signal) & FAULTS != 0
}

/// Whether the program's actions and masks are ours to translate.
pub(crate) fn is_armed() -> bool {
    STATE.load(Ordering::SeqCst) != UNARMED
}

fn is_handler(handler: usize) -> bool {
    handler != libc::SIG_DFL && handler != libc::SIG_IGN
}

const UNARMED: u32 = 0;
/// Hooks use the table, but must wait for the lock, which arming holds.
const ARMING: u32 = 1;
const ARMED: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(UNARMED);

/// Held, with all signals blocked, by whoever changes the table.
static LOCK: AtomicU32 = AtomicU32::new(0);

struct Guard {
    mask: u64,
}

fn lock() -> Guard {
    let mask = sys::rt_sigprocmask(libc::SIG_BLOCK, DEFERRABLE);
    while LOCK.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        sys::sched_yield();
    }
    Guard { mask }
}

impl Drop for Guard {
    fn drop(&mut self) {
        LOCK.store(0, Ordering::Release);
        sys::rt_sigprocmask(libc::SIG_SETMASK, self.mask);
    }
}

/// Puts the trampoline in front of all handlers, and in front of faults. Call before the first ring is
/// used; cheap when repeated.
pub(crate) fn arm() {
    if STATE.load(Ordering::Acquire) == ARMED {
        return;
    }
    let _guard = lock();
    if STATE.load(Ordering::Relaxed) == UNARMED {
        // Only now, with the lock held: hooks that see it must find a complete table.
        STATE.store(ARMING, Ordering::SeqCst);
        take_over();
    }
}

/// Fills the table and installs the trampoline. May be done again after it was left half-way.
fn take_over() {
    copy::init();
    for signal in managed() {
        // SAFETY: only reads.
        match unsafe { sys::rt_sigaction(signal, None) } {
            Ok(action) if action.handler != deliver::trampoline_address() => {
                table::write(signal, &action);
                install(signal, &action);
            }
            _ => {}
        }
    }
    STATE.store(ARMED, Ordering::Release);
    thread::admit_faults();
}

/// In a child of `fork`: what another thread was changing will never be finished by it.
pub(crate) fn after_fork_child() {
    if LOCK.swap(0, Ordering::Relaxed) == 0 {
        return;
    }
    match STATE.load(Ordering::Relaxed) {
        ARMING => take_over(),
        ARMED => managed().for_each(|signal| install(signal, &table::read(signal))),
        _ => {}
    }
}

/// Gives the kernel what stands for the program's `action`.
fn install(signal: c_int, action: &KernelSigaction) {
    let mut stand_in = *action;
    if is_handler(action.handler) {
        stand_in.handler = deliver::trampoline_address();
        // The kernel must not forget the trampoline; `deliver` resets the program's action itself.
        stand_in.flags = (action.flags & !deliver::SA_RESETHAND) | deliver::SA_SIGINFO;
        stand_in.mask &= !FAULTS;
    } else if is_fault(signal) {
        let flags = deliver::SA_SIGINFO | deliver::SA_ONSTACK | deliver::SA_RESTART | deliver::SA_RESTORER;
        let (handler, restorer) = (deliver::trampoline_address(), deliver::restorer_address());
        stand_in = KernelSigaction { handler, flags, restorer, mask: 0 };
    }
    // SAFETY: the trampoline may run at any point; everything else is the program's own wish.
    let _ = unsafe { sys::rt_sigaction(signal, Some(&stand_in)) };
}

/// What `rt_sigaction` answers to the program: its own old action; sets `new` if given.
///
/// # Safety
/// A handler in `new` is the program's responsibility, as with the system call.
pub(crate) unsafe fn exchange(signal: c_int, new: Option<&KernelSigaction>) -> Result<KernelSigaction, c_int> {
    if !is_armed() || !is_managed(signal) || thread::is_borrower() {
        // SAFETY: the caller's promise.
        let old = unsafe { sys::rt_sigaction(signal, new) }?;
        if !is_armed() || !is_managed(signal) {
            return Ok(old);
        }
        let old = if old.handler == deliver::trampoline_address() { table::read(signal) } else { old };
        if thread::is_borrower() {
            // A child of vfork has signal actions of its own, but shares the table with its parent.
            return Ok(old);
        }
        // Arming began in between and may have replaced what was just set: set it again.
        if let Some(new) = new {
            replace(signal, new);
        }
        return Ok(old);
    }
    match new {
        Some(new) => Ok(replace(signal, new)),
        None if STATE.load(Ordering::Acquire) == ARMED => Ok(table::read(signal)),
        None => {
            let _complete = lock();
            Ok(table::read(signal))
        }
    }
}

/// Sets the program's action, in the table and in the kernel; returns the one before.
fn replace(signal: c_int, new: &KernelSigaction) -> KernelSigaction {
    let _guard = lock();
    let old = table::read(signal);
    let mut new = *new;
    // As the kernel does.
    new.mask &= !(bit(libc::SIGKILL) | bit(libc::SIGSTOP));
    new.flags &= deliver::KNOWN_FLAGS;
    // The trampoline must never come before the handler that it should call.
    if is_handler(new.handler) {
        table::write(signal, &new);
        install(signal, &new);
    } else {
        install(signal, &new);
        table::write(signal, &new);
    }
    old
}

/// Takes a one-shot action for a delivery: the program's action becomes the default one. None if another
/// thread was faster or the program has changed it.
fn take_one_shot(signal: c_int, seen: &KernelSigaction) -> Option<()> {
    let _guard = lock();
    if table::read(signal) != *seen {
        return None;
    }
    let spent = KernelSigaction { handler: libc::SIG_DFL, ..*seen };
    install(signal, &spent);
    table::write(signal, &spent);
    Some(())
}

/// `syscall(SYS_rt_sigaction, ...)` by the program; answers as the kernel does.
///
/// # Safety
/// As for [`exchange`]; bad addresses are answered with -EFAULT once armed.
#[allow(dead_code)]
pub(crate) unsafe fn raw_sigaction(
    signal: c_int,
    new: *const KernelSigaction,
    old: *mut KernelSigaction,
    sigset_bytes: usize,
) -> isize {
    if sigset_bytes != sys::SIGSET_BYTES {
        return -(libc::EINVAL as isize);
    }
    // SAFETY: plain integers; the copy tolerates bad addresses.
    let wanted = if new.is_null() { None } else { Some(unsafe { copy::read(new) }) };
    if let Some(None) = wanted {
        return -(libc::EFAULT as isize);
    }
    // SAFETY: the caller's promise.
    match unsafe { exchange(signal, wanted.flatten().as_ref()) } {
        Err(error) => -(error as isize),
        // SAFETY: as above.
        Ok(found) if old.is_null() || unsafe { copy::write(old, found) } => 0,
        Ok(_) => -(libc::EFAULT as isize),
    }
}

#[cfg(test)]
mod tests;
