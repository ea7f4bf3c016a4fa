//! Epoll sets that watch upgraded connections.
//!
//! The program's registration stays in the kernel's set, so EEXIST, nesting, close and FIN stay the
//! kernel's business. When a connection is upgraded, its registration is changed to edge-triggered with
//! a token of ours as data: from then on a kernel event for it only means "look" (a doorbell byte, a
//! FIN, a reset), and what the program gets is decided here from the ring, with its own data.
//!
//! ```text
//!   Set (one per epoll descriptor)
//!     registrations  one per (connection, descriptor): wanted events, data, edge state
//!     hot            those looked at on each wait, because they were active lately
//!     nested         epoll descriptors inside this one
//! ```
//! A registration that is not hot is armed: the peer rings by a TCP byte, the kernel reports the token,
//! and it becomes hot again. Before a thread sleeps it arms all hot ones.

mod control;
mod fdinfo;
mod holders;
mod hot;
mod report;
mod set;
mod sleep;
mod wait;

use libc::c_int;

pub(crate) use control::control;
pub(crate) use holders::{fork_acquire, fork_release, leave_all, leave_all_but, rejoin_all};
pub(crate) use set::Registrations;
pub(crate) use sleep::{arm_connection, waits_for_room};
pub(crate) use wait::{Timeout, wait};

use ringway_channel::Reason;

use crate::attach;
use crate::conn::Conn;
use crate::table::{self, Entry};

/// The set behind a descriptor; made on first use.
pub(crate) fn set_of(fd: c_int) -> Option<&'static set::Set> {
    match table::get(fd) {
        Entry::Epoll(index) => set::get(index),
        _ => None,
    }
}

/// A new epoll descriptor.
pub(crate) fn created(fd: c_int) {
    if !table::is_ours() {
        return;
    }
    let entry = set::create(fd).map_or(Entry::Plain, Entry::Epoll);
    crate::upgrade::release(table::replace(fd, entry));
}

/// Another descriptor of the same set.
pub(crate) fn share(index: u32) {
    if let Some(set) = set::get(index) {
        set.add_descriptor();
    }
}

/// A descriptor of the set is gone.
pub(crate) fn forget(index: u32) {
    if let Some(set) = set::get(index) {
        set.drop_descriptor();
    }
}

/// The connection has been upgraded: its registrations change over.
pub(crate) fn convert(index: u32, conn: &'static Conn) {
    // One that is added from here on sees that, too.
    for (set_index, slot) in conn.registrations().iter() {
        if let Some(set) = set::get(set_index) {
            let mut inner = set.lock();
            inner.recall(conn, slot);
            inner.convert(index, conn, slot);
        }
    }
}

/// Whether the connection can be upgraded as far as its epoll registrations go: each must be reachable
/// by its descriptor (registrations outlive the descriptor while a duplicate is open).
pub(crate) fn is_convertible(index: u32, conn: &Conn) -> bool {
    conn.registrations().iter().all(|(set_index, slot)| {
        set::get(set_index).is_none_or(|set| {
            set.lock().descriptor_of(slot).is_none_or(|fd| table::get(fd) == Entry::Connection(index))
        })
    })
}

/// The program found no room on a connection: room is an edge from now on, even if it is there before a set
/// looks for the first time.
pub(crate) fn no_room(conn: &Conn) {
    for (set_index, slot) in conn.registrations().iter() {
        if let Some(set) = set::get(set_index) {
            set.lock().note_full(slot);
        }
    }
}

/// The connection's descriptor is about to close, but not its socket: the kernel's registrations go first.
pub(crate) fn withdraw(conn: &Conn) {
    for (set_index, slot) in conn.registrations().iter() {
        if let Some(set) = set::get(set_index).filter(|s| !s.is_foreign()) {
            set.lock().withdraw(slot);
        }
    }
}

/// The connection is over, but not its socket: the registrations are the kernel's again, for `fresh` (index and
/// connection), or for nobody here.
pub(crate) fn move_registrations(old: &Conn, fresh: Option<(u32, &'static Conn)>) {
    for (set_index, slot) in old.registrations().iter() {
        if let Some(set) = set::get(set_index) {
            set.lock().move_to(slot, fresh);
        }
    }
}

/// The connection is gone from this process: its registrations are forgotten here. The kernel removes
/// its own when the last descriptor anywhere is closed.
pub(crate) fn connection_gone(conn: &Conn) {
    let registrations = { core::mem::take(&mut *conn.registrations.lock()) };
    for (set_index, slot) in registrations.iter() {
        if let Some(set) = set::get(set_index) {
            set.lock().remove(slot);
        }
    }
}

/// Whether the kernel does not know everything about a set.
pub(crate) fn is_mixed(index: u32) -> bool {
    set::get(index).is_some_and(|s| s.is_mixed())
}

/// Whether a wait on the set would report an upgraded connection.
pub(crate) fn has_due(index: u32) -> bool {
    set::get(index).is_some_and(|s| s.is_mixed() && s.lock().has_due(0))
}

/// After the kernel called a mixed set readable: whether it is, tokens of ours aside.
pub(crate) fn is_really_readable(index: u32) -> bool {
    set::get(index).is_none_or(|s| !s.is_mixed() || s.lock().settle())
}

/// Arms a set for a thread that is about to sleep on its descriptor. True if some peer cannot ring.
pub(crate) fn arm_set(index: u32) -> bool {
    set::get(index).is_some_and(|s| {
        let mut inner = s.lock();
        let silent = s.is_mixed() && inner.arm(0);
        inner.sleepers = inner.sleepers.saturating_sub(1);
        silent
    })
}

/// Another process gets the set: what is in it goes back to TCP and to the kernel's own reports.
pub(crate) fn share_with_others(index: u32) {
    let Some(set) = set::get(index) else { return };
    set.make_foreign();
    for slot in 0.. {
        let mut inner = set.lock();
        if slot as usize >= inner.registrations.len() {
            return;
        }
        let found = inner.unconvert(slot);
        drop(inner);
        if let Some((conn, fd)) = found {
            attach::keep_on_tcp(conn, fd, Reason::Shared);
        }
    }
}
