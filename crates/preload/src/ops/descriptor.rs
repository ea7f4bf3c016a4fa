//! The life of descriptor numbers: close, duplicates, ranges, shutdown.

use core::sync::atomic::Ordering::*;

use libc::{c_int, c_uint};
use ringway_channel::end::{CLOSING_ALL, CLOSING_SENDING, SHARED_BEYOND, SHUT_RX, SHUT_TX};
use ringway_channel::rendezvous::{Kind, Message};
use ringway_channel::wait::BELL_FUTEX;
use ringway_channel::{End, Path};

use crate::conn::{self, Conn, State};
use crate::ops::stdio;
use crate::table::{self, Entry};
use crate::{bell, epoll, exec, kernel, monitor, netmap, process, real, reset, stats, sys, thread, tx, upgrade, wait};

/// Whether an entry may be edited by the caller: a child of `vfork` shares the table but not the
/// descriptors.
fn may_edit(entry: Entry) -> bool {
    matches!(entry, Entry::Unknown | Entry::Plain) || !thread::is_borrower()
}

/// `close`. The answer is libc's (errno set).
pub(crate) fn close(fd: c_int) -> c_int {
    let entry = table::get(fd);
    // SAFETY: the program's own call.
    let original = || unsafe { real::close()(fd) };
    if !may_edit(entry) {
        return original();
    }
    match entry {
        Entry::Unknown | Entry::Unsure(_) => original(),
        Entry::Private => sys::finish(-(libc::EBADF as isize)) as c_int,
        Entry::Plain | Entry::Tcp => {
            table::replace(fd, Entry::Unknown);
            original()
        }
        Entry::Epoll(index) => {
            table::replace(fd, Entry::Unknown);
            netmap::epoll::forget_set(index);
            epoll::forget(index);
            original()
        }
        Entry::Netmap(index) => {
            table::replace(fd, Entry::Unknown);
            let answer = original();
            netmap::forget(index);
            answer
        }
        Entry::Connection(index) => {
            // The number is free for others only after the kernel's close, so the entry goes first.
            if !table::replace_if(fd, entry, Entry::Unknown) {
                return original();
            }
            match conn::get(index) {
                Some(c) => close_connection(index, c, fd, original),
                None => original(),
            }
        }
    }
}

fn close_connection(index: u32, c: &'static Conn, fd: c_int, original: impl FnOnce() -> c_int) -> c_int {
    c.wait_for_holders();
    let last = c.drop_descriptor();
    if !last {
        let answer = original();
        find_other_descriptor(index, c, fd);
        c.put(index);
        return answer;
    }
    c.pin();
    let cookie = c.cookie.load(Relaxed);
    let attached = c.state() == State::Attached;
    let offered = !attached && c.offered.load(Relaxed) == 1;
    if attached && let Some(end) = c.end() {
        part(c, &end, fd);
    } else if offered && c.state() == State::Watched && c.slot().holders() == 1 {
        end_offered(c, fd);
    }
    let answer = original();
    if attached && let Some(end) = c.end() {
        tell_peer(&end, fd);
        stats::count(|s| &s.connections_closed);
        monitor::tell(Message { cookie, ..Message::new(Kind::Closed) });
    } else if offered {
        monitor::tell(Message { token: c.token(index), cookie, ..Message::new(Kind::Withdraw) });
    }
    c.put(index);
    c.put(index);
    answer
}

/// The monitor may still hold the offered socket, so that closing it here does not close it. Nobody may notice: no
/// epoll set reports a number that is closed, and the peer's end does not wait for the monitor. A thread inside a call
/// on the socket holds it, too, and then a close ends nothing.
#[cold]
fn end_offered(c: &Conn, fd: c_int) {
    let slot = c.slot();
    if slot.senders.load(SeqCst) != 0 || slot.receivers.load(SeqCst) != 0 {
        return;
    }
    epoll::withdraw(c);
    if kernel::unread(fd) > 0 || lingers_for_reset(fd) {
        reset::disconnect(fd);
    } else {
        sys::shutdown(fd, libc::SHUT_RDWR);
    }
}

/// Another descriptor of the connection becomes the one that is used for looks and doorbells.
fn find_other_descriptor(index: u32, c: &Conn, closed: c_int) {
    if c.fd.load(Relaxed) != closed {
        return;
    }
    table::for_each(0, c_int::MAX, |fd, entry| {
        if entry == Entry::Connection(index) {
            c.fd.store(fd, Relaxed);
        }
    });
}

/// Last words before this process lets go of the socket for good.
pub(crate) fn part(c: &Conn, end: &End, fd: c_int) {
    if c.slot().holders() > 1 {
        return;
    }
    let last = end.page.shared.load(Relaxed) < SHARED_BEYOND;
    if last && (reset_if_unread(end, fd) || lingers_for_reset(fd)) {
        return;
    }
    bell::drain(c, end, fd);
    if last {
        end.announce_closing(CLOSING_ALL);
    }
}

/// Whether the program asked for a reset at close (SO_LINGER with a time of 0).
fn lingers_for_reset(fd: c_int) -> bool {
    // SAFETY: the option is a linger.
    let linger = unsafe { sys::socket_option::<libc::linger>(fd, libc::SOL_SOCKET, libc::SO_LINGER) };
    linger.is_ok_and(|l| l.l_onoff != 0 && l.l_linger == 0)
}

/// The kernel answers a close with unread data by a reset. It does not see what is unread in the ring,
/// so it is told to.
fn reset_if_unread(end: &End, fd: c_int) -> bool {
    let unread = end.rx_path() == Path::Ring && end.consumer().has_news();
    if unread {
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        let bytes = size_of::<libc::linger>() as u32;
        // SAFETY: a linger of ours.
        unsafe { sys::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), bytes) };
    }
    unread
}

/// Something happened to the kernel socket that a peer asleep on a futex would not notice.
pub(crate) fn tell_peer(end: &End, fd: c_int) {
    end.ask_peer_to_look();
    for word in [end.peer_receiver(), end.peer_sender()] {
        let bells = word.bells();
        wait::ring(end, fd, word, bells & BELL_FUTEX);
    }
}

/// The kernel has dissolved the connection (`connect` to AF_UNSPEC), which resets the peer. What this process knew of
/// it is over; the same socket, by all its numbers and in the same epoll sets, may be connected again.
pub(crate) fn dissolved(fd: c_int) {
    let Some((index, old)) = upgrade::connection(fd) else { return };
    let cookie = old.cookie.load(Relaxed);
    old.pin();
    if let Some(end) = old.end() {
        kernel::mark_upgraded(fd, false);
        end.page.options.dissolved.store(1, Release);
        tell_peer(&end, fd);
        stats::count(|s| &s.connections_closed);
        monitor::tell(Message { cookie, ..Message::new(Kind::Closed) });
    } else if old.offered.load(Relaxed) == 1 {
        monitor::tell(Message { token: old.token(index), cookie, ..Message::new(Kind::Withdraw) });
    }
    upgrade::watch_anew(index, old, fd);
    old.put(index);
}

/// `shutdown`. The answer is libc's.
pub(crate) fn shutdown(fd: c_int, how: c_int) -> c_int {
    // SAFETY: the program's own call.
    let original = || unsafe { real::shutdown()(fd, how) };
    let Some((index, c)) = upgrade::upgraded(fd) else { return original() };
    c.pin();
    let answer = match c.end() {
        Some(end) => shutdown_ring(&end, fd, how, original),
        None => original(),
    };
    c.put(index);
    answer
}

fn shutdown_ring(end: &End, fd: c_int, how: c_int, original: impl FnOnce() -> c_int) -> c_int {
    let bits = match how {
        libc::SHUT_RD => SHUT_RX,
        libc::SHUT_WR => SHUT_TX,
        libc::SHUT_RDWR => SHUT_RX | SHUT_TX,
        _ => return original(),
    };
    let answer = {
        let critical = thread::enter();
        // No byte may be published after the FIN.
        let _held = tx::lock_tx(end, &critical);
        if bits & SHUT_TX != 0 {
            end.announce_closing(CLOSING_SENDING);
        }
        let answer = original();
        if answer == 0 {
            end.page.options.shutdown.fetch_or(bits, AcqRel);
        }
        answer
    };
    if answer == 0 {
        tell_peer(end, fd);
        for word in [end.own_receiver(), end.own_sender()] {
            // SAFETY: waking touches no memory.
            unsafe { sys::futex_wake(core::ptr::from_ref(word.0).cast(), c_int::MAX, false) };
        }
    }
    answer
}

/// A duplicate of `old` now sits at `new`.
pub(crate) fn duplicated(old: c_int, new: c_int) {
    if new < 0 || new == old {
        return;
    }
    if table::is_frozen() || thread::is_borrower() {
        return exec::lend(old);
    }
    let entry = match table::get(old) {
        Entry::Private | Entry::Unknown => Entry::Unknown,
        entry => entry,
    };
    match entry {
        Entry::Connection(index) => {
            if let Some(c) = conn::get(index) {
                c.add_descriptor(new);
            }
        }
        Entry::Epoll(index) => epoll::share(index),
        Entry::Netmap(index) => netmap::share(index),
        _ => {}
    }
    upgrade::release(table::replace(new, entry));
    stdio::settled(new);
}

/// `dup2` and `dup3`: what sat at `new` is closed by the kernel in the same step.
pub(crate) fn duplicate_onto(old: c_int, new: c_int, original: impl FnOnce() -> c_int) -> c_int {
    let victim = table::get(new);
    if old == new || matches!(victim, Entry::Unknown | Entry::Plain | Entry::Tcp) || thread::is_borrower() {
        let answer = original();
        if answer >= 0 {
            duplicated(old, new);
        }
        return answer;
    }
    if victim == Entry::Private {
        monitor::vacate(new);
        return duplicate_onto_free(old, new, original);
    }
    // SAFETY: F_GETFD takes no argument.
    if unsafe { sys::fcntl(old, libc::F_GETFD, 0) } < 0 {
        return original();
    }
    match victim {
        Entry::Connection(index) if table::replace_if(new, victim, Entry::Unknown) => match conn::get(index) {
            Some(c) => {
                // Threads asleep on the old connection must notice that the number means another one.
                let answer = close_connection(index, c, new, original);
                if answer >= 0 {
                    duplicated(old, new);
                }
                answer
            }
            None => duplicate_onto_free(old, new, original),
        },
        _ => duplicate_onto_free(old, new, original),
    }
}

fn duplicate_onto_free(old: c_int, new: c_int, original: impl FnOnce() -> c_int) -> c_int {
    let answer = original();
    if answer >= 0 {
        duplicated(old, new);
    }
    answer
}

/// `close_range` and `closefrom`: upgraded connections are closed one by one, the library's own
/// descriptors are stepped over.
pub(crate) fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // SAFETY: plain integers.
    let original = |from: c_uint, to: c_uint| unsafe { real::close_range()(from, to, flags) };
    let flag = |flag: c_uint| flags as c_uint & flag != 0;
    if flag(libc::CLOSE_RANGE_UNSHARE) {
        process::about_to_unshare(libc::CLONE_FILES);
    }
    if flag(libc::CLOSE_RANGE_CLOEXEC) || first > last || table::is_frozen() || thread::is_borrower() {
        return original(first, last);
    }
    let mut from = first;
    let mut failed = 0;
    table::for_each(first.min(c_int::MAX as c_uint) as c_int, last.min(c_int::MAX as c_uint) as c_int, |fd, entry| {
        match entry {
            Entry::Private => {
                if fd as c_uint > from {
                    failed |= original(from, fd as c_uint - 1);
                }
                from = fd as c_uint + 1;
            }
            Entry::Connection(_) | Entry::Epoll(_) | Entry::Netmap(_) => {
                close(fd);
            }
            _ => {
                table::replace(fd, Entry::Unknown);
            }
        }
    });
    if from <= last {
        failed |= original(from, last);
    }
    failed
}
