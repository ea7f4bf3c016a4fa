//! Paths without faults.

use ringway_sim::link::LinkConfig;
use ringway_sim::scenario::Scenario;

#[test]
fn a_fast_path_needs_no_retransmission() {
    let link = LinkConfig { bits_per_s: 100_000_000, delay_us: 5_000, ..LinkConfig::default() };
    let outcome = Scenario::over(link).run().unwrap();
    println!("{outcome:?} {}", outcome.goodput_bits_per_s());
    assert_eq!((outcome.retransmitted, outcome.timeouts), (0, 0));
}
