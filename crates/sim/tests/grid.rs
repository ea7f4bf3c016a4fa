//! The grid: transfers over paths of every kind arrive intact. The tables of goodput are snapshots.

mod common;

use common::{Cell, snapshot};
use ringway_sim::fault::{Bursts, Faults};
use ringway_sim::link::LinkConfig;
use ringway_sim::scenario::{Scenario, Table};
use ringway_sim::transfer::TransferConfig;
use ringway_tcp::congestion::Algorithm;

/// 20 Mbit/s with a queue of 100 ms.
fn path(delay_us: u64, faults: Faults) -> LinkConfig {
    LinkConfig { bits_per_s: 20_000_000, delay_us, queue_bytes: 250_000, faults, ..LinkConfig::default() }
}

fn transfer(bytes: u64) -> Vec<TransferConfig> {
    vec![TransferConfig { up_bytes: bytes, ..TransferConfig::default() }]
}

#[test]
fn loss_and_delay() {
    let mut table = Table::new(&["loss %", "rtt ms", "Mbit/s", "resent", "timeouts"]);
    for loss in [0.0, 0.001, 0.01, 0.03, 0.1, 0.3] {
        for rtt_ms in [0, 1, 10, 50, 100, 300] {
            let faults = Faults { loss, ..Faults::default() };
            let bytes = if loss > 0.05 { 200_000 } else { 2_000_000 };
            let scenario = Scenario { transfers: transfer(bytes), ..Scenario::over(path(rtt_ms * 500, faults)) };
            let cell = Cell::run(&scenario);
            table.row([vec![format!("{}", loss * 100.0), rtt_ms.to_string()], cell.columns()].concat());
        }
    }
    snapshot("loss_and_delay", &table);
}

#[test]
fn algorithms() {
    let mut table = Table::new(&["algorithm", "loss %", "rtt ms", "Mbit/s", "resent", "timeouts"]);
    for algorithm in Algorithm::ALL {
        for (loss, rtt_ms) in [(0.0, 20), (0.001, 20), (0.01, 20), (0.001, 100), (0.01, 100)] {
            let faults = Faults { loss, ..Faults::default() };
            let mut link = path(rtt_ms * 500, faults);
            if algorithm.needs_ecn() {
                link.mark_above_bytes = 30_000;
            }
            let mut scenario = Scenario { transfers: transfer(4_000_000), ..Scenario::over(link) };
            scenario.client.tcp_congestion_control = algorithm;
            scenario.server.tcp_congestion_control = algorithm;
            let head = vec![algorithm.name().into(), format!("{}", loss * 100.0), rtt_ms.to_string()];
            table.row([head, Cell::run(&scenario).columns()].concat());
        }
    }
    snapshot("algorithms", &table);
}

#[test]
fn faults_of_every_kind() {
    let mut table = Table::new(&["fault", "Mbit/s", "resent", "timeouts"]);
    let bursts = |begin, end| Some(Bursts { begin, end, loss: 1.0 });
    let kinds: Vec<(&str, Faults)> = vec![
        ("bursts of 3", Faults { bursts: bursts(0.005, 0.33), ..Faults::default() }),
        ("bursts of 20", Faults { bursts: bursts(0.001, 0.05), ..Faults::default() }),
        ("reordering 1 %", Faults { reordering: 0.01, reorder_us: 4_000, ..Faults::default() }),
        ("reordering 10 %", Faults { reordering: 0.1, reorder_us: 4_000, ..Faults::default() }),
        ("reordering 30 %, far", Faults { reordering: 0.3, reorder_us: 30_000, ..Faults::default() }),
        ("duplication 1 %", Faults { duplication: 0.01, ..Faults::default() }),
        ("duplication 30 %", Faults { duplication: 0.3, ..Faults::default() }),
        ("corruption 1 %", Faults { corruption: 0.01, ..Faults::default() }),
        ("jitter 2 ms", Faults { jitter_us: 2_000, ..Faults::default() }),
        ("jitter 20 ms", Faults { jitter_us: 20_000, ..Faults::default() }),
        ("black hole of 5 s", Faults { black_hole_us: 1_300_000..6_300_000, ..Faults::default() }),
        (
            "all at once",
            Faults {
                loss: 0.02,
                bursts: bursts(0.002, 0.3),
                duplication: 0.02,
                corruption: 0.01,
                reordering: 0.05,
                reorder_us: 8_000,
                jitter_us: 1_000,
                ..Faults::default()
            },
        ),
    ];
    for (name, faults) in kinds {
        let scenario = Scenario { transfers: transfer(2_000_000), ..Scenario::over(path(10_000, faults)) };
        table.row([vec![name.to_owned()], Cell::run(&scenario).columns()].concat());
    }
    snapshot("faults", &table);
}

#[test]
fn tiny_buffers() {
    let mut table = Table::new(&["bytes", "loss %", "Mbit/s", "resent", "timeouts"]);
    for buffer in [2_048, 4_096, 8_192, 16_384, 65_536] {
        for loss in [0.0, 0.03] {
            let faults = Faults { loss, ..Faults::default() };
            let mut transfers = transfer(200_000);
            transfers[0].client.send_buffer_bytes = Some(buffer);
            transfers[0].server.receive_buffer_bytes = Some(buffer);
            let scenario = Scenario { transfers, ..Scenario::over(path(5_000, faults)) };
            table.row([vec![buffer.to_string(), format!("{}", loss * 100.0)], Cell::run(&scenario).columns()].concat());
        }
    }
    snapshot("tiny_buffers", &table);
}
