//! Sending on an upgraded connection.

use core::sync::atomic::{AtomicU32, Ordering::*};

use libc::c_int;
use ringway_channel::layout::CLASS_BYTES;
use ringway_channel::{End, Path, Reason};
use ringway_mem::ring::{Resized, Spans, Violation};

use crate::conn::{Conn, Pin};
use crate::iov::Source;
use crate::leave::Hold;
use crate::lock::{Held, RobustLock};
use crate::thread::Critical;
use crate::wait::{self, Waiter, Wake};
use crate::{family, kernel, reset, spin, stats, thread};

/// Large sends are published in pieces of this many bytes, so that both ends copy at the same time.
const PIECE_BYTES: usize = 16 << 10;
/// What a program that bounds its send buffer finds room for nevertheless, in bytes: in the kernel, the
/// receiver's own buffer comes on top.
const BOUNDED_BYTES: usize = 64 << 10;
/// How often a sender looks whether its peer is still there, in microseconds.
pub(crate) const LOOK_US: u64 = 1_000;

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing was done: the kernel must serve the call as the program made it.
    Kernel,
    /// Done; a count or a negated errno.
    Done(isize),
}

/// What one try under the lock came to.
enum Step {
    Sent,
    Full,
    /// TCP has no room.
    TcpFull,
    Kernel,
    Error(c_int),
}

/// Takes the send lock of an end. A sibling that died holding it may have left half a publish behind,
/// which is completed.
#[inline(always)]
pub(crate) fn lock_tx<'a>(end: &End<'a>, critical: &'a Critical) -> Option<Held<'a>> {
    let held = lock(&end.page.tx.lock, end, critical)?;
    if held.owner_died() {
        end.producer().repair();
    }
    Some(held)
}

/// Takes the receive lock of an end; as [`lock_tx`].
#[inline(always)]
pub(crate) fn lock_rx<'a>(end: &End<'a>, critical: &'a Critical) -> Option<Held<'a>> {
    let held = lock(&end.page.rx.lock, end, critical)?;
    if held.owner_died() {
        end.consumer().repair();
    }
    Some(held)
}

#[inline(always)]
fn lock<'a>(word: &'a AtomicU32, end: &End, critical: &'a Critical) -> Option<Held<'a>> {
    let lock = RobustLock::of(word);
    if !is_shared(end)
        && thread::is_single_threaded()
        && let Some(held) = lock.lock_unshared(critical)
    {
        return Some(held);
    }
    lock.lock(critical, u64::MAX)
}

/// The largest class for a sender whose SO_SNDBUF, as the kernel reports it, the program has set itself;
/// `None`: it has not.
pub(crate) fn class_max(set_bytes: Option<usize>) -> usize {
    let Some(bound) = set_bytes.map(|bytes| bytes.max(BOUNDED_BYTES)) else { return CLASS_BYTES.len() - 1 };
    CLASS_BYTES.iter().rposition(|&class| class <= bound).unwrap_or(0)
}

/// What [`class_max`] said; the page is a sibling's to write, too.
#[inline]
fn class_bound(end: &End) -> usize {
    (end.page.options.tx_class_max.load(Relaxed) as usize).min(CLASS_BYTES.len() - 1)
}

/// Whether a send would find room in the ring.
pub(crate) fn is_writable(end: &End) -> bool {
    end.producer().is_writable(class_bound(end)).unwrap_or(true)
}

/// Whether other processes may hold the same end.
#[inline]
pub(crate) fn is_shared(end: &End) -> bool {
    family::has_forked() || end.page.shared.load(Relaxed) != 0
}

/// Sends what `cursor` covers. `flags` are those of `send`; the call blocks if the socket does.
pub(crate) fn send(index: u32, conn: &'static Conn, fd: c_int, cursor: &mut impl Source, flags: c_int) -> Outcome {
    let total = cursor.total();
    if total == 0 {
        return Outcome::Kernel;
    }
    if let Some(reason) = kernel_only(flags) {
        demote(conn, fd, reason);
        return Outcome::Kernel;
    }
    let critical = thread::enter();
    let Some(end) = conn.end() else { return Outcome::Kernel };
    let (done, stop) = send_available(conn, &end, fd, cursor, total, flags, &critical);
    if done == total {
        stats::count(|c| &c.ring_tx_calls);
        return Outcome::Done(done as isize);
    }
    Pin(index, conn).during(|| {
        drop(critical);
        send_rest(conn, &end, fd, cursor, total, done, flags, stop)
    })
}

/// Why a send with these flags is the kernel's alone, if it is.
#[inline]
pub(crate) fn kernel_only(flags: c_int) -> Option<Reason> {
    match flags & (libc::MSG_OOB | libc::MSG_ZEROCOPY | libc::MSG_FASTOPEN | libc::MSG_ERRQUEUE) {
        0 => None,
        special if special & libc::MSG_OOB != 0 => Some(Reason::UrgentData),
        _ => Some(Reason::ZeroCopy),
    }
}

/// Sends as much as goes without waiting; says why it stopped.
#[inline(always)]
fn send_available(
    conn: &Conn,
    end: &End,
    fd: c_int,
    cursor: &mut impl Source,
    want: usize,
    flags: c_int,
    critical: &Critical,
) -> (usize, Step) {
    let Some(_held) = lock_tx(end, critical) else { return (0, Step::Full) };
    let mut done = 0;
    loop {
        match step(conn, end, fd, cursor, want, flags, &mut done) {
            Step::Sent if done < want => {}
            stop => return (done, stop),
        }
    }
}

/// The slow part: waits and goes on until everything is sent or the call must end.
#[expect(clippy::too_many_arguments)]
fn send_rest(
    conn: &Conn,
    end: &End,
    fd: c_int,
    cursor: &mut impl Source,
    total: usize,
    mut done: usize,
    flags: c_int,
    mut stop: Step,
) -> Outcome {
    let options = &end.page.options;
    let mut waiter = Waiter::new(options.send_timeout_us.load(Relaxed));
    let nonblocking = flags & libc::MSG_DONTWAIT != 0 || options.nonblocking.load(Relaxed) != 0;
    loop {
        let ended = match stop {
            Step::Sent if done >= total => return Outcome::Done(done as isize),
            Step::Sent => None,
            Step::Kernel if done == 0 => return Outcome::Kernel,
            Step::Kernel => return Outcome::Done(finish_by_kernel(fd, cursor, done, flags)),
            Step::Error(e) => {
                if e == libc::ECONNRESET {
                    end.reset_told();
                }
                Some(e)
            }
            Step::Full | Step::TcpFull if nonblocking => Some(libc::EAGAIN),
            Step::Full | Step::TcpFull => match waiter.with(done > 0).writable(conn, end, fd) {
                Wake::Again => None,
                Wake::TimedOut | Wake::WouldBlock => Some(libc::EAGAIN),
                Wake::Interrupted => Some(libc::EINTR),
            },
        };
        if let Some(errno) = ended {
            if errno == libc::EAGAIN {
                crate::epoll::no_room(conn);
            }
            return Outcome::Done(if done > 0 { done as isize } else { -(errno as isize) });
        }
        let critical = thread::enter();
        let n;
        (n, stop) = send_available(conn, end, fd, cursor, total - done, flags, &critical);
        done += n;
    }
}

/// Part of the bytes went by the ring, then the direction went back to TCP: the kernel takes the rest.
fn finish_by_kernel(fd: c_int, cursor: &mut impl Source, mut done: usize, flags: c_int) -> isize {
    loop {
        let n = cursor.send_by_tcp(fd, usize::MAX, flags);
        if n <= 0 {
            return done as isize;
        }
        done += n as usize;
        if cursor.total() == 0 {
            return done as isize;
        }
    }
}

/// One try, send lock held; adds to `done`, which is less than `want`, what it sent.
#[inline(always)]
fn step(
    conn: &Conn,
    end: &End,
    fd: c_int,
    cursor: &mut impl Source,
    want: usize,
    flags: c_int,
    done: &mut usize,
) -> Step {
    match end.tx_path() {
        Path::Ring => {}
        Path::Demoted => return Step::Kernel,
        Path::Tcp => {
            if !switch(conn, end, fd) {
                return tcp_step(fd, cursor, want - *done, flags, done);
            }
        }
    }
    if end.page.options.shutdown.load(Relaxed) & ringway_channel::end::SHUT_TX != 0 {
        return Step::Kernel;
    }
    if end.demotion_wanted() {
        demote_locked(end, fd);
        return Step::Kernel;
    }
    if wait::look_if_due(conn, end, fd, LOOK_US) {
        return peer_finished(end, fd);
    }
    ring_step(conn, end, fd, cursor, want - *done, done)
}

/// The peer has closed or died: what follows goes by TCP, so that the kernel answers it.
#[cold]
fn peer_finished(end: &End, fd: c_int) -> Step {
    let reset = reset::is_due(end, fd);
    demote_locked(end, fd);
    if reset { Step::Error(libc::ECONNRESET) } else { Step::Kernel }
}

/// Copies up to one piece into the ring and publishes it.
#[inline(always)]
fn ring_step(conn: &Conn, end: &End, fd: c_int, cursor: &mut impl Source, want: usize, done: &mut usize) -> Step {
    let producer = end.producer();
    match producer.make_room(want, class_bound(end)) {
        Ok(Resized::Shrunk { released_class }) => give_back(conn, released_class),
        Ok(_) => {}
        Err(violation) => return violated(conn, fd, violation),
    }
    let n = match producer.free(want.min(PIECE_BYTES)) {
        Ok(free) => free.min(want).min(PIECE_BYTES),
        Err(violation) => return violated(conn, fd, violation),
    };
    if n == 0 {
        stats::count(|c| &c.ring_full);
        return Step::Full;
    }
    let spans = producer.spans(n);
    let copied = copy_in(conn.area(spans.class, true), spans, cursor);
    if copied == 0 {
        return Step::Error(libc::EFAULT);
    }
    producer.publish(copied, spin::cpu_plus_one());
    stats::add(|c| &c.ring_tx_bytes, copied as u64);
    let word = end.peer_receiver();
    wait::ring(end, fd, word, word.bells());
    *done += copied;
    // A bad address after some bytes: the next try reports it, and the call ends with a short count.
    Step::Sent
}

#[cold]
fn violated(conn: &Conn, fd: c_int, violation: Violation) -> Step {
    Step::Error(reset::violated(conn, fd, violation))
}

#[inline(always)]
fn copy_in(area: *mut u8, spans: Spans, cursor: &mut impl Source) -> usize {
    // SAFETY: spans lie inside the area of their class, which is mapped for writing.
    unsafe {
        let first = cursor.copy_to(area.wrapping_add(spans.at), spans.first);
        if first < spans.first || spans.second == 0 { first } else { first + cursor.copy_to(area, spans.second) }
    }
}

/// Gives the pages of an area that is no longer used back to the kernel.
#[cold]
fn give_back(conn: &Conn, class: usize) {
    stats::count(|c| &c.ring_resizes);
    if let Some(&bytes) = CLASS_BYTES.get(class) {
        // SAFETY: the area belongs to this direction; every byte in it was consumed before the epoch
        // changed, so punching a hole into the shared file loses nothing.
        unsafe { crate::sys::madvise(conn.area(class, true), bytes, libc::MADV_REMOVE) };
    }
}

/// The direction has not switched yet: the kernel takes the bytes, without waiting, under the lock.
#[cold]
fn tcp_step(fd: c_int, cursor: &mut impl Source, want: usize, flags: c_int, done: &mut usize) -> Step {
    let n = cursor.send_by_tcp(fd, want, flags | libc::MSG_DONTWAIT);
    match n {
        n if n >= 0 => {
            *done += n as usize;
            Step::Sent
        }
        n if n == -(libc::EAGAIN as isize) => Step::TcpFull,
        n => Step::Error(-n as c_int),
    }
}

/// Moves the direction to the ring if the peer is ready and nobody is inside the kernel writing to TCP.
#[cold]
pub(crate) fn switch(conn: &Conn, end: &End, fd: c_int) -> bool {
    if !end.peer_is_ready() || conn.slot().senders.load(SeqCst) != 0 {
        return false;
    }
    match kernel::offsets(fd) {
        Some(offsets) if offsets.established => {
            end.switch_tx(offsets.written);
            true
        }
        _ => false,
    }
}

/// Moves the direction back to TCP for good; send lock held.
#[cold]
pub(crate) fn demote_locked(end: &End, fd: c_int) {
    if end.tx_path() == Path::Demoted {
        return;
    }
    let Some(offsets) = kernel::offsets(fd) else { return };
    end.demote_tx(offsets.written);
    stats::count(|c| &c.connections_demoted);
    // A peer asleep on its futex would not notice bytes that come by TCP.
    let word = end.peer_receiver();
    let bells = word.bells();
    wait::ring(end, fd, word, bells | ringway_channel::wait::BELL_FUTEX);
}

/// Moves both directions towards TCP: this end's sending at once, the peer's when it next sends.
pub(crate) fn demote(conn: &Conn, fd: c_int, reason: Reason) {
    let critical = thread::enter();
    let Some(end) = conn.end() else { return };
    let because = &end.page.options.demoted_because;
    if because.compare_exchange(0, reason as u32, Relaxed, Relaxed).is_ok() {
        stats::refused(reason);
    }
    if let Some(_held) = lock_tx(&end, &critical) {
        demote_locked(&end, fd);
    }
    end.ask_for_tcp(reason);
}
