//! The cells through which a program and whoever serves its rings tell each other how far they are, as netmap's CSB mode
//! lays them out (`net/netmap.h`, `nm_csb_atok` and `nm_csb_ktoa`): the program makes no calls, the other side polls or is kicked.
//!
//! ```text
//!   program -> server (64 bytes)               server -> program (64 bytes)
//!   0  head, cur, appl_need_kick, sync_flags   0  hwcur, hwtail, kern_need_kick
//! ```
//! Each pair is written later half first: cur before head, hwcur before hwtail; and read the other way round. So whoever
//! sees a new head sees a cur that is at least as new.

use crate::sync::{AtomicU32, Ordering::*, fence};

/// Written by the program.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct AppCell {
    head: AtomicU32,
    cur: AtomicU32,
    need_kick: AtomicU32,
    sync_flags: AtomicU32,
    _pad: [AtomicU32; 12],
}

/// Written by who serves the ring.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct ServerCell {
    hwcur: AtomicU32,
    hwtail: AtomicU32,
    need_kick: AtomicU32,
    _pad: [AtomicU32; 13],
}

#[cfg(not(loom))]
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<AppCell>() == 64 && size_of::<ServerCell>() == 64);
    assert!(
        offset_of!(AppCell, cur) == 4 && offset_of!(AppCell, need_kick) == 8 && offset_of!(AppCell, sync_flags) == 12
    );
    assert!(offset_of!(ServerCell, hwtail) == 4 && offset_of!(ServerCell, need_kick) == 8);
};

impl AppCell {
    /// The program has released, or filled, the slots before `head`.
    pub fn publish(&self, head: u32, cur: u32) {
        self.cur.store(cur, Relaxed);
        self.head.store(head, Release);
    }

    /// Head and cur, not bounded.
    pub fn read(&self) -> (u32, u32) {
        let head = self.head.load(Acquire);
        (head, self.cur.load(Relaxed))
    }

    /// The program, before its last look and its sleep: wants to be kicked, or no more.
    pub fn want_kick(&self, wanted: bool) {
        self.need_kick.store(wanted.into(), Relaxed);
        fence(SeqCst);
    }

    /// The server, after publishing: whether the program sleeps.
    pub fn wants_kick(&self) -> bool {
        fence(SeqCst);
        self.need_kick.load(Relaxed) != 0
    }
}

impl ServerCell {
    /// The server has come so far.
    pub fn publish(&self, hwcur: u32, hwtail: u32) {
        self.hwcur.store(hwcur, Relaxed);
        self.hwtail.store(hwtail, Release);
    }

    /// hwcur and hwtail, not bounded.
    pub fn read(&self) -> (u32, u32) {
        let hwtail = self.hwtail.load(Acquire);
        (self.hwcur.load(Relaxed), hwtail)
    }

    /// The server, before its last look and its sleep: wants to be kicked, or no more.
    pub fn want_kick(&self, wanted: bool) {
        self.need_kick.store(wanted.into(), Relaxed);
        fence(SeqCst);
    }

    /// The program, after publishing: whether the server sleeps.
    pub fn wants_kick(&self) -> bool {
        fence(SeqCst);
        self.need_kick.load(Relaxed) != 0
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// A server sees no head before its cur, and a program that goes to sleep is kicked or sees what came.
    #[test]
    fn pairs_are_read_in_order_and_no_kick_is_lost() {
        loom::model(|| {
            let cells = Arc::new((AppCell::default(), ServerCell::default()));
            let theirs = cells.clone();
            let server = thread::spawn(move || {
                let (head, cur) = theirs.0.read();
                assert!(cur >= head);
                theirs.1.publish(0, 5);
                theirs.0.wants_kick()
            });
            cells.0.publish(3, 4);
            cells.0.want_kick(true);
            let seen = cells.1.read().1;
            let kicked = server.join().unwrap();
            assert!(seen == 5 || kicked);
        });
    }
}
