//! Cells of a table, and tables against their snapshots.

use std::path::Path;

use ringway_sim::scenario::{Outcome, Scenario, Table};

/// What one scenario came to.
pub(crate) struct Cell(pub Outcome);

impl Cell {
    /// Runs a scenario that must succeed.
    pub(crate) fn run(scenario: &Scenario) -> Cell {
        match scenario.run() {
            Ok(outcome) => Cell(outcome),
            Err(failure) => panic!("{failure}\n{scenario:?}"),
        }
    }

    /// Goodput, segments sent again, timeouts.
    pub(crate) fn columns(&self) -> Vec<String> {
        let goodput = format!("{:.2}", self.0.goodput_bits_per_s() / 1e6);
        vec![goodput, self.0.retransmitted.to_string(), self.0.timeouts.to_string()]
    }
}

/// Compares a table with the file `tests/snapshots/NAME.txt`, or writes it there if `RINGWAY_SNAPSHOTS=write`.
pub(crate) fn snapshot(name: &str, table: &Table) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(format!("{name}.txt"));
    let text = table.to_string();
    if std::env::var("RINGWAY_SNAPSHOTS").is_ok_and(|what| what == "write") {
        std::fs::write(&path, &text).expect("the snapshot can be written");
        return;
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    let hint = "if the change is meant, run again with RINGWAY_SNAPSHOTS=write and look at the difference";
    assert!(known == text, "{name} has changed; {hint}\nbefore:\n{known}\nnow:\n{text}");
}
