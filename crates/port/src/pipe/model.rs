//! A pipe against its oracle: whatever two lawful users do, what comes out is what went in, in order and whole, and
//! sync by sync as many slots move as the rules say.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use proptest::prelude::*;
use ringway_mem::slot::NS_MOREFRAG;

use crate::{Port, open};

const SLOTS: u32 = 16;

#[derive(Clone, Debug)]
enum Step {
    /// Fill one slot; `more` of its packet follows.
    Fill {
        len: u16,
        more: bool,
    },
    SyncTx,
    SyncRx,
    /// Give back so many slots, or all there are.
    Release(u32),
}

/// A pipe as a queue: slots filled and not synced, slots on their way, slots that the receiver sees and has given back.
#[derive(Default)]
struct Oracle {
    filled: VecDeque<(u16, bool)>,
    moved: VecDeque<u16>,
    seen: u32,
    released: u32,
}

impl Oracle {
    /// Whole packets move while the receiver's ring, less one slot, has room.
    fn sync_tx(&mut self) {
        loop {
            let Some(end) = self.filled.iter().position(|(_, more)| !more) else { return };
            if self.moved.len() + end + 1 > SLOTS as usize - 1 {
                return;
            }
            self.moved.extend(self.filled.drain(..=end).map(|(len, _)| len));
        }
    }

    fn sync_rx(&mut self) {
        self.moved.drain(..self.released as usize);
        self.released = 0;
        self.seen = self.moved.len() as u32;
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0u16..2048, prop::bool::weighted(0.3)).prop_map(|(len, more)| Step::Fill { len, more }),
        2 => Just(Step::SyncTx),
        2 => Just(Step::SyncRx),
        2 => (0..SLOTS).prop_map(Step::Release),
    ];
    prop::collection::vec(step, 0..300)
}

fn run(a: &mut Port, b: &mut Port, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut oracle = Oracle::default();
    let mut first_seen = 0;
    let mut numbers = vec![];
    for (number, step) in steps.iter().enumerate() {
        match *step {
            Step::Fill { len, more } => {
                // A chain must end while it fits at all.
                let more = more && oracle.filled.iter().rev().take_while(|(_, more)| *more).count() < 5;
                let mut batch = a.tx(0).unwrap();
                prop_assert_eq!(batch.len(), SLOTS - 1 - oracle.filled.len() as u32);
                if batch.is_empty() {
                    continue;
                }
                batch.bytes_mut(0)[..8].copy_from_slice(&(number as u64).to_le_bytes());
                batch.set(0, len, if more { NS_MOREFRAG } else { 0 });
                batch.send(1);
                oracle.filled.push_back((len, more));
                numbers.push(number as u64);
            }
            Step::SyncTx => {
                oracle.sync_tx();
                a.sync_tx(0).unwrap();
            }
            Step::SyncRx => {
                first_seen += oracle.released as usize;
                oracle.sync_rx();
                prop_assert_eq!(b.sync_rx(0).unwrap(), oracle.seen);
                let batch = b.rx(0).unwrap();
                for i in 0..batch.len() {
                    prop_assert_eq!(batch.slot(i).len, oracle.moved[i as usize]);
                    if let Some((number, _)) = batch.bytes(i).split_first_chunk::<8>() {
                        prop_assert_eq!(u64::from_le_bytes(*number), numbers[first_seen + i as usize]);
                    }
                }
            }
            Step::Release(n) => {
                let batch = b.rx(0).unwrap();
                prop_assert_eq!(batch.len(), oracle.seen - oracle.released);
                let n = n.min(batch.len());
                batch.release(n);
                oracle.released += n;
            }
        }
    }
    let account = a.pool().account();
    prop_assert_eq!((account.lost, account.doubled, account.outside), (0, 0, 0));
    Ok(())
}

proptest! {
    #[test]
    fn a_pipe_is_a_queue_of_whole_packets(steps in steps()) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("netmap:model{}", NUMBER.fetch_add(1, Relaxed));
        let mut a = open(&format!("{name}{{0@conf:slots={SLOTS}@extmem:,buf-num=100")).unwrap();
        let mut b = open(&format!("{name}}}0")).unwrap();
        run(&mut a, &mut b, &steps)?;
    }
}
