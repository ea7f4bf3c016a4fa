//! Which sockets are watched, when a watched connection has earned an upgrade, and by which way a call
//! on a descriptor goes.

use core::sync::atomic::Ordering::*;

use libc::c_int;
use ringway_channel::Reason;

use crate::conn::{self, Conn, State};
use crate::ops::{stdio, uring};
use crate::table::{self, Entry};
use crate::{attach, config, confine, epoll, family, kernel, monitor, reset, rx, stats, sys};

/// Bytes after which a connection is offered even before it has earned it by calls (`config::upgrade_calls`).
const BYTES: u64 = 32 << 10;

/// The way of one call.
pub(crate) enum Route {
    /// To the kernel, as it is.
    Kernel,
    /// To the kernel, counted; [`sent`] or [`received`] must follow.
    Counted(u32, &'static Conn),
    /// To the ring's code.
    Ring(u32, &'static Conn),
}

/// The connection behind a descriptor, if it has one that is watched or upgraded.
#[inline]
pub(crate) fn connection(fd: c_int) -> Option<(u32, &'static Conn)> {
    match table::get(fd) {
        Entry::Connection(index) => conn::get(index).map(|c| (index, c)),
        Entry::Unknown if config::enabled() && !confine::is_confined() => classify(fd),
        Entry::Unsure(index) => verify(index, fd),
        _ => None,
    }
}

/// The table is frozen: only the socket itself says whether the number still means the connection.
#[cold]
fn verify(index: u32, fd: c_int) -> Option<(u32, &'static Conn)> {
    let c = conn::get(index).filter(|c| kernel::cookie(fd) == Some(c.cookie.load(Relaxed)))?;
    Some((index, c))
}

/// The upgraded connection behind a descriptor; joins one that a family member has upgraded.
#[inline]
pub(crate) fn upgraded(fd: c_int) -> Option<(u32, &'static Conn)> {
    let (index, c) = connection(fd)?;
    match c.state() {
        State::Attached => Some((index, c)),
        State::Watched if matches!(c.slot().state.load(Acquire), family::UPGRADED | family::UNSURE) => {
            attach::join(index, c, fd).then_some((index, c))
        }
        _ => None,
    }
}

/// The way of a call that sends.
#[inline]
pub(crate) fn route_tx(fd: c_int) -> Route {
    let Some((index, c)) = connection(fd) else { return Route::Kernel };
    if c.state() == State::Attached {
        return Route::Ring(index, c);
    }
    if c.state() != State::Watched {
        return Route::Kernel;
    }
    look_for_answer(c);
    let slot = c.slot();
    if slot.enter_kernel(&slot.senders, || slot.state.load(SeqCst) == family::WATCHED) {
        return Route::Counted(index, c);
    }
    match joined(fd) {
        Some((index, c)) => Route::Ring(index, c),
        None => Route::Kernel,
    }
}

/// The connection that a family member has upgraded, for a call that moves bytes. Where its ring is out of reach, the
/// kernel's stream has doorbells and gaps, and shows a reset instead.
#[cold]
fn joined(fd: c_int) -> Option<(u32, &'static Conn)> {
    let found = upgraded(fd);
    if found.is_none()
        && let Some((_, c)) = connection(fd)
        && c.state() == State::Watched
        && c.slot().state.load(SeqCst) == family::UPGRADED
    {
        reset::out_of_reach(c, fd);
    }
    found
}

/// The way of a call that receives.
#[inline]
pub(crate) fn route_rx(fd: c_int) -> Route {
    let Some((index, c)) = connection(fd) else { return Route::Kernel };
    match c.state() {
        State::Attached => route_attached_rx(index, c, fd),
        State::Watched => {
            look_for_answer(c);
            let slot = c.slot();
            if slot.enter_kernel(&slot.receivers, || slot.state.load(SeqCst) == family::WATCHED) {
                return Route::Counted(index, c);
            }
            match joined(fd) {
                Some((index, c)) => route_attached_rx(index, c, fd),
                None => Route::Kernel,
            }
        }
        _ => Route::Kernel,
    }
}

/// The monitor may have answered since the last call: then already this one goes by the ring.
#[inline]
fn look_for_answer(c: &Conn) {
    if c.offered.load(Relaxed) == 1 {
        monitor::poll();
    }
}

#[inline]
fn route_attached_rx(index: u32, c: &'static Conn, fd: c_int) -> Route {
    let ready = || c.page().is_none_or(|page| page.rx.ready.load(SeqCst) != 0);
    if ready() || rx::declare_ready(c, fd) {
        return Route::Ring(index, c);
    }
    let slot = c.slot();
    if slot.enter_kernel(&slot.receivers, || !ready()) { Route::Counted(index, c) } else { Route::Ring(index, c) }
}

/// Before a counted call that sends: urgent bytes spoil the count of the stream's, for their receiver may skip them.
#[inline]
pub(crate) fn sending(c: &'static Conn, fd: c_int, flags: c_int) {
    if flags & libc::MSG_OOB != 0 {
        attach::keep_on_tcp(c, fd, Reason::UrgentData);
    }
}

/// After a counted call that sent.
#[inline]
pub(crate) fn sent(index: u32, c: &'static Conn, fd: c_int, answer: isize) {
    let slot = c.slot();
    slot.leave_kernel(&slot.senders);
    if c.state() == State::Attached {
        // Another thread has upgraded it meanwhile. When the epoll sets changed over, nobody knew yet whether this call
        // finds room for everything.
        epoll::no_room(c);
    }
    earned(index, c, fd, answer);
}

/// After a counted call that received.
#[inline]
pub(crate) fn received(index: u32, c: &'static Conn, fd: c_int, answer: isize) {
    let slot = c.slot();
    slot.leave_kernel(&slot.receivers);
    earned(index, c, fd, answer);
}

#[inline]
fn earned(index: u32, c: &'static Conn, fd: c_int, answer: isize) {
    if answer > 0 {
        c.calls.fetch_add(1, Relaxed);
        c.bytes.fetch_add(answer as u64, Relaxed);
    }
    match c.offered.load(Relaxed) {
        0 if answer > 0 && has_earned(c) => offer(index, c, fd),
        1 => monitor::poll(),
        _ => {}
    }
}

fn has_earned(c: &Conn) -> bool {
    c.calls.load(Relaxed) >= config::upgrade_calls() || c.bytes.load(Relaxed) >= BYTES
}

#[cold]
fn offer(index: u32, c: &'static Conn, fd: c_int) {
    if c.offered.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {
        return;
    }
    if monitor::is_away() {
        return not_now(c);
    }
    c.fd.store(fd, Relaxed);
    c.identify(fd);
    if !is_local(fd) {
        attach::keep_on_tcp(c, fd, Reason::NotLocal);
        return;
    }
    if uring::is_in_use() {
        attach::keep_on_tcp(c, fd, Reason::IoUring);
        return;
    }
    if monitor::offer(c.token(index), fd) {
        // Noticing that an old line was broken takes back all offers, this one too.
        let _ = c.offered.compare_exchange(0, 1, AcqRel, Relaxed);
        stats::count(|s| &s.connections_offered);
    } else {
        not_now(c);
    }
}

/// Tries again after as much traffic once more.
fn not_now(c: &Conn) {
    c.calls.store(0, Relaxed);
    c.bytes.store(0, Relaxed);
    c.offered.store(0, Relaxed);
}

/// Whether the peer's address belongs to this host (as seen from the socket's own namespace).
fn is_local(fd: c_int) -> bool {
    let (Some(own), Some(peer)) = (kernel::address(fd, false), kernel::address(fd, true)) else { return false };
    peer.is_loopback() || own.ip == peer.ip || kernel::is_host_address(&peer)
}

/// A new connection made by `connect` or `accept`.
pub(crate) fn watch(fd: c_int) {
    // glibc's standard streams would go past the hooks.
    let wanted = config::enabled() && !confine::is_confined() && table::is_ours() && !stdio::is_standard(fd);
    let old = match wanted.then(|| conn::create(fd)).flatten() {
        Some((index, c)) => {
            monitor::introduce();
            stats::count(|s| &s.connections_seen);
            let old = table::replace(fd, Entry::Connection(index));
            // One whose connect is still under way has to wait for its first data.
            if has_earned(c) && kernel::address(fd, true).is_some() {
                offer(index, c, fd);
            }
            old
        }
        None => table::replace(fd, Entry::Plain),
    };
    release(old);
}

/// The socket of a connection that is over goes on without one: it is watched again, as another connection.
/// Relatives who hold the socket as well cannot know that, so that a socket of theirs stays on TCP.
pub(crate) fn watch_anew(index: u32, old: &'static Conn, fd: c_int) {
    let alone = old.slot().holders() <= 1 && old.page().is_none_or(|page| page.shared.load(Relaxed) == 0);
    let fresh = if alone { conn::create(fd) } else { None };
    crate::epoll::move_registrations(old, fresh);
    table::for_each(0, c_int::MAX, |number, entry| {
        let next = fresh.map_or(Entry::Plain, |(index, _)| Entry::Connection(index));
        if entry != Entry::Connection(index) || !table::replace_if(number, entry, next) {
            return;
        }
        // Created with one descriptor, which is this one.
        if let Some((_, c)) = fresh.filter(|_| number != fd) {
            c.add_descriptor(number);
        }
        release(entry);
    });
}

/// Lets go of what a table entry referred to, without having seen the descriptor close.
pub(crate) fn release(old: Entry) {
    match old {
        Entry::Connection(index) => {
            if let Some(c) = conn::get(index) {
                c.drop_descriptor();
                c.put(index);
            }
        }
        Entry::Epoll(index) => crate::epoll::forget(index),
        Entry::Netmap(index) => crate::netmap::forget(index),
        _ => {}
    }
}

/// First look at a descriptor that came by no hook: inherited over exec, received over a Unix socket,
/// or opened by the C library itself.
#[cold]
fn classify(fd: c_int) -> Option<(u32, &'static Conn)> {
    if fd < 0 || table::is_frozen() || crate::thread::is_borrower() {
        return None;
    }
    if !kernel::is_tcp(fd) {
        // SAFETY: F_GETFD takes no argument.
        if unsafe { sys::fcntl(fd, libc::F_GETFD, 0) } >= 0 {
            table::replace_if(fd, Entry::Unknown, Entry::Plain);
        }
        return None;
    }
    if kernel::address(fd, true).is_none() {
        table::replace_if(fd, Entry::Unknown, Entry::Tcp);
        return None;
    }
    // Somebody before us may have upgraded it: nothing may be read or written before that is known.
    let (index, c) = conn::create(fd)?;
    c.slot().state.store(family::UNSURE, SeqCst);
    if !table::replace_if(fd, Entry::Unknown, Entry::Connection(index)) {
        c.drop_descriptor();
        c.put(index);
        return connection(fd);
    }
    // If not, it stays on TCP: whoever it came from may hold it as well and does not know of us.
    c.inherited.store(1, Relaxed);
    if !is_local(fd) || !monitor::attach_now(c.token(index), c, fd) {
        if kernel::is_marked_upgraded(fd) {
            // The monitor is gone, or new. What the ring holds is lost, and the kernel's stream has gaps.
            c.slot().decide(family::PLAIN);
            reset::out_of_reach(c, fd);
        } else {
            attach::keep_on_tcp(c, fd, Reason::Shared);
        }
    }
    Some((index, c))
}

#[cfg(test)]
mod tests;
