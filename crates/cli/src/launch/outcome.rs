//! What a run has brought, by the monitor's count.

use std::path::Path;
use std::time::Duration;

use ringway_channel::Reason;
use ringway_daemon::control::{Control, ControlError, Run};

use crate::output::human_bytes;

/// The caller of `ringway run` waits no longer than this for a monitor that says nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks the monitor what the processes of the run have counted.
pub(crate) fn ask(socket_dir: &Path, run_id: u64) -> Result<Run, ControlError> {
    Control::connect_within(socket_dir, PATIENCE)?.run(run_id)
}

fn counter(run: &Run, name: &str) -> u64 {
    run.counters.get(name).copied().unwrap_or(0)
}

/// Ends of connections that were upgraded.
pub(crate) fn upgraded(run: &Run) -> u64 {
    counter(run, "connections_upgraded")
}

/// One line: what was upgraded, what was not and why.
pub(crate) fn summary(run: &Run) -> String {
    let bytes = counter(run, "ring_tx_bytes").saturating_add(counter(run, "ring_rx_bytes"));
    let kept: u64 = run.refusals.values().fold(0, |sum, n| sum.saturating_add(*n));
    let mut text = format!("{} upgraded, {} over rings", connections(upgraded(run)), human_bytes(bytes));
    if kept == 0 && upgraded(run) == 0 {
        text += &format!(": {}", why_nothing(run));
    } else if kept > 0 {
        let reasons: Vec<_> = run.refusals.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
        text += &format!("; {} on plain TCP ({})", kept, reasons.join(", "));
    }
    text
}

/// Why nothing was upgraded, and what to do about it.
pub(crate) fn why_nothing(run: &Run) -> String {
    if run.processes_total == 0 {
        return "it made no TCP connection, or only in programs that cannot be preloaded (static, privileged); \
                `ringway doctor` checks the library"
            .into();
    }
    let most = run.refusals.iter().max_by_key(|(_, count)| **count);
    match most.and_then(|(name, _)| Reason::ALL.into_iter().find(|reason| reason.name() == name)) {
        Some(reason) => format!("{}; {}", reason.name(), reason.remedy()),
        None if counter(run, "connections_offered") == 0 => "its connections carried too little for an upgrade".into(),
        None => "its connections ended before their other ends were there; run those under Ringway as well".into(),
    }
}

fn connections(count: u64) -> String {
    if count == 1 { "1 connection".into() } else { format!("{count} connections") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(processes_total: u64, counters: &[(&str, u64)], refusals: &[(&str, u64)]) -> Run {
        let map = |pairs: &[(&str, u64)]| pairs.iter().map(|(name, n)| (name.to_string(), *n)).collect();
        Run { schema: 1, run_id: 7, processes_total, counters: map(counters), refusals: map(refusals) }
    }

    #[test]
    fn the_summary_counts_both_sorts() {
        let mixed =
            run(2, &[("connections_upgraded", 1), ("ring_tx_bytes", 1024)], &[("no-partner", 2), ("splice", 1)]);
        assert_eq!(
            summary(&mixed),
            "1 connection upgraded, 1.0 KiB over rings; 3 on plain TCP (no-partner 2, splice 1)"
        );
        assert_eq!(summary(&run(1, &[("connections_upgraded", 2)], &[])), "2 connections upgraded, 0 B over rings");
    }

    #[test]
    fn nothing_has_a_reason_and_a_remedy() {
        assert!(why_nothing(&run(0, &[], &[])).contains("ringway doctor"));
        assert!(why_nothing(&run(1, &[("connections_seen", 1)], &[])).contains("too little"));
        assert!(why_nothing(&run(1, &[("connections_offered", 1)], &[])).contains("other ends"));
        assert!(summary(&run(1, &[], &[])).starts_with("0 connections upgraded, 0 B over rings: its connections"));
        let refused = why_nothing(&run(1, &[("connections_seen", 9)], &[("no-partner", 8), ("splice", 1)]));
        assert!(refused.starts_with("no-partner; ") && refused.contains("ringway run"), "{refused}");
    }
}
