//! Flags of slots and rings.

use ringway_mem::slot::{NR_TIMESTAMP, NS_BUF_CHANGED, NS_INDIRECT, NS_MOREFRAG, NS_NO_LEARN, Slot};

use super::*;

/// Fills the next slots, each with its bytes and flags, and syncs.
fn send(device: &Device, slots: &[(&[u8], u16)]) {
    let ring = ring(device, Kind::Tx);
    let mut head = ring.header().head.load(Relaxed);
    for (bytes, flags) in slots {
        let cell = &ring.slots()[head as usize];
        ring.pool().copy_in(cell.load().buf_idx, 0, bytes);
        cell.store(Slot { len: bytes.len() as u16, flags: *flags, ..cell.load() });
        head = ring.next(head);
    }
    ring.header().head.store(head, Relaxed);
    ring.header().cur.store(head, Relaxed);
    device.ioctl(abi::NIOCTXSYNC, 0).unwrap();
}

/// What has come: each slot's bytes and flags.
fn received(device: &Device) -> Vec<(Vec<u8>, u16)> {
    device.ioctl(abi::NIOCRXSYNC, 0).unwrap();
    let ring = ring(device, Kind::Rx);
    let (mut head, tail) = (ring.header().head.load(Relaxed), ring.header().tail.load(Relaxed));
    let mut slots = vec![];
    while head != tail {
        let slot = ring.slots()[head as usize].load();
        let mut bytes = vec![0; slot.len.into()];
        ring.pool().copy_out(slot.buf_idx, 0, &mut bytes);
        slots.push((bytes, slot.flags));
        head = ring.next(head);
    }
    ring.header().head.store(head, Relaxed);
    ring.header().cur.store(head, Relaxed);
    slots
}

/// A frame from station `from` to station `to`; 0xff is everybody.
fn frame(to: u8, from: u8) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0];
    if to == 0xff {
        bytes[..6].fill(0xff);
    }
    bytes.resize(60, from);
    bytes
}

fn members<const N: usize>(names: [&str; N]) -> [Device; N] {
    names.map(|name| {
        let device = Device::default();
        register(&device, name, mode::ALL_NIC, 0).unwrap();
        device
    })
}

#[test]
fn chains_are_passed_on_whole_and_have_at_most_64_slots() {
    let (a, b) = pipe("chain");
    send(&a, &[(&[1; 100], NS_MOREFRAG), (&[2; 100], NS_MOREFRAG)]);
    assert!(received(&b).is_empty(), "the end is not there");
    send(&a, &[(&[3; 100], 0)]);
    let got = received(&b);
    assert_eq!(got.iter().map(|(bytes, _)| bytes[0]).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(got.iter().map(|(_, flags)| flags & NS_MOREFRAG).collect::<Vec<_>>(), [NS_MOREFRAG, NS_MOREFRAG, 0]);
    for (slots, arrive) in [(64, 64), (65, 0)] {
        let mut chain = vec![(&[4_u8; 10][..], NS_MOREFRAG); slots - 1];
        chain.push((&[4; 10], 0));
        send(&a, &chain);
        // What is dropped of a chain that is too long leaves its end, a frame of its own.
        let whole = received(&b).len();
        assert!(whole == arrive || (arrive == 0 && whole <= 1), "{slots} slots, {whole} came");
    }
    assert!(ring(&a, Kind::Tx).kring().own.dropped.load(Relaxed) >= 64);
}

#[test]
fn a_swapped_buffer_is_sent_as_it_is() {
    let (_a, b) = pipe("swap");
    let device = Device::default();
    let request = Register { nr_mode: mode::ALL_NIC, nr_extra_bufs: 1, ..Register::default() };
    register_with(&device, "swap{1", request, 0).unwrap();
    let tx = ring(&device, Kind::Tx);
    let extra = device.with_binding(|b| {
        let (_, interface) = b.port.registration_mut().own_interface().unwrap();
        interface.bufs_head.load(Relaxed)
    });
    tx.pool().copy_in(extra, 0, b"from the extra buffer");
    let head = tx.header().head.load(Relaxed);
    let before = tx.slots()[head as usize].load();
    let swapped = Slot { buf_idx: extra, len: 21, flags: NS_BUF_CHANGED, ptr: 0 };
    tx.slots()[head as usize].store(swapped);
    device.with_binding(|b| {
        let (_, interface) = b.port.registration_mut().own_interface().unwrap();
        interface.bufs_head.store(before.buf_idx, Relaxed);
    });
    tx.pool().copy_in(before.buf_idx, 0, &0_u32.to_ne_bytes());
    tx.header().head.store(tx.next(head), Relaxed);
    tx.header().cur.store(tx.next(head), Relaxed);
    device.ioctl(abi::NIOCTXSYNC, 0).unwrap();
    assert_eq!(received(&b)[0].0, b"from the extra buffer");
    let account = tx.pool().account();
    assert_eq!((account.lost, account.doubled), (0, 0));
}

#[test]
fn indirect_slots_send_the_programs_own_memory() {
    let [a, b] = members(["valeInd:a", "valeInd:b"]);
    let own = frame(0xff, 1);
    let tx = ring(&a, Kind::Tx);
    for (address, arrives) in [(own.as_ptr() as u64, true), (0x10, false), (u64::MAX - 8, false)] {
        let head = tx.header().head.load(Relaxed);
        let cell = &tx.slots()[head as usize];
        cell.store(Slot { len: own.len() as u16, flags: NS_INDIRECT, ptr: address, ..cell.load() });
        tx.header().head.store(tx.next(head), Relaxed);
        tx.header().cur.store(tx.next(head), Relaxed);
        a.ioctl(abi::NIOCTXSYNC, 0).unwrap();
        let got: Vec<Vec<u8>> = received(&b).into_iter().map(|(bytes, _)| bytes).collect();
        assert_eq!(got, if arrives { vec![own.clone()] } else { vec![] }, "{address:x}");
    }
    assert_eq!(tx.kring().own.dropped.load(Relaxed), 2);
}

#[test]
fn flags_of_a_switch_choose_the_port_and_count_fragments() {
    let [a, b, c] = members(["valeFlag:a", "valeFlag:b", "valeFlag:c"]);
    // To everybody, but the sender names port 2, which is c.
    send(&a, &[(&frame(0xff, 1), 2 << 8)]);
    assert!(received(&b).is_empty());
    assert_eq!(received(&c).len(), 1);
    let whole = frame(0xff, 1);
    send(&a, &[(&whole[..20], NS_MOREFRAG), (&whole[20..], 0)]);
    assert_eq!(received(&b).iter().map(|(_, flags)| flags >> 8).collect::<Vec<_>>(), [2, 2]);
    received(&c);
    // Station 9 is not learnt, so what is for it goes to everybody; station 8 is.
    send(&a, &[(&frame(0xff, 9), NS_NO_LEARN), (&frame(0xff, 8), 0)]);
    received(&b);
    received(&c);
    send(&b, &[(&frame(9, 5), 0), (&frame(8, 5), 0)]);
    assert_eq!((received(&a).len(), received(&c).len()), (2, 1));
}

#[test]
fn a_ring_that_asks_for_it_gets_the_time_of_each_sync() {
    let (_a, b) = pipe("time");
    let rx = ring(&b, Kind::Rx);
    b.ioctl(abi::NIOCRXSYNC, 0).unwrap();
    assert_eq!(rx.header().ts_s.load(Relaxed), 0);
    rx.header().flags.store(NR_TIMESTAMP, Relaxed);
    let before = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    b.ioctl(abi::NIOCRXSYNC, 0).unwrap();
    let (s, us) = (rx.header().ts_s.load(Relaxed), rx.header().ts_us.load(Relaxed));
    let stamped = std::time::Duration::from_secs(s) + std::time::Duration::from_micros(us);
    assert!(stamped + std::time::Duration::from_micros(1) >= before && us < 1_000_000);
}
