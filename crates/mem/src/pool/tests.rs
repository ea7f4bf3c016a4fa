//! Pools as a whole: making, opening, sharing, dying, counting.

use super::*;
use crate::slot::Slot;

const SMALL: PoolConfig = PoolConfig { buffers: 200, buffer_bytes: 256, object_pages: 40 };

fn pairs() -> RingCounts {
    RingCounts::pairs(1, 16)
}

#[test]
fn a_port_has_a_buffer_in_each_slot_and_gives_them_back() {
    let pool = Pool::create(SMALL).unwrap();
    let empty = pool.account();
    assert_eq!((empty.total, empty.free), (198, 198));
    let port = pool.open("a", pairs(), Sharing::Shared).unwrap();
    let account = pool.account();
    assert_eq!((account.owned, account.doubled, account.lost, account.outside), (32, 0, 0, 0));
    let tx = pool.ring(port.port(), Kind::Tx, 0).unwrap();
    assert_eq!(tx.header().tail.load(Relaxed), 15);
    assert_eq!(tx.header().num_slots.load(Relaxed), 16);
    drop(port);
    assert_eq!(pool.account(), empty);
    assert!(!pool.is_in_use());
}

#[test]
fn c_programs_find_rings_and_buffers_where_netmap_has_them() {
    let pool = Pool::create(SMALL).unwrap();
    let port = pool.open("netmap-port", RingCounts { host_rx: 1, ..pairs() }, Sharing::Shared).unwrap();
    let (offset, interface) = pool.interface(port.port()).unwrap();
    assert_eq!(interface.tx_rings.load(Relaxed), 1);
    assert_eq!(interface.host_rx_rings.load(Relaxed), 1);
    // SAFETY: the object lies in the mapping, three ring offsets behind it.
    let (name, offsets) = unsafe {
        let at = pool.base().as_ptr().add(offset);
        (std::slice::from_raw_parts(at, 11), std::slice::from_raw_parts(at.add(56).cast::<i64>(), 3))
    };
    assert_eq!(name, b"netmap-port");
    for (kind, position) in [(Kind::Tx, 0), (Kind::Rx, 1), (Kind::HostRx, 2)] {
        let ring = pool.ring(port.port(), kind, 0).unwrap();
        let header = std::ptr::from_ref(ring.header()) as usize;
        assert_eq!(header, pool.base().as_ptr() as usize + offset + offsets[position] as usize);
        let slot = ring.slots()[3].load();
        let buffer = header + ring.header().buf_ofs.load(Relaxed) as usize + slot.buf_idx as usize * 256;
        assert_eq!(buffer, pool.buffer(slot.buf_idx) as usize);
    }
}

#[test]
fn names_meet_and_exclusive_use_excludes() {
    let pool = Pool::create(SMALL).unwrap();
    let other = Pool::attach(pool.fd().try_clone_to_owned().unwrap()).unwrap();
    assert_eq!(other.id(), pool.id());
    let a = pool.open("a", pairs(), Sharing::Shared).unwrap();
    let b = other.open("a", pairs(), Sharing::Shared).unwrap();
    assert_eq!(a.port(), b.port());
    assert_eq!(pool.open("a", pairs(), Sharing::Exclusive).err(), Some(PoolError::Busy("a".into())));
    drop((a, b));
    let only = pool.open("a", pairs(), Sharing::Exclusive).unwrap();
    assert!(other.open("a", pairs(), Sharing::Shared).is_err());
    drop(only);
    assert!(pool.open("", pairs(), Sharing::Shared).is_err());
}

#[test]
fn a_descriptor_says_which_port_it_is_and_keeps_it_open() {
    let pool = Pool::create(SMALL).unwrap();
    let port = pool.open("a", pairs(), Sharing::Shared).unwrap();
    let copy = port.fd().try_clone_to_owned().unwrap();
    let id = port.port();
    drop(port);
    assert!(pool.is_open(id));
    let again = pool.registration_of(copy).unwrap();
    assert_eq!(again.port(), id);
    drop(again);
    assert!(pool.find("a").is_none());
    let stranger = pool.fd().try_clone_to_owned().unwrap();
    assert!(pool.registration_of(stranger).is_err());
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_nothing() {
    let pool = Pool::create(SMALL).unwrap();
    let before = pool.account();
    let problem = pool.open("a", RingCounts::pairs(1, 128), Sharing::Shared).unwrap_err();
    assert_eq!(problem, PoolError::BuffersExhausted { wanted: 256, free: 198 });
    let problem = pool.open("a", RingCounts::pairs(200, 16), Sharing::Shared).unwrap_err();
    assert!(matches!(problem, PoolError::ObjectsExhausted { .. }), "{problem}");
    assert!(pool.open_pipe("a{1", "a}1", RingCounts::pairs(2, 30), Sharing::Shared).is_err());
    assert_eq!(pool.account(), before);
    assert_eq!(pool.ports().count(), 0);
}

#[test]
fn foreign_regions_are_no_pools() {
    let fd = region::create_sealed("other", 8192).unwrap();
    assert_eq!(Pool::attach(fd).unwrap_err(), PoolError::NotAPool { found_version: 0 });
    let pool = Pool::create(SMALL).unwrap();
    pool.header().buffers.store(1 << 30, Relaxed);
    assert!(Pool::attach(pool.fd().try_clone_to_owned().unwrap()).is_err());
    pool.header().buffers.store(300, Relaxed);
    assert!(matches!(Pool::attach(pool.fd().try_clone_to_owned().unwrap()), Err(PoolError::Region(_))));
}

/// As if another program had opened this port.
fn part(pool: &Pool, port: &Registration) {
    pool.record(port.port().0).unwrap().domain.store(77, Relaxed);
}

/// One end dies with a buffer in two slots, another one in its own hands and an extra list; the other end stays.
#[test]
fn an_end_that_died_in_the_middle_is_set_right() {
    let pool = Pool::create(SMALL).unwrap();
    let a = pool.open_pipe("p{1", "p}1", pairs(), Sharing::Shared).unwrap();
    let b = pool.open_pipe("p}1", "p{1", pairs(), Sharing::Shared).unwrap();
    part(&pool, &b);
    let at_rest = pool.account();
    assert_eq!((at_rest.owned, at_rest.outside), (64, 0));
    let tx = pool.ring(a.port(), Kind::Tx, 0).unwrap();
    let doubled = tx.slots()[1].load();
    tx.slots()[0].store(doubled);
    let extra = pool.take_buffer(a.port()).unwrap();
    let listed = pool.take_buffer(a.port()).unwrap();
    pool.interface(a.port()).unwrap().1.bufs_head.store(listed, Relaxed);
    pool.copy_in(listed, 0, &0u32.to_le_bytes());
    assert_eq!((pool.account().doubled, pool.account().outside), (1, 3));
    drop(a);
    assert_eq!(pool.account(), at_rest);
    assert_eq!((pool.owner(extra), pool.owner(listed)), (0, 0));
    let again = pool.open_pipe("p{1", "p}1", pairs(), Sharing::Shared).unwrap();
    drop(b);
    drop(again);
    assert_eq!(pool.account().free, 198);
}

/// A sender killed at any step of swapping the second of three pairs, or of showing them: all three arrive.
#[test]
fn every_torn_transfer_is_completed() {
    for step in 0..=10 {
        let pool = Pool::create(SMALL).unwrap();
        let a = pool.open_pipe("p{1", "p}1", pairs(), Sharing::Shared).unwrap();
        let b = pool.open_pipe("p}1", "p{1", pairs(), Sharing::Shared).unwrap();
        part(&pool, &b);
        let at_rest = pool.account();
        let (tx, rx) = (pool.ring(a.port(), Kind::Tx, 0).unwrap(), pool.ring(b.port(), Kind::Rx, 0).unwrap());
        let sent: Vec<u32> = (0..3).map(|i| tx.slots()[i].load().buf_idx).collect();
        transfer::tear(&tx, &rx, 3, step);
        drop(a);
        let (came, lost) = (rx.kring().hwtail.get(16), step == 0);
        assert_eq!(came, if lost { 0 } else { 3 }, "killed after step {step}");
        let received: Vec<u32> = (0..came as usize).map(|i| rx.slots()[i].load().buf_idx).collect();
        assert_eq!(received, if lost { vec![] } else { sent }, "killed after step {step}");
        assert_eq!(pool.account(), at_rest, "killed after step {step}");
        assert_eq!(pool.owned_by(b.port()), 32, "killed after step {step}");
    }
}

#[test]
fn buffers_that_are_not_the_senders_or_given_back_twice_go_nowhere() {
    let pool = Pool::create(SMALL).unwrap();
    let a = pool.open_pipe("p{1", "p}1", pairs(), Sharing::Shared).unwrap();
    let b = pool.open_pipe("p}1", "p{1", pairs(), Sharing::Shared).unwrap();
    part(&pool, &b);
    let (tx, rx) = (pool.ring(a.port(), Kind::Tx, 0).unwrap(), pool.ring(b.port(), Kind::Rx, 0).unwrap());
    let put = |i: usize, slot: Slot| tx.slots()[i].store(Slot { len: 60, ..slot });
    let of_b = rx.slots()[5].load();
    put(0, of_b);
    put(1, Slot { buf_idx: u32::MAX, ..Slot::default() });
    put(2, Slot { buf_idx: 0, ..Slot::default() });
    put(3, tx.slots()[4].load());
    put(4, tx.slots()[4].load());
    tx.slots()[5].store(Slot { len: 300, ..tx.slots()[5].load() });
    rx.slots()[1].store(rx.slots()[0].load());
    put(6, tx.slots()[6].load());
    tx.kring().own.rhead.store(7, Relaxed);
    let done = transfer(&tx, &rx);
    assert_eq!((done.slots, done.frames, done.bytes, done.dropped), (2, 2, 120, 5));
    assert_ne!(rx.slots()[0].load().buf_idx, rx.slots()[1].load().buf_idx);
    let received = [0, 1].map(|i| rx.slots()[i].load().buf_idx);
    assert!(received.iter().all(|buffer| pool.owner(*buffer) == b.port().0));
    drop((a, b));
    assert_eq!(pool.account().free, 198);
}

#[test]
fn only_whole_frames_are_transferred() {
    let pool = Pool::create(SMALL).unwrap();
    let a = pool.open_pipe("p{1", "p}1", pairs(), Sharing::Shared).unwrap();
    let b = pool.ring(pool.find("p}1").unwrap(), Kind::Rx, 0).unwrap();
    let tx = pool.ring(a.port(), Kind::Tx, 0).unwrap();
    let send = |until: u32, flags: &[u16]| {
        let from = until as usize - flags.len();
        for (cell, flags) in tx.slots()[from..].iter().zip(flags) {
            cell.store(Slot { len: 10, flags: *flags, ..cell.load() });
        }
        tx.kring().own.rhead.store(until, Relaxed);
        let done = transfer(&tx, &b);
        (done.slots, done.frames)
    };
    let more = crate::slot::NS_MOREFRAG;
    assert_eq!(send(4, &[0, more, 0, more]), (3, 2));
    assert_eq!(send(6, &[more, more]), (0, 0));
    assert_eq!(send(7, &[0]), (4, 1));
    assert_eq!(send(15, &[more, more, more, more, more, more, more, 0]), (8, 1));
}

/// Buffers that a program moved between its ports stay with the port that is still open.
#[test]
fn a_port_that_closes_leaves_what_its_family_still_holds() {
    let pool = Pool::create(SMALL).unwrap();
    let a = pool.open("a", pairs(), Sharing::Shared).unwrap();
    let b = pool.open("b", pairs(), Sharing::Shared).unwrap();
    let (rx, tx) = (pool.ring(a.port(), Kind::Rx, 0).unwrap(), pool.ring(b.port(), Kind::Tx, 0).unwrap());
    for i in 0..8 {
        let (from, to) = (rx.slots()[i].load(), tx.slots()[i].load());
        rx.slots()[i].store(to);
        tx.slots()[i].store(from);
    }
    drop(a);
    let account = pool.account();
    assert_eq!((account.owned, account.doubled, account.lost, account.outside), (32, 0, 0, 0));
    assert_eq!(pool.owned_by(b.port()), 32);
    drop(b);
    assert_eq!(pool.account().free, 198);
}
