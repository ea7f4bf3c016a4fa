//! What a hostile peer does to shared memory, decided by a list of choices.

use ringway_mem::ring::Epoch;
use ringway_mem::sync::{AtomicU32, AtomicU64, Ordering::*};

use crate::end::{CLOSING_SENDING, End, Path};
use crate::layout::RingHeader;
use crate::wait::{BELL_FUTEX, BELL_TCP};

/// Where decisions come from: a seed, or a fuzzer's bytes, which end some time.
pub trait Choices {
    fn next(&mut self) -> Option<u64>;

    /// A number below `bound`.
    fn below(&mut self, bound: u64) -> Option<u64> {
        Some(self.next()? % bound)
    }
}

/// The same seed makes the same choices, without end (splitmix64).
pub struct Seeded(pub u64);

impl Choices for Seeded {
    fn next(&mut self) -> Option<u64> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some(z ^ (z >> 31))
    }
}

/// A fuzzer's bytes: two make a small choice, the odd ones among them take eight more.
impl Choices for &[u8] {
    fn next(&mut self) -> Option<u64> {
        let (small, rest) = self.split_first_chunk::<2>()?;
        let small = u16::from_le_bytes(*small);
        *self = rest;
        if small != u16::MAX {
            return Some(small.into());
        }
        let (large, rest) = self.split_first_chunk::<8>()?;
        *self = rest;
        Some(u64::from_le_bytes(*large))
    }
}

/// A word that the peer can write.
enum Word<'a> {
    Short(&'a AtomicU32),
    Long(&'a AtomicU64),
}

impl Word<'_> {
    fn get(&self) -> u64 {
        match self {
            Word::Short(word) => word.load(Relaxed).into(),
            Word::Long(word) => word.load(Relaxed),
        }
    }

    fn set(&self, value: u64) {
        match self {
            Word::Short(word) => word.store(value as u32, Relaxed),
            Word::Long(word) => word.store(value, Relaxed),
        }
    }
}

/// Every word of the region's header: the peer maps all of it, its own lines and its victim's.
fn words(header: &RingHeader) -> Vec<Word<'_>> {
    let mut words = vec![
        Word::Long(&header.magic),
        Word::Short(&header.version),
        Word::Short(&header.region_bytes),
        Word::Long(&header.connection),
    ];
    for d in &header.directions {
        let (p, c, w, s) = (&d.producer, &d.consumer, &d.wait, &d.switch);
        words.extend([&p.tail, &p.epoch, &p.previous_epoch, &c.head].map(Word::Long));
        words.extend([&s.ring_begins_at, &s.ring_ends_at, &s.tcp_resumes_at].map(Word::Long));
        words.extend([&p.cpu, &c.cpu, &w.receiver, &w.sender, &w.look, &w.closing].map(Word::Short));
        words.extend([&s.path, &s.receiver_ready, &s.demote_please].map(Word::Short));
    }
    words
}

/// Overwrites one word with something that comes near the truth, near a limit, or near nothing.
pub fn scribble(header: &RingHeader, choices: &mut impl Choices) -> Option<()> {
    let words = words(header);
    let target = &words[choices.below(words.len() as u64)? as usize];
    let other = words[choices.below(words.len() as u64)? as usize].get();
    let value = match choices.below(8)? {
        0 => choices.next()?,
        1 => choices.below(4)?,
        2 => u64::MAX - choices.below(4)?,
        3 => 1 << choices.below(64)?,
        4 => other.wrapping_add(choices.below(1 << 15)?),
        5 => other.wrapping_sub(choices.below(1 << 15)?),
        6 => target.get().wrapping_add(choices.below(1 << 12)?),
        _ => Epoch::new(other.wrapping_add(choices.below(1 << 12)?), choices.below(4)? as usize).0,
    };
    target.set(value);
    Some(())
}

/// What the peer does on TCP beside what it does in shared memory.
pub enum OnTcp {
    Nothing,
    /// Writes so many bytes.
    Bytes(u64),
    /// Sends its FIN.
    Finish,
}

/// Does something that a correct peer does, with correct copies of its own indices. What its own
/// scribbling has made of the shared words may stop it.
pub fn behave(peer: &End, tcp_written: u64, bytes: usize, choices: &mut impl Choices) -> Option<OnTcp> {
    match choices.below(12)? {
        0..4 => return Some(send(peer, tcp_written, bytes)),
        4..7 => {
            let consumer = peer.consumer();
            if let Ok(spans) = consumer.spans(bytes) {
                consumer.consume(spans.bytes(), 1);
            }
        }
        7 => return Some(OnTcp::Bytes(choices.below(64)?)),
        8 => peer.declare_ready(),
        9 => wait(peer, choices.below(4)?),
        10 if choices.below(8)? == 0 => {
            peer.announce_closing(CLOSING_SENDING);
            return Some(OnTcp::Finish);
        }
        11 if choices.below(8)? == 0 => peer.demote_tx(tcp_written),
        _ => {}
    }
    Some(OnTcp::Nothing)
}

/// Publishes bytes of the area as they are, after switching if need be.
fn send(peer: &End, tcp_written: u64, bytes: usize) -> OnTcp {
    if peer.tx_path() == Path::Tcp {
        peer.switch_tx(tcp_written);
    }
    let producer = peer.producer();
    if peer.tx_path() != Path::Ring || producer.make_room(bytes, 3).is_err() {
        return OnTcp::Nothing;
    }
    if let Ok(free) = producer.free(bytes) {
        producer.publish(free.min(bytes), 1);
    }
    if peer.peer_receiver().bells() & BELL_TCP != 0 { OnTcp::Bytes(1) } else { OnTcp::Nothing }
}

/// Arms, heats, disarms or rings.
pub(super) fn wait(end: &End, which: u64) {
    let word = end.own_receiver();
    match which {
        0 => _ = word.arm(BELL_FUTEX | BELL_TCP),
        1 => word.heat(),
        2 => _ = word.disarm(BELL_FUTEX | BELL_TCP),
        _ => {
            let rung = end.peer_receiver().bells() | end.peer_sender().bells();
            assert!(rung & !(BELL_FUTEX | BELL_TCP) == 0, "bells that do not exist");
        }
    }
}

/// How many bytes a call is about: mostly few.
pub fn length(choices: &mut impl Choices) -> Option<usize> {
    Some(match choices.below(8)? {
        0..4 => choices.below(256)?,
        4..7 => choices.below(40_000)?,
        _ => choices.below(2 << 20)?,
    } as usize)
}
