//! The user's words, checked at the beginning of each sync as netmap checks them (`nm_txsync_prologue`,
//! `nm_rxsync_prologue`), and the words that a sync leaves behind.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use ringway_mem::pool::{RESERVED_BUFFERS, Ring};
use ringway_mem::slot::{NR_TIMESTAMP, Slot};

use crate::error::PortError;
use crate::kring::add;

/// Takes over the user's head and cur: `rhead <= head <= cur <= rtail`, going round. The ring starts over if
/// they are anything else.
pub(crate) fn accept(ring: &Ring) -> Result<(), PortError> {
    let (own, header, n) = (&ring.kring().own, ring.header(), ring.num_slots());
    let (head, cur) = (header.head.load(Relaxed), header.cur.load(Relaxed));
    let (rhead, rtail) = (own.rhead.load(Relaxed), own.rtail.load(Relaxed));
    let possible = [head, cur, rhead, rtail].iter().all(|index| *index < n)
        && ring.distance(rhead, head) <= ring.distance(rhead, rtail)
        && ring.distance(head, cur) <= ring.distance(head, rtail);
    if !possible {
        start_over(ring);
        return Err(PortError::Ring { head, cur, tail: rtail, num_slots: n });
    }
    own.rhead.store(head, Relaxed);
    own.rcur.store(cur, Relaxed);
    Ok(())
}

/// The user owns all slots that the port does not, from hwcur on; impossible buffers and lengths are struck out.
fn start_over(ring: &Ring) {
    let (kring, header) = (ring.kring(), ring.header());
    let hwcur = kring.hwcur.get(ring.num_slots());
    for word in [&kring.own.rhead, &kring.own.rcur, &header.head, &header.cur] {
        word.store(hwcur, Relaxed);
    }
    let config = ring.pool().config();
    for cell in ring.slots() {
        let slot = cell.load();
        if !(RESERVED_BUFFERS..config.buffers).contains(&slot.buf_idx) {
            cell.store(Slot { buf_idx: 0, len: 0, ..slot });
        } else if u32::from(slot.len) > config.buffer_bytes {
            cell.store(Slot { len: 0, ..slot });
        }
    }
    add(&kring.own.reinits, 1);
    finish(ring, kring.hwtail.get(ring.num_slots()));
}

/// Shows the user that the port's side has come to `hwtail`.
pub(crate) fn finish(ring: &Ring, hwtail: u32) {
    let (own, header) = (&ring.kring().own, ring.header());
    own.rtail.store(hwtail, Relaxed);
    header.tail.store(hwtail, Relaxed);
    add(&own.syncs, 1);
    if header.flags.load(Relaxed) & NR_TIMESTAMP != 0 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        header.ts_s.store(now.as_secs(), Relaxed);
        header.ts_us.store(u64::from(now.subsec_micros()), Relaxed);
    }
}
