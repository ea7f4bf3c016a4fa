//! The summary of a run, for people and as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::generator::{Ending, Generator};
use super::tally::PERCENTILES;
use crate::output::human_bytes;

#[derive(Serialize)]
pub(crate) struct Report {
    schema: u32,
    targets: Vec<String>,
    /// `http` or `raw`.
    requests_kind: &'static str,
    connections: u32,
    /// Requests in a second that were to be made; none for a closed loop.
    rate_per_s: Option<f64>,
    /// The rate was missed by more than a second's requests at some time.
    rate_was_missed: bool,
    duration_s: f64,
    answers: u64,
    answers_per_s: f64,
    /// Established in the measured time.
    connections_opened: u64,
    connections_per_s: f64,
    /// Answers by HTTP's status.
    statuses: BTreeMap<u16, u64>,
    failures: BTreeMap<String, u64>,
    sent_bytes: u64,
    received_bytes: u64,
    /// From the moment when a request was due to the last byte of its answer.
    latency_us: BTreeMap<String, f64>,
}

impl Report {
    pub(crate) fn new(generator: &Generator, span: Duration) -> Report {
        let (tally, plan) = (generator.tally(), generator.plan());
        let (targets, requests_kind) = generator.describe();
        let duration_s = span.as_secs_f64().max(1e-9);
        let keeps = plan.ending == Ending::Keep;
        // Where each request has a connection of its own, the answers count them.
        let opened = if keeps { tally.opened } else { tally.answers() };
        Report {
            schema: 1,
            targets,
            requests_kind,
            connections: plan.connections,
            rate_per_s: plan.rate,
            rate_was_missed: generator.was_late(),
            duration_s,
            answers: tally.answers(),
            answers_per_s: tally.answers() as f64 / duration_s,
            connections_opened: opened,
            connections_per_s: opened as f64 / duration_s,
            statuses: tally.statuses.clone(),
            failures: tally.failures.clone(),
            sent_bytes: tally.sent_bytes,
            received_bytes: tally.received_bytes,
            latency_us: tally.latencies_us(),
        }
    }

    /// Whether every request was answered, and not refused.
    pub(crate) fn is_clean(&self) -> bool {
        self.failures.is_empty() && self.statuses.keys().all(|status| *status < 400) && self.answers > 0
    }

    pub(crate) fn text(&self) -> String {
        let loop_kind = self.rate_per_s.map_or("closed loop".to_owned(), |rate| format!("{rate} requests/s"));
        let mut lines = vec![
            format!(
                "{}: {} connections, {loop_kind}, {:.1} s",
                self.targets.join(" "),
                self.connections,
                self.duration_s
            ),
            format!("answers      {:>12}   {:.0}/s", self.answers, self.answers_per_s),
            format!("connections  {:>12}   {:.0}/s", self.connections_opened, self.connections_per_s),
            format!("sent         {:>12}", human_bytes(self.sent_bytes)),
            format!("received     {:>12}", human_bytes(self.received_bytes)),
        ];
        let shown =
            PERCENTILES.iter().map(|(name, _)| format!("{} {:.1}", name.replace('_', "."), self.latency_us[*name]));
        lines.push(format!("latency, us  {}", shown.collect::<Vec<_>>().join("   ")));
        lines.extend(self.statuses.iter().map(|(status, n)| format!("status {status}   {n:>12}")));
        lines.extend(self.failures.iter().map(|(why, n)| format!("failed       {n:>12}   {why}")));
        if self.rate_was_missed {
            lines.push("the rate was not kept: all connections waited for answers; give more --connections".to_owned());
        }
        lines.join("\n") + "\n"
    }
}
