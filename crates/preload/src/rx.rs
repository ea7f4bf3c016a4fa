//! Receiving on an upgraded connection.

use core::sync::atomic::Ordering::*;
use core::sync::atomic::fence;

use libc::c_int;
use ringway_channel::end::SHUT_RX;
use ringway_channel::{End, Path, RxSource};
use ringway_mem::ring::{Spans, Violation};

use crate::conn::{Conn, Pin};
use crate::iov::{Cursor, Sink};
use crate::leave::Hold;
use crate::thread::Critical;
use crate::tx::{Outcome, lock_rx};
use crate::wait::{self, Waiter, Wake};
use crate::{bell, kernel, reset, spin, stats, sys, thread};

/// Flag of this module alone: the call is `read` or `readv`.
pub(crate) const AS_FILE: c_int = 1 << 24;

/// How often a reader that finds nothing looks whether the peer has finished, in microseconds.
const LOOK_US: u64 = 100;

/// Steps in a row that bring no byte, after which a call looks no further while it holds the lock: more
/// of them only happen to one whose peer keeps it busy.
const IDLE_STEPS_MAX: u32 = 64;

/// What one try under the lock came to.
enum Step {
    /// Some bytes, or something else that is worth another look.
    Got,
    /// Nothing there (yet).
    Empty,
    /// The stream has ended or failed, or TCP serves it now: the kernel has the answer.
    Kernel,
    /// The stream has ended.
    End,
    Error(c_int),
}

/// One call's wishes.
struct Request {
    total: usize,
    /// Return as soon as this many bytes are there.
    target: usize,
    peek: bool,
    /// Discard instead of copying (MSG_TRUNC).
    discard: bool,
    flags: c_int,
}

/// Receives into what `cursor` covers. `flags` are those of `recv`.
pub(crate) fn receive(index: u32, conn: &'static Conn, fd: c_int, cursor: &mut impl Sink, flags: c_int) -> Outcome {
    if flags & (libc::MSG_OOB | libc::MSG_ERRQUEUE) != 0 {
        return Outcome::Kernel;
    }
    let total = cursor.total();
    let critical = thread::enter();
    let Some(end) = conn.end() else { return Outcome::Kernel };
    let low_water = end.page.options.receive_low_water_bytes.load(Relaxed) as usize;
    let target = if flags & libc::MSG_WAITALL != 0 { total } else { low_water.clamp(1, total.max(1)) };
    let request = Request {
        total,
        target,
        peek: flags & libc::MSG_PEEK != 0,
        discard: flags & libc::MSG_TRUNC != 0,
        flags: flags & (libc::MSG_PEEK | libc::MSG_TRUNC),
    };
    if total == 0 {
        drop(critical);
        return nothing_wanted(index, conn, fd, flags);
    }
    let (done, stop) = receive_available(conn, &end, fd, cursor, &request, 0, &critical);
    if done >= request.target && matches!(stop, Step::Got | Step::Empty) {
        stats::count(|c| &c.ring_rx_calls);
        return Outcome::Done(done as isize);
    }
    Pin(index, conn).during(|| {
        drop(critical);
        receive_rest(conn, &end, fd, cursor, &request, done, flags, stop)
    })
}

/// A call for no bytes. On a socket it waits for the first byte like any other (and takes none); as a
/// file operation it does nothing.
#[cold]
fn nothing_wanted(index: u32, conn: &'static Conn, fd: c_int, flags: c_int) -> Outcome {
    if flags & AS_FILE != 0 {
        return Outcome::Done(0);
    }
    let mut byte = 0u8;
    let Ok(mut cursor) = Cursor::single((&raw mut byte).cast(), 1) else { return Outcome::Kernel };
    match receive(index, conn, fd, &mut cursor, flags | libc::MSG_PEEK) {
        Outcome::Done(n) if n > 0 => Outcome::Done(0),
        other => other,
    }
}

/// Takes what is there, at most what is wanted; says why it stopped.
#[inline(always)]
fn receive_available(
    conn: &Conn,
    end: &End,
    fd: c_int,
    cursor: &mut impl Sink,
    request: &Request,
    before: usize,
    critical: &Critical,
) -> (usize, Step) {
    let Some(_held) = lock_rx(end, critical) else { return (0, Step::Empty) };
    if request.peek {
        return peek(conn, end, fd, *cursor, request);
    }
    let (mut done, mut idle_steps) = (0, 0);
    loop {
        let taken = done;
        match step(conn, end, fd, cursor, request, before, &mut done) {
            Step::Got if done == taken && idle_steps == IDLE_STEPS_MAX => return (done, Step::Empty),
            Step::Got if done == taken => idle_steps += 1,
            Step::Got => {
                let all = before + done;
                let drained = !end.consumer().has_news() && end.peer_tx_path() != Path::Demoted;
                if all >= request.total || (all >= request.target && drained) {
                    return (done, Step::Got);
                }
            }
            stop => return (done, stop),
        }
    }
}

/// One try, receive lock held; adds to `done` what it took. `before` bytes were taken by earlier rounds.
#[inline(always)]
fn step(
    conn: &Conn,
    end: &End,
    fd: c_int,
    cursor: &mut impl Sink,
    request: &Request,
    before: usize,
    done: &mut usize,
) -> Step {
    let want = request.total - before - *done;
    match end.rx_source(|| kernel::unread(fd)) {
        Ok(RxSource::Ring { limit_bytes }) => {
            let want = want.min(limit_bytes.min(usize::MAX as u64) as usize);
            ring_step(conn, end, fd, cursor, want, request.discard, done)
        }
        Ok(RxSource::Tcp { limit_bytes }) => {
            tcp_step(end, fd, cursor, (want as u64).min(limit_bytes) as usize, request.flags, done)
        }
        Ok(RxSource::Doorbells { discard_bytes }) => {
            // Looked before: what arrived before a FIN is there by now.
            let finished = wait::look_if_due(conn, end, fd, LOOK_US);
            match discard_doorbells(end, fd, discard_bytes.min(kernel::unread(fd))) {
                0 if finished => ended(end, fd),
                0 => Step::Empty,
                _ => Step::Got,
            }
        }
        Ok(RxSource::TcpAgain) => Step::Kernel,
        Err(violation) => violated(conn, fd, violation),
    }
}

#[cold]
fn violated(conn: &Conn, fd: c_int, violation: Violation) -> Step {
    Step::Error(reset::violated(conn, fd, violation))
}

#[inline(always)]
fn ring_step(
    conn: &Conn,
    end: &End,
    fd: c_int,
    cursor: &mut impl Sink,
    want: usize,
    discard: bool,
    done: &mut usize,
) -> Step {
    if bell::is_due(conn, end) {
        bell::drain_locked(conn, end, fd);
    }
    let consumer = end.consumer();
    let spans = match consumer.spans(want) {
        Ok(spans) => spans,
        Err(violation) => return violated(conn, fd, violation),
    };
    if spans.is_empty() {
        return ring_is_empty(conn, end, fd);
    }
    let taken = if discard { spans.bytes() } else { copy_out(conn, spans, cursor) };
    if taken == 0 {
        return Step::Error(libc::EFAULT);
    }
    consumer.consume(taken, spin::cpu_plus_one());
    stats::add(|c| &c.ring_rx_bytes, taken as u64);
    *done += taken;
    match wake_sender(end, fd, spans.class, taken) {
        Ok(()) => Step::Got,
        Err(violation) => violated(conn, fd, violation),
    }
}

/// Wakes a sender that waits for room, once half of the ring is free: fewer, longer turns.
///
/// A sender sleeps only when little of the ring is free, and this end always looks at the ring again before it
/// sleeps itself. So the fence that orders the head before the look at the word is needed only when
/// this read takes the ring from above to below one half.
#[inline(always)]
pub(crate) fn wake_sender(end: &End, fd: c_int, class: usize, taken: usize) -> Result<(), Violation> {
    let half = ringway_channel::layout::CLASS_BYTES.get(class).map_or(0, |&c| c as u64 / 2);
    let known = end.consumer().known();
    let crosses_half = known < half && known + taken as u64 >= half;
    if crosses_half {
        fence(SeqCst);
    }
    let word = end.peer_sender();
    if word.is_armed() && end.consumer().queued()? <= half {
        wait::ring(end, fd, word, word.bells());
    }
    Ok(())
}

/// The ring is empty: has the peer finished?
#[cold]
fn ring_is_empty(conn: &Conn, end: &End, fd: c_int) -> Step {
    if end.page.options.shutdown.load(Relaxed) & SHUT_RX != 0 {
        return Step::Kernel;
    }
    if !wait::look_if_due(conn, end, fd, LOOK_US) {
        return Step::Empty;
    }
    // What the peer published before its FIN is visible by now.
    fence(Acquire);
    if end.consumer().has_news() || end.peer_tx_path() == Path::Demoted {
        return Step::Got;
    }
    discard_doorbells(end, fd, end.doorbells_among(kernel::unread(fd)));
    if end.peer_closed_in_order() {
        // Orderly, whatever a doorbell that came too late made of the kernel's connection.
        return Step::End;
    }
    ended(end, fd)
}

/// The peer is gone, and nothing of it is left to read.
fn ended(end: &End, fd: c_int) -> Step {
    if reset::is_due(end, fd) { Step::Error(libc::ECONNRESET) } else { Step::Kernel }
}

/// Throws away so many doorbell bytes, which have arrived; receive lock held.
pub(crate) fn discard_doorbells(end: &End, fd: c_int, bytes: u64) -> usize {
    if bytes == 0 {
        return 0;
    }
    let discarded = kernel::discard(fd, bytes as usize);
    end.tcp_consumed(discarded as u64);
    discarded
}

#[inline(always)]
fn copy_out(conn: &Conn, spans: Spans, cursor: &mut impl Sink) -> usize {
    let area = conn.area(spans.class, false);
    // SAFETY: spans lie inside the area of their class, which is mapped.
    unsafe {
        let first = cursor.copy_from(area.wrapping_add(spans.at), spans.first);
        if first < spans.first || spans.second == 0 { first } else { first + cursor.copy_from(area, spans.second) }
    }
}

/// Bytes from before the switch: the kernel has them, `limit` at most.
#[cold]
fn tcp_step(end: &End, fd: c_int, cursor: &mut impl Sink, limit: usize, flags: c_int, done: &mut usize) -> Step {
    if limit == 0 {
        return probe(end, fd);
    }
    let n = cursor.receive_by_tcp(fd, limit, flags | libc::MSG_DONTWAIT);
    match n {
        0 => ended(end, fd),
        n if n > 0 => {
            end.tcp_consumed(n as u64);
            *done += n as usize;
            Step::Got
        }
        n if n == -(libc::EAGAIN as isize) => Step::Empty,
        n => Step::Error(-n as c_int),
    }
}

/// Nothing that is surely data: has the stream ended, or did something arrive just now?
fn probe(end: &End, fd: c_int) -> Step {
    let mut byte = 0u8;
    // SAFETY: one byte of ours.
    let n = unsafe { sys::recv(fd, (&raw mut byte).cast(), 1, libc::MSG_PEEK | libc::MSG_DONTWAIT) };
    match n {
        // Behind an urgent byte, which is skipped without being counted. Who sends those stays on TCP.
        n if n > 0 && kernel::is_at_mark(fd) => {
            end.stay_on_tcp();
            Step::Kernel
        }
        n if n > 0 => Step::Got,
        n if n == -(libc::EAGAIN as isize) => Step::Empty,
        n => kernel_ended(end, fd, -n as c_int),
    }
}

/// The kernel has shown the end of its stream (0) or an error, which it shows once only. What the peer did before
/// that comes first: it may have switched just now, and filled the ring.
fn kernel_ended(end: &End, fd: c_int, errno: c_int) -> Step {
    let ring_is_next = end.ring_is_next();
    match errno {
        0 if ring_is_next => Step::Got,
        0 => ended(end, fd),
        libc::ECONNRESET if ring_is_next => {
            end.owe_reset();
            Step::Got
        }
        errno => Step::Error(errno),
    }
}

/// MSG_PEEK: copies without consuming, across the whole ring. Like the kernel, it may return less than
/// is queued where TCP ends and the ring begins.
fn peek(conn: &Conn, end: &End, fd: c_int, mut cursor: impl Sink, request: &Request) -> (usize, Step) {
    for _ in 0..4 {
        let answer = match end.rx_source(|| kernel::unread(fd)) {
            Ok(RxSource::Ring { limit_bytes }) => {
                let want = request.total.min(limit_bytes.min(usize::MAX as u64) as usize);
                match peek_ring(conn, end, &mut cursor, want, request.discard) {
                    Ok(Some(0)) => return (0, Step::Error(libc::EFAULT)),
                    // Less than wanted, and what follows is on TCP or does not come: that is all.
                    Ok(Some(n)) if n < request.total && end.peer_tx_path() == Path::Demoted => return (n, Step::End),
                    Ok(Some(n)) if n < want && wait::look_if_due(conn, end, fd, LOOK_US) => return (n, Step::End),
                    Ok(Some(n)) => return (n, Step::Got),
                    Ok(None) => ring_is_empty(conn, end, fd),
                    Err(violation) => violated(conn, fd, violation),
                }
            }
            Ok(RxSource::Tcp { limit_bytes }) if limit_bytes > 0 => {
                let limit = (request.total as u64).min(limit_bytes) as usize;
                match cursor.receive_by_tcp(fd, limit, request.flags | libc::MSG_DONTWAIT) {
                    n if n > 0 => {
                        let switched = end.peer_tx_path() != Path::Tcp;
                        return (n as usize, if switched { Step::End } else { Step::Got });
                    }
                    n if n == 0 || n == -(libc::EAGAIN as isize) => probe(end, fd),
                    n => Step::Error(-n as c_int),
                }
            }
            Ok(_) => step(conn, end, fd, &mut cursor, request, request.total, &mut 0),
            Err(violation) => violated(conn, fd, violation),
        };
        match answer {
            Step::Got => {}
            stop => return (0, stop),
        }
    }
    (0, Step::Empty)
}

/// Copies what is queued; `None` if nothing is, 0 if nothing could be copied.
fn peek_ring(
    conn: &Conn,
    end: &End,
    cursor: &mut impl Sink,
    want: usize,
    discard: bool,
) -> Result<Option<usize>, Violation> {
    let mut done = 0;
    while done < want {
        let spans = end.consumer().ahead(done, want - done)?;
        if spans.is_empty() {
            return Ok((done > 0).then_some(done));
        }
        let n = if discard { spans.bytes() } else { copy_out(conn, spans, cursor) };
        done += n;
        if n < spans.bytes() {
            break;
        }
    }
    Ok(Some(done))
}

/// The slow part: waits for more, or finds out how the stream ended.
#[expect(clippy::too_many_arguments)]
fn receive_rest(
    conn: &'static Conn,
    end: &End,
    fd: c_int,
    cursor: &mut impl Sink,
    request: &Request,
    mut done: usize,
    flags: c_int,
    mut stop: Step,
) -> Outcome {
    let options = &end.page.options;
    let mut waiter = Waiter::new(options.receive_timeout_us.load(Relaxed));
    let nonblocking = flags & libc::MSG_DONTWAIT != 0 || options.nonblocking.load(Relaxed) != 0;
    loop {
        waiter.seen = request.peek.then(|| end.consumer().head() + done as u64);
        if matches!(stop, Step::Kernel) && done > 0 {
            stop = go_on_by_tcp(end, fd, cursor, request, &mut done);
        }
        let ended = match stop {
            Step::Got | Step::Empty if done >= request.target => return Outcome::Done(done as isize),
            Step::Kernel if done == 0 => return Outcome::Kernel,
            Step::End if done == 0 => return Outcome::Done(0),
            Step::Kernel | Step::End => return Outcome::Done(done as isize),
            Step::Error(e) => {
                if e == libc::ECONNRESET {
                    end.reset_told();
                }
                Some(e)
            }
            Step::Got if !request.peek => None,
            _ if nonblocking => Some(libc::EAGAIN),
            _ => match waiter.with(done > 0).readable(conn, end, fd) {
                Wake::Again => None,
                Wake::TimedOut | Wake::WouldBlock => Some(libc::EAGAIN),
                Wake::Interrupted => Some(libc::EINTR),
            },
        };
        if let Some(errno) = ended {
            return Outcome::Done(if done > 0 { done as isize } else { -(errno as isize) });
        }
        let critical = thread::enter();
        let n;
        (n, stop) = receive_available(conn, end, fd, cursor, request, done, &critical);
        // Looking ahead once more may find less, if another thread took bytes meanwhile or a hostile peer took words
        // back: what lies in the buffer already still counts.
        done = if request.peek { done.max(n) } else { done + n };
    }
}

/// The ring gave the first bytes of the call and has ended: what has arrived by TCP since belongs to it as well, unless
/// the call only looks ahead or discards.
#[cold]
fn go_on_by_tcp(end: &End, fd: c_int, cursor: &mut impl Sink, request: &Request, done: &mut usize) -> Step {
    if request.peek || request.discard || end.rx_path() != Path::Demoted {
        return Step::Kernel;
    }
    // Looked before: what arrived before a FIN is there by now. Asked only where there are bytes, an error stays.
    let finished = kernel::poll_now(fd, libc::POLLRDHUP) != 0;
    if kernel::unread(fd) == 0 {
        return if finished { Step::End } else { Step::Empty };
    }
    match cursor.receive_by_tcp(fd, request.total - *done, libc::MSG_DONTWAIT) {
        n if n > 0 => {
            *done += n as usize;
            Step::Got
        }
        // Another thread was quicker.
        n if n == -(libc::EAGAIN as isize) => Step::Empty,
        // A bad address, say: the call ends with what it has, the next one is told.
        _ => Step::End,
    }
}

/// Whether bytes are to be taken from the kernel as the program asks, because this end has not promised
/// yet to look at the ring. Promises as soon as nobody is inside such a call.
#[cold]
pub(crate) fn declare_ready(conn: &Conn, fd: c_int) -> bool {
    let critical = thread::enter();
    let Some(end) = conn.end() else { return false };
    let Some(_held) = lock_rx(&end, &critical) else { return false };
    if end.page.rx.ready.load(Relaxed) != 0 {
        return true;
    }
    end.page.rx.ready.store(1, SeqCst);
    fence(SeqCst);
    if conn.slot().receivers.load(SeqCst) != 0 {
        end.page.rx.ready.store(0, SeqCst);
        return false;
    }
    let Some(consumed) = kernel::consumed(fd) else {
        end.page.rx.ready.store(0, SeqCst);
        return false;
    };
    end.page.rx.tcp_consumed.store(consumed, Relaxed);
    bell::arm_receiver(conn, &end);
    end.declare_ready();
    true
}

#[cfg(test)]
mod tests;
