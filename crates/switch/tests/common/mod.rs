//! Ports at a hub, and frames that tell who sent them and when.

use std::sync::Arc;

use ringway_mem::pool::{Pool, PoolConfig, RingCounts};
use ringway_mem::slot::NS_MOREFRAG;
use ringway_port::Port;
use ringway_switch::{Switch, vale};

const SLOTS: u32 = 64;

pub(crate) fn pool() -> Arc<Pool> {
    Pool::create(PoolConfig { buffers: 4096, buffer_bytes: 256, object_pages: 256 }).unwrap()
}

pub(crate) fn open(switch: &Arc<Switch>, pool: &Arc<Pool>, name: &str) -> Port {
    vale::open(switch, pool, name, RingCounts::pairs(1, SLOTS)).unwrap()
}

/// Frame `number` of a sender: its length and bytes follow from the two.
fn frame(sender: u8, number: u32) -> Vec<u8> {
    let mut bytes = vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, sender, 8, 0];
    bytes.extend(number.to_be_bytes());
    bytes.extend((0..number % 700).map(|n| (n ^ number) as u8 ^ sender));
    bytes
}

/// Sends frames from `number` on, as many as there is room for; returns the next number.
pub(crate) fn send(port: &mut Port, sender: u8, mut number: u32) -> u32 {
    let mut batch = port.tx(0).unwrap();
    let mut at = 0;
    loop {
        let bytes = frame(sender, number);
        let pieces = bytes.chunks(200).collect::<Vec<_>>();
        if at + pieces.len() as u32 > batch.len() {
            break;
        }
        for (n, piece) in pieces.iter().enumerate() {
            batch.bytes_mut(at)[..piece.len()].copy_from_slice(piece);
            batch.set(at, piece.len() as u16, if n + 1 < pieces.len() { NS_MOREFRAG } else { 0 });
            at += 1;
        }
        number += 1;
    }
    batch.send(at);
    port.sync_tx(0).unwrap();
    number
}

/// Receives what is there; every frame must be as one of the senders made it, and later than those before it.
pub(crate) fn receive(port: &mut Port, next: &mut [u32; 256]) -> u32 {
    port.sync_rx(0).unwrap();
    let batch = port.rx(0).unwrap();
    let (mut at, mut frames) = (0, 0);
    while at < batch.len() {
        // The slots of a killed sender: blank, and no frame.
        if batch.slot(at).len == 0 {
            at += 1;
            continue;
        }
        let slots = batch.packet_slots(at).expect("only whole frames are shown");
        let mut bytes = Vec::new();
        batch.copy_packet(at, slots, &mut bytes);
        at += slots;
        frames += 1;
        let (sender, number) = (bytes[11], u32::from_be_bytes(bytes[14..18].try_into().unwrap()));
        assert_eq!(bytes, frame(sender, number), "frame {number} of sender {sender}");
        assert!(number >= next[usize::from(sender)], "frame {number} of sender {sender} comes late or twice");
        next[usize::from(sender)] = number + 1;
    }
    batch.release(at);
    port.sync_rx(0).unwrap();
    frames
}

pub(crate) fn assert_all_is_free(pool: &Arc<Pool>) {
    let account = pool.account();
    assert_eq!((pool.ports().count(), account.free), (0, account.total), "{account:?}");
}
