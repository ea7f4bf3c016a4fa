//! `poll` and `ppoll` over a mix of upgraded connections, epoll sets and everything else.

use core::sync::atomic::Ordering::*;

use libc::{POLLIN, POLLOUT, POLLPRI, POLLRDHUP, POLLRDNORM, POLLWRNORM, c_int, pollfd, sigset_t, timespec};
use ringway_channel::Path;

use crate::conn::{self, Conn};
use crate::epoll::{self, Timeout};
use crate::growable::Growable;
use crate::spin::{self, SpinState};
use crate::table::{self, Entry};
use crate::{bell, readiness, real, stats, sys, thread, upgrade, wait};

/// Waits with at most this many descriptors need no pages of their own.
const SMALL: usize = 64;
/// Sleep when a peer cannot ring, in nanoseconds.
const SILENT_SLICE_NS: u64 = 5_000_000;
/// Longest sleep, in nanoseconds: bounds the harm of a lost bell.
const SLICE_NS: u64 = 1_000_000_000;

static SPIN: SpinState = SpinState::new();

/// Whether this library has anything to do with a descriptor in a wait.
#[inline]
pub(crate) fn concerns_us(fd: c_int) -> bool {
    match table::get(fd) {
        Entry::Connection(_) => upgrade::upgraded(fd).is_some(),
        Entry::Epoll(index) => epoll::is_mixed(index),
        Entry::Unknown if crate::config::enabled() => upgrade::upgraded(fd).is_some(),
        _ => false,
    }
}

/// Polls `fds` (a private copy of the program's array); `revents` are filled in. The answer is the
/// number of descriptors with events or a negated errno.
pub(crate) fn poll(fds: &mut [pollfd], timeout: Timeout, mask: *const sigset_t) -> isize {
    let mut small = [pollfd { fd: -1, events: 0, revents: 0 }; SMALL];
    let mut large = Growable::new();
    let asked: &mut [pollfd] = if fds.len() <= SMALL {
        small.get_mut(..fds.len()).unwrap_or(&mut [])
    } else {
        for _ in 0..fds.len() {
            if !large.push(pollfd { fd: -1, events: 0, revents: 0 }) {
                return -(libc::ENOMEM as isize);
            }
        }
        large.as_mut_slice()
    };
    pin_all(fds, true);
    let answer = poll_pinned(fds, asked, timeout, mask);
    pin_all(fds, false);
    large.clear();
    answer
}

/// Keeps the connections of the array while the thread may sleep (or lets them go).
fn pin_all(fds: &mut [pollfd], keep: bool) {
    for p in fds {
        if keep {
            p.revents = 0;
            if let Some((_, c)) = upgrade::upgraded(p.fd) {
                c.pin();
                c.poll_sleepers.fetch_add(1, SeqCst);
                p.revents = PINNED;
            }
        } else if p.revents & PINNED != 0 {
            p.revents &= !PINNED;
            if let Entry::Connection(index) = table::get(p.fd)
                && let Some(c) = conn::get(index)
            {
                c.poll_sleepers.fetch_sub(1, SeqCst);
                c.put(index);
            }
        }
    }
}

/// Marks, while a wait lasts, the entries whose connection is pinned. No event has this bit.
const PINNED: i16 = 1 << 14;

/// As `PINNED`: the thread's sleep ends by a bell for data, for room.
const AWAITS_DATA: i16 = 1 << 12;
const AWAITS_ROOM: i16 = 1 << 11;

fn poll_pinned(fds: &mut [pollfd], asked: &mut [pollfd], timeout: Timeout, mask: *const sigset_t) -> isize {
    let handlers = thread::handlers_run();
    loop {
        let (found, answer) = look(fds, asked, Timeout::Now.slice(0).0, core::ptr::null(), false);
        if found != 0 || answer < 0 {
            return if found != 0 { found } else { answer };
        }
        if timeout.is_over() {
            return 0;
        }
        if thread::handlers_run() != handlers {
            return -(libc::EINTR as isize);
        }
        let hit = spin::spin(&SPIN, peer_cpu(fds), || any_of_ours(fds));
        stats::count(|c| if hit { &c.spin_hits } else { &c.spin_misses });
        if hit {
            continue;
        }
        let silent = arm(fds);
        if any_of_ours(fds) {
            disarm(fds);
            continue;
        }
        stats::count(|c| &c.sleeps);
        let slice_ns = if silent { SILENT_SLICE_NS } else { SLICE_NS };
        let (found, slept) = look(fds, asked, timeout.slice(slice_ns).0, mask, true);
        if found != 0 || slept < 0 {
            return if found != 0 { found } else { slept };
        }
    }
}

/// The upgraded connection of an entry whose pin is held.
fn ours(p: &pollfd) -> Option<&'static Conn> {
    match table::get(p.fd) {
        Entry::Connection(index) if p.revents & PINNED != 0 => conn::get(index),
        _ => None,
    }
}

/// Asks the kernel about everything (sleeping for `slice` at most, bells armed), then this library about its own.
/// Returns the number of entries with events, or a negated errno; and the kernel's answer.
fn look(
    fds: &mut [pollfd],
    asked: &mut [pollfd],
    slice: timespec,
    mask: *const sigset_t,
    armed: bool,
) -> (isize, isize) {
    for (p, k) in fds.iter_mut().zip(asked.iter_mut()) {
        *k = pollfd { fd: p.fd, events: p.events, revents: 0 };
        if let Some(c) = ours(p) {
            k.events = kernel_interest(c, p.events);
        }
    }
    // SAFETY: a private array and a timeout of ours; the mask is the program's. libc's ppoll is a
    // cancellation point, as the program's own call would be.
    let answer = unsafe { real::ppoll()(asked.as_mut_ptr(), asked.len() as u64, &slice, mask) };
    let answer = if answer < 0 { -(sys::errno() as isize) } else { answer as isize };
    if armed {
        disarm(fds);
    }
    if answer < 0 {
        return (0, answer);
    }
    let mut found = 0;
    for (p, k) in fds.iter_mut().zip(asked.iter()) {
        let pinned = p.revents & PINNED;
        let events = match ours(p) {
            Some(c) => {
                if k.revents != 0 {
                    c.kernel_event.store(1, Relaxed);
                }
                let always = libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;
                our_events(c, p.fd) & (p.events | always)
            }
            None => set_events(p, k.revents),
        };
        p.revents = events | pinned;
        found += (events != 0) as isize;
    }
    (found, answer)
}

fn our_events(c: &Conn, fd: c_int) -> i16 {
    c.end().map_or(0, |end| readiness::events(c, &end, fd))
}

/// Events of a descriptor that is no connection of ours; for an epoll set, what is true of it.
fn set_events(p: &pollfd, kernel: i16) -> i16 {
    match table::get(p.fd) {
        Entry::Epoll(index) if kernel & POLLIN != 0 && !epoll::is_really_readable(index) => 0,
        _ => kernel | epoll_events(p),
    }
}

fn epoll_events(p: &pollfd) -> i16 {
    match table::get(p.fd) {
        Entry::Epoll(index) if epoll::has_due(index) => p.events & (POLLIN | POLLRDNORM),
        _ => 0,
    }
}

/// What the kernel is asked about an upgraded connection: doorbells and the end of the stream, and what
/// it serves itself.
fn kernel_interest(c: &Conn, wanted: i16) -> i16 {
    let Some(end) = c.end() else { return wanted };
    let mut events = wanted & POLLPRI;
    if end.page.options.peer_finished.load(Relaxed) == 0 {
        events |= POLLRDHUP;
        if end.rx_path() != Path::Demoted {
            events |= POLLIN;
        }
    }
    if end.rx_path() != Path::Ring {
        events |= wanted & POLLIN;
    }
    if end.tx_path() != Path::Ring {
        events |= wanted & POLLOUT;
    }
    events
}

/// Whether a look would find an event among what this library serves; cheap, for polling.
fn any_of_ours(fds: &[pollfd]) -> bool {
    fds.iter().any(|p| match ours(p) {
        Some(c) => our_events(c, p.fd) & (p.events | libc::POLLHUP | libc::POLLERR) != 0,
        None => epoll_events(p) != 0,
    })
}

fn peer_cpu(fds: &[pollfd]) -> u32 {
    fds.iter().find_map(ours).and_then(|c| c.end()).and_then(|end| end.peer_sending_cpu()).map_or(0, |cpu| cpu + 1)
}

/// Asks all peers to ring; `disarm` must follow. True if some cannot.
fn arm(fds: &mut [pollfd]) -> bool {
    let (mut silent, mut hot) = (false, false);
    for p in fds {
        if let Some(c) = ours(p)
            && let Some(end) = c.end()
        {
            // Only what is wanted: a bell armed for nobody would hide that one has rung for another thread.
            let for_data = p.events & (POLLIN | POLLRDNORM) != 0;
            let for_room = p.events & (POLLOUT | POLLWRNORM) != 0 && epoll::waits_for_room(&end);
            for (wanted, mark, room) in [(for_data, AWAITS_DATA, false), (for_room, AWAITS_ROOM, true)] {
                if wanted {
                    bell::add_waiter(c, room);
                    p.revents |= mark;
                }
            }
            silent |= epoll::arm_connection(c, &end, (for_data, for_room), &mut hot);
        } else if let Entry::Epoll(index) = table::get(p.fd) {
            silent |= epoll::arm_set(index);
        }
    }
    if hot {
        wait::barrier();
    }
    silent
}

/// The sleep is over: doorbell bytes need not stay any longer for this thread. The words stay armed.
fn disarm(fds: &mut [pollfd]) {
    for p in fds {
        if let Some(c) = ours(p) {
            for (mark, room) in [(AWAITS_DATA, false), (AWAITS_ROOM, true)] {
                if p.revents & mark != 0 {
                    bell::drop_waiter(c, room);
                }
            }
            p.revents &= !(AWAITS_DATA | AWAITS_ROOM);
        }
    }
}
