//! The short way and the full one give the same bytes at the same time, whatever happens.

use std::cell::RefCell;
use std::rc::Rc;

use crate::link::{Pair, pattern};
use proptest::prelude::*;
use ringway_tcp::stats::Counter;
use ringway_tcp::{Config, Shutdown};

/// What the applications and the link do.
#[derive(Clone, Debug)]
enum Step {
    Send(usize, usize),
    Receive(usize),
    Wait(u64),
    End(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0usize..2, prop_oneof![1usize..200, 1000usize..5000, Just(50_000)]).prop_map(|(end, len)| Step::Send(end, len)),
        4 => (0usize..2).prop_map(Step::Receive),
        6 => prop_oneof![0u64..3000, 3000u64..50_000, Just(400_000)].prop_map(Step::Wait),
        1 => (0usize..2).prop_map(Step::End),
    ]
}

/// Every packet with the time of its leaving, and how many segments took the short way.
fn run(fast_path: bool, timestamps: u32, seed: u64, loss: u64, steps: &[Step]) -> (Vec<u8>, u64) {
    let config = Config { fast_path, tcp_timestamps: timestamps, ..Config::default() };
    let (mut pair, client, server) = Pair::connected(config);
    let ids = [client, server];
    let trace = Rc::new(RefCell::new(Vec::new()));
    for end in 0..2 {
        let (trace, mut state) = (trace.clone(), seed.wrapping_mul(2) + end as u64);
        pair.fates[end] = Some(Box::new(move |number, packet: &[u8]| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            trace.borrow_mut().extend_from_slice(&number.to_be_bytes());
            trace.borrow_mut().extend_from_slice(packet);
            let random = (state >> 33) % 100;
            if random < loss {
                vec![]
            } else if random < 2 * loss {
                vec![4000]
            } else {
                vec![0]
            }
        }));
    }
    for step in steps {
        match *step {
            Step::Send(end, len) => {
                pair.send(end, ids[end], &pattern(len));
            }
            Step::Receive(end) => {
                let bytes = pair.recv(end, ids[end]);
                trace.borrow_mut().extend(bytes);
            }
            Step::Wait(us) => pair.run_for(us),
            Step::End(end) => {
                let _ = pair.ends[end].shutdown(pair.now, ids[end], Shutdown::Send);
            }
        }
    }
    pair.run_for(5_000_000);
    let short = pair.ends.iter().map(|end| end.stats().get(Counter::FastPath)).sum();
    (trace.take(), short)
}

/// Few by default; `RINGWAY_TCP_CASES` makes the comparison long.
fn cases() -> u32 {
    std::env::var("RINGWAY_TCP_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn both_ways_give_the_same_bytes(
        steps in prop::collection::vec(step(), 1..60),
        timestamps in 0u32..2,
        seed: u64,
        loss in prop_oneof![Just(0u64), 1u64..10],
    ) {
        let (short, predicted) = run(true, timestamps, seed, loss, &steps);
        let (full, none) = run(false, timestamps, seed, loss, &steps);
        prop_assert_eq!(none, 0);
        prop_assert!(short == full, "{} of {} bytes alike; {predicted} went the short way",
            short.iter().zip(&full).take_while(|(a, b)| a == b).count(), full.len());
    }
}

#[test]
fn most_segments_of_a_clean_exchange_go_the_short_way() {
    let steps: Vec<Step> = (0..100)
        .flat_map(|_| {
            let exchange = [Step::Send(0, 64), Step::Wait(6000), Step::Receive(1), Step::Send(1, 64), Step::Wait(6000)];
            exchange.into_iter().chain([Step::Receive(0)])
        })
        .collect();
    let (_, short) = run(true, 1, 1, 0, &steps);
    assert!(short >= 195, "{short} of 200");
}
