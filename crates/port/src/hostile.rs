//! A peer that scribbles over everything that a pool shares (tests and fuzzing): ring words, kring words, the journal
//! of transfers, slots. Syncs may refuse, drop and lose; they must come back, and touch nothing outside the pool.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ringway_mem::pool::{Pool, PoolConfig, Ring};
use ringway_mem::slot::Slot;

use crate::open::open_in;
use crate::port::{Port, all_rings};

/// Plays `bytes` as steps of seven: what to do, where, and a value.
pub fn play(bytes: &[u8]) {
    let config = PoolConfig { buffers: 100, buffer_bytes: 256, object_pages: 20 };
    let pool = Pool::create(config).expect("a small pool");
    let open = |end: &str| open_in(&pool, &format!("netmap:h{end}0@conf:slots=16")).expect("an end");
    let mut ends = [open("{"), open("}")];
    for step in bytes.chunks_exact(7) {
        let value = u32::from_le_bytes([step[3], step[4], step[5], step[6]]);
        let end = usize::from(step[0] & 1);
        match step[0] >> 1 & 7 {
            0 | 1 => drop(ends[end].sync_tx_at(0, 0)),
            2 | 3 => drop(ends[end].sync_rx_at(0, 0)),
            4 => use_batches(&mut ends[end], step[1], value),
            5 => drop(pool.reap()),
            _ => scribble(&pool, step[0] & 1, step[1], step[2], value),
        }
    }
    let _ = pool.account();
}

/// What a lawful user does with slots of any content.
fn use_batches(port: &mut Port, i: u8, value: u32) {
    let Ok((mut rx, mut tx)) = port.both(0, 0) else { return };
    let mut packet = vec![];
    if !rx.is_empty() && !tx.is_empty() {
        let (i, j) = (u32::from(i) % rx.len(), value % tx.len());
        if let Some(n) = rx.packet_slots(i) {
            rx.copy_packet(i, n, &mut packet);
        }
        rx.bytes_mut(i).fill(i as u8);
        rx.swap(i, &mut tx, j);
    }
    tx.put(0, &value.to_le_bytes());
    let sent = value % (tx.len() + 1);
    tx.send(sent);
    let released = value % (rx.len() + 1);
    rx.release(released);
}

fn scribble(pool: &Arc<Pool>, end: u8, place: u8, index: u8, value: u32) {
    let Some(port) = pool.ports().nth(usize::from(end)) else { return };
    let rings = pool.counts(port).map_or(vec![], all_rings);
    let Some(ring) = rings.get(usize::from(index & 1)).and_then(|(kind, i)| pool.ring(port, *kind, *i)) else { return };
    let own = &ring.kring().own;
    // Small values are the interesting ones.
    let small = value % 18;
    match place % 12 {
        0 => ring.header().head.store(small, Relaxed),
        1 => ring.header().cur.store(small, Relaxed),
        2 => ring.header().tail.store(value, Relaxed),
        3 => own.rhead.store(small, Relaxed),
        4 => own.rtail.store(small, Relaxed),
        5 => own.rcur.store(value, Relaxed),
        6 => ring.kring().hwcur.set(small),
        7 => ring.kring().hwtail.set(small),
        8 => own.journal.store(u64::from(value) << (index & 32) | u64::from(small), Relaxed),
        9 => ring.header().flags.store(value, Relaxed),
        _ => scribble_slot(&ring, index, value),
    }
}

fn scribble_slot(ring: &Ring, index: u8, value: u32) {
    let cell = &ring.slots()[usize::from(index) % ring.slots().len()];
    let slot =
        Slot { buf_idx: value % 120, len: (value >> 8) as u16, flags: (value >> 16) as u16, ptr: u64::from(value) };
    // An index of all ones, now and then.
    cell.store(if value & 15 == 15 { Slot { buf_idx: u32::MAX, ..slot } } else { slot });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn whatever_is_scribbled_syncs_come_back(bytes in prop::collection::vec(any::<u8>(), 0..1400)) {
            super::play(&bytes);
        }
    }
}
