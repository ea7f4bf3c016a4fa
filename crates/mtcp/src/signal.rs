//! `mtcp_register_signal`: a handler whose signal ends the calls that wait, with `EINTR`.

use std::sync::atomic::{AtomicUsize, Ordering::*};

use libc::{c_int, sighandler_t};

/// Signals have numbers below this.
const SIGNALS: usize = 65;

/// The program's handlers by number: 0 (`SIG_DFL`) where there is none.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];
static SEEN: AtomicUsize = AtomicUsize::new(0);

/// How many registered signals have come; a call that waits ends when that changes.
pub(crate) fn seen() -> usize {
    SEEN.load(Acquire)
}

extern "C" fn on_signal(number: c_int) {
    SEEN.fetch_add(1, AcqRel);
    let handler = HANDLERS.get(number as usize).map_or(0, |handler| handler.load(Acquire));
    if handler > libc::SIG_IGN {
        // SAFETY: what the program registered: a function that takes a signal's number.
        let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
        handler(number);
    }
}

/// Registers `handler`; answers the one before, or `SIG_ERR` and errno.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn mtcp_register_signal(number: c_int, handler: sighandler_t) -> sighandler_t {
    let Some(place) = usize::try_from(number).ok().and_then(|number| HANDLERS.get(number)) else {
        crate::calls::set_errno(libc::EINVAL);
        return libc::SIG_ERR;
    };
    let is_function = handler != libc::SIG_DFL && handler != libc::SIG_IGN;
    let before = place.swap(handler, AcqRel);
    // SAFETY: zeros are an action without flags (SA_RESTART is not wanted: waits are to end); the kernel checks the number.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let ours = on_signal as extern "C" fn(c_int) as sighandler_t;
        action.sa_sigaction = if is_function { ours } else { handler };
        libc::sigaction(number, &raw const action, std::ptr::null_mut())
    };
    if done != 0 {
        place.store(before, Release);
        return libc::SIG_ERR;
    }
    before
}
