//! Short by default; the environment makes it long (`RINGWAY_HOSTILE_STEPS`, `RINGWAY_HOSTILE_SEED`).

use proptest::prelude::*;

use super::*;

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |v| v.parse().unwrap_or_else(|_| panic!("{name} is not a number: {v}")))
}

#[test]
fn a_hostile_peer_only_ever_causes_resets() {
    let (steps, seed) =
        (from_environment("RINGWAY_HOSTILE_STEPS", 1_000_000), from_environment("RINGWAY_HOSTILE_SEED", 1));
    println!("seed {seed}");
    let tally = run(&mut Seeded(seed), steps);
    println!("{tally:?}");
    assert_eq!(tally.steps, steps);
    assert!(tally.resets > steps / 1000 && tally.demotions > 0, "too tame: {tally:?}");
    assert!(tally.sent_bytes > steps && tally.received_bytes > steps, "too wild: {tally:?}");
}

proptest! {
    #[test]
    fn whatever_a_fuzzer_chooses(bytes in proptest::collection::vec(any::<u8>(), 0..4000)) {
        run(&mut bytes.as_slice(), u64::MAX);
    }
}
