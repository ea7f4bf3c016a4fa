//! Sleeping for one connection: poll a while, arm the sleep word, look once more, sleep.
//!
//! A thread that waits for a ring sleeps on the futex in the shared sleep word, which is as quick as a
//! Unix socket. The kernel's news about the TCP socket (FIN, reset, a killed peer) does not wake a
//! futex, so the sleep is sliced and each slice ends with a look at the socket; an orderly close wakes
//! at once through `ask_peer_to_look`. A thread that waits for TCP sleeps in `poll`.

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use core::sync::atomic::Ordering::*;

use libc::{c_int, pollfd, timespec};
use ringway_channel::wait::{BELL_FUTEX, BELL_TCP};
use ringway_channel::{End, Path};

use crate::conn::Conn;
use crate::spin::{self, cycles, tsc};
use crate::{bell, confine, kernel, real, stats, sys, thread};

/// First and longest stretch of sleep between two looks at the kernel socket, in microseconds.
const SLICE_FIRST_US: u64 = 20_000;
const SLICE_MAX_US: u64 = 250_000;
/// Stretch after the peer asked for a look, in microseconds: its FIN is on the way.
const SLICE_ASKED_US: u64 = 1_000;
/// Successful polls in a row after which the peer may leave out its fence.
const HOT_STREAK: u32 = 64;

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Something may have changed: look again.
    Again,
    TimedOut,
    /// The socket does not block: somebody else has set O_NONBLOCK.
    WouldBlock,
    /// A signal handler ran whose action does not restart calls.
    Interrupted,
}

/// What a call knows about its own waiting.
pub(crate) struct Waiter {
    /// Monotonic time at which to give up, in nanoseconds; `None` = never.
    deadline_ns: Option<u64>,
    timeout_us: u64,
    interruptions: u32,
    handlers: u32,
    /// The kernel has been asked whether the socket blocks.
    judged: bool,
    /// Bytes have been moved already: any handler ends the call.
    partial: bool,
    slice_us: u64,
    /// For a reader that looks ahead: how far it has seen. Otherwise news is what lies beyond the head.
    pub(crate) seen: Option<u64>,
}

impl Waiter {
    /// `timeout_us` is SO_RCVTIMEO or SO_SNDTIMEO; 0 = none. The clock starts at the first sleep.
    #[inline]
    pub(crate) fn new(timeout_us: u64) -> Waiter {
        Waiter {
            deadline_ns: None,
            timeout_us,
            interruptions: thread::interrupted_count(),
            handlers: thread::handlers_run(),
            judged: false,
            partial: false,
            slice_us: SLICE_FIRST_US,
            seen: None,
        }
    }

    /// Says whether the call has moved bytes already.
    pub(crate) fn with(&mut self, partial: bool) -> &mut Waiter {
        self.partial = partial;
        self
    }

    fn interrupted(&self) -> bool {
        thread::interrupted_count() != self.interruptions || (self.partial && thread::handlers_run() != self.handlers)
    }

    /// Whether the socket may block, asked once, before the first sleep: the flag belongs to the open file
    /// and others may have changed it.
    fn may_block(&mut self, end: &End, fd: c_int) -> bool {
        if !self.judged {
            self.judged = true;
            if kernel::is_nonblocking(fd) {
                end.page.options.nonblocking.store(1, Relaxed);
                return false;
            }
        }
        true
    }

    /// The next sleep's length, or how the wait ends now.
    fn next_slice(&mut self, asked: bool) -> Result<timespec, Wake> {
        if self.interrupted() {
            return Err(Wake::Interrupted);
        }
        let mut slice_us = if asked { SLICE_ASKED_US } else { self.slice_us };
        self.slice_us = (self.slice_us * 2).min(SLICE_MAX_US);
        if self.timeout_us > 0 {
            let now = sys::monotonic_ns();
            let deadline = *self.deadline_ns.get_or_insert(now + self.timeout_us * 1_000);
            let left_us = deadline.saturating_sub(now).div_ceil(1_000);
            if left_us == 0 {
                return Err(Wake::TimedOut);
            }
            slice_us = slice_us.min(left_us);
        }
        Ok(sys::timespec_from_us(slice_us))
    }

    /// What an EINTR from the kernel means for the call.
    fn after_sleep(&self, answer: isize) -> Wake {
        let with_timeout = self.timeout_us > 0 && answer == -(libc::EINTR as isize);
        if self.interrupted() || with_timeout { Wake::Interrupted } else { Wake::Again }
    }

    /// Waits until the incoming direction may have something. The connection is pinned.
    pub(crate) fn readable(&mut self, conn: &Conn, end: &End, fd: c_int) -> Wake {
        if end.rx_path() != Path::Ring || end.peer_tx_path() == Path::Demoted {
            return self.readable_on_tcp(conn, end, fd);
        }
        let consumer = end.consumer();
        let seen = self.seen;
        let has_news = || consumer.published() != seen.unwrap_or_else(|| consumer.head());
        if spin_for_news(conn, end, has_news) {
            return Wake::Again;
        }
        if !self.may_block(end, fd) {
            return Wake::WouldBlock;
        }
        let word = end.own_receiver();
        if word.arm(BELL_FUTEX) {
            barrier();
        }
        let asked = end.looks_asked() != conn.looks_seen.load(Relaxed);
        if has_news() || end.peer_tx_path() == Path::Demoted {
            word.disarm(BELL_FUTEX);
            return Wake::Again;
        }
        if look(conn, end, fd) {
            return Wake::Again;
        }
        self.futex_sleep(word, conn, end, fd, asked)
    }

    /// Waits until the outgoing ring may have room. The connection is pinned.
    pub(crate) fn writable(&mut self, conn: &Conn, end: &End, fd: c_int) -> Wake {
        if end.tx_path() != Path::Ring {
            return if self.may_block(end, fd) { self.tcp_event(fd, libc::POLLOUT) } else { Wake::WouldBlock };
        }
        let producer = end.producer();
        let has_room = || producer.free(1).is_ok_and(|n| n > 0) || producer.free(1).is_err();
        if spin::spin(&conn.spin, end.peer_receiving_cpu().map_or(0, |c| c + 1), has_room) {
            return Wake::Again;
        }
        if !self.may_block(end, fd) {
            return Wake::WouldBlock;
        }
        let word = end.own_sender();
        if word.arm(BELL_FUTEX) {
            barrier();
        }
        let asked = end.looks_asked() != conn.looks_seen.load(Relaxed);
        if has_room() || look(conn, end, fd) {
            word.disarm(BELL_FUTEX);
            return Wake::Again;
        }
        self.futex_sleep(word, conn, end, fd, asked)
    }

    fn futex_sleep(
        &mut self,
        word: ringway_channel::wait::SleepWord,
        conn: &Conn,
        end: &End,
        fd: c_int,
        asked: bool,
    ) -> Wake {
        let slice = match self.next_slice(asked) {
            Ok(slice) => slice,
            Err(wake) => return wake,
        };
        let value = word.futex_value();
        if value & BELL_FUTEX == 0 {
            return Wake::Again;
        }
        stats::count(|c| &c.sleeps);
        // SAFETY: the word is in a mapping that the pin keeps; a hostile peer can cause spurious wakes only.
        let answer = unsafe { sys::futex_wait(core::ptr::from_ref(word.0).cast(), value, Some(&slice), false) };
        cancellation_point();
        if answer != 0 {
            look(conn, end, fd);
        }
        self.after_sleep(answer)
    }

    /// Waits for bytes on TCP, or for the bell that the peer rings there once it has switched.
    fn readable_on_tcp(&mut self, conn: &Conn, end: &End, fd: c_int) -> Wake {
        if !self.may_block(end, fd) {
            return Wake::WouldBlock;
        }
        bell::arm_receiver(conn, end);
        // The peer may have switched, and published without ringing, before the bell was armed.
        if end.ring_is_next() && end.consumer().has_news() {
            return Wake::Again;
        }
        self.tcp_event(fd, libc::POLLIN | libc::POLLRDHUP)
    }

    /// Waits for the TCP socket itself.
    fn tcp_event(&mut self, fd: c_int, events: i16) -> Wake {
        let slice = match self.next_slice(false) {
            Ok(slice) => slice,
            Err(wake) => return wake,
        };
        let ms = (slice.tv_sec * 1_000 + (slice.tv_nsec + 999_999) / 1_000_000) as c_int;
        let mut p = pollfd { fd, events, revents: 0 };
        // SAFETY: one pollfd of ours; libc's poll is a cancellation point, and nothing here needs dropping.
        let answer = unsafe { real::poll()(&mut p, 1, ms) };
        let answer = if answer < 0 { -(sys::errno() as isize) } else { 0 };
        self.after_sleep(answer)
    }
}

/// Polls the ring for news.
#[inline]
pub(crate) fn spin_for_news(conn: &Conn, end: &End, has_news: impl Fn() -> bool) -> bool {
    let hit = spin::spin(&conn.spin, peer_cpu(end), look_for_news(conn, end, has_news));
    if hit {
        stats::count(|c| &c.spin_hits);
        heat(conn, end);
    } else {
        stats::count(|c| &c.spin_misses);
    }
    hit
}

/// Polls the ring for a moment where the last polls have paid. Receive lock held.
#[inline(always)]
pub(crate) fn has_news_at_once(conn: &Conn, end: &End) -> bool {
    // What success changes is changed before, while there is time.
    stats::count(|c| &c.spin_hits);
    heat(conn, end);
    let hit = spin::spin_at_once(&conn.spin, peer_cpu(end), look_for_news(conn, end, || end.consumer().has_news()));
    if !hit {
        stats::take_back(|c| &c.spin_hits);
    }
    hit
}

#[inline(always)]
fn heat(conn: &Conn, end: &End) {
    if conn.spin.streak.load(Relaxed) >= HOT_STREAK {
        end.own_receiver().heat();
    }
}

#[inline(always)]
fn peer_cpu(end: &End) -> u32 {
    end.peer_sending_cpu().map_or(0, |c| c + 1)
}

/// One look for news; prefetches the next data line so that it travels with the index line.
#[inline(always)]
fn look_for_news(conn: &Conn, end: &End, has_news: impl Fn() -> bool) -> impl FnMut() -> bool {
    let next = conn.area(0, false).wrapping_add(end.consumer().next_position_in_first_class());
    move || {
        // SAFETY: a prefetch never faults.
        unsafe { _mm_prefetch(next.cast(), _MM_HINT_T0) };
        has_news()
    }
}

/// Acts on a pending cancellation request, as libc's own socket calls do. Frames that it unwinds have
/// nothing to drop.
#[inline]
pub(crate) fn cancellation_point() -> bool {
    let single_threaded = thread::is_single_threaded();
    if !single_threaded {
        // SAFETY: no lock is held and no critical section is open here.
        unsafe { pthread_testcancel() };
    }
    single_threaded
}

/// The barrier that a HOT sleeper owes its peer (see `ringway_channel::wait`). Where a filter may forbid it, a wake-up
/// that is lost costs the rest of a slice.
pub(crate) fn barrier() {
    if !confine::is_confined() {
        sys::membarrier(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED);
    }
}

/// Looks at the kernel socket; true if the peer is finished (FIN or reset has arrived).
pub(crate) fn look(conn: &Conn, end: &End, fd: c_int) -> bool {
    conn.looks_seen.store(end.looks_asked(), Relaxed);
    conn.looked_tsc.store(tsc(), Relaxed);
    let options = &end.page.options;
    if options.peer_finished.load(Relaxed) != 0 {
        return true;
    }
    let finished = kernel::poll_now(fd, libc::POLLRDHUP) & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0;
    if finished {
        options.peer_finished.store(1, Release);
    }
    finished
}

/// Looks at the kernel socket if `interval_us` have passed since the last look or the peer asks for it.
#[inline]
pub(crate) fn look_if_due(conn: &Conn, end: &End, fd: c_int, interval_us: u64) -> bool {
    (must_look(conn, end) != 0 || is_time_to_look(conn, interval_us)) && look(conn, end, fd)
}

/// Whether `interval_us` have passed since the last look.
#[inline(always)]
pub(crate) fn is_time_to_look(conn: &Conn, interval_us: u64) -> bool {
    tsc().wrapping_sub(conn.looked_tsc.load(Relaxed)) > cycles(interval_us)
}

/// Not 0 if the peer asks for a look, or if one would show what is known already: that the peer is finished.
#[inline(always)]
pub(crate) fn must_look(conn: &Conn, end: &End) -> u32 {
    (end.looks_asked() ^ conn.looks_seen.load(Relaxed)) | end.page.options.peer_finished.load(Relaxed)
}

/// Rings the bells that `SleepWord::bells` returned.
#[inline]
pub(crate) fn ring(end: &End, fd: c_int, word: ringway_channel::wait::SleepWord, bells: u32) {
    if bells != 0 {
        ring_now(end, fd, word, bells);
    }
}

#[cold]
fn ring_now(end: &End, fd: c_int, word: ringway_channel::wait::SleepWord, bells: u32) {
    stats::count(|c| &c.wakes);
    if bells & BELL_FUTEX != 0 {
        // SAFETY: waking never touches the memory.
        unsafe { sys::futex_wake(core::ptr::from_ref(word.0).cast(), c_int::MAX, false) };
    }
    // A byte may go by TCP only while this end's data goes by the ring.
    if bells & BELL_TCP != 0 && end.tx_path() == Path::Ring {
        // SAFETY: one byte of ours.
        let answer = unsafe { sys::send(fd, c"!".as_ptr().cast(), 1, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
        if answer == -(libc::ECONNRESET as isize) {
            // The kernel reports it once, and this was the report.
            end.owe_reset();
        }
    }
}

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}
