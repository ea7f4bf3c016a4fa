//! Rates from two looks at the monitor, for `ringway top`.

pub(crate) mod screen;

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use ringway_daemon::control::{Connection, Control, ControlError, Process};
use serde::Serialize;

use crate::output::{human_bytes, table};

/// Everything that moves, at one moment.
pub(crate) struct Snapshot {
    at: Instant,
    processes: Vec<Process>,
    connections: Vec<Connection>,
}

impl Snapshot {
    /// Asks the monitor in `socket_dir`, on a connection of its own: the monitor drops tools that are
    /// silent for as long as people let pass between two looks.
    pub(crate) fn take(socket_dir: &Path) -> Result<Snapshot, ControlError> {
        let mut control = Control::connect(socket_dir)?;
        let (processes, connections) = (control.processes()?.processes, control.connections()?);
        Ok(Snapshot { at: Instant::now(), processes, connections })
    }
}

/// What happened between two snapshots.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Rates {
    pub schema: u32,
    pub interval_ms: u64,
    pub processes: Vec<ProcessRates>,
    pub connections: Vec<ConnectionRates>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct ProcessRates {
    pub pid: u32,
    pub name: String,
    pub profile: String,
    /// Upgraded connections held now.
    pub connections: u64,
    pub tx_bytes_per_s: u64,
    pub rx_bytes_per_s: u64,
    pub calls_per_s: u64,
    pub sleeps_per_s: u64,
    pub wakes_per_s: u64,
    /// Waits that ended while spinning; none if there was no wait.
    pub spin_hit_percent: Option<u64>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct ConnectionRates {
    pub connection: u64,
    pub a: String,
    pub b: String,
    pub a_to_b_bytes_per_s: u64,
    pub b_to_a_bytes_per_s: u64,
    pub queued_bytes: u64,
    pub memory_bytes: u64,
}

/// What the rows are ordered by, largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Traffic,
    /// Processes by connections, connections by queued bytes.
    Load,
    /// Processes by name, connections by number; smallest first.
    Name,
}

impl Rates {
    pub(crate) fn between(before: &Snapshot, after: &Snapshot) -> Rates {
        let interval = after.at.saturating_duration_since(before.at);
        let earlier: HashMap<_, _> = before.processes.iter().map(|p| (p.process, p)).collect();
        let processes = after.processes.iter().map(|p| process_rates(earlier.get(&p.process).copied(), p, interval));
        let known: HashMap<_, _> = before.connections.iter().map(|c| (c.connection, c)).collect();
        let connections =
            after.connections.iter().map(|c| connection_rates(known.get(&c.connection).copied(), c, interval));
        Rates {
            schema: 1,
            interval_ms: interval.as_millis() as u64,
            processes: processes.collect(),
            connections: connections.collect(),
        }
    }

    pub(crate) fn sort(&mut self, order: Order) {
        use std::cmp::Reverse;
        match order {
            Order::Traffic => {
                self.processes.sort_by_key(|p| Reverse(p.tx_bytes_per_s.saturating_add(p.rx_bytes_per_s)));
                self.connections.sort_by_key(|c| Reverse(c.a_to_b_bytes_per_s.saturating_add(c.b_to_a_bytes_per_s)));
            }
            Order::Load => {
                self.processes.sort_by_key(|p| Reverse(p.connections));
                self.connections.sort_by_key(|c| Reverse(c.queued_bytes));
            }
            Order::Name => {
                self.processes.sort_by(|p, q| (&p.name, p.pid).cmp(&(&q.name, q.pid)));
                self.connections.sort_by_key(|c| c.connection);
            }
        }
    }

    /// Both tables as text.
    pub(crate) fn render(&self) -> String {
        let processes: Vec<_> = self.processes.iter().map(ProcessRates::row).collect();
        let connections: Vec<_> = self.connections.iter().map(ConnectionRates::row).collect();
        let right: Vec<usize> = (3..PROCESS_COLUMNS.len()).collect();
        table(&PROCESS_COLUMNS, &processes, &[&[0], right.as_slice()].concat())
            + "\n"
            + &table(&CONNECTION_COLUMNS, &connections, &[0, 3, 4, 5, 6])
    }
}

pub(crate) const PROCESS_COLUMNS: [&str; 10] =
    ["PID", "Program", "Profile", "Conns", "Sent/s", "Received/s", "Calls/s", "Sleeps/s", "Wakes/s", "Spin%"];

pub(crate) const CONNECTION_COLUMNS: [&str; 7] = ["Ring", "A", "B", "A>B/s", "B>A/s", "Queued", "Memory"];

impl ProcessRates {
    pub(crate) fn row(&self) -> Vec<String> {
        vec![
            self.pid.to_string(),
            self.name.clone(),
            self.profile.clone(),
            self.connections.to_string(),
            human_bytes(self.tx_bytes_per_s),
            human_bytes(self.rx_bytes_per_s),
            self.calls_per_s.to_string(),
            self.sleeps_per_s.to_string(),
            self.wakes_per_s.to_string(),
            self.spin_hit_percent.map_or("-".into(), |p| p.to_string()),
        ]
    }
}

impl ConnectionRates {
    pub(crate) fn row(&self) -> Vec<String> {
        vec![
            self.connection.to_string(),
            self.a.clone(),
            self.b.clone(),
            human_bytes(self.a_to_b_bytes_per_s),
            human_bytes(self.b_to_a_bytes_per_s),
            human_bytes(self.queued_bytes),
            human_bytes(self.memory_bytes),
        ]
    }
}

fn per_second(before: u64, after: u64, interval: Duration) -> u64 {
    let seconds = interval.as_secs_f64();
    if seconds > 0.0 { (after.saturating_sub(before) as f64 / seconds).round() as u64 } else { 0 }
}

fn process_rates(before: Option<&Process>, after: &Process, interval: Duration) -> ProcessRates {
    let count = |process: &Process, name: &str| process.counters.get(name).copied().unwrap_or(0);
    // A process that has just come starts from its own first value.
    let grown = |name: &str| count(after, name).saturating_sub(count(before.unwrap_or(after), name));
    let rate = |name: &str| per_second(0, grown(name), interval);
    let (hits, misses) = (grown("spin_hits"), grown("spin_misses"));
    ProcessRates {
        pid: after.pid,
        name: after.comm.clone(),
        profile: after.profile.clone(),
        connections: after.connections,
        tx_bytes_per_s: rate("ring_tx_bytes"),
        rx_bytes_per_s: rate("ring_rx_bytes"),
        calls_per_s: rate("ring_tx_calls").saturating_add(rate("ring_rx_calls")),
        sleeps_per_s: rate("sleeps"),
        wakes_per_s: rate("wakes"),
        spin_hit_percent: (u128::from(hits) * 100).checked_div(u128::from(hits) + u128::from(misses)).map(|p| p as u64),
    }
}

fn connection_rates(before: Option<&Connection>, after: &Connection, interval: Duration) -> ConnectionRates {
    let before = before.unwrap_or(after);
    let rate = |i: usize| per_second(before.directions[i].tail, after.directions[i].tail, interval);
    let end = |i: usize| {
        let end = &after.ends[i];
        match end.processes.first() {
            Some(process) => format!("{} {}", end.local, process.comm),
            None => end.local.to_string(),
        }
    };
    ConnectionRates {
        connection: after.connection,
        a: end(0),
        b: end(1),
        a_to_b_bytes_per_s: rate(0),
        b_to_a_bytes_per_s: rate(1),
        queued_bytes: after.directions[0].queued_bytes.saturating_add(after.directions[1].queued_bytes),
        memory_bytes: after.memory_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(id: u64, name: &str, sent: u64, hits: u64) -> Process {
        let counters = [("ring_tx_bytes", sent), ("spin_hits", hits), ("spin_misses", hits / 3)];
        Process {
            process: id,
            pid: id as u32 + 100,
            uid: 0,
            gid: 0,
            comm: name.into(),
            cgroup: String::new(),
            profile: "balanced".into(),
            connections: 10 - id,
            offers: 0,
            replies_queued: 0,
            counters: counters.map(|(name, n)| (name.to_string(), n)).into(),
            refusals: Default::default(),
        }
    }

    fn rates() -> Rates {
        let at = Instant::now();
        let before = Snapshot { at, processes: vec![process(1, "redis", 1000, 0)], connections: Vec::new() };
        let processes = vec![process(1, "redis", 5096, 30), process(2, "curl", 900, 0)];
        let after = Snapshot { at: at + Duration::from_secs(2), processes, connections: Vec::new() };
        Rates::between(&before, &after)
    }

    #[test]
    fn rates_are_differences_over_the_interval() {
        let rates = rates();
        assert_eq!(rates.interval_ms, 2000);
        assert_eq!((rates.processes[0].tx_bytes_per_s, rates.processes[0].spin_hit_percent), (2048, Some(75)));
        // A newcomer's history is not traffic of this interval.
        assert_eq!((rates.processes[1].tx_bytes_per_s, rates.processes[1].spin_hit_percent), (0, None));
    }

    #[test]
    fn orders_differ() {
        let names = |order| {
            let mut rates = rates();
            rates.sort(order);
            rates.processes.iter().map(|p| p.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(Order::Traffic), ["redis", "curl"]);
        assert_eq!(names(Order::Name), ["curl", "redis"]);
        assert_eq!(names(Order::Load), ["redis", "curl"]);
    }

    #[test]
    fn the_text_has_both_tables() {
        let text = rates().render();
        let expected = "\
PID  Program  Profile   Conns   Sent/s  Received/s  Calls/s  Sleeps/s  Wakes/s  Spin%
101  redis    balanced      9  2.0 KiB         0 B        0         0        0     75
102  curl     balanced      8      0 B         0 B        0         0        0      -

Ring  A  B  A>B/s  B>A/s  Queued  Memory
";
        assert_eq!(text, expected);
    }
}
