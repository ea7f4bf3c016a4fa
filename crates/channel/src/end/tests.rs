//! Two ends and a pretended TCP connection against a queue of bytes: whatever the order of sends,
//! receives, switches, doorbells and demotions, the stream comes out as it went in.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::layout::CLASS_BYTES;

/// What a doorbell byte looks like; data never has this value, so a stray one is noticed.
const BELL: u8 = 0xBE;

struct Side {
    page: Box<EndPage>,
    /// TCP bytes written by this side and not yet read by the other.
    wire: VecDeque<u8>,
    written: u64,
    areas: [Vec<u8>; 4],
    next: u64,
    expected: VecDeque<u8>,
}

struct Pair {
    header: Box<RingHeader>,
    sides: [Side; 2],
}

/// A zeroed value of a type made of atomic integers only.
fn zeroed<T>() -> Box<T> {
    // SAFETY: callers use it for RingHeader and EndPage, plain atomic integers for which zero is valid.
    unsafe { Box::new(std::mem::MaybeUninit::<T>::zeroed().assume_init()) }
}

impl Pair {
    fn new() -> Pair {
        let side = || Side {
            page: zeroed(),
            wire: VecDeque::new(),
            written: 0,
            areas: CLASS_BYTES.map(|n| vec![0; n]),
            next: 0,
            expected: VecDeque::new(),
        };
        Pair { header: zeroed(), sides: [side(), side()] }
    }

    fn end(&self, who: usize) -> End<'_> {
        End::new(&self.header, &self.sides[who].page, if who == 0 { Role::A } else { Role::B })
    }

    fn payload(&mut self, who: usize, n: usize) -> Vec<u8> {
        let side = &mut self.sides[who];
        let bytes: Vec<u8> = (side.next..side.next + n as u64).map(|i| (i % 180) as u8).collect();
        side.next += n as u64;
        bytes
    }

    fn send(&mut self, who: usize, n: usize) {
        let end = self.end(who);
        match end.tx_path() {
            Path::Tcp if end.peer_is_ready() => end.switch_tx(self.sides[who].written),
            Path::Ring if end.demotion_wanted() => end.demote_tx(self.sides[who].written),
            _ => {}
        }
        if self.end(who).tx_path() != Path::Ring {
            let bytes = self.payload(who, n);
            self.sides[who].written += n as u64;
            self.sides[who].wire.extend(&bytes);
            self.sides[who].expected.extend(&bytes);
            return;
        }
        let p = self.end(who).producer();
        p.make_room(n, 3).unwrap();
        let n = p.free(n).unwrap().min(n);
        let spans = p.spans(n);
        let bytes = self.payload(who, spans.bytes());
        let area = &mut self.sides[who].areas[spans.class];
        area[spans.at..spans.at + spans.first].copy_from_slice(&bytes[..spans.first]);
        area[..spans.second].copy_from_slice(&bytes[spans.first..]);
        self.sides[who].expected.extend(&bytes);
        self.end(who).producer().publish(bytes.len(), 0);
        let bells = self.end(who).peer_receiver().bells();
        self.ring(who, bells);
    }

    fn ring(&mut self, who: usize, bells: u32) {
        if bells & crate::wait::BELL_TCP != 0 && self.end(who).tx_path() == Path::Ring {
            self.sides[who].wire.push_back(BELL);
            self.sides[who].written += 1;
        }
    }

    /// Receives once; returns how many bytes came.
    fn receive(&mut self, who: usize, wanted: usize) -> usize {
        let other = 1 - who;
        let unread = self.sides[other].wire.len() as u64;
        // An end that is not ready takes from the kernel what there is, and only counts.
        let ready = self.end(other).peer_is_ready();
        let source = if ready { self.end(who).rx_source(|| unread).unwrap() } else { RxSource::TcpAgain };
        let got: Vec<u8> = match source {
            RxSource::Doorbells { discard_bytes } => {
                let n = discard_bytes.min(unread) as usize;
                assert!(self.sides[other].wire.drain(..n).all(|b| b == BELL));
                self.end(who).tcp_consumed(n as u64);
                return 0;
            }
            RxSource::Ring { limit_bytes } => {
                let spans = self.end(who).consumer().spans(wanted.min(limit_bytes as usize)).unwrap();
                let area = &self.sides[other].areas[spans.class];
                let mut got = area[spans.at..spans.at + spans.first].to_vec();
                got.extend_from_slice(&area[..spans.second]);
                self.end(who).consumer().consume(got.len(), 0);
                got
            }
            RxSource::Tcp { .. } | RxSource::TcpAgain => {
                let limit = if let RxSource::Tcp { limit_bytes } = source { limit_bytes } else { u64::MAX };
                let n = (wanted as u64).min(limit).min(unread) as usize;
                let got = self.sides[other].wire.drain(..n).collect();
                self.end(who).tcp_consumed(n as u64);
                got
            }
        };
        for byte in &got {
            assert_eq!(Some(*byte), self.sides[other].expected.pop_front(), "stream broken by {source:?}");
        }
        got.len()
    }

    fn drain_doorbells(&mut self, who: usize) {
        let unread = self.sides[1 - who].wire.len() as u64;
        let n = self.end(who).doorbells_among(unread);
        assert!(self.sides[1 - who].wire.drain(..n as usize).all(|b| b == BELL));
        self.end(who).tcp_consumed(n);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Send(usize, usize),
    Receive(usize, usize),
    Ready(usize),
    ArmAndDrain(usize),
    AskForTcp(usize),
    Demote(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let who = 0usize..2;
    let op = prop_oneof![
        8 => (who.clone(), prop_oneof![1usize..300, 1usize..40_000]).prop_map(|(w, n)| Op::Send(w, n)),
        8 => (who.clone(), 1usize..60_000).prop_map(|(w, n)| Op::Receive(w, n)),
        2 => who.clone().prop_map(Op::Ready),
        3 => who.clone().prop_map(Op::ArmAndDrain),
        1 => who.clone().prop_map(Op::AskForTcp),
        1 => who.prop_map(Op::Demote),
    ];
    proptest::collection::vec(op, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn the_stream_is_whole_across_every_switch(ops in ops()) {
        let mut pair = Pair::new();
        for op in ops {
            match op {
                Op::Send(who, n) => pair.send(who, n),
                Op::Receive(who, n) => { pair.receive(who, n); }
                Op::Ready(who) => pair.end(who).declare_ready(),
                Op::ArmAndDrain(who) => {
                    pair.drain_doorbells(who);
                    pair.end(who).own_receiver().arm(crate::wait::BELL_TCP);
                }
                Op::AskForTcp(who) => pair.end(who).ask_for_tcp(Reason::Splice),
                Op::Demote(who) if pair.end(who).tx_path() != Path::Demoted => {
                    let written = pair.sides[who].written;
                    pair.end(who).demote_tx(written);
                }
                Op::Demote(_) => {}
            }
        }
        for who in 0..2 {
            let mut rounds = 0;
            while !pair.sides[1 - who].expected.is_empty() {
                pair.receive(who, usize::MAX >> 1);
                rounds += 1;
                prop_assert!(rounds < 1000, "bytes are stuck");
            }
        }
    }
}
