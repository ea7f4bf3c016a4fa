//! Scenarios drawn at random: every knob that there is, from one seed.

use ringway_tcp::congestion::Algorithm;
use ringway_tcp::{Config, SocketOptions};

use crate::fault::{Bursts, Faults};
use crate::link::LinkConfig;
use crate::random::Random;
use crate::scenario::Scenario;
use crate::transfer::TransferConfig;

/// The scenario of `seed`. Its paths are bad, but let some of what is sent through, so that it must end.
pub fn scenario(seed: u64) -> Scenario {
    let mut random = Random::new(seed).part(77);
    let transfers = 1 + random.below(3);
    Scenario {
        seed,
        client: config(&mut random),
        server: config(&mut random),
        up: link(&mut random),
        down: link(&mut random),
        transfers: (0..transfers).map(|_| transfer(&mut random)).collect(),
        limit_us: 24 * 3_600_000_000,
    }
}

fn one_of<T: Clone>(random: &mut Random, values: &[T]) -> T {
    values[random.below(values.len() as u64) as usize].clone()
}

/// Zero mostly, else up to `most`.
fn seldom(random: &mut Random, most: f64) -> f64 {
    if random.chance(0.6) { 0.0 } else { most * random.below(1001) as f64 / 1000.0 }
}

fn config(random: &mut Random) -> Config {
    Config {
        tcp_congestion_control: one_of(random, &Algorithm::ALL),
        tcp_sack: random.chance(0.8),
        tcp_dsack: random.chance(0.8),
        tcp_timestamps: u32::from(random.chance(0.7)),
        tcp_window_scaling: random.chance(0.8),
        tcp_ecn: random.below(3) as u32,
        tcp_frto: random.below(3) as u32,
        tcp_early_retrans: one_of(random, &[0, 3]),
        tcp_slow_start_after_idle: random.chance(0.5),
        fast_path: random.chance(0.8),
        mtu: one_of(random, &[576, 1280, 1500, 9000]),
        // However bad the path is, nobody gives up.
        tcp_retries2: 255,
        tcp_syn_retries: 127,
        tcp_synack_retries: 255,
        tcp_orphan_retries: 255,
        ..Config::default()
    }
}

fn link(random: &mut Random) -> LinkConfig {
    let bits_per_s = one_of(random, &[0, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000]);
    let mut link = LinkConfig {
        bits_per_s,
        delay_us: one_of(random, &[0, 10, 500, 5_000, 20_000, 100_000, 300_000]),
        queue_bytes: one_of(random, &[10_000, 30_000, 100_000, 1_000_000, usize::MAX]),
        mark_above_bytes: one_of(random, &[3_000, 20_000, usize::MAX]),
        mtu: 9000,
        mtu_changes: Vec::new(),
        tells_too_large: true,
        faults: faults(random),
    };
    if random.chance(0.2) {
        link.mtu_changes.push((1_000_000 + random.below(5_000_000), one_of(random, &[576, 1000, 1400])));
    }
    link
}

fn faults(random: &mut Random) -> Faults {
    let bursts = random.chance(0.3).then(|| Bursts {
        begin: seldom(random, 0.02),
        end: 0.05 + seldom(random, 0.9),
        loss: 1.0 - seldom(random, 0.5),
    });
    let hole = 1_000_000 + random.below(5_000_000);
    let black_hole_us = if random.chance(0.1) { hole..hole + random.below(10_000_000) } else { 0..0 };
    Faults {
        loss: seldom(random, 0.3),
        bursts,
        duplication: seldom(random, 0.3),
        corruption: seldom(random, 0.1),
        reordering: seldom(random, 0.5),
        reorder_us: random.below(50_000),
        jitter_us: if random.chance(0.7) { 0 } else { random.below(30_000) },
        black_hole_us,
    }
}

fn transfer(random: &mut Random) -> TransferConfig {
    let bytes = |random: &mut Random| one_of(random, &[0, 1, 1000, 10_000, 100_000, 300_000]);
    TransferConfig {
        up_bytes: bytes(random),
        down_bytes: bytes(random),
        write_bytes: one_of(random, &[97, 1000, 1460, 10_000, 65_536]),
        read_bytes: one_of(random, &[100, 4096, 65_536]),
        read_bytes_per_ms: if random.chance(0.8) { None } else { Some(1 + random.below(1000)) },
        client: options(random),
        server: options(random),
        port: 0,
    }
}

fn options(random: &mut Random) -> SocketOptions {
    let buffer = |random: &mut Random| {
        if random.chance(0.6) { None } else { Some(one_of(random, &[2_048, 5_000, 20_000, 200_000])) }
    };
    SocketOptions {
        nodelay: random.chance(0.5),
        receive_buffer_bytes: buffer(random),
        send_buffer_bytes: buffer(random),
        keepalive: random.chance(0.2),
        keepalive_idle_s: Some(30),
        keepalive_probes: Some(127),
        ..SocketOptions::default()
    }
}
