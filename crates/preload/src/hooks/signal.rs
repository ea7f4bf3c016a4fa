//! The `sigaction` family, and signal masks. All of the former reads and writes the program's actions through `signals`, so that the
//! program never sees the trampoline. Semantics are glibc's (signal(2), sigset(3), siginterrupt(3)).

use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};

use libc::{SIG_ERR, c_int, sighandler_t, sigset_t};

use crate::sys::{self, KernelSigaction};
use crate::{signals, thread};

const SA_RESTORER: u64 = 0x0400_0000;
const SA_RESTART: u64 = libc::SA_RESTART as u64;
const SA_RESETHAND: u64 = 0x8000_0000;
const SA_NODEFER: u64 = libc::SA_NODEFER as u64;
/// Historic; the kernel drops it.
const SA_INTERRUPT: u64 = 0x2000_0000;

/// `sigset`'s third disposition: block the signal.
const SIG_HOLD: sighandler_t = 2;

/// Signals for which `siginterrupt` turned restarting off.
static INTERRUPTING: AtomicU64 = AtomicU64::new(0);

/// Signals that glibc lets programs have: all but its own two.
fn check(signal: c_int) -> Option<u64> {
    let mine = (1..=64).contains(&signal) && signal != 32 && signal != 33;
    mine.then(|| 1 << (signal - 1))
}

/// Sets `new` if given; the old action, or None with `errno` set.
///
/// # Safety
/// A handler in `new` is the program's responsibility.
unsafe fn change(signal: c_int, new: Option<KernelSigaction>) -> Option<KernelSigaction> {
    let new = new.map(|action| KernelSigaction {
        flags: action.flags | SA_RESTORER,
        restorer: signals::restorer_address(),
        ..action
    });
    let answer = match check(signal) {
        // SAFETY: the caller's promise.
        Some(_) => unsafe { signals::exchange(signal, new.as_ref()) },
        None => Err(libc::EINVAL),
    };
    answer.map_err(sys::set_errno).ok()
}

/// Sets a plain handler with `flags` and `mask`; the old handler or SIG_ERR.
unsafe fn set_handler(signal: c_int, handler: sighandler_t, flags: u64, mask: u64) -> sighandler_t {
    // SAFETY: the caller passes on what the program asked for.
    unsafe { change(signal, Some(KernelSigaction { handler, flags, restorer: 0, mask })) }
        .map_or(SIG_ERR, |a| a.handler)
}

fn invalid() -> sighandler_t {
    sys::set_errno(libc::EINVAL);
    SIG_ERR
}

/// # Safety
/// As the C function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: null or the program's struct, which glibc reads itself, too.
    let wanted = unsafe { new.as_ref() }.map(|action| KernelSigaction {
        handler: action.sa_sigaction,
        flags: u64::from(action.sa_flags as u32),
        restorer: 0,
        mask: first_word(&action.sa_mask),
    });
    // SAFETY: as the C function.
    let Some(before) = (unsafe { change(signal, wanted) }) else { return -1 };
    // SAFETY: null or the program's struct; an all-zero set is valid.
    if let Some(old) = unsafe { old.as_mut() } {
        old.sa_sigaction = before.handler;
        old.sa_flags = before.flags as c_int;
        // SAFETY: sigset_t is plain bits.
        old.sa_mask = unsafe { core::mem::zeroed() };
        // SAFETY: the first word of the set is the kernel's mask.
        unsafe { (&raw mut old.sa_mask).cast::<u64>().write(before.mask) };
        // SAFETY: the field is an address that only the kernel uses; zero is None.
        old.sa_restorer = unsafe { core::mem::transmute::<usize, Option<extern "C" fn()>>(before.restorer) };
    }
    0
}

fn first_word(set: &sigset_t) -> u64 {
    // SAFETY: sigset_t is 128 bytes of plain bits, the first 64 of which are the kernel's.
    unsafe { ptr::from_ref(set).cast::<u64>().read() }
}

/// # Safety
/// As the C function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn __sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the same function.
    unsafe { sigaction(signal, new, old) }
}

/// # Safety
/// As the C function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    if handler == SIG_ERR {
        return invalid();
    }
    let own = check(signal).unwrap_or(0);
    let flags = if INTERRUPTING.load(Ordering::Relaxed) & own == 0 { SA_RESTART } else { 0 };
    // SAFETY: as the C function.
    unsafe { set_handler(signal, handler, flags, own) }
}

/// # Safety
/// As the C function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn bsd_signal(number: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: the same function.
    unsafe { signal(number, handler) }
}

/// # Safety
/// As the C function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn ssignal(number: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: the same function.
    unsafe { signal(number, handler) }
}

/// # Safety
/// As the C function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    if handler == SIG_ERR {
        return invalid();
    }
    // SAFETY: as the C function.
    unsafe { set_handler(signal, handler, SA_RESETHAND | SA_NODEFER | SA_INTERRUPT, 0) }
}

/// # Safety
/// As the C function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: the same function.
    unsafe { sysv_signal(signal, handler) }
}

/// # Safety
/// As the C function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn sigset(signal: c_int, disposition: sighandler_t) -> sighandler_t {
    let Some(own) = check(signal) else { return invalid() };
    if disposition == SIG_HOLD {
        let held = change_mask(libc::SIG_BLOCK, Some(own)).is_ok_and(|before| before & own != 0);
        // SAFETY: only reads.
        let old = unsafe { change(signal, None) }.map_or(SIG_ERR, |action| action.handler);
        return if held { SIG_HOLD } else { old };
    }
    // SAFETY: as the C function.
    let old = unsafe { set_handler(signal, disposition, 0, 0) };
    if old == SIG_ERR {
        return SIG_ERR;
    }
    let held = change_mask(libc::SIG_UNBLOCK, Some(own)).is_ok_and(|before| before & own != 0);
    if held { SIG_HOLD } else { old }
}

/// # Safety
/// As the C function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn sigignore(signal: c_int) -> c_int {
    // SAFETY: no handler is set.
    if unsafe { set_handler(signal, libc::SIG_IGN, 0, 0) } == SIG_ERR { -1 } else { 0 }
}

/// # Safety
/// As the C function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn siginterrupt(signal: c_int, interrupt: c_int) -> c_int {
    // SAFETY: only reads.
    let Some(mut action) = (unsafe { change(signal, None) }) else { return -1 };
    let own = check(signal).unwrap_or(0);
    if interrupt != 0 {
        INTERRUPTING.fetch_or(own, Ordering::Relaxed);
        action.flags &= !SA_RESTART;
    } else {
        INTERRUPTING.fetch_and(!own, Ordering::Relaxed);
        action.flags |= SA_RESTART;
    }
    // SAFETY: the handler is the one that the program set before.
    if unsafe { change(signal, Some(action)) }.is_some() { 0 } else { -1 }
}

/// # Safety
/// As the C function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn pthread_sigmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
    // SAFETY: null or the program's set.
    let wanted = unsafe { set.as_ref() }.map(|set| first_word(set) & !signals::INTERNAL);
    match change_mask(how, wanted) {
        Err(error) => error,
        Ok(before) => {
            if !old.is_null() {
                // SAFETY: the program's set; like the kernel, only its first word is written.
                unsafe { old.cast::<u64>().write(before) };
            }
            0
        }
    }
}

/// # Safety
/// As the C function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn sigprocmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
    // SAFETY: the same, but for the way that errors are told.
    match unsafe { pthread_sigmask(how, set, old) } {
        0 => 0,
        error => sys::finish(-(error as isize)) as c_int,
    }
}

/// Changes the thread's mask as the program wants, except that once armed the faults that bad buffers raise
/// stay open. The program is told what it believes.
fn change_mask(how: c_int, wanted: Option<u64>) -> Result<u64, c_int> {
    if !signals::is_armed() {
        return sys::change_mask(how, wanted);
    }
    let (slot, set) = (thread::current(), wanted.unwrap_or(0));
    let hidden = slot.map_or(0, |slot| slot.hidden_mask.load(Ordering::Relaxed));
    let (opened, believed) = match how {
        libc::SIG_BLOCK => (set & !signals::FAULTS, hidden | set),
        libc::SIG_SETMASK => (set & !signals::FAULTS, set),
        _ => (set, hidden & !set),
    };
    if let (Some(slot), Some(_)) = (slot, wanted) {
        // Before the change: a handler that runs inside it may not come back.
        slot.hidden_mask.store(believed & signals::FAULTS, Ordering::Relaxed);
    }
    match sys::change_mask(how, wanted.map(|_| opened)) {
        Ok(before) => Ok(before | hidden),
        Err(error) => {
            slot.inspect(|slot| slot.hidden_mask.store(hidden, Ordering::Relaxed));
            Err(error)
        }
    }
}
