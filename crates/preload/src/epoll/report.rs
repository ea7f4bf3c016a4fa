//! What a set has to report: a sweep over its hot connections, and translation of kernel events.

use core::sync::atomic::Ordering::*;

use libc::{EPOLLIN, EPOLLOUT, epoll_event};

use super::set::{self, Inner, Registration};
use crate::conn::Conn;
use crate::readiness;

/// Nesting of epoll sets that is followed; the kernel itself allows 5.
const DEPTH_MAX: u32 = 5;

/// Where the program's events go.
pub(super) struct Output<'a> {
    events: &'a mut [core::mem::MaybeUninit<epoll_event>],
    pub(super) len: usize,
}

impl<'a> Output<'a> {
    pub(super) fn new(events: &'a mut [core::mem::MaybeUninit<epoll_event>]) -> Self {
        Output { events, len: 0 }
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

    /// Adds an event unless one with the same data is there already.
    pub(super) fn push_unless_reported(&mut self, events: u32, data: u64) {
        // SAFETY: the first `len` events have been written.
        let known = self.events.iter().take(self.len).any(|e| unsafe { e.assume_init() }.u64 == data);
        if !known {
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
        let mut looked = 0;
        while looked < self.hot.len() && out.room() > 0 {
            if self.next >= self.hot.len() {
                self.next = 0;
            }
            let Some(&slot) = self.hot.as_slice().get(self.next) else { return };
            match self.registrations.as_mut_slice().get_mut(slot as usize) {
                Some(r) if r.converted => {
                    if let Some(events) = due(r) {
                        out.push(events, r.data);
                    }
                    self.next += 1;
                    looked += 1;
                }
                other => {
                    if let Some(r) = other {
                        r.hot = false;
                    }
                    self.hot.swap_remove(self.next);
                }
            }
        }
    }

    /// Whether a sweep would report anything; changes nothing.
    pub(super) fn has_due(&mut self, depth: u32) -> bool {
        for i in 0..self.hot.len() {
            let Some(&slot) = self.hot.as_slice().get(i) else { break };
            if let Some(r) = self.registration(slot).filter(|r| r.converted)
                && ready(r).is_some_and(|ready| ready.is_due(r))
            {
                return true;
            }
        }
        self.nested_due(depth, |_, _| {})
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

    /// Turns what the kernel reported into what the program gets: tokens make their connections hot
    /// and vanish, everything else stays. Returns the number of events left; `tokens` says if any went.
    pub(super) fn translate(&mut self, events: &mut [epoll_event], tokens: &mut bool) -> usize {
        let mut kept = 0;
        for i in 0..events.len() {
            let Some(&event) = events.get(i) else { break };
            match set::token_slot(event.u64) {
                Some(slot) => {
                    *tokens = true;
                    if let Some(r) = self.registration(slot) {
                        r.edge |= r.converted;
                        if let Some(conn) = r.connection() {
                            conn.kernel_event.store(1, Relaxed);
                        }
                    }
                    self.heat(slot);
                }
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

/// What the connection offers, before the registration's edge state is applied.
struct Ready {
    events: u32,
    tail: u64,
}

impl Ready {
    /// Whether there is something to report to this registration.
    #[inline]
    fn is_due(&self, r: &Registration) -> bool {
        if self.events & r.wanted() == 0 {
            return false;
        }
        let new_data = self.events & EPOLLIN as u32 != 0 && self.tail != r.seen_tail;
        let new_room = self.events & EPOLLOUT as u32 != 0 && r.was_full;
        !r.is_edge_triggered() || r.edge || new_data || new_room
    }
}

#[inline]
fn ready(r: &Registration) -> Option<Ready> {
    let conn = r.connection()?;
    let end = conn.end()?;
    let events = readiness::events(conn, &end, descriptor(conn, r)) as u16 as u32;
    Some(Ready { events, tail: end.consumer().published() })
}

/// The registered descriptor may be closed while a duplicate lives on.
fn descriptor(conn: &Conn, r: &Registration) -> libc::c_int {
    let known = conn.fd.load(Relaxed);
    if known >= 0 { known } else { r.fd }
}

/// What to report for a hot registration now, if anything; takes note of the edge.
#[inline]
fn due(r: &mut Registration) -> Option<u32> {
    let ready = ready(r)?;
    let full = ready.events & EPOLLOUT as u32 == 0;
    let is_due = ready.is_due(r);
    if full {
        r.was_full = true;
    }
    if !is_due {
        return None;
    }
    r.idle_sleeps = 0;
    (r.edge, r.was_full, r.seen_tail) = (false, full, ready.tail);
    let events = ready.events & r.wanted();
    r.spent = r.is_one_shot();
    Some(events)
}
