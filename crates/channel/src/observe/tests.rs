//! The observer against a ring in a real region: what it shows is what was sent, at the right offset.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use ringway_mem::region::create_sealed;
use ringway_mem::ring::{Consumer, ConsumerState, Producer, ProducerState, Spans};

use super::*;

/// One direction of a region, sent and received by the test.
struct Wire {
    fd: OwnedFd,
    region: Region,
    producer: ProducerState,
    consumer: ConsumerState,
}

/// The byte at a stream offset: not periodic in any power of two.
fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

impl Wire {
    fn new() -> Wire {
        let fd = create_sealed("ringway-test", RING_REGION_BYTES).unwrap();
        let region = Region::open(&fd, RING_REGION_BYTES, RING_REGION_BYTES).unwrap();
        let wire = Wire { fd, region, producer: ProducerState::default(), consumer: ConsumerState::default() };
        wire.header().magic.store(RING_MAGIC, Relaxed);
        wire.header().version.store(PROTOCOL_VERSION.into(), Relaxed);
        wire.header().connection.store(7, Relaxed);
        wire
    }

    fn header(&self) -> &RingHeader {
        // SAFETY: the mapping is page-aligned and longer than the header, which consists of atomics.
        unsafe { self.region.base().cast::<RingHeader>().as_ref() }
    }

    fn area(&self, class: usize, at: usize) -> *mut u8 {
        // SAFETY: the areas lie inside the mapping.
        unsafe { self.region.base().as_ptr().add(area_offset(class, 0) + at) }
    }

    /// Sends up to `wanted` bytes of the pattern in publications of at most a quarter of the ring.
    fn send(&self, wanted: usize, class_max: usize) -> usize {
        let line = &self.header().directions[0];
        let p = Producer::new(&line.producer, &line.consumer, &self.producer);
        p.make_room(wanted, class_max).unwrap();
        let free = p.free(wanted).unwrap().min(wanted);
        let mut sent = 0;
        while sent < free {
            let s = p.spans((free - sent).min(4096));
            for (at, from, len) in [(s.at, 0, s.first), (0, s.first, s.second)] {
                for i in 0..len {
                    let byte = byte_at(p.tail() + (from + i) as u64);
                    // SAFETY: `spans` stays inside the area.
                    unsafe { self.area(s.class, at + i).write_volatile(byte) };
                }
            }
            p.publish(s.bytes(), 0);
            sent += s.bytes();
        }
        sent
    }

    fn receive(&self, wanted: usize) -> usize {
        let line = &self.header().directions[0];
        let c = Consumer::new(&line.consumer, &line.producer, &self.consumer);
        let spans: Spans = c.spans(wanted).unwrap();
        c.consume(spans.bytes(), 0);
        spans.bytes()
    }

    fn tail(&self) -> u64 {
        self.producer.tail.load(Relaxed)
    }
}

/// Checks each look: offsets without a gap that is not counted, bytes as sent.
#[derive(Default)]
struct Witness {
    next: u64,
    lost: u64,
    shown: u64,
}

impl Witness {
    fn look(&mut self, observer: &RingObserver, cursor: &mut Cursor, now_us: u64) {
        let mut bytes = Vec::new();
        let look = observer.look(cursor, Duration::from_micros(now_us), &mut bytes).unwrap();
        self.next += look.lost_bytes;
        self.lost += look.lost_bytes;
        if !bytes.is_empty() {
            assert_eq!(look.offset, self.next);
        }
        for byte in &bytes {
            assert_eq!(*byte, byte_at(self.next), "wrong byte at {}", self.next);
            self.next += 1;
        }
        self.shown += bytes.len() as u64;
    }

    /// Looks late enough and often enough for whatever was held back.
    fn finish(&mut self, observer: &RingObserver, cursor: &mut Cursor) {
        for turn in 1..=u64::from(FINAL_LOOKS) {
            self.look(observer, cursor, turn * 1_000_000_000);
        }
    }
}

#[test]
fn a_quiet_connection_is_seen_whole_although_its_ring_starts_over_at_each_page() {
    let wire = Wire::new();
    let observer = RingObserver::open(&wire.fd).unwrap();
    let (mut cursor, mut witness) = (observer.cursor(0), Witness::default());
    for turn in 0..2000u64 {
        assert_eq!(wire.send(100, 0), 100);
        assert_eq!(wire.receive(100), 100);
        // Looks far apart: several messages, up to a page, lie between two of them.
        if turn % 13 == 0 {
            witness.look(&observer, &mut cursor, turn);
        }
    }
    witness.finish(&observer, &mut cursor);
    // Overtaken bytes that were really overwritten between two looks are lost; the rest is not.
    assert_eq!(witness.next, wire.tail());
    assert!(witness.lost * 5 < witness.shown, "lost {} of {}", witness.lost, wire.tail());
}

#[test]
fn nothing_is_lost_if_every_message_is_looked_at() {
    let wire = Wire::new();
    let observer = RingObserver::open(&wire.fd).unwrap();
    let (mut cursor, mut witness) = (observer.cursor(0), Witness::default());
    for turn in 0..2000u64 {
        wire.send(100, 0);
        wire.receive(100);
        witness.look(&observer, &mut cursor, turn);
    }
    witness.look(&observer, &mut cursor, 10_000);
    assert_eq!((witness.lost, witness.shown), (0, wire.tail()));
}

#[test]
fn a_full_ring_that_nobody_reads_is_shown_whole() {
    let wire = Wire::new();
    assert_eq!(wire.send(100_000, 0), 16 << 10);
    let observer = RingObserver::open(&wire.fd).unwrap();
    let (mut cursor, mut witness) = (observer.cursor(0), Witness::default());
    witness.look(&observer, &mut cursor, 0);
    assert_eq!((witness.lost, witness.shown), (0, 16 << 10));
    assert_eq!(observer.connection(), 7);
    assert_eq!(observer.progress(0).tail - observer.progress(0).head, 16 << 10);
}

#[test]
fn foreign_regions_and_impossible_words_are_refused() {
    let short = create_sealed("ringway-test", 4096).unwrap();
    assert!(matches!(RingObserver::open(&short), Err(ObserveError::Region(_))));
    let blank = create_sealed("ringway-test", RING_REGION_BYTES).unwrap();
    assert!(matches!(RingObserver::open(&blank), Err(ObserveError::Header { magic: 0, .. })));
    let wire = Wire::new();
    let observer = RingObserver::open(&wire.fd).unwrap();
    let mut cursor = observer.cursor(0);
    wire.send(10, 0);
    let mut out = Vec::new();
    observer.look(&mut cursor, Duration::ZERO, &mut out).unwrap();
    wire.header().directions[0].producer.tail.store(3, Relaxed);
    assert!(observer.look(&mut cursor, Duration::ZERO, &mut out).is_err());
}

/// Whatever the words hold, a look returns.
#[test]
fn scribbled_words_are_survived() {
    let wire = Wire::new();
    let observer = RingObserver::open(&wire.fd).unwrap();
    let words = [0, 1, 4096 << 2, u64::MAX, u64::MAX - 3, 1 << 62, 5];
    let line = &wire.header().directions[0];
    for (turn, tail) in words.into_iter().cycle().take(500).enumerate() {
        line.producer.tail.store(tail, Relaxed);
        line.producer.epoch.store(words[turn / 3 % 7], Relaxed);
        line.producer.previous_epoch.store(words[turn / 5 % 7], Relaxed);
        line.consumer.head.store(words[turn / 2 % 7], Relaxed);
        let mut cursor = observer.cursor(0);
        for step in 0..3 {
            line.producer.epoch.store(words[(turn + step) % 7], Relaxed);
            let _ = observer.look(&mut cursor, Duration::from_secs(step as u64), &mut Vec::new());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn whatever_is_shown_is_what_was_sent(
        ops in proptest::collection::vec((0usize..4, 1usize..30_000, 0usize..4), 1..150),
    ) {
        let wire = Wire::new();
        let observer = RingObserver::open(&wire.fd).unwrap();
        let (mut cursor, mut witness) = (observer.cursor(0), Witness::default());
        for (turn, (what, size, class_max)) in ops.into_iter().enumerate() {
            match what {
                0 => { wire.send(size, class_max); }
                1 => { wire.send(size % 200 + 1, class_max); }
                2 => { wire.receive(size); }
                _ => witness.look(&observer, &mut cursor, turn as u64 * 1000),
            }
        }
        witness.finish(&observer, &mut cursor);
        prop_assert_eq!(witness.next, wire.tail());
    }
}

#[test]
fn bytes_shown_are_right_while_both_ends_run() {
    const TOTAL: u64 = 3_000_000;
    let wire = Wire::new();
    let observer = RingObserver::open(&wire.fd).unwrap();
    let (mut cursor, mut witness) = (observer.cursor(0), Witness::default());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while wire.tail() < TOTAL {
                let size = 1 + (wire.tail() % 997) as usize * 3;
                if wire.send(size, 1) == 0 {
                    std::thread::yield_now();
                }
            }
        });
        scope.spawn(|| {
            while wire.consumer.head.load(Relaxed) < TOTAL {
                if wire.receive(5000) == 0 {
                    std::thread::yield_now();
                }
            }
            done.store(true, Release);
        });
        let mut now_us = 0;
        while !done.load(Acquire) {
            now_us += 1;
            witness.look(&observer, &mut cursor, now_us);
        }
    });
    witness.finish(&observer, &mut cursor);
    assert_eq!(witness.next, wire.tail());
    assert!(witness.shown > 0);
}
