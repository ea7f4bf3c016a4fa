//! From verdicts to receivers: frames are sorted into lists, and each receiver gets all of its own at once.
//!
//! ```text
//!   pass 1   frame 0 -> port 2, 1 -> all, 2 -> port 5, 3 -> port 2, ...
//!            lists (16 bits per link):  port 2: 0 3    port 5: 2    all: 1       touched: 2, 5
//!   pass 2   port 2 gets 0 1 3, port 5 gets 1 2, any other port 1: two sorted lists, merged
//! ```
//! VALE's two passes (Rizzo and Lettieri, CoNEXT 2012, 3.3): the cost of a receiver's lock and wake-up is paid once for
//! each batch, and empty lists cost nothing.

use ringway_mem::fabric::{SWITCH_PORTS_MAX, SWITCH_RINGS_MAX};

use crate::frame::{Frame, Verdict};

const LISTS: usize = (SWITCH_PORTS_MAX * SWITCH_RINGS_MAX) as usize + 1;
const BROADCAST: usize = LISTS - 1;
/// The end of a list.
const END: u16 = u16::MAX;

/// What happened to frames on their way to one receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    pub frames: u32,
    pub bytes: u64,
    /// No room at the receiver.
    pub dropped: u32,
}

impl std::ops::AddAssign for Delivered {
    fn add_assign(&mut self, other: Self) {
        self.frames += other.frames;
        self.bytes += other.bytes;
        self.dropped += other.dropped;
    }
}

/// Where frames can go: the receivers of a switch.
pub trait Receivers {
    /// How many rings a port has; 0 if there is no such port.
    fn rings(&self, port: u8) -> u8;
    /// All ports that there are, ascending.
    fn ports(&self) -> &[u8];
    /// Delivers frames, given by their numbers in the batch, in this order; never waits.
    fn deliver(&mut self, port: u8, ring: u8, frames: Merged<'_>) -> Delivered;
}

/// The lists; reused from batch to batch, with every list empty in between.
pub struct Fanout {
    heads: Box<[u16; LISTS]>,
    tails: Box<[u16; LISTS]>,
    /// How many frames are in each.
    counts: Box<[u16; LISTS]>,
    /// The frame after each frame in its list.
    next: Vec<u16>,
    /// Lists that are not empty, the broadcast list aside.
    touched: Vec<u16>,
}

impl Default for Fanout {
    fn default() -> Self {
        Fanout {
            heads: Box::new([END; LISTS]),
            tails: Box::new([END; LISTS]),
            counts: Box::new([0; LISTS]),
            next: Vec::new(),
            touched: Vec::new(),
        }
    }
}

impl Fanout {
    /// Hands `frames`, sent by ring `ring` of port `source`, to those whom their verdicts name.
    /// A frame that is sent back to where it came from, or to a port that does not exist, is dropped.
    pub fn run(&mut self, source: u8, ring: u8, frames: &[Frame], receivers: &mut impl Receivers) -> Delivered {
        let mut done = Delivered::default();
        self.next.clear();
        self.next.resize(frames.len(), END);
        for (n, frame) in frames.iter().enumerate() {
            match frame.verdict {
                Verdict::To { port, ring } if port != source && receivers.rings(port) > 0 => {
                    self.append(list_of(port, ring % receivers.rings(port)), n as u16);
                }
                Verdict::Broadcast => self.append(BROADCAST, n as u16),
                Verdict::To { .. } | Verdict::Drop => done.dropped += 1,
            }
        }
        let (broadcast, broadcasts) = self.take(BROADCAST);
        if broadcast != END {
            for port in receivers.ports().iter().filter(|port| **port != source) {
                let list = list_of(*port, ring % receivers.rings(*port));
                if self.heads[list] == END {
                    self.touched.push(list as u16);
                }
            }
        }
        for at in 0..self.touched.len() {
            let list = usize::from(self.touched[at]);
            let (port, to) = ((list / SWITCH_RINGS_MAX as usize) as u8, (list % SWITCH_RINGS_MAX as usize) as u8);
            let (own, owns) = self.take(list);
            let gets_all = to == ring % receivers.rings(port).max(1);
            let (common, commons) = if gets_all { (broadcast, broadcasts) } else { (END, 0) };
            let count = usize::from(owns) + usize::from(commons);
            done += receivers.deliver(port, to, Merged { next: &self.next, own, common, count });
        }
        self.touched.clear();
        done
    }

    /// Empties a list; its first frame, and how many there were.
    fn take(&mut self, list: usize) -> (u16, u16) {
        (std::mem::replace(&mut self.heads[list], END), std::mem::take(&mut self.counts[list]))
    }

    #[inline]
    fn append(&mut self, list: usize, n: u16) {
        if self.heads[list] == END {
            self.heads[list] = n;
            if list != BROADCAST {
                self.touched.push(list as u16);
            }
        } else {
            self.next[usize::from(self.tails[list])] = n;
        }
        self.tails[list] = n;
        self.counts[list] += 1;
    }
}

fn list_of(port: u8, ring: u8) -> usize {
    usize::from(port) * SWITCH_RINGS_MAX as usize + usize::from(ring)
}

/// The frames of a receiver: its own list and the broadcast list, in the order in which they were sent.
#[derive(Clone)]
pub struct Merged<'a> {
    next: &'a [u16],
    own: u16,
    common: u16,
    /// How many are still to come.
    count: usize,
}

impl Iterator for Merged<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        // The end of a list is larger than any frame's number.
        let list = if self.own < self.common { &mut self.own } else { &mut self.common };
        let n = *list;
        if n == END {
            return None;
        }
        *list = self.next[usize::from(n)];
        self.count -= 1;
        Some(usize::from(n))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl ExactSizeIterator for Merged<'_> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Receivers that write down what they get.
    struct Notes {
        rings: Vec<u8>,
        ports: Vec<u8>,
        got: Vec<((u8, u8), Vec<usize>)>,
    }

    impl Receivers for Notes {
        fn rings(&self, port: u8) -> u8 {
            self.rings.get(usize::from(port)).copied().unwrap_or(0)
        }

        fn ports(&self) -> &[u8] {
            &self.ports
        }

        fn deliver(&mut self, port: u8, ring: u8, frames: Merged<'_>) -> Delivered {
            let count = frames.len();
            let frames: Vec<usize> = frames.collect();
            assert_eq!(frames.len(), count);
            let delivered = Delivered { frames: frames.len() as u32, ..Delivered::default() };
            self.got.push(((port, ring), frames));
            delivered
        }
    }

    fn verdict() -> impl Strategy<Value = Verdict> {
        let to = (prop_oneof![0..6_u8, Just(253), Just(255)], 0..20_u8);
        prop_oneof![
            4 => to.prop_map(|(port, ring)| Verdict::To { port, ring }),
            1 => Just(Verdict::Broadcast),
            1 => Just(Verdict::Drop),
        ]
    }

    proptest! {
        /// Everybody gets what the verdicts say, in order, once; two batches in a row do not mix.
        #[test]
        fn receivers_get_what_the_verdicts_say(
            batches in prop::collection::vec(prop::collection::vec(verdict(), 0..60), 1..4),
            rings in prop::collection::vec(0..=16_u8, 6),
            (source, ring) in (0..6_u8, 0..16_u8),
        ) {
            let ports = (0..6).filter(|port| rings[usize::from(*port)] > 0).collect();
            let mut notes = Notes { rings: rings.clone(), ports, got: vec![] };
            let mut fanout = Fanout::default();
            for verdicts in batches {
                let frames: Vec<Frame> = verdicts.iter().map(|v| Frame { verdict: *v, ..Frame::of(&[0; 60]) }).collect();
                notes.got.clear();
                let done = fanout.run(source, ring, &frames, &mut notes);
                let mut expected = std::collections::BTreeMap::<(u8, u8), Vec<usize>>::new();
                let mut dropped = 0;
                for (n, verdict) in verdicts.iter().enumerate() {
                    let everybody = |port: &u8| (*port, ring % rings[usize::from(*port)]);
                    let receivers: Vec<(u8, u8)> = match *verdict {
                        Verdict::To { port, ring } if port != source && port < 6 && rings[usize::from(port)] > 0 => {
                            vec![(port, ring % rings[usize::from(port)])]
                        }
                        Verdict::Broadcast => notes.ports.iter().filter(|p| **p != source).map(everybody).collect(),
                        _ => { dropped += 1; vec![] }
                    };
                    receivers.into_iter().for_each(|receiver| expected.entry(receiver).or_default().push(n));
                }
                let got: std::collections::BTreeMap<_, _> = notes.got.iter().cloned().collect();
                prop_assert_eq!(got.len(), notes.got.len(), "each receiver is served once");
                prop_assert_eq!(got, expected);
                prop_assert_eq!(done.dropped, dropped);
            }
        }
    }
}
