//! DXR: lookups per second, memory and updates per second; `cargo bench -p ringway-switch --bench dxr`.
//!
//! For each width of the direct table: medians of the rounds, random keys and keys as in a packet trace (Zipf).

use std::hint::black_box;
use std::time::Instant;

use ringway_switch::dxr::synthetic::{Synthetic, random_keys, table, trace_keys};
use ringway_switch::dxr::{Dxr, NextHop, Prefix};

const PREFIXES: usize = 500_000;
const NEXT_HOPS: u16 = 64;
const KEYS: usize = 1 << 20;
const ROUNDS: usize = 15;
/// Keys that one call looks up.
const BATCH: usize = 1024;

fn main() {
    family::<u32>("IPv4", &[18, 19, 20]);
    family::<u128>("IPv6", &[18, 19, 20]);
}

fn family<A: Synthetic>(name: &str, widths: &[u32]) {
    let prefixes = table::<A>(1, PREFIXES, NEXT_HOPS);
    let random = random_keys::<A>(2, KEYS);
    let trace = trace_keys(3, &prefixes, 100_000, KEYS);
    for &width in widths {
        let start = Instant::now();
        let mut dxr = filled(width, &prefixes);
        let build_ms = start.elapsed().as_secs_f64() * 1e3;
        let batch = |keys: &[A]| lookups_per_s(keys, |keys, answers| dxr.lookup_batch(keys, answers));
        let single = |keys: &[A]| {
            lookups_per_s(keys, |keys, answers| {
                keys.iter().zip(answers).for_each(|(key, answer)| *answer = dxr.lookup(*key))
            })
        };
        let figures = [batch(&random), batch(&trace), single(&random), single(&trace)].map(|per_s| per_s / 1e6);
        let kib = dxr.lookup_bytes() / 1024;
        let updates = updates_per_s(&mut dxr, &prefixes);
        println!(
            "{name} K={width}: batch random {:.0} trace {:.0}, single random {:.0} trace {:.0} M/s; \
             {kib} KiB; built in {build_ms:.0} ms; {updates:.0} updates/s",
            figures[0], figures[1], figures[2], figures[3]
        );
    }
}

fn filled<A: Synthetic>(width: u32, prefixes: &[(Prefix<A>, NextHop)]) -> Dxr<A> {
    let mut dxr = Dxr::new(width).expect("within the bounds");
    for (prefix, next_hop) in prefixes {
        dxr.insert(*prefix, *next_hop).expect("within the bounds");
    }
    dxr.commit();
    dxr
}

/// The median over the rounds.
fn lookups_per_s<A: Copy>(keys: &[A], lookup: impl Fn(&[A], &mut [NextHop])) -> f64 {
    let mut answers = [NextHop::NONE; BATCH];
    let mut rounds = [0.0; ROUNDS];
    for round in &mut rounds {
        let start = Instant::now();
        for batch in keys.chunks_exact(BATCH) {
            lookup(batch, &mut answers);
            black_box(&answers);
        }
        *round = keys.len() as f64 / start.elapsed().as_secs_f64();
    }
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

/// Withdrawals and announcements, each committed on its own.
fn updates_per_s<A: Synthetic>(dxr: &mut Dxr<A>, prefixes: &[(Prefix<A>, NextHop)]) -> f64 {
    const UPDATES: usize = 20_000;
    let start = Instant::now();
    for (prefix, next_hop) in prefixes.iter().step_by(prefixes.len() / (UPDATES / 2)) {
        dxr.remove(*prefix);
        dxr.commit();
        dxr.insert(*prefix, *next_hop).expect("it was there before");
        dxr.commit();
    }
    UPDATES as f64 / start.elapsed().as_secs_f64()
}
