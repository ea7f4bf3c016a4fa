//! Every interleaving of a small exchange, epochs included.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;

struct Shared {
    producer_line: ProducerLine,
    consumer_line: ConsumerLine,
    areas: [[UnsafeCell<u8>; 4]; 2],
}

/// Sends one byte at the position that the ring names (area contents reduced to four cells).
fn send(shared: &Shared, own: &ProducerState, byte: u8, resize: bool) {
    let p = Producer::new(&shared.producer_line, &shared.consumer_line, own);
    if resize {
        p.make_room(CLASS_BYTES[0] + 1, 1).unwrap();
    }
    let s = p.spans(1);
    // SAFETY: the protocol under test gives a cell to one side at a time; loom's cell panics if not.
    shared.areas[s.class][s.at].with_mut(|cell| unsafe { *cell = byte });
    p.publish(1, 0);
}

#[test]
fn a_byte_is_seen_only_after_it_was_written() {
    loom::model(|| {
        let shared = Arc::new(Shared {
            producer_line: ProducerLine {
                tail: 0u64.into(),
                epoch: 0u64.into(),
                cpu: 0u32.into(),
                previous_epoch: 0u64.into(),
            },
            consumer_line: ConsumerLine { head: 0u64.into(), cpu: 0u32.into() },
            areas: std::array::from_fn(|_| std::array::from_fn(|_| UnsafeCell::new(0))),
        });
        let theirs = shared.clone();
        let producer = thread::spawn(move || {
            let own = ProducerState::default();
            send(&theirs, &own, 1, false);
            send(&theirs, &own, 2, true);
        });
        let own = ConsumerState::default();
        let c = Consumer::new(&shared.consumer_line, &shared.producer_line, &own);
        let mut seen = 0;
        for _ in 0..3 {
            let s = c.spans(1).unwrap();
            if !s.is_empty() {
                // SAFETY: the protocol under test gives a cell to one side at a time; loom's cell panics if not.
                let byte = shared.areas[s.class][s.at].with(|cell| unsafe { *cell });
                seen += 1;
                assert_eq!(byte, seen);
                c.consume(1, 0);
            }
            thread::yield_now();
        }
        producer.join().unwrap();
    });
}
