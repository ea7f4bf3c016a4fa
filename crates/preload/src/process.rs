//! Fork: what parent and child must do so that neither is surprised by the other.

use core::sync::atomic::Ordering::*;

use crate::conn::State;
use crate::{conn, epoll, family, monitor, thread};

/// Registers the fork handlers. `vfork` and `posix_spawn` run none, and their children only close and
/// duplicate descriptors before they execute something else.
pub(crate) fn install() {
    unsafe extern "C" {
        fn pthread_atfork(
            prepare: Option<unsafe extern "C" fn()>,
            parent: Option<unsafe extern "C" fn()>,
            child: Option<unsafe extern "C" fn()>,
        ) -> libc::c_int;
    }
    // SAFETY: three functions of the right type that live as long as the library.
    unsafe { pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}

/// Before fork: every lock of this process's tables is taken, so that the child gets them whole, and
/// every connection is marked as shared before a second process can hold it.
///
/// A critical section stays open from here until both have let go: a signal handler that ran in between would wait
/// for these locks for ever.
unsafe extern "C" fn prepare() {
    thread::hold();
    family::note_fork();
    epoll::note_fork();
    conn::for_each(|_, c| {
        c.slot().add_holder();
        if let (State::Attached, Some(page)) = (c.state(), c.page()) {
            page.shared.store(1, SeqCst);
        }
    });
    monitor::fork_acquire();
    epoll::fork_acquire();
    conn::fork_acquire();
}

unsafe extern "C" fn parent() {
    release();
    thread::let_go();
}

unsafe extern "C" fn child() {
    thread::after_fork_child();
    release();
    // The parent's offers are answered to the parent: the child makes its own.
    conn::for_each(|_, c| {
        if c.offered.load(Relaxed) == 1 {
            c.offered.store(0, Relaxed);
        }
    });
    thread::let_go();
}

fn release() {
    conn::fork_release();
    epoll::fork_release();
    monitor::fork_release();
}
