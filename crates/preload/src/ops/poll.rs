//! `poll` and `ppoll` over a mix of upgraded connections, epoll sets and everything else.

use core::sync::atomic::Ordering::*;

use libc::{POLLIN, POLLOUT, POLLPRI, POLLRDHUP, POLLRDNORM, POLLWRNORM, c_int, pollfd, sigset_t, timespec};
use ringway_channel::Path;

use crate::conn::{self, Conn};
use crate::epoll::{self, Timeout};
use crate::growable::Growable;
use crate::leave::Hold;
use crate::spin::{self, SpinState};
use crate::table::{self, Entry};
use crate::{bell, netmap, readiness, real, stats, sys, thread, upgrade, wait};

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
        Entry::Netmap(_) => true,
        Entry::Unknown if crate::config::enabled() => upgrade::upgraded(fd).is_some(),
        _ => false,
    }
}

/// Polls `fds` (a private copy of the program's array); `revents` are filled in. The answer is the
/// number of descriptors with events or a negated errno.
pub(crate) fn poll(fds: &mut [pollfd], timeout: Timeout, mask: *const sigset_t) -> isize {
    if netmap::wait::concerns(fds) {
        return netmap::wait::poll(fds, timeout, mask);
    }
    let mut small = ([NOTHING; SMALL], [0; SMALL]);
    let (mut large_asked, mut large_pins) = (Growable::new(), Growable::new());
    let large = (&raw mut large_asked, &raw mut large_pins);
    let (asked, pins) = if fds.len() <= SMALL {
        let parts = (small.0.get_mut(..fds.len()), small.1.get_mut(..fds.len()));
        (parts.0.unwrap_or(&mut []), parts.1.unwrap_or(&mut []))
    } else {
        // SAFETY: both are on this frame, and `held` uses them only when these slices are used no more.
        let (asked, pins) = unsafe { (&mut *large.0, &mut *large.1) };
        if !fds.iter().all(|_| asked.push(NOTHING) && pins.push(0)) {
            asked.clear();
            pins.clear();
            return -(libc::ENOMEM as isize);
        }
        (asked.as_mut_slice(), pins.as_mut_slice())
    };
    let held = Held { fds, pins, large };
    // SAFETY: `held` keeps nothing but the addresses, and uses them only before and after the wait.
    held.during(|| unsafe { Wait { fds: &mut *held.fds, asked, pins: &*held.pins } }.run(timeout, mask))
}

const NOTHING: pollfd = pollfd { fd: -1, events: 0, revents: 0 };

/// The arrays of a call, and the connections that it keeps while the thread may sleep.
struct Held {
    fds: *mut [pollfd],
    /// The index plus one of each connection: another thread may close the descriptor meanwhile, and the number may
    /// come to mean something else.
    pins: *mut [u32],
    /// Where the private arrays lie if there are many entries.
    large: (*mut Growable<pollfd>, *mut Growable<u32>),
}

impl Held {
    /// Keeps the connections of the array.
    fn pin_all(&self) {
        // SAFETY: the arrays live as long as the call, which has not begun to use them.
        let (fds, pins) = unsafe { (&mut *self.fds, &mut *self.pins) };
        for (p, pin) in fds.iter_mut().zip(pins) {
            p.revents = 0;
            if let Some((index, c)) = upgrade::upgraded(p.fd) {
                c.pin();
                c.poll_sleepers.fetch_add(1, SeqCst);
                *pin = index + 1;
            }
        }
    }
}

impl Hold for Held {
    fn take(&self) {
        self.pin_all();
    }

    fn give_back(&self) {
        // SAFETY: as in `pin_all`; the call does not use them any more.
        let (fds, pins) = unsafe { (&mut *self.fds, &*self.pins) };
        disarm(fds, pins);
        for &pin in pins {
            if let Some(c) = pinned(pin) {
                c.poll_sleepers.fetch_sub(1, SeqCst);
                c.put(pin - 1);
            }
        }
        // SAFETY: as above; the arrays above may lie in them, and are not used again.
        unsafe {
            (*self.large.0).clear();
            (*self.large.1).clear();
        }
    }
}

fn pinned(pin: u32) -> Option<&'static Conn> {
    conn::get(pin.checked_sub(1)?)
}

/// Marks, while a sleep lasts, the entries whose bells end it: for data, for room. No event has these bits.
const AWAITS_DATA: i16 = 1 << 12;
const AWAITS_ROOM: i16 = 1 << 11;

/// One call: the program's entries, what the kernel is asked about each, and the connections that are pinned.
struct Wait<'a> {
    fds: &'a mut [pollfd],
    asked: &'a mut [pollfd],
    pins: &'a [u32],
}

impl Wait<'_> {
    fn run(&mut self, timeout: Timeout, mask: *const sigset_t) -> isize {
        let handlers = thread::handlers_run();
        loop {
            let (found, answer) = self.look(Timeout::Now.slice(0).0, core::ptr::null(), false);
            if found != 0 || answer < 0 {
                return if found != 0 { found } else { answer };
            }
            if timeout.is_over() {
                return 0;
            }
            if thread::handlers_run() != handlers {
                return -(libc::EINTR as isize);
            }
            let hit = spin::spin(&SPIN, self.peer_cpu(), || self.any_of_ours());
            stats::count(|c| if hit { &c.spin_hits } else { &c.spin_misses });
            if hit {
                continue;
            }
            let silent = self.arm();
            if self.any_of_ours() {
                disarm(self.fds, self.pins);
                continue;
            }
            stats::count(|c| &c.sleeps);
            let slice_ns = if silent { SILENT_SLICE_NS } else { SLICE_NS };
            let (found, slept) = self.look(timeout.slice(slice_ns).0, mask, true);
            if found != 0 || slept < 0 {
                return if found != 0 { found } else { slept };
            }
        }
    }

    /// Asks the kernel about everything (sleeping for `slice` at most, bells armed), then this library about its own.
    /// Returns the number of entries with events, or a negated errno; and the kernel's answer.
    fn look(&mut self, slice: timespec, mask: *const sigset_t, armed: bool) -> (isize, isize) {
        for ((p, &pin), k) in self.fds.iter().zip(self.pins).zip(self.asked.iter_mut()) {
            let events = ours(p, pin).map_or(p.events, |c| kernel_interest(c, p.events));
            *k = pollfd { fd: p.fd, events, revents: 0 };
        }
        // SAFETY: a private array and a timeout of ours; the mask is the program's. libc's ppoll is a
        // cancellation point, as the program's own call would be.
        let answer = unsafe { real::ppoll()(self.asked.as_mut_ptr(), self.asked.len() as u64, &slice, mask) };
        let answer = if answer < 0 { -(sys::errno() as isize) } else { answer as isize };
        if armed {
            disarm(self.fds, self.pins);
        }
        if answer < 0 {
            return (0, answer);
        }
        let mut found = 0;
        for ((p, &pin), k) in self.fds.iter_mut().zip(self.pins).zip(self.asked.iter()) {
            p.revents = match ours(p, pin) {
                Some(c) => {
                    if k.revents != 0 {
                        c.kernel_event.store(1, Relaxed);
                    }
                    let always = libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;
                    our_events(c, p.fd) & (p.events | always)
                }
                None => set_events(p, k.revents),
            };
            found += (p.revents != 0) as isize;
        }
        (found, answer)
    }

    /// Whether a look would find an event among what this library serves; cheap, for polling.
    fn any_of_ours(&self) -> bool {
        self.fds.iter().zip(self.pins).any(|(p, &pin)| match ours(p, pin) {
            Some(c) => our_events(c, p.fd) & (p.events | libc::POLLHUP | libc::POLLERR) != 0,
            None => epoll_events(p) != 0,
        })
    }

    fn peer_cpu(&self) -> u32 {
        let first = self.fds.iter().zip(self.pins).find_map(|(p, &pin)| ours(p, pin));
        first.and_then(|c| c.end()).and_then(|end| end.peer_sending_cpu()).map_or(0, |cpu| cpu + 1)
    }

    /// Asks all peers to ring; `disarm` must follow. True if some cannot.
    fn arm(&mut self) -> bool {
        let (mut silent, mut hot) = (false, false);
        for (p, &pin) in self.fds.iter_mut().zip(self.pins) {
            if let Some(c) = ours(p, pin)
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
}

/// The sleep is over: doorbell bytes need not stay any longer for this thread. The words stay armed.
fn disarm(fds: &mut [pollfd], pins: &[u32]) {
    for (p, &pin) in fds.iter_mut().zip(pins) {
        if let Some(c) = pinned(pin) {
            for (mark, room) in [(AWAITS_DATA, false), (AWAITS_ROOM, true)] {
                if p.revents & mark != 0 {
                    bell::drop_waiter(c, room);
                }
            }
            p.revents &= !(AWAITS_DATA | AWAITS_ROOM);
        }
    }
}

/// The upgraded connection of an entry, as long as its descriptor stands for it.
fn ours(p: &pollfd, pin: u32) -> Option<&'static Conn> {
    pinned(pin).filter(|_| table::get(p.fd) == Entry::Connection(pin - 1))
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
