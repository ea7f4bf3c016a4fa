//! Doorbell bytes on the TCP connection: asking for them and throwing them away.
//!
//! They must not pile up: unread bytes at close make the kernel send a reset instead of a FIN. So each
//! arming is noted, and once its bit is gone from the shared word (the peer rang), one byte is due.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::*;

use libc::c_int;
use ringway_channel::wait::{BELL_TCP, SleepWord};
use ringway_channel::{End, Path};

use crate::conn::Conn;
use crate::{kernel, rx, thread, tx};

const RECEIVER: u32 = 1;
const SENDER: u32 = 2;

/// Asks to be rung by TCP when bytes arrive. True: a barrier is owed (see `ringway_channel::wait`).
pub(crate) fn arm_receiver(conn: &Conn, end: &End) -> bool {
    arm(conn, end.own_receiver(), RECEIVER)
}

/// Asks to be rung by TCP when there is room.
pub(crate) fn arm_sender(conn: &Conn, end: &End) -> bool {
    arm(conn, end.own_sender(), SENDER)
}

fn arm(conn: &Conn, word: SleepWord, which: u32) -> bool {
    note(conn, word, which);
    conn.bells_armed.fetch_or(which, Relaxed);
    word.arm(BELL_TCP)
}

/// Takes both requests back.
pub(crate) fn disarm(conn: &Conn, end: &End) {
    for (word, which) in [(end.own_receiver(), RECEIVER), (end.own_sender(), SENDER)] {
        if conn.bells_armed.load(Relaxed) & which != 0 && word.disarm(BELL_TCP) != 0 {
            conn.bells_armed.fetch_and(!which, Relaxed);
        }
        note(conn, word, which);
    }
}

/// Notes that a bell was rung, if the word says so.
fn note(conn: &Conn, word: SleepWord, which: u32) {
    let armed = conn.bells_armed.load(Relaxed) & which != 0;
    if armed && word.futex_value() & BELL_TCP == 0 && conn.bells_armed.fetch_and(!which, AcqRel) & which != 0 {
        conn.bells_due.fetch_add(1, Relaxed);
    }
}

/// Whether doorbell bytes may be waiting; two loads of this process's own memory.
#[inline]
pub(crate) fn is_due(conn: &Conn, end: &End) -> bool {
    if conn.bells_armed.load(Relaxed) != 0 {
        note(conn, end.own_receiver(), RECEIVER);
        note(conn, end.own_sender(), SENDER);
    }
    conn.bells_due.load(Relaxed) != 0
}

/// Whether [`is_due`] has anything to look at.
#[inline(always)]
pub(crate) fn may_be_due(conn: &Conn) -> bool {
    conn.bells_armed.load(Relaxed) | conn.bells_due.load(Relaxed) != 0
}

/// A thread is about to arm the bells and to sleep in poll: their bytes stay until it has looked.
pub(crate) fn add_waiter(conn: &Conn, for_room: bool) {
    waiters(conn, for_room).fetch_add(1, SeqCst);
}

/// The thread is awake and will look.
pub(crate) fn drop_waiter(conn: &Conn, for_room: bool) {
    waiters(conn, for_room).fetch_sub(1, SeqCst);
}

fn waiters(conn: &Conn, for_room: bool) -> &AtomicU32 {
    let [data, room] = &conn.bell_waiters;
    if for_room { room } else { data }
}

/// Whether a bell has rung for a thread that may not have entered its sleep yet. poll sees levels only: without the
/// byte it would sleep through the bell. (Epoll sets see the edge all the same.)
fn is_awaited(conn: &Conn, end: &End) -> bool {
    let words = [end.own_receiver(), end.own_sender()];
    let mut waiting = conn.bell_waiters.iter().zip(words);
    waiting.any(|(waiters, word)| waiters.load(SeqCst) != 0 && word.futex_value() & BELL_TCP == 0)
}

/// Throws away the bytes that have arrived; takes the receive lock.
#[cold]
pub(crate) fn drain(conn: &Conn, end: &End, fd: c_int) {
    let critical = thread::enter();
    if let Some(_held) = tx::lock_rx(end, &critical) {
        drain_locked(conn, end, fd);
    }
}

/// As `drain`, receive lock held.
#[cold]
pub(crate) fn drain_locked(conn: &Conn, end: &End, fd: c_int) {
    if end.rx_path() != Path::Ring {
        return;
    }
    // Counted first: a bell that rings after the look at the words adds a byte that is not counted.
    let bytes = end.doorbells_among(kernel::unread(fd));
    if bytes == 0 || is_awaited(conn, end) {
        return;
    }
    let gone = rx::discard_doorbells(end, fd, bytes) as u32;
    let _ = conn.bells_due.fetch_update(Relaxed, Relaxed, |due| Some(due.saturating_sub(gone)));
}
