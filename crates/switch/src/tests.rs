use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;
use ringway_mem::fabric::Fabric;
use ringway_mem::pool::{Pool, PoolConfig, RingCounts};
use ringway_mem::slot::{NETMAP_MAX_FRAGS, NS_MOREFRAG};
use ringway_port::Port;

use crate::modules::bridge::Bridge;
use crate::modules::hub::Hub;
use crate::{Forward, Switch, vale};

const SLOTS: u32 = 32;
const BUFFER_BYTES: usize = 256;

fn pool() -> Arc<Pool> {
    Pool::create(PoolConfig { buffers: 2048, buffer_bytes: BUFFER_BYTES as u32, object_pages: 256 }).unwrap()
}

fn switch(module: Arc<dyn Forward>) -> Arc<Switch> {
    Switch::new(Fabric::create().unwrap(), module)
}

fn port(switch: &Arc<Switch>, pool: &Arc<Pool>, name: &str) -> Port {
    vale::open(switch, pool, name, RingCounts::pairs(1, SLOTS)).unwrap()
}

fn frame(to: u8, from: u8, len: usize, fill: u8) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0];
    if to == 0xff {
        bytes[..6].fill(0xff);
    }
    bytes.extend((bytes.len()..len).map(|n| fill.wrapping_add(n as u8)));
    bytes
}

/// Fills slots with a frame, cut into pieces of these lengths; false if there is no room.
fn put(port: &mut Port, bytes: &[u8], piece_bytes: usize) -> bool {
    let mut batch = port.tx(0).unwrap();
    let pieces: Vec<&[u8]> = bytes.chunks(piece_bytes).collect();
    if pieces.len() > batch.len() as usize {
        return false;
    }
    for (n, piece) in pieces.iter().enumerate() {
        batch.bytes_mut(n as u32)[..piece.len()].copy_from_slice(piece);
        batch.set(n as u32, piece.len() as u16, if n + 1 < pieces.len() { NS_MOREFRAG } else { 0 });
    }
    batch.send(pieces.len() as u32);
    true
}

/// Everything that has come, as whole frames, given back.
fn receive(port: &mut Port) -> Vec<Vec<u8>> {
    port.sync_rx(0).unwrap();
    let batch = port.rx(0).unwrap();
    let (mut frames, mut at) = (Vec::new(), 0);
    while let Some(slots) = (at < batch.len()).then(|| batch.packet_slots(at)).flatten() {
        let mut bytes = Vec::new();
        batch.copy_packet(at, slots, &mut bytes);
        assert!((at..at + slots).all(|n| u32::from(batch.slot(n).flags >> 8) == slots), "NS_RFRAGS");
        frames.push(bytes);
        at += slots;
    }
    assert_eq!(at, batch.len(), "only whole frames are shown");
    batch.release(at);
    port.sync_rx(0).unwrap();
    frames
}

/// A bridge as it should be, with receivers that have room for so many slots.
#[derive(Default)]
struct Oracle {
    stations: BTreeMap<u8, u8>,
    queues: BTreeMap<u8, VecDeque<Vec<u8>>>,
    occupied: BTreeMap<u8, usize>,
}

impl Oracle {
    /// A batch of frames, each with the slots that it takes.
    fn forward(&mut self, source: u8, frames: &[(Vec<u8>, usize)]) {
        for (bytes, slots) in frames {
            self.stations.insert(bytes[11], source);
            let known = if bytes[0] & 1 == 0 { self.stations.get(&bytes[5]).copied() } else { None };
            let receivers: Vec<u8> = match known {
                Some(port) if port == source => vec![],
                Some(port) => vec![port],
                None => self.queues.keys().copied().filter(|port| *port != source).collect(),
            };
            for port in receivers {
                let Some(queue) = self.queues.get_mut(&port) else { continue };
                let occupied = self.occupied.entry(port).or_default();
                if *occupied + slots < SLOTS as usize {
                    *occupied += slots;
                    queue.push_back(bytes.clone());
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Puts a frame into a port's tx ring: to, from, length, bytes of a fragment.
    Put {
        port: u8,
        to: u8,
        from: u8,
        len: usize,
        piece_bytes: usize,
    },
    Sync {
        port: u8,
    },
    Receive {
        port: u8,
    },
    /// Closes the port if it is open, opens it if not.
    Toggle {
        port: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![4 => 14..200_usize, 1 => 200..3000_usize];
    let to = prop_oneof![6 => 0..6_u8, 1 => Just(0xff)];
    prop_oneof![
        12 => (0..4_u8, to, 0..6_u8, len, 100..=BUFFER_BYTES).prop_map(|(port, to, from, len, piece_bytes)| {
            Step::Put { port, to, from, len, piece_bytes }
        }),
        4 => (0..4_u8).prop_map(|port| Step::Sync { port }),
        3 => (0..4_u8).prop_map(|port| Step::Receive { port }),
        1 => (0..4_u8).prop_map(|port| Step::Toggle { port }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Content and order of every frame, drops included, are those of the oracle, while ports come and go.
    #[test]
    fn a_bridge_forwards_as_its_oracle_does(steps in prop::collection::vec(step(), 1..200)) {
        let (pool, switch) = (pool(), switch(Arc::new(Bridge::new(64))));
        let mut oracle = Oracle::default();
        let mut ports: BTreeMap<u8, Port> = BTreeMap::new();
        let mut pending: BTreeMap<u8, Vec<(Vec<u8>, usize)>> = BTreeMap::new();
        let mut sent = 0_u8;
        for step in steps {
            match step {
                Step::Toggle { port: n } => {
                    oracle.stations.retain(|_, port| *port != n);
                    oracle.occupied.remove(&n);
                    pending.remove(&n);
                    if ports.remove(&n).is_some() {
                        oracle.queues.remove(&n);
                    } else if ports.len() == usize::from(n) {
                        // Numbers are given from the lowest free one on, so this is port `n` of the switch.
                        ports.insert(n, port(&switch, &pool, &format!("vale:{n}")));
                        oracle.queues.insert(n, VecDeque::new());
                    }
                }
                Step::Put { port, to, from, len, piece_bytes } => {
                    let Some(open) = ports.get_mut(&port) else { continue };
                    sent = sent.wrapping_add(1);
                    let bytes = frame(to, from, len, sent);
                    if put(open, &bytes, piece_bytes) {
                        pending.entry(port).or_default().push((bytes, len.div_ceil(piece_bytes)));
                    }
                }
                Step::Sync { port } => {
                    let Some(open) = ports.get_mut(&port) else { continue };
                    open.sync_tx(0).unwrap();
                    oracle.forward(port, &pending.remove(&port).unwrap_or_default());
                }
                Step::Receive { port } => {
                    let Some(open) = ports.get_mut(&port) else { continue };
                    let expected: Vec<Vec<u8>> = oracle.queues.get_mut(&port).unwrap().drain(..).collect();
                    oracle.occupied.remove(&port);
                    prop_assert_eq!(receive(open), expected);
                }
            }
        }
    }
}

#[test]
fn all_numbers_can_be_taken_and_no_more() {
    let (pool, switch) = (pool(), switch(Arc::new(Hub)));
    let counts = RingCounts::pairs(1, 2);
    let mut ports: Vec<Port> =
        (0..254).map(|n| vale::open(&switch, &pool, &format!("vale:{n}"), counts).unwrap()).collect();
    let Err(error) = vale::open(&switch, &pool, "vale:254", counts) else { panic!("one too many") };
    assert!(error.to_string().contains("254 ports already"), "{error}");
    assert!(put(&mut ports[7], &frame(0xff, 1, 60, 0), 60));
    ports[7].sync_tx(0).unwrap();
    for (n, port) in ports.iter_mut().enumerate() {
        assert_eq!(receive(port).len(), usize::from(n != 7));
    }
}

#[test]
fn a_sender_may_choose_the_port_itself() {
    let (pool, switch) = (pool(), switch(Arc::new(Hub)));
    let mut ports: Vec<Port> = (0..3).map(|n| port(&switch, &pool, &format!("vale:{n}"))).collect();
    let bytes = frame(0xff, 1, 60, 0);
    let mut batch = ports[0].tx(0).unwrap();
    batch.bytes_mut(0)[..60].copy_from_slice(&bytes);
    batch.set(0, 60, 2 << 8);
    batch.send(1);
    ports[0].sync_tx(0).unwrap();
    assert_eq!(receive(&mut ports[1]), Vec::<Vec<u8>>::new());
    assert_eq!(receive(&mut ports[2]), [bytes]);
}

#[test]
fn impossible_frames_are_dropped_and_counted_and_the_next_pass() {
    let (pool, switch) = (pool(), switch(Arc::new(Hub)));
    let (mut a, mut b) = (port(&switch, &pool, "vale:a"), port(&switch, &pool, "vale:b"));
    let good = frame(0xff, 1, 60, 0);
    let mut batch = a.tx(0).unwrap();
    // Too short; longer than a buffer; a wild address; then a good one.
    batch.set(0, 13, 0);
    batch.set(1, BUFFER_BYTES as u16 + 1, 0);
    batch.set(2, 60, ringway_mem::slot::NS_INDIRECT);
    batch.bytes_mut(3)[..60].copy_from_slice(&good);
    batch.set(3, 60, 0);
    batch.send(4);
    a.sync_tx(0).unwrap();
    assert_eq!(receive(&mut b), [good]);
    assert_eq!(a.tx_counters(0).dropped, 3);
}

#[test]
fn a_chain_waits_for_its_end_and_one_without_end_is_dropped() {
    let (pool, switch) = (pool(), switch(Arc::new(Hub)));
    let counts = RingCounts::pairs(1, 128);
    let mut a = vale::open(&switch, &pool, "vale:a", counts).unwrap();
    let mut b = vale::open(&switch, &pool, "vale:b", counts).unwrap();
    let bytes = frame(0xff, 1, 300, 0);
    let mut batch = a.tx(0).unwrap();
    batch.bytes_mut(0)[..150].copy_from_slice(&bytes[..150]);
    batch.set(0, 150, NS_MOREFRAG);
    batch.send(1);
    a.sync_tx(0).unwrap();
    assert_eq!(receive(&mut b).len(), 0);
    let mut batch = a.tx(0).unwrap();
    batch.bytes_mut(0)[..150].copy_from_slice(&bytes[150..]);
    batch.set(0, 150, 0);
    batch.send(1);
    a.sync_tx(0).unwrap();
    assert_eq!(receive(&mut b), [bytes]);
    let mut batch = a.tx(0).unwrap();
    let chain = NETMAP_MAX_FRAGS as u32 + 1;
    (0..chain).for_each(|n| batch.set(n, 60, NS_MOREFRAG));
    batch.send(chain);
    a.sync_tx(0).unwrap();
    assert_eq!(receive(&mut b).len(), 0);
    assert_eq!(a.tx_counters(0).dropped, NETMAP_MAX_FRAGS as u64);
}

#[test]
fn user_memory_is_sent_and_cut_into_buffers() {
    let (pool, switch) = (pool(), switch(Arc::new(Hub)));
    let (mut a, mut b) = (port(&switch, &pool, "vale:a"), port(&switch, &pool, "vale:b"));
    let bytes = frame(0xff, 1, 5000, 3);
    let mut batch = a.tx(0).unwrap();
    batch.set_indirect(0, bytes.as_ptr() as u64, 5000);
    batch.send(1);
    a.sync_tx(0).unwrap();
    assert_eq!(receive(&mut b), [bytes]);
}
