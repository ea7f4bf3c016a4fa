//! `epoll_wait` and its relatives.

use core::cell::Cell;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::*;

use libc::{c_int, epoll_event, sigset_t, timespec};

use super::report::Output;
use super::set::Set;
use crate::leave::Hold;
use crate::{real, spin, stats, sys, thread};

/// While rings have events, the kernel is asked at least this often, in microseconds.
const KERNEL_EVERY_US: u64 = 5;
/// Sleep when a peer cannot ring, in nanoseconds.
const SILENT_SLICE_NS: u64 = 5_000_000;
/// Longest sleep while connections are upgraded, in nanoseconds: bounds the harm of a hostile peer.
const SLICE_NS: u64 = 1_000_000_000;

/// How long a wait may last.
#[derive(Clone, Copy)]
pub(crate) enum Timeout {
    Never,
    /// Monotonic time in nanoseconds.
    At(u64),
    Now,
}

impl Timeout {
    pub(crate) fn from_ms(ms: c_int) -> Timeout {
        match ms {
            0 => Timeout::Now,
            ms if ms < 0 => Timeout::Never,
            ms => Timeout::At(sys::monotonic_ns() + ms as u64 * 1_000_000),
        }
    }

    pub(crate) fn from_timespec(t: timespec) -> Timeout {
        match (t.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(t.tv_nsec as u64) {
            0 => Timeout::Now,
            ns => Timeout::At(sys::monotonic_ns().saturating_add(ns)),
        }
    }

    /// What is left, at most `slice_ns`; and whether it is all that is left.
    pub(crate) fn slice(self, slice_ns: u64) -> (timespec, bool) {
        let left = match self {
            Timeout::Now => 0,
            Timeout::Never => u64::MAX,
            Timeout::At(at) => at.saturating_sub(sys::monotonic_ns()),
        };
        let ns = left.min(slice_ns);
        (timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }, left <= slice_ns)
    }

    fn is_now(self) -> bool {
        matches!(self, Timeout::Now)
    }

    pub(crate) fn is_over(self) -> bool {
        match self {
            Timeout::Now => true,
            Timeout::Never => false,
            Timeout::At(at) => sys::monotonic_ns() >= at,
        }
    }
}

/// Events reported by one wait at most; the program asks again for more.
const EVENTS_MAX: usize = 256;

/// Connections looked at between two looks at the clock and at the kernel, while polling.
const LOOKS: usize = 16;

/// Every so many waits the kernel reports first, so that rings that always have something cannot keep
/// the program from hearing of anything else.
const KERNEL_TURN: u32 = 4;
/// With room for fewer events than this, rings could fill every answer.
const CROWDED: usize = 8;

/// Waits as `epoll_pwait2` does, on a set with upgraded connections or one that may get some while the
/// thread sleeps. `events` may be a bad address.
pub(crate) fn wait(
    set: &'static Set,
    epfd: c_int,
    events: *mut epoll_event,
    max: usize,
    timeout: Timeout,
    mask: *const sigset_t,
) -> isize {
    // SAFETY: the program's own call.
    if let Some(answer) = set.wait_plainly(|| unsafe { wait_plain(set, epfd, events, max, timeout, mask) }) {
        // Nothing left: tokens of connections that another thread has just upgraded.
        if answer != 0 || timeout.is_over() {
            return answer;
        }
    }
    let mut buffer = [MaybeUninit::uninit(); EVENTS_MAX];
    let mut out = Output::new(buffer.get_mut(..max.min(EVENTS_MAX)).unwrap_or(&mut []));
    let answer = wait_mixed(set, epfd, &mut out, timeout, mask);
    if answer < 0 {
        return answer;
    }
    out.copy_to(events)
}

/// A wait in the kernel through libc, which is a cancellation point. Tokens are taken out; 0 means
/// that nothing was left or the time is over.
unsafe fn wait_plain(
    set: &'static Set,
    epfd: c_int,
    events: *mut epoll_event,
    max: usize,
    timeout: Timeout,
    mask: *const sigset_t,
) -> isize {
    let ms = match timeout {
        Timeout::Now => 0,
        Timeout::Never => -1,
        Timeout::At(_) => {
            let (left, _) = timeout.slice(i32::MAX as u64 * 1_000_000);
            (left.tv_sec * 1_000 + (left.tv_nsec + 999_999) / 1_000_000) as c_int
        }
    };
    // SAFETY: the caller's promise.
    let answer = unsafe { real::epoll_pwait()(epfd, events, max.min(c_int::MAX as usize) as c_int, ms, mask) };
    if answer <= 0 {
        return if answer < 0 { -(sys::errno() as isize) } else { 0 };
    }
    if !set.is_mixed() {
        return answer as isize;
    }
    // SAFETY: the kernel wrote `answer` events.
    let got = unsafe { core::slice::from_raw_parts_mut(events, answer as usize) };
    set.lock().translate(got) as isize
}

fn wait_mixed(set: &'static Set, epfd: c_int, out: &mut Output, timeout: Timeout, mask: *const sigset_t) -> isize {
    let handlers = thread::handlers_run();
    let mut kernel_first = set.waits.fetch_add(1, Relaxed).is_multiple_of(KERNEL_TURN) && out.room() < CROWDED;
    loop {
        if !kernel_first {
            set.lock().sweep(out);
        }
        if kernel_first || timeout.is_now() || kernel_is_due(set) {
            let answer = ask_kernel(set, epfd, out, Timeout::Now.slice(0).0, core::ptr::null());
            if answer < 0 && out.len == 0 {
                return answer;
            }
            // A kernel event for one of ours may have been all there was: it is hot now.
            if out.len == 0 || kernel_first {
                set.lock().sweep(out);
            }
            kernel_first = false;
        }
        report_nested(set, out);
        if out.len > 0 || timeout.is_over() {
            return out.len as isize;
        }
        if thread::handlers_run() != handlers {
            return -(libc::EINTR as isize);
        }
        if spin_for_events(set, epfd, out) {
            if out.len == 0 {
                continue;
            }
            // The kernel has reported: asked again, it would repeat itself.
            set.lock().sweep(out);
            return out.len as isize;
        }
        let answer = sleep(set, epfd, out, timeout, mask);
        if out.len > 0 || answer < 0 {
            return if out.len > 0 { out.len as isize } else { answer };
        }
    }
}

/// Whether the kernel has not been asked for a while.
fn kernel_is_due(set: &Set) -> bool {
    spin::tsc().wrapping_sub(set.kernel_tsc.load(Relaxed)) > spin::cycles(KERNEL_EVERY_US)
}

fn report_nested(set: &'static Set, out: &mut Output) {
    let mut inner = set.lock();
    if inner.nested.len() == 0 || out.room() == 0 {
        return;
    }
    let mut room = out.room();
    let mut found = [(0u32, 0u64); 8];
    let mut count = 0;
    inner.nested_due(0, |events, data| {
        if let Some(place) = found.get_mut(count).filter(|_| room > 0) {
            *place = (events, data);
            count += 1;
            room -= 1;
        }
    });
    for &(events, data) in found.iter().take(count) {
        out.push_unless_reported(events, data);
    }
}

/// Polls the hot connections for a while, and the kernel now and then: what that reports goes to `out`.
///
/// Looks at the kernel count as polling: on a busy machine each one is overdue when its turn comes, and a
/// thread that went on for their sake would never sleep, nor let a signal in by the call's own mask.
fn spin_for_events(set: &'static Set, epfd: c_int, out: &mut Output) -> bool {
    let peer_cpu = {
        let mut inner = set.lock();
        if inner.hot.len() == 0 {
            return false;
        }
        let first = inner.hot.as_slice().first().copied();
        first
            .and_then(|hot| inner.registration(hot.slot).and_then(|r| r.connection()))
            .and_then(|c| c.end())
            .and_then(|end| end.peer_sending_cpu())
            .map_or(0, |cpu| cpu + 1)
    };
    let hit = spin::spin(&set.spin, peer_cpu, || {
        if kernel_is_overdue(set) {
            ask_kernel(set, epfd, out, Timeout::Now.slice(0).0, core::ptr::null());
        }
        out.len > 0 || set.lock().has_due_among(LOOKS, 0)
    });
    stats::count(|c| if hit { &c.spin_hits } else { &c.spin_misses });
    hit
}

/// While polling the rings, the kernel gets a look now and then.
fn kernel_is_overdue(set: &Set) -> bool {
    spin::tsc().wrapping_sub(set.kernel_tsc.load(Relaxed)) > spin::cycles(4 * KERNEL_EVERY_US)
}

/// Arms, looks once more, sleeps in the kernel, disarms.
fn sleep(set: &'static Set, epfd: c_int, out: &mut Output, timeout: Timeout, mask: *const sigset_t) -> isize {
    let armed = Armed { set, silent: Cell::new(false) };
    armed.during(|| {
        set.lock().sweep(out);
        if out.len > 0 || set.lock().nested_due(0, |_, _| {}) {
            return 0;
        }
        stats::count(|c| &c.sleeps);
        let (slice, _) = timeout.slice(if armed.silent.get() { SILENT_SLICE_NS } else { SLICE_NS });
        ask_kernel(set, epfd, out, slice, mask)
    })
}

/// A set whose bells are armed for a sleep.
struct Armed {
    set: &'static Set,
    /// Some peer cannot ring.
    silent: Cell<bool>,
}

impl Hold for Armed {
    fn take(&self) {
        self.silent.set(self.set.lock().arm(0));
    }

    fn give_back(&self) {
        self.set.lock().disarm(0);
    }
}

/// One kernel wait into the free part of the output; tokens are taken out. The answer is negative for
/// an error.
fn ask_kernel(set: &'static Set, epfd: c_int, out: &mut Output, timeout: timespec, mask: *const sigset_t) -> isize {
    let free = out.free_part();
    let (at, max) = (free.as_mut_ptr().cast::<epoll_event>(), free.len().min(c_int::MAX as usize) as c_int);
    // SAFETY: `free` is writable for `max` events; the timeout is ours; the mask is the caller's.
    let answer = unsafe { kernel_wait(epfd, at, max, &timeout, mask) };
    set.kernel_tsc.store(spin::tsc(), Relaxed);
    if answer > 0 {
        // SAFETY: the kernel wrote `answer` events.
        let got = unsafe { core::slice::from_raw_parts_mut(at, answer as usize) };
        let kept = set.lock().translate(got);
        out.accept(kept);
    }
    answer
}

/// `epoll_pwait2`, or `epoll_pwait` where it is missing.
///
/// # Safety
/// As for the system call.
unsafe fn kernel_wait(
    epfd: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: &timespec,
    mask: *const sigset_t,
) -> isize {
    // SAFETY: the caller's promise. libc's function is a cancellation point, as the program's call is.
    unsafe {
        let answer = real::epoll_pwait2()(epfd, events, max, timeout, mask);
        let answer = if answer < 0 { -(sys::errno() as isize) } else { answer as isize };
        if answer != -(libc::ENOSYS as isize) {
            return answer;
        }
        let ms =
            timeout.tv_sec * 1_000 + timeout.tv_nsec.div_euclid(1_000_000) + (timeout.tv_nsec % 1_000_000 != 0) as i64;
        sys::epoll_pwait(epfd, events, max, ms as c_int, mask)
    }
}

#[cfg(test)]
mod tests;
