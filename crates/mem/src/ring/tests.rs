//! The ring against a queue of bytes, and against a peer that scribbles.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::sync::Ordering::Relaxed;

struct Model {
    producer_line: ProducerLine,
    consumer_line: ConsumerLine,
    producer: ProducerState,
    consumer: ConsumerState,
    areas: [Vec<u8>; 4],
    /// Counts sends and receives: every second one tries the short way first.
    turn: u32,
}

impl Model {
    fn new() -> Box<Model> {
        Box::new(Model {
            producer_line: ProducerLine { tail: 0.into(), epoch: 0.into(), cpu: 0.into(), previous_epoch: 0.into() },
            consumer_line: ConsumerLine { head: 0.into(), cpu: 0.into() },
            producer: ProducerState::default(),
            consumer: ConsumerState::default(),
            areas: CLASS_BYTES.map(|n| vec![0; n]),
            turn: 0,
        })
    }

    fn send(&mut self, bytes: &[u8], class_max: usize) -> usize {
        let p = Producer::new(&self.producer_line, &self.consumer_line, &self.producer);
        self.turn += 1;
        let s = p.place(bytes.len()).filter(|_| self.turn.is_multiple_of(2)).unwrap_or_else(|| {
            p.make_room(bytes.len(), class_max).unwrap();
            p.spans(p.free(bytes.len()).unwrap().min(bytes.len()))
        });
        let area = &mut self.areas[s.class];
        area[s.at..s.at + s.first].copy_from_slice(&bytes[..s.first]);
        area[..s.second].copy_from_slice(&bytes[s.first..s.bytes()]);
        p.publish(s.bytes(), 0);
        s.bytes()
    }

    /// Everything that can be seen without consuming.
    fn look_ahead(&mut self) -> Vec<u8> {
        let c = Consumer::new(&self.consumer_line, &self.producer_line, &self.consumer);
        let mut out = Vec::new();
        loop {
            let s = c.ahead(out.len(), 1 << 21).unwrap();
            if s.is_empty() {
                return out;
            }
            let area = &self.areas[s.class];
            out.extend_from_slice(&area[s.at..s.at + s.first]);
            out.extend_from_slice(&area[..s.second]);
        }
    }

    fn receive(&mut self, wanted: usize) -> Vec<u8> {
        let c = Consumer::new(&self.consumer_line, &self.producer_line, &self.consumer);
        self.turn += 1;
        let short = self.turn.is_multiple_of(2).then(|| c.stretch(wanted)).flatten();
        let s = short.unwrap_or_else(|| c.spans(wanted).unwrap());
        let area = &self.areas[s.class];
        let mut out = area[s.at..s.at + s.first].to_vec();
        out.extend_from_slice(&area[..s.second]);
        c.consume(out.len(), 0);
        out
    }
}

#[derive(Clone, Debug)]
enum Op {
    Send(usize, usize),
    Receive(usize),
    Drain,
    LookAhead,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let size = prop_oneof![1usize..200, 1usize..20_000, 1usize..300_000];
    let op = prop_oneof![
        4 => (size.clone(), 0usize..4).prop_map(|(n, c)| Op::Send(n, c)),
        4 => size.prop_map(Op::Receive),
        1 => Just(Op::Drain),
        1 => Just(Op::LookAhead),
    ];
    proptest::collection::vec(op, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    /// Relays write what they have by calls that block once poll has said that there is room.
    #[test]
    fn what_is_called_writable_takes_a_quarter_of_the_smallest_ring(ops in ops(), class_max in 0usize..4) {
        let mut ring = Model::new();
        for op in ops {
            match op {
                Op::Send(n, _) => _ = ring.send(&vec![0; n], class_max),
                Op::Receive(n) => {
                    let p = Producer::new(&ring.producer_line, &ring.consumer_line, &ring.producer);
                    let writable = p.is_writable(class_max).unwrap();
                    // The consumer goes on, or not, between the answer and the write.
                    ring.receive(n % 7 * n / 7);
                    if writable {
                        prop_assert_eq!(ring.send(&[0; CLASS_BYTES[0] / 4], class_max), CLASS_BYTES[0] / 4);
                    }
                }
                Op::Drain | Op::LookAhead => _ = ring.receive(usize::MAX >> 1),
            }
        }
    }

    #[test]
    fn bytes_come_out_as_they_went_in(ops in ops()) {
        let mut ring = Model::new();
        let mut oracle = VecDeque::new();
        let mut next = 0u64;
        for op in ops {
            match op {
                Op::Send(n, class_max) => {
                    let bytes: Vec<u8> = (next..next + n as u64).map(|i| ((i * 31) >> 3) as u8).collect();
                    let sent = ring.send(&bytes, class_max);
                    next += sent as u64;
                    oracle.extend(&bytes[..sent]);
                }
                Op::Receive(n) => {
                    let got = ring.receive(n);
                    prop_assert!(!got.is_empty() || oracle.is_empty(), "bytes are stuck");
                    for b in got { prop_assert_eq!(Some(b), oracle.pop_front()); }
                }
                Op::LookAhead => prop_assert_eq!(ring.look_ahead(), oracle.iter().copied().collect::<Vec<_>>()),
                Op::Drain => {
                    while !oracle.is_empty() {
                        let got = ring.receive(usize::MAX >> 1);
                        prop_assert!(!got.is_empty());
                        for b in got { prop_assert_eq!(Some(b), oracle.pop_front()); }
                    }
                }
            }
        }
    }

    #[test]
    fn hostile_words_never_lead_outside_the_area(
        tail: u64, epoch: u64, head: u64, own_head in 0u64..1 << 40, own_len in 0u64..16384, wanted in 0usize..1 << 21,
    ) {
        let ring = Model::new();
        ring.producer_line.tail.store(tail, Relaxed);
        ring.producer_line.epoch.store(epoch, Relaxed);
        ring.consumer_line.head.store(head, Relaxed);
        ring.consumer.head.store(own_head, Relaxed);
        ring.consumer.tail_seen.store(own_head, Relaxed);
        let c = Consumer::new(&ring.consumer_line, &ring.producer_line, &ring.consumer);
        if let Ok(s) = c.spans(wanted) {
            prop_assert!(s.at + s.first <= CLASS_BYTES[s.class] && s.second <= s.at);
            prop_assert!(s.bytes() <= wanted);
        }
        ring.consumer.tail_seen.store(own_head, Relaxed);
        if let Some(s) = c.stretch(wanted) {
            prop_assert!(s.at + s.first <= CLASS_BYTES[s.class] && s.first <= wanted);
        }
        ring.producer.tail.store(own_head + own_len, Relaxed);
        ring.producer.head_seen.store(own_head, Relaxed);
        ring.producer.epoch.store(Epoch::new(own_head, 0).0, Relaxed);
        let p = Producer::new(&ring.producer_line, &ring.consumer_line, &ring.producer);
        let _ = p.make_room(wanted, 3);
        if let Ok(n) = p.free(wanted) {
            let s = p.spans(n.min(wanted));
            prop_assert!(s.at + s.first <= CLASS_BYTES[s.class] && s.second <= s.at);
        }
    }
}

#[test]
fn a_quiet_connection_stays_in_its_first_page() {
    // 64 divides a page, so no message of that length lies in two.
    for bytes in [100, 64] {
        let mut ring = Model::new();
        for i in 0..10_000u32 {
            assert_eq!(ring.send(&[i as u8 | 1; 100][..bytes], 3), bytes);
            assert_eq!(ring.receive(200).len(), bytes);
        }
        assert!(ring.areas[0][4096..].iter().all(|&b| b == 0), "messages of {bytes} bytes");
    }
}

#[test]
fn the_short_way_is_open_to_most_small_messages() {
    let mut ring = Model::new();
    let mut plain = 0;
    for _ in 0..1_000 {
        let p = Producer::new(&ring.producer_line, &ring.consumer_line, &ring.producer);
        plain += usize::from(p.place(64).is_some());
        assert_eq!(ring.send(&[7; 64], 3), 64);
        let c = Consumer::new(&ring.consumer_line, &ring.producer_line, &ring.consumer);
        plain += usize::from(c.stretch(64).is_some());
        assert_eq!(ring.receive(64).len(), 64);
    }
    assert!(plain > 1_900, "{plain} of 2000");
}

#[test]
fn a_large_ring_shrinks_when_it_is_quiet_again() {
    let mut ring = Model::new();
    assert_eq!(ring.send(&vec![1; 200_000], 3), 200_000);
    assert_eq!(Epoch(ring.producer.epoch.load(Relaxed)).class(), 2);
    assert_eq!(ring.receive(200_000).len(), 200_000);
    for _ in 0..2_000 {
        ring.send(&[2; 100], 3);
        ring.receive(100);
    }
    assert_eq!(Epoch(ring.producer.epoch.load(Relaxed)).class(), 0);
}
