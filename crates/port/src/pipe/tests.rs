//! Pipes within a process: order, content, fragments, backpressure, closing.

use crate::{Port, PortError, Ready, open};
use ringway_mem::slot::NS_MOREFRAG;
use std::sync::atomic::Ordering::Relaxed;

fn pair(name: &str) -> (Port, Port) {
    (open(&format!("netmap:{name}{{1")).unwrap(), open(&format!("netmap:{name}}}1")).unwrap())
}

fn send(port: &mut Port, packets: &[&[u8]]) -> u32 {
    let mut batch = port.tx(0).unwrap();
    let mut slots = 0;
    for packet in packets {
        slots += batch.put(slots, packet).unwrap();
    }
    batch.send(slots);
    port.sync_tx(0).unwrap()
}

fn receive(port: &mut Port) -> Vec<Vec<u8>> {
    port.sync_rx(0).unwrap();
    let batch = port.rx(0).unwrap();
    let (mut packets, mut at) = (vec![], 0);
    while at < batch.len() {
        let n = batch.packet_slots(at).expect("only whole packets are shown");
        let mut packet = vec![];
        batch.copy_packet(at, n, &mut packet);
        packets.push(packet);
        at += n;
    }
    batch.release(at);
    packets
}

#[test]
fn packets_arrive_in_order_both_ways() {
    let (mut a, mut b) = pair("both");
    for round in 0..1000u32 {
        let text = round.to_le_bytes();
        send(&mut a, &[&text, b"second"]);
        send(&mut b, &[b"back", &text]);
        assert_eq!(receive(&mut b), [&text[..], b"second"]);
        assert_eq!(receive(&mut a), [b"back", &text[..]]);
    }
    assert_eq!(a.tx_counters(0).packets, 2000);
    let account = a.pool().account();
    assert_eq!((account.lost, account.doubled, account.outside), (0, 0, 0));
}

#[test]
fn long_packets_are_fragments_and_arrive_whole() {
    let (mut a, mut b) = pair("long");
    for bytes in [1, 2047, 2048, 2049, 10_049, 2048 * 64] {
        let packet: Vec<u8> = (0..bytes).map(|i| i as u8).collect();
        send(&mut a, &[&packet]);
        assert_eq!(receive(&mut b), [packet]);
    }
    assert_eq!(a.tx(0).unwrap().put(0, &vec![0; 2048 * 64 + 1]), None);
}

#[test]
fn an_unfinished_chain_waits() {
    let (mut a, mut b) = pair("unfinished");
    let mut batch = a.tx(0).unwrap();
    batch.put(0, b"whole").unwrap();
    batch.set(1, 3, NS_MOREFRAG);
    batch.send(2);
    a.sync_tx(0).unwrap();
    assert_eq!(receive(&mut b), [b"whole"]);
    send(&mut a, &[b"end"]);
    assert_eq!(receive(&mut b)[0].len(), 6);
}

#[test]
fn a_full_pipe_holds_the_sender_until_slots_come_back() {
    let (mut a, mut b) = pair("full");
    let mut sent = 0;
    loop {
        let mut batch = a.tx(0).unwrap();
        let n = batch.len();
        for i in 0..n {
            batch.put(i, &(sent + i).to_le_bytes()).unwrap();
        }
        sent += n;
        batch.send(n);
        if a.sync_tx(0).unwrap() == 0 {
            break;
        }
    }
    assert_eq!(sent, 2 * 1023);
    let ready = a.wait(Ready::TX, Some(std::time::Duration::from_millis(1))).unwrap();
    assert!(!ready.tx);
    let got = receive(&mut b);
    assert_eq!(got.len(), 1023);
    b.sync_rx(0).unwrap();
    assert!(a.wait(Ready::TX, None).unwrap().tx);
    let rest = receive(&mut b);
    let all = got.iter().chain(&rest).enumerate();
    all.for_each(|(i, packet)| assert_eq!(**packet, (i as u32).to_le_bytes()));
    assert_eq!(rest.len(), 1023);
}

#[test]
fn buffers_move_from_pipe_to_pipe_without_copies() {
    let (mut a, mut b) = pair("hop");
    let text = b"passed on";
    let n = a.tx(0).unwrap().bytes_mut(0).as_ptr();
    send(&mut a, &[text]);
    b.sync_rx(0).unwrap();
    let (mut rx, mut tx) = b.both(0, 0).unwrap();
    assert!(rx.swap(0, &mut tx, 0));
    tx.send(1);
    rx.release(1);
    b.sync_tx(0).unwrap();
    a.sync_rx(0).unwrap();
    let batch = a.rx(0).unwrap();
    assert_eq!(batch.bytes(0), text);
    assert_eq!(batch.bytes(0).as_ptr(), n);
}

#[test]
fn impossible_words_are_refused_and_the_ring_goes_on() {
    let (mut a, mut b) = pair("wild");
    for (head, cur) in [(u32::MAX, 0), (1024, 1024), (5, 4), (1023 + 1, 0), (0, 1024)] {
        let ring = a.pool().ring(a.registration().port(), ringway_mem::pool::Kind::Tx, 0).unwrap();
        ring.header().head.store(head, Relaxed);
        ring.header().cur.store(cur, Relaxed);
        let error = a.sync_tx(0).unwrap_err();
        assert!(matches!(error, PortError::Ring { .. }), "{error}");
        send(&mut a, &[b"goes on"]);
        assert_eq!(receive(&mut b), [b"goes on"]);
    }
    assert_eq!(a.tx_counters(0).reinits, 5);
}

#[test]
fn an_end_that_comes_back_finds_what_was_sent_to_it() {
    let (mut a, b) = pair("again");
    send(&mut a, &[b"waits"]);
    drop(b);
    let mut b = open("netmap:again}1").unwrap();
    assert_eq!(receive(&mut b), [b"waits"]);
    let pool = a.pool().clone();
    drop((a, b));
    let account = pool.account();
    assert_eq!((account.owned, account.lost), (0, 0));
    assert_eq!(account.free, account.total);
}

#[test]
fn sleepers_in_other_threads_are_woken() {
    let (mut a, mut b) = pair("sleep");
    let echo = std::thread::spawn(move || {
        let mut echoed = 0;
        while echoed < 200 {
            b.wait(Ready::RX, None).unwrap();
            let (mut rx, mut tx) = b.both(0, 0).unwrap();
            let n = rx.len();
            (0..n).for_each(|i| assert!(rx.swap(i, &mut tx, i)));
            tx.send(n);
            rx.release(n);
            echoed += n;
            b.sync_tx(0).unwrap();
        }
        b
    });
    for round in 0..200u32 {
        send(&mut a, &[&round.to_le_bytes()]);
        a.wait(Ready::RX, None).unwrap();
        assert_eq!(receive(&mut a), [round.to_le_bytes()]);
    }
    echo.join().unwrap();
}
