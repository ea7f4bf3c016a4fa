//! The end of the process.
//!
//! The kernel closes the sockets when nobody of ours runs any more. What a close does beyond that for an
//! upgraded connection happens here, before: doorbells are thrown away, the peer learns how this end closes,
//! and bytes that nobody has read turn the close into a reset. Peers are asked to look at their sockets, and do
//! so every millisecond for a while; the FIN comes within that.
//!
//! Runs as the library's finaliser (`exit`), and in the hooks of `_exit` and `quick_exit`. A killed process is
//! the kernel's business: its peers see a FIN or a reset.

use core::sync::atomic::{AtomicBool, Ordering::*};

use crate::conn::{self, State};
use crate::ops::descriptor;
use crate::{confine, epoll, thread};

static PARTED: AtomicBool = AtomicBool::new(false);

/// Last words on all connections; once per process. Other threads may still be using them, and may go on.
pub(crate) fn part_all() {
    // A filter may forbid it all, and a crash inside a critical section may hold what would be waited for here.
    if confine::is_confined() || thread::is_borrower() || thread::critical_slot().is_some() || PARTED.swap(true, AcqRel)
    {
        return;
    }
    epoll::leave_all();
    conn::for_each(|index, c| {
        if !c.try_pin() {
            return;
        }
        let fd = c.fd.load(Relaxed);
        if c.state() == State::Attached
            && c.is_open()
            && let Some(end) = c.end()
        {
            descriptor::part(c, &end, fd);
            descriptor::tell_peer(&end, fd);
        }
        c.leave_family();
        c.put(index);
    });
}

/// A child of fork is not at its end because its parent is.
pub(crate) fn after_fork_child() {
    PARTED.store(false, Relaxed);
}

/// Also at `quick_exit`, which runs no finalisers.
pub(crate) fn install() {
    unsafe extern "C" {
        fn __cxa_at_quick_exit(function: unsafe extern "C" fn(), dso: *mut core::ffi::c_void) -> libc::c_int;
    }
    // SAFETY: a function of the right type that lives as long as the library.
    unsafe { __cxa_at_quick_exit(finalise, core::ptr::null_mut()) };
}

pub(crate) unsafe extern "C" fn finalise() {
    part_all();
}
