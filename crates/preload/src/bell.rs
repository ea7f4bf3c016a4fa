//! Doorbell bytes on the TCP connection: asking for them and throwing them away.
//!
//! They must not pile up: unread bytes at close make the kernel send a reset instead of a FIN. So each
//! arming is noted, and once its bit is gone from the shared word (the peer rang), one byte is due.

use core::sync::atomic::Ordering::*;

use libc::c_int;
use ringway_channel::wait::{BELL_TCP, SleepWord};
use ringway_channel::{End, Path};

use crate::conn::Conn;
use crate::{rx, thread, tx};

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
    let gone = rx::drain_doorbells(end, fd) as u32;
    let _ = conn.bells_due.fetch_update(Relaxed, Relaxed, |due| Some(due.saturating_sub(gone)));
}
