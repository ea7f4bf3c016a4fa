//! Fork and its relatives: what parent and child must do so that neither is surprised by the other.
//!
//! ```text
//!   memory    descriptors
//!   copied    copied       fork, clone                   the handlers below
//!   shared    copied       vfork, clone(CLONE_VM)        the child is a borrower: it edits no table
//!   copied    shared       clone(CLONE_FILES)            the tables freeze: they cannot follow
//!   shared    split        unshare(CLONE_FILES)          as above
//!   shared    shared       threads                       nothing
//! ```

use core::ffi::c_void;
use core::sync::atomic::Ordering::*;

use libc::{CLONE_FILES, CLONE_THREAD, CLONE_VM, c_int};
use ringway_channel::Reason;
use ringway_channel::end::SHARED_FAMILY;

use crate::conn::State;
use crate::real::CloneMain;
use crate::table::{self, Entry};
use crate::{attach, config, conn, epoll, exit, family, monitor, sys, thread};

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
    monitor::fork_acquire();
    epoll::fork_acquire();
    conn::fork_acquire(|c| {
        c.add_holder_for_child();
        if let (State::Attached, Some(page)) = (c.state(), c.page()) {
            page.shared.fetch_max(SHARED_FAMILY, SeqCst);
        }
    });
}

unsafe extern "C" fn parent() {
    family::after_fork_parent();
    release();
    thread::let_go();
}

unsafe extern "C" fn child() {
    thread::after_fork_child();
    family::after_fork_child();
    release();
    exit::after_fork_child();
    table::after_fork_child();
    conn::for_each(|_, c| c.after_fork_child());
    thread::let_go();
}

fn release() {
    conn::fork_release();
    epoll::fork_release();
    monitor::fork_release();
}

/// Forks by a call that runs no handlers, with libc's answer.
pub(crate) fn fork_by(fork: impl FnOnce() -> isize) -> isize {
    if !config::enabled() || thread::is_borrower() {
        return fork();
    }
    // SAFETY: in the order in which libc calls them.
    unsafe {
        prepare();
        let pid = fork();
        let errno = sys::errno();
        if pid == 0 {
            child()
        } else {
            parent()
        }
        sys::set_errno(errno);
        pid
    }
}

/// What a child of `clone` with memory of its own runs first.
struct Start {
    main: CloneMain,
    arg: *mut c_void,
}

unsafe extern "C-unwind" fn start(of: *mut c_void) -> c_int {
    // SAFETY: the child's own copy of the parent's frame; in order, as in `fork_by`.
    unsafe {
        let Start { main, arg } = of.cast::<Start>().read();
        child();
        main(arg)
    }
}

/// `clone`: `call` gets the function and argument to start the child with.
pub(crate) fn clone_by(
    main: CloneMain,
    arg: *mut c_void,
    flags: c_int,
    call: impl FnOnce(CloneMain, *mut c_void) -> c_int,
) -> c_int {
    about_to_clone(flags as usize);
    if flags & CLONE_VM != 0 || !config::enabled() || thread::is_borrower() {
        return call(main, arg);
    }
    let mut first = Start { main, arg };
    // SAFETY: as in `fork_by`; the child never comes back here.
    unsafe {
        prepare();
        let pid = call(start, (&raw mut first).cast());
        let errno = sys::errno();
        parent();
        sys::set_errno(errno);
        pid
    }
}

/// Before a child is made with these flags.
pub(crate) fn about_to_clone(flags: usize) {
    let has = |flag: c_int| flags & flag as usize != 0;
    if !config::enabled() || has(CLONE_THREAD) {
        return;
    }
    if has(CLONE_VM) {
        table::expect_borrowers();
    } else if has(CLONE_FILES) {
        descriptors_diverge();
    }
}

/// `unshare`, before it happens.
pub(crate) fn about_to_unshare(flags: c_int) {
    if flags & CLONE_FILES != 0 && config::enabled() && !thread::is_single_threaded() {
        descriptors_diverge();
    }
}

/// From now on one table of descriptors has two owners, or one owner two tables. This library can follow
/// neither: it stops watching, and what is upgraded returns to TCP.
pub(crate) fn descriptors_diverge() {
    table::for_each(0, c_int::MAX, |fd, entry| {
        if let Entry::Connection(index) = entry
            && let Some(c) = conn::get(index)
        {
            attach::keep_on_tcp(c, fd, Reason::Shared);
        }
    });
    table::freeze();
}
