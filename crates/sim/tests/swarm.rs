//! Scenarios at random. `RINGWAY_SWARM=FIRST..END` runs other seeds than the few of every day; a failure names its
//! seed, and `RINGWAY_SWARM=SEED..SEED+1` repeats it.

use ringway_sim::swarm::scenario;

const EVERY_DAY: std::ops::Range<u64> = 0..60;

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
fn the_same_seed_repeats_the_same_run() {
    for seed in 0..10 {
        assert_eq!(scenario(seed).run().ok(), scenario(seed).run().ok());
    }
}
