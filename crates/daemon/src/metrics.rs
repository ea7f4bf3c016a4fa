//! Totals in Prometheus' text format.

use std::fmt::{Display, Write};

use ringway_channel::Reason;
use ringway_mem::stats::{Counters, ProcessPage, REASON_SLOTS};
use ringway_mem::sync::Ordering;

use crate::monitor::Monitor;

/// What processes have counted, summed up. Processes write their pages as they like, so sums wrap.
#[derive(Clone, Debug)]
pub(crate) struct Sums {
    pub(crate) counters: Vec<u64>,
    pub(crate) refusals: [u64; REASON_SLOTS],
}

impl Sums {
    pub(crate) fn new() -> Sums {
        Sums { counters: vec![0; Counters::NAMES.len()], refusals: [0; REASON_SLOTS] }
    }

    pub(crate) fn add(&mut self, page: &ProcessPage) {
        for (sum, (_, value)) in self.counters.iter_mut().zip(page.counters.snapshot()) {
            *sum = sum.wrapping_add(value);
        }
        for (sum, value) in self.refusals.iter_mut().zip(&page.refusals) {
            *sum = sum.wrapping_add(value.load(Ordering::Relaxed));
        }
    }
}

/// Builds the text: each metric once with its help and type, then its samples.
#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, label: Option<(&str, &dyn Display)>, value: u64) {
        let _ = match label {
            // Labels are numbers and names of our own: nothing needs escaping.
            Some((key, label)) => writeln!(self.0, "{name}{{{key}=\"{label}\"}} {value}"),
            None => writeln!(self.0, "{name} {value}"),
        };
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.head(name, kind, help);
        self.sample(name, None, value);
    }

    fn by_reason(&mut self, name: &str, help: &str, counts: &[u64; REASON_SLOTS]) {
        self.head(name, "counter", help);
        for reason in Reason::ALL {
            if let Some(count) = counts.get(reason as usize).filter(|count| **count > 0) {
                self.sample(name, Some(("reason", &reason.name())), *count);
            }
        }
    }
}

impl Monitor {
    /// All metrics.
    pub(crate) fn metrics_text(&self) -> String {
        let mut text = Text::default();
        let build = concat!("version=\"", env!("CARGO_PKG_VERSION"), "\"");
        text.head("ringway_build_info", "gauge", "Release of the monitor.");
        let _ = writeln!(text.0, "ringway_build_info{{{build}}} 1");
        for (name, help, value) in [
            ("ringway_clients", "Connected processes.", self.clients.len()),
            ("ringway_connections", "Upgraded connections.", self.connections.len()),
            ("ringway_offers_waiting", "Sockets that wait for their other end.", self.offers.len()),
        ] {
            text.single(name, "gauge", help, value as u64);
        }
        text.head("ringway_memory_bytes", "gauge", "Shared memory charged to a user.");
        for (uid, bytes) in self.connections.charged_by_uid() {
            text.sample("ringway_memory_bytes", Some(("uid", &uid)), bytes);
        }
        for (name, help, value) in [
            ("ringway_monitor_offers_total", "Offers received.", self.totals.offers),
            ("ringway_monitor_pairs_total", "Connections paired.", self.totals.pairs),
            ("ringway_monitor_attaches_total", "Regions handed out again.", self.totals.attaches),
            ("ringway_monitor_clients_dropped_total", "Clients dropped for a fault.", self.totals.clients_dropped),
        ] {
            text.single(name, "counter", help, value);
        }
        text.by_reason("ringway_monitor_refusals_total", "Refused offers.", &self.totals.refusals);
        self.process_metrics(&mut text);
        text.0
    }

    fn process_metrics(&self, text: &mut Text) {
        let mut sums = self.retired.clone();
        for session in self.clients.values().filter_map(|client| client.session.as_ref()) {
            sums.add(session.page());
        }
        for (name, value) in Counters::NAMES.iter().zip(&sums.counters) {
            text.single(&format!("ringway_{name}_total"), "counter", "Summed over all processes.", *value);
        }
        text.by_reason("ringway_refusals_total", "Connections on plain TCP, over all processes.", &sums.refusals);
    }
}
