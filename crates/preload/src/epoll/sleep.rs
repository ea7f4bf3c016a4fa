//! Arming the hot connections of a set before a thread sleeps on it, and disarming them afterwards.

use core::sync::atomic::Ordering::*;

use libc::EPOLLOUT;
use ringway_channel::wait::BELL_TCP;
use ringway_channel::{End, Path};

use super::hot::Hot;
use super::set::{self, Inner, Registration};
use crate::conn::Conn;
use crate::{bell, tx, wait};

/// Sleeps without an event after which a connection is left armed and no longer looked at.
const IDLE_SLEEPS: u8 = 8;

impl Inner {
    /// Arms everything that is hot, here and in nested sets. Returns true if a waiter must not sleep
    /// for long, because some peer cannot ring.
    pub(super) fn arm(&mut self, depth: u32) -> bool {
        self.sleepers += 1;
        let mut silent = false;
        let mut hot_word = false;
        let mut i = 0;
        while let Some(&Hot { slot, .. }) = self.hot.as_slice().get(i) {
            if self.registration(slot).is_some_and(|r| arm_one(r, &mut silent, &mut hot_word)) {
                i += 1;
            } else {
                self.cool(slot);
            }
        }
        if hot_word {
            wait::barrier();
        }
        for n in self.nested.as_slice().iter().filter(|n| depth < 5 && n.set != self.index) {
            if let Some(nested) = set::get(n.set) {
                silent |= nested.lock().arm(depth + 1);
            }
        }
        silent
    }

    /// A thread is awake again: peers need not ring for the hot ones, if nobody else relies on it.
    pub(super) fn disarm(&mut self, depth: u32) {
        self.sleepers = self.sleepers.saturating_sub(1);
        if self.sleepers == 0 {
            for i in 0..self.hot.len() {
                let Some(&Hot { slot, .. }) = self.hot.as_slice().get(i) else { break };
                if let Some(r) = self.registration(slot) {
                    disarm_one(r);
                }
            }
        }
        for n in self.nested.as_slice().iter().filter(|n| depth < 5 && n.set != self.index) {
            if let Some(nested) = set::get(n.set) {
                nested.lock().disarm(depth + 1);
            }
        }
    }
}

/// Arms one registration; false if it has been idle long enough to leave the hot list.
fn arm_one(r: &mut Registration, silent: &mut bool, hot_word: &mut bool) -> bool {
    let Some(conn) = r.connection() else { return false };
    let Some(end) = conn.end() else { return false };
    let was_armed = end.own_receiver().futex_value() & BELL_TCP != 0;
    let for_room = r.wanted() & EPOLLOUT as u32 != 0 && waits_for_room(&end);
    *silent |= arm_connection(conn, &end, (true, for_room), hot_word);
    r.idle_sleeps = r.idle_sleeps.saturating_add(1);
    let kernel_served = end.rx_path() != Path::Ring || end.tx_path() != Path::Ring;
    // What came just before the bell was armed rings none: the round that arms it must look once more.
    r.idle_sleeps <= IDLE_SLEEPS || !was_armed || kernel_served
}

/// Whether room is something to wait for: too little of the ring is free to be called writable.
pub(crate) fn waits_for_room(end: &End) -> bool {
    end.tx_path() == Path::Ring && !tx::is_writable(end)
}

/// Asks the peer to ring by TCP when (data, room) come. Returns true if it cannot ring: its own bytes
/// go by TCP, so a doorbell byte would be taken for data.
pub(crate) fn arm_connection(conn: &Conn, end: &End, (for_data, for_room): (bool, bool), hot_word: &mut bool) -> bool {
    if for_data {
        *hot_word |= bell::arm_receiver(conn, end);
    }
    if for_room {
        *hot_word |= bell::arm_sender(conn, end);
    }
    if bell::is_due(conn, end) {
        bell::drain(conn, end, conn.fd.load(Relaxed));
    }
    for_room && end.peer_tx_path() != Path::Ring
}

fn disarm_one(r: &Registration) {
    let Some(conn) = r.connection() else { return };
    let Some(end) = conn.end() else { return };
    // Another set, a poll or another process may rely on the bell: then it stays armed, which costs the
    // peer a system call and nobody a wake-up.
    let alone = conn.registrations().iter().count() == 1 && conn.poll_sleepers.load(SeqCst) == 0;
    if alone && !tx::is_shared(&end) && r.idle_sleeps < IDLE_SLEEPS {
        bell::disarm(conn, &end);
    }
}
