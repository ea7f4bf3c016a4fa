//! Longest-prefix match by DXR: a table as large as the Internet's, keys at random and as in a packet trace, and changes.

use std::cell::{OnceCell, RefCell};
use std::hint::black_box;
use std::time::Instant;

use ringway_switch::dxr::synthetic::{Random, Synthetic, random_keys, table, trace_keys};
use ringway_switch::dxr::{Dxr, NextHop, Prefix};

use super::super::worker::Sample;
use super::Setting;

const PREFIXES: usize = 500_000;
const NEXT_HOPS: u16 = 64;
/// Keys that are looked up again and again: their own memory is read in order.
const KEYS: usize = 1 << 20;
/// Different keys of a trace.
const TRACE_KEYS: usize = 100_000;
/// Keys that one call looks up.
const BATCH: usize = 1024;

/// A table of prefixes, made when it is first measured.
pub(super) struct Table<A: Synthetic> {
    direct_bits: u32,
    filled: OnceCell<Filled<A>>,
}

struct Filled<A: Synthetic> {
    prefixes: Vec<(Prefix<A>, NextHop)>,
    dxr: RefCell<Dxr<A>>,
    random: Vec<A>,
    trace: Vec<A>,
}

impl<A: Synthetic> Table<A> {
    pub(super) fn new(direct_bits: u32) -> Table<A> {
        Table { direct_bits, filled: OnceCell::new() }
    }

    fn filled(&self) -> &Filled<A> {
        self.filled.get_or_init(|| {
            let prefixes = table::<A>(1, PREFIXES, NEXT_HOPS);
            let mut dxr = Dxr::new(self.direct_bits).expect("within the bounds");
            for (prefix, next_hop) in &prefixes {
                dxr.insert(*prefix, *next_hop).expect("within the bounds");
            }
            dxr.commit();
            let (random, trace) = (random_keys::<A>(2, KEYS), trace_keys(3, &prefixes, TRACE_KEYS, KEYS));
            Filled { prefixes, dxr: RefCell::new(dxr), random, trace }
        })
    }

    /// Batches of keys.
    pub(super) fn lookups(&self, is_trace: bool, setting: &Setting) -> Sample {
        self.measured(is_trace, setting, |dxr, keys, answers| dxr.lookup_batch(keys, answers))
    }

    /// Each key by a call of its own.
    pub(super) fn single_lookups(&self, is_trace: bool, setting: &Setting) -> Sample {
        self.measured(is_trace, setting, |dxr, keys, answers| {
            keys.iter().zip(answers).for_each(|(key, answer)| *answer = dxr.lookup(*key));
        })
    }

    fn measured(&self, is_trace: bool, setting: &Setting, look_up: impl Fn(&Dxr<A>, &[A], &mut [NextHop])) -> Sample {
        let filled = self.filled();
        let dxr = filled.dxr.borrow();
        let mut answers = [NextHop::NONE; BATCH];
        let keys = if is_trace { &filled.trace } else { &filled.random };
        let mut sample = per_second("lookups_per_s", BATCH, setting, keys.chunks_exact(BATCH).cycle(), |keys| {
            look_up(&dxr, keys, &mut answers);
            black_box(&answers);
        });
        sample.insert("table_bytes".to_owned(), dxr.lookup_bytes() as f64);
        sample
    }

    /// Withdrawals and announcements in turns, each committed on its own.
    pub(super) fn updates(&self, setting: &Setting) -> Sample {
        let filled = self.filled();
        let mut dxr = filled.dxr.borrow_mut();
        // A stride that has no divisor in common with their number visits them all.
        let order = (0..PREFIXES).map(|n| n * 7919 % PREFIXES).cycle();
        per_second("updates_per_s", 2, setting, order, |n| {
            let (prefix, next_hop) = filled.prefixes[n % filled.prefixes.len()];
            dxr.remove(prefix);
            dxr.commit();
            dxr.insert(prefix, next_hop).expect("it was there before");
            dxr.commit();
        })
    }
}

/// What a lookup can at best reach: one load from a table of the size of DXR's direct part.
pub(super) fn loads(setting: &Setting) -> Sample {
    let mut random = Random::new(4);
    let table: Vec<u32> = (0..1 << 20).map(|_| random.number() as u32).collect();
    let keys = random_keys::<u32>(2, KEYS);
    let mut answers = [0; BATCH];
    per_second("lookups_per_s", BATCH, setting, keys.chunks_exact(BATCH).cycle(), |keys| {
        keys.iter().zip(&mut answers).for_each(|(key, answer)| *answer = table[(*key >> 12) as usize]);
        black_box(&answers);
    })
}

/// Calls `work` until the time is over; each call does `each` things.
fn per_second<T>(
    metric: &str,
    each: usize,
    setting: &Setting,
    items: impl Iterator<Item = T>,
    mut work: impl FnMut(T),
) -> Sample {
    let (start, mut done) = (Instant::now(), 0);
    for item in items {
        work(item);
        done += each;
        if start.elapsed() >= setting.duration {
            break;
        }
    }
    [(metric.to_owned(), done as f64 / start.elapsed().as_secs_f64())].into()
}
