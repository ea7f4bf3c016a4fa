//! Before this process, or a child of it, becomes another program.
//!
//! A connection that the new program inherits goes on in the ring if that program has the library: it finds
//! the descriptor unknown, asks the monitor by cookie, and attaches. Nobody else can read what lies in the
//! ring, so the library follows an upgraded connection: an environment that lacks it gets it back. Where that
//! is impossible (a static or setuid program), the connection returns to TCP first; what the peer has put into the ring
//! by then would be lost, so that such a connection is reset. The library also follows a
//! listening socket: who hands that over appoints a successor, as nginx does when its binary is replaced.
//!
//! A connection that is not upgraded yet, and that somebody keeps besides the new program, stays on TCP: the
//! two could not agree on the moment of switching.

use core::ffi::c_char;
use core::sync::atomic::Ordering::*;

use libc::c_int;
use ringway_channel::Reason;
use ringway_channel::end::SHARED_BEYOND;

use crate::conn::{self, Conn, State};
use crate::table::{self, Entry};
use crate::{attach, config, epoll, kernel, reset, rx, signals, sys, thread, tx};

mod environment;
mod image;

use environment::Environment;
pub(crate) use image::{Image, Loading};

/// Listening sockets that were inherited are looked for below this number; services get them first of all.
const INHERITED_MAX: c_int = 64;

/// What becomes of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// It is replaced.
    Exec,
    /// It goes on beside the new program.
    Spawn,
}

/// Prepares the connections, and runs `go` with the environment that the new program is to get.
pub(crate) fn hand_over<T>(
    how: How,
    image: Image,
    envp: *const *const c_char,
    go: impl FnOnce(*const *const c_char) -> T,
) -> T {
    if !config::enabled() {
        return go(envp);
    }
    let replaced = how == How::Exec && !thread::is_borrower();
    let kept = !replaced;
    let upgraded = share_heirlooms(kept);
    if replaced {
        conn::for_each(|_, c| c.leave_family());
        epoll::leave_all_but(survives);
    }
    let successor = replaced && hands_over_listener();
    if successor {
        // The environment is about to be read, and its addresses may be bad.
        signals::arm();
    }
    let loading = image.loading();
    let answer = match loading {
        Loading::Fails => follow(kept, loading, envp, go),
        _ if upgraded || successor => follow(kept, loading, envp, go),
        _ => go(envp),
    };
    if replaced {
        // It failed.
        conn::for_each(|_, c| c.rejoin_family());
        epoll::rejoin_all();
    }
    answer
}

/// The new program inherits upgraded connections or a listening socket: it gets the library, or the
/// connections return to TCP. One that could not start with the library gets rid of it. Not inlined, so that only these
/// cases need the stack.
#[inline(never)]
fn follow<T>(
    kept: bool,
    loading: Loading,
    envp: *const *const c_char,
    go: impl FnOnce(*const *const c_char) -> T,
) -> T {
    let mut environment = Environment::new();
    if loading == Loading::Loads
        && let Some(given) = environment.with_library(envp)
    {
        return go(given);
    }
    for_each_heirloom(kept, |fd, c| {
        attach::keep_on_tcp(c, fd, Reason::ExecWithoutLibrary);
        if !kept && c.slot().holders() == 0 {
            leave_to_kernel(c, fd);
        }
    });
    // SAFETY: what the program gives to exec.
    let bare = (loading == Loading::Fails).then(|| unsafe { environment.without_library(envp) });
    go(bare.flatten().unwrap_or(envp))
}

/// Nobody of ours will hold the connection any more: the kernel's stream is all that there is from now on, also for
/// programs with the library that come later. Unread bytes of the ring would be missing from it, and doorbells too many.
fn leave_to_kernel(c: &Conn, fd: c_int) {
    let critical = thread::enter();
    let Some(end) = c.end() else { return };
    let Some(_held) = tx::lock_rx(&end, &critical) else { return };
    if end.consumer().has_news() {
        return reset::out_of_reach(c, fd);
    }
    rx::discard_doorbells(&end, fd, end.doorbells_among(kernel::unread(fd)));
    end.page.options.dissolved.store(1, Release);
    kernel::mark_upgraded(fd, false);
}

/// Gets what the new program inherits ready for it. `kept`: this process keeps it as well. True if upgraded
/// connections are among it.
fn share_heirlooms(kept: bool) -> bool {
    let mut upgraded = false;
    for_each_heirloom(kept, |fd, c| {
        if c.state() == State::Attached || kept || c.slot().holders() > 1 {
            attach::share(c, fd);
        }
        upgraded |= c.state() == State::Attached;
    });
    upgraded
}

/// A child will get a duplicate that the table cannot show.
pub(crate) fn lend(fd: c_int) {
    if let Entry::Connection(index) | Entry::Unsure(index) = table::get(fd)
        && let Some(c) = conn::get(index)
    {
        attach::share(c, fd);
    }
}

/// Calls `f` for each connection, with a descriptor, that an exec leaves open.
fn for_each_heirloom(kept: bool, mut f: impl FnMut(c_int, &Conn)) {
    let lent = |c: &Conn| kept && c.page().is_some_and(|page| page.shared.load(Relaxed) == SHARED_BEYOND);
    table::for_each(0, c_int::MAX, |fd, entry| {
        if let Entry::Connection(index) | Entry::Unsure(index) = entry
            && let Some(c) = conn::get(index)
            && (lent(c) || survives(fd))
        {
            f(fd, c);
        }
    });
}

/// Whether the new program inherits a TCP socket that listens.
fn hands_over_listener() -> bool {
    // Those that this process inherited itself may not have been looked at yet.
    let inherited = |fd| table::get(fd) == Entry::Unknown && kernel::is_tcp(fd);
    let mut found = (0..INHERITED_MAX).any(|fd| inherited(fd) && survives(fd) && kernel::is_listening(fd));
    table::for_each(0, c_int::MAX, |fd, entry| {
        found = found || (entry == Entry::Tcp && survives(fd) && kernel::is_listening(fd));
    });
    found
}

fn survives(fd: c_int) -> bool {
    // SAFETY: F_GETFD takes no argument.
    let flags = unsafe { sys::fcntl(fd, libc::F_GETFD, 0) };
    flags >= 0 && flags as c_int & libc::FD_CLOEXEC == 0
}
