//! Scenarios at random. `RINGWAY_SWARM=FIRST..END` runs other seeds than the few of every day; a failure names its
//! seed, and `RINGWAY_SWARM=SEED..SEED+1` repeats it.

use ringway_sim::swarm::scenario;

const EVERY_DAY: std::ops::Range<u64> = 0..60;
/// Seeds that have found something: windows that shrank, segments that waited twice, orphans that gave up early, probes of
/// what was SACKed, segments in flight for more than half an hour.
const FOUND: [u64; 8] = [223, 642, 1430, 6115, 6438, 23_585, 23_880, 34_260];

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("RINGWAY_SWARM") else { return EVERY_DAY };
    let (first, end) = text.split_once("..").expect("RINGWAY_SWARM is FIRST..END");
    first.parse().expect("FIRST is a number")..end.parse().expect("END is a number")
}

#[test]
fn everything_arrives_whatever_the_path_does() {
    let failures: Vec<String> = seeds().filter_map(|seed| scenario(seed).run().err()).map(|f| f.to_string()).collect();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn what_was_found_stays_mended() {
    for seed in FOUND {
        if let Err(failure) = scenario(seed).run() {
            panic!("{failure}");
        }
    }
}

#[test]
fn the_same_seed_repeats_the_same_run() {
    for seed in 0..10 {
        assert_eq!(scenario(seed).run().ok(), scenario(seed).run().ok());
    }
}
