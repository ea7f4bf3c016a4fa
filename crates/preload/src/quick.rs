//! The short way of small messages: into a ring that has room, out of one as soon as something is there.
//!
//! A round trip lasts as long as the instructions between one end's sight of a message and the publication of its answer.
//! So here a plain `send` or `recv` of one buffer looks at nothing but what decides, in one function without calls, and
//! counts while the message travels. A call that is not as plain as that goes the full way (`tx`, `rx`), which begins
//! anew: nothing has been done.

use core::sync::atomic::Ordering::*;

use libc::{c_int, c_void, ssize_t};
use ringway_channel::end::SHUT_TX;
use ringway_channel::{End, Path};
use ringway_mem::ring::{PAGE_BYTES, Spans};

use crate::conn::{self, Conn, State};
use crate::lock::RobustLock;
use crate::rx::{self, AS_FILE};
use crate::table::{self, Entry};
use crate::{bell, copy, spin, stats, thread, tx, wait};

/// Longest message that is sent this way, in bytes.
const SEND_MAX_BYTES: usize = PAGE_BYTES as usize;
/// Flags that change nothing here.
const PLAIN_FLAGS: c_int = AS_FILE | libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;

/// Runs `$body` under a lock of `$end` that is free; a copy of it for ends that need no locked instructions.
macro_rules! locked {
    ($end:expr, $single_threaded:expr, $critical:expr, $side:ident, $ring:ident, $body:expr) => {{
        let lock = RobustLock::of(&$end.page.$side.lock);
        if $single_threaded && !tx::is_shared(&$end) {
            let _held = lock.lock_unshared(&$critical)?;
            $body
        } else {
            let held = lock.try_lock(&$critical)?;
            if held.owner_died() {
                $end.$ring().repair();
            }
            $body
        }
    }};
}

/// Sends the whole buffer; `None`: nothing was done.
#[inline(always)]
pub(crate) fn send(fd: c_int, base: *const c_void, bytes: usize, flags: c_int) -> Option<ssize_t> {
    if flags & !PLAIN_FLAGS != 0 || bytes.wrapping_sub(1) >= SEND_MAX_BYTES {
        return None;
    }
    let conn = upgraded(fd)?;
    let single_threaded = wait::cancellation_point();
    let critical = thread::enter();
    let end = conn.end()?;
    locked!(end, single_threaded, critical, tx, producer, put(conn, &end, fd, base.cast(), bytes))
}

/// Receives what is there or comes at once; `None`: nothing was done.
#[inline(always)]
pub(crate) fn receive(fd: c_int, base: *mut c_void, bytes: usize, flags: c_int) -> Option<ssize_t> {
    if flags & !PLAIN_FLAGS != 0 || bytes == 0 {
        return None;
    }
    let conn = upgraded(fd)?;
    let single_threaded = wait::cancellation_point();
    let critical = thread::enter();
    let end = conn.end()?;
    locked!(end, single_threaded, critical, rx, consumer, get(conn, &end, fd, base.cast(), bytes, flags))
}

/// The upgraded connection behind a descriptor that is known to have one.
#[inline(always)]
fn upgraded(fd: c_int) -> Option<&'static Conn> {
    let Entry::Connection(index) = table::get(fd) else { return None };
    conn::get(index).filter(|c| c.state() == State::Attached)
}

/// Copies a message into the ring and publishes it; send lock held.
#[inline(always)]
fn put(conn: &Conn, end: &End, fd: c_int, base: *const u8, bytes: usize) -> Option<ssize_t> {
    let hindrance = end.page.options.shutdown.load(Relaxed) & SHUT_TX | wait::must_look(conn, end);
    let goes_by_ring = end.tx_path() == Path::Ring
        && hindrance == 0
        && !end.demotion_wanted()
        && (answers(conn, end) || !wait::is_time_to_look(conn, tx::LOOK_US));
    if !goes_by_ring {
        return None;
    }
    let producer = end.producer();
    let spans = producer.place(bytes)?;
    let area = conn.area(spans.class, true);
    // SAFETY: the place lies inside the area of its class, which is mapped for writing; the program's side may fault.
    if unsafe { copy::copy(area.wrapping_add(spans.at), base, bytes) } != 0 {
        return None;
    }
    producer.publish(bytes, spin::cpu_plus_one());
    let word = end.peer_receiver();
    wait::ring(end, fd, word, word.bells());
    stats::count_message(|c| [&c.ring_tx_calls, &c.ring_tx_bytes], bytes);
    conn.answered_head.store(end.consumer().head(), Relaxed);
    Some(bytes as ssize_t)
}

/// Whether this send answers a message that was the peer's last so far, by which it was there: a look at the kernel's
/// socket, and at the clock to see whether one is due, can wait until the next send.
#[inline(always)]
fn answers(conn: &Conn, end: &End) -> bool {
    let consumer = end.consumer();
    consumer.head() != conn.answered_head.load(Relaxed) && !consumer.has_news() && end.peer_closing() == 0
}

/// Takes what is there, or what a short poll brings; receive lock held.
#[inline(always)]
fn get(conn: &Conn, end: &End, fd: c_int, base: *mut u8, bytes: usize, flags: c_int) -> Option<ssize_t> {
    let options = &end.page.options;
    let comes_by_ring = end.rx_path() == Path::Ring
        && end.page.rx.ready.load(Relaxed) != 0
        && options.receive_low_water_bytes.load(Relaxed) <= 1
        && end.peer_tx_path() != Path::Demoted
        && !bell::may_be_due(conn);
    if !comes_by_ring {
        return None;
    }
    let polls = !end.consumer().has_news();
    if polls {
        let blocks = flags & libc::MSG_DONTWAIT == 0 && options.nonblocking.load(Relaxed) == 0;
        if !blocks || !wait::has_news_at_once(conn, end) {
            return None;
        }
    }
    let mut done = take(conn, end, fd, base, bytes)?;
    if done < bytes && end.consumer().has_news() {
        // What lies behind the area's end, or in a larger area.
        done += take(conn, end, fd, base.wrapping_add(done), bytes - done).unwrap_or(0);
    }
    stats::count_message(|c| [&c.ring_rx_calls, &c.ring_rx_bytes], done);
    Some(done as ssize_t)
}

/// Takes the next bytes that lie in one piece; `None`: none, or something that the full way has to judge.
#[inline(always)]
fn take(conn: &Conn, end: &End, fd: c_int, base: *mut u8, wanted: usize) -> Option<usize> {
    let consumer = end.consumer();
    let spans = consumer.stretch(wanted)?;
    let area = conn.area(spans.class, false);
    // SAFETY: the span lies inside the area of its class, which is mapped; the program's side may fault.
    if unsafe { copy::copy(base, area.wrapping_add(spans.at), spans.first) } != 0 {
        return None;
    }
    consumer.consume(spans.first, spin::cpu_plus_one());
    if end.peer_sender().is_armed() {
        wake_sender(end, fd, spans);
    }
    Some(spans.first)
}

/// The peer waits for room: it may have filled the ring since this call looked.
#[cold]
fn wake_sender(end: &End, fd: c_int, taken: Spans) {
    // An impossible tail is found again by the next call, which has no bytes to return.
    let _ = rx::wake_sender(end, fd, taken.class, taken.first);
}

#[cfg(test)]
mod tests;
