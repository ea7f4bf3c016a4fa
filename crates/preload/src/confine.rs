//! A program that forbids itself system calls by a seccomp filter.
//!
//! It allows what it makes itself, and the library's own calls may end it. So before the filter comes, every
//! connection returns to TCP and the line to the monitor is cut; afterwards the library looks at nothing that is
//! new to it. Filters that came with the process (containers, services) are no concern of ours: they are written for
//! any program.

use core::sync::atomic::{AtomicBool, Ordering::*};

use libc::c_int;
use ringway_channel::Reason;

use crate::conn;
use crate::table::{self, Entry};
use crate::{attach, config, monitor, thread};

static CONFINED: AtomicBool = AtomicBool::new(false);

/// Whether the program has asked for a filter.
#[inline]
pub(crate) fn is_confined() -> bool {
    CONFINED.load(Relaxed)
}

/// `prctl` or `seccomp` is about to install a filter.
pub(crate) fn about_to_filter() {
    if !config::enabled() || thread::is_borrower() || CONFINED.swap(true, SeqCst) {
        return;
    }
    table::for_each(0, c_int::MAX, |fd, entry| {
        if let Entry::Connection(index) | Entry::Unsure(index) = entry
            && let Some(c) = conn::get(index)
        {
            attach::keep_on_tcp(c, fd, Reason::SeccompFilter);
        }
    });
    monitor::hang_up();
    thread::fence_on_entering();
}
