//! What a set has to report: a sweep over its hot connections, and translation of kernel events.

use core::sync::atomic::Ordering::*;

use libc::{EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP, c_int, epoll_event};
use ringway_channel::{End, Path};

use super::hot::Quiet;
use super::set::{self, Inner, Registration};
use crate::conn::Conn;
use crate::{copy, kernel, readiness, sys};

/// Connections that a sweep looks at after the last one that had something to report.
const LOOKS_AFTER_A_FIND: usize = 512;
/// Nesting of epoll sets that is followed; the kernel itself allows 5.
const DEPTH_MAX: u32 = 5;

/// Where the program's events go.
pub(super) struct Output<'a> {
    events: &'a mut [core::mem::MaybeUninit<epoll_event>],
    pub(super) len: usize,
    /// The first so many had been kept from an earlier look at the kernel.
    kept: usize,
}

impl<'a> Output<'a> {
    pub(super) fn new(events: &'a mut [core::mem::MaybeUninit<epoll_event>]) -> Self {
        Output { events, len: 0, kept: 0 }
    }

    pub(super) fn room(&self) -> usize {
        self.events.len() - self.len
    }

    fn push(&mut self, events: u32, data: u64) -> bool {
        match self.events.get_mut(self.len) {
            Some(slot) => {
                slot.write(epoll_event { events, u64: data });
                self.len += 1;
                true
            }
            None => false,
        }
    }

    /// Copies the events to the program. The count, or EFAULT.
    pub(super) fn copy_to(&self, events: *mut epoll_event) -> isize {
        let bytes = self.len * size_of::<epoll_event>();
        // SAFETY: the first `len` events have been written; a bad destination is survived.
        let missing = unsafe { copy::copy(events.cast(), self.events.as_ptr().cast(), bytes) };
        if missing > 0 { -(libc::EFAULT as isize) } else { self.len as isize }
    }

    /// Takes over `count` events that were put into the free part, but none that repeats one which was kept
    /// from an earlier look at the kernel.
    pub(super) fn accept(&mut self, count: usize) {
        let from = self.len;
        for i in from..from + count {
            // SAFETY: the caller has put events there.
            let Some(event) = self.events.get(i).map(|e| unsafe { e.assume_init() }) else { return };
            if !self.is_among_first(self.kept, event.u64) {
                self.push(event.events, event.u64);
            }
        }
    }

    /// Whether an event with this data is among the first `count`.
    fn is_among_first(&self, count: usize, data: u64) -> bool {
        // SAFETY: the first `len` events have been written.
        self.events.iter().take(count.min(self.len)).any(|e| unsafe { e.assume_init() }.u64 == data)
    }

    /// Adds an event unless one with the same data is there already.
    pub(super) fn push_unless_reported(&mut self, events: u32, data: u64) {
        if !self.is_among_first(self.len, data) {
            self.push(events, data);
        }
    }

    /// The free part, for the kernel to write to.
    pub(super) fn free_part(&mut self) -> &mut [core::mem::MaybeUninit<epoll_event>] {
        self.events.get_mut(self.len..).unwrap_or(&mut [])
    }
}

impl Inner {
    /// Looks at the hot connections and reports what is due, starting where the last sweep ended.
    pub(super) fn sweep(&mut self, out: &mut Output) {
        while let Some(&event) = self.kept.as_slice().first().filter(|_| out.room() > 0) {
            out.push_unless_reported(event.events, event.u64);
            out.kept = out.len;
            self.kept.swap_remove(0);
        }
        // What the kernel has just reported may have changed over since. Twice in one answer, a program that has read
        // everything after the first would find nothing after the second.
        let reported = out.len;
        // Nothing leaves the list during the round, so that nobody gets two turns.
        let mut rest = self.hot.len();
        while rest > 0 && out.room() > 0 {
            rest -= 1;
            let Some((at, slot)) = self.take_turn() else { continue };
            let Some(r) = self.registrations.as_mut_slice().get_mut(slot as usize) else { continue };
            if out.is_among_first(reported, r.data) {
                continue;
            }
            let quiet = match look(r) {
                Look::Due(events) => {
                    out.push(events, r.data);
                    // Those far behind get their look at the next wait, and these their answers sooner.
                    rest = rest.min(LOOKS_AFTER_A_FIND);
                    None
                }
                Look::Nothing(quiet) => quiet,
            };
            self.set_quiet(at, quiet);
        }
    }

    /// Whether a sweep would report anything; takes note of nothing that a sweep would.
    pub(super) fn has_due(&mut self, depth: u32) -> bool {
        self.has_due_among(usize::MAX, depth)
    }

    /// As `has_due`, with a look at so many of the hot connections at most; the next call goes on behind them. A sweep
    /// that follows begins at what was found.
    pub(super) fn has_due_among(&mut self, looks: usize, depth: u32) -> bool {
        for _ in 0..self.hot.len().min(looks) {
            let Some((at, slot)) = self.take_turn() else { continue };
            let Some(r) = self.registration(slot) else { continue };
            let Some(ready) = ready(r) else { continue };
            if ready.is_due(r) {
                self.next = at;
                return true;
            }
            let quiet = ready.quiet(r);
            self.set_quiet(at, quiet);
        }
        self.nested_due(depth, |_, _| {})
    }

    /// Before a registration is changed over, which makes the kernel report once more what it has reported already:
    /// takes note of that. Unknown, and reported twice, if the kernel has anything for the set at this moment.
    pub(super) fn recall(&mut self, conn: &Conn, slot: u32) {
        let epfd = self.epfd;
        let Some(r) = self.registration(slot).filter(|r| !r.converted && r.is_edge_triggered()) else { return };
        let fd = descriptor(conn, r);
        // In this order: what comes meanwhile is new.
        let tcp_bytes = received(fd);
        let state = kernel::poll_now(fd, libc::POLLOUT | libc::POLLRDHUP) as u16 as u32;
        if kernel::poll_now(epfd, libc::POLLIN) == 0 {
            (r.edge, r.seen_tcp_bytes) = (false, tcp_bytes);
            r.was_full |= state & EPOLLOUT as u32 == 0;
            r.seen_endings = state & ENDINGS;
        }
    }

    /// Asks the nested sets; calls `report` for each that has something and is wanted.
    pub(super) fn nested_due(&mut self, depth: u32, mut report: impl FnMut(u32, u64)) -> bool {
        let mut any = false;
        for n in self.nested.as_slice().iter().filter(|n| n.events & EPOLLIN as u32 != 0 && n.set != self.index) {
            if depth < DEPTH_MAX && set::get(n.set).is_some_and(|s| s.lock().has_due(depth + 1)) {
                any = true;
                report(EPOLLIN as u32, n.data);
            }
        }
        any
    }

    /// Whether the kernel's event with this data comes from a nested set that has nothing for the program:
    /// only tokens of ours.
    fn is_idle_nested(&self, data: u64) -> bool {
        let nested = self.nested.as_slice().iter().find(|n| n.data == data && n.set != self.index);
        nested.is_some_and(|n| set::get(n.set).is_some_and(|s| s.is_mixed() && !s.lock().settle()))
    }

    /// Takes the kernel's pending tokens out of the set. Whether anything is left to report, from the
    /// kernel or from the rings. Events that are not ours are kept for the next wait.
    pub(super) fn settle(&mut self) -> bool {
        let mut events = [epoll_event { events: 0, u64: 0 }; 32];
        // SAFETY: an array of ours of that length.
        let n =
            unsafe { sys::epoll_pwait(self.epfd, events.as_mut_ptr(), events.len() as c_int, 0, core::ptr::null()) };
        let kept = self.translate(events.get_mut(..n.max(0) as usize).unwrap_or(&mut []));
        for event in events.iter().take(kept) {
            if !self.kept.as_slice().iter().any(|k| k.u64 == event.u64) {
                self.kept.push(*event);
            }
        }
        self.kept.len() > 0 || self.has_due(1)
    }

    /// Turns what the kernel reported into what the program gets: tokens make their connections hot
    /// and vanish, events of nested sets are judged by those sets, everything else stays. Returns the number
    /// of events left.
    pub(super) fn translate(&mut self, events: &mut [epoll_event]) -> usize {
        let mut kept = 0;
        for i in 0..events.len() {
            let Some(&event) = events.get(i) else { break };
            match set::token_slot(event.u64) {
                Some(slot) => {
                    if let Some(r) = self.registration(slot)
                        && let Some(conn) = r.connection()
                    {
                        conn.kernel_event.store(1, Relaxed);
                        // Of a direction that has gone back to TCP, the kernel alone knows what is new.
                        r.edge |= conn.end().is_some_and(|end| {
                            [end.rx_path(), end.tx_path(), end.peer_tx_path()].contains(&Path::Demoted)
                        });
                    }
                    self.heat(slot);
                    self.note_report(slot);
                }
                None if self.is_idle_nested(event.u64) => {}
                None => {
                    if let Some(place) = events.get_mut(kept) {
                        *place = event;
                        kept += 1;
                    }
                }
            }
        }
        kept
    }
}

/// Events that stay once they have come.
const ENDINGS: u32 = (EPOLLRDHUP | EPOLLHUP | EPOLLERR) as u32;

/// What the connection offers, before the registration's edge state is applied.
struct Ready {
    conn: &'static Conn,
    end: End<'static>,
    events: u32,
    /// The peer's tail before the look: what has come since is news.
    tail: u64,
    /// Data that TCP has brought, as long as there may be more of it.
    tcp_bytes: Option<u64>,
}

impl Ready {
    /// Whether there is something to report to this registration.
    #[inline]
    fn is_due(&self, r: &Registration) -> bool {
        if self.events & r.wanted() == 0 {
            return false;
        }
        let new_by_tcp = self.tcp_bytes.is_some_and(|bytes| bytes != r.seen_tcp_bytes);
        let new_data = self.events & EPOLLIN as u32 != 0 && (self.tail != r.seen_tail || new_by_tcp);
        let new_room = self.has_room() && r.was_full;
        let new_end = self.events & ENDINGS & !r.seen_endings != 0;
        !r.is_edge_triggered() || r.edge || new_data || new_room || new_end
    }

    fn has_room(&self) -> bool {
        self.events & EPOLLOUT as u32 != 0
    }

    /// With nothing to report: where a glance shows whether that has changed. `None` if something else than more
    /// bytes from the peer may change it of which neither a call of this process nor the kernel's event will tell.
    fn quiet(&self, r: &Registration) -> Option<Quiet> {
        let options = &self.end.page.options;
        let on_rings = [self.end.rx_path(), self.end.tx_path(), self.end.peer_tx_path()] == [Path::Ring; 3];
        let calm = self.conn.kernel_event.load(Relaxed) == 0 && options.peer_finished.load(Relaxed) == 0;
        let each_byte_counts = options.receive_low_water_bytes.load(Relaxed) <= 1;
        // Room is an edge only after a send that found none, which makes the next look a full one.
        let waits_for_room = r.wanted() & EPOLLOUT as u32 != 0 && (r.was_full || !self.has_room());
        (on_rings && calm && each_byte_counts && !waits_for_room).then(|| Quiet::new(self.end.peer_tail(), self.tail))
    }
}

#[inline]
fn ready(r: &Registration) -> Option<Ready> {
    let conn = r.connection()?;
    let end = conn.end()?;
    let fd = descriptor(conn, r);
    let tail = end.consumer().published();
    let events = readiness::events_watched(conn, &end, fd) as u16 as u32;
    let by_tcp = end.rx_path() == Path::Tcp && r.is_edge_triggered() && events & EPOLLIN as u32 != 0;
    let tcp_bytes = by_tcp.then(|| end.data_among(received(fd)));
    Some(Ready { conn, end, events, tail, tcp_bytes })
}

#[cold]
fn received(fd: libc::c_int) -> u64 {
    kernel::offsets(fd).map_or(0, |offsets| offsets.received)
}

/// The registered descriptor may be closed while a duplicate lives on.
fn descriptor(conn: &Conn, r: &Registration) -> libc::c_int {
    let known = conn.fd.load(Relaxed);
    if known >= 0 { known } else { r.fd }
}

/// What a full look at a hot registration comes to.
enum Look {
    /// These events are to be reported.
    Due(u32),
    Nothing(Option<Quiet>),
}

/// Looks at a hot registration; takes note of the edge.
#[inline]
fn look(r: &mut Registration) -> Look {
    let Some(ready) = ready(r) else { return Look::Nothing(None) };
    let full = !ready.has_room();
    let is_due = ready.is_due(r);
    if full {
        r.was_full = true;
    }
    if !is_due {
        return Look::Nothing(ready.quiet(r));
    }
    r.idle_sleeps = 0;
    (r.edge, r.was_full, r.seen_tail) = (false, full, ready.tail);
    r.seen_tcp_bytes = ready.tcp_bytes.unwrap_or(r.seen_tcp_bytes);
    r.seen_endings = ready.events & ENDINGS;
    let events = ready.events & r.wanted();
    r.spent = r.is_one_shot();
    Look::Due(events)
}
