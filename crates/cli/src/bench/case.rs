//! What is measured.

use super::path::Path;

/// One line of the result: a workload on several paths.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Messages there and back, blocking, after a pause for thought.
    RoundTrip {
        bytes: usize,
        think_us: u64,
    },
    /// Messages in one direction; the rate of messages counts.
    Messages {
        bytes: usize,
    },
    /// Large writes in one direction; the rate of bytes counts.
    Stream {
        bytes: usize,
    },
    /// Requests on many connections over epoll.
    Connections(usize),
    /// Connections of one request.
    Short,
    /// Pairs of processes on one CPU.
    OneCore {
        pairs: usize,
    },
    Redis {
        command: &'static str,
        connections: usize,
    },
    Memcached {
        connections: usize,
    },
    Nginx {
        bytes: usize,
        connections: usize,
    },
    /// HAProxy in front of nginx.
    Haproxy {
        connections: usize,
    },
    /// Of `bench tcp`: requests of 64 bytes, one at a time on each of so many connections.
    Requests(usize),
    /// Connections with one exchange of 64 bytes, so many at a time.
    Connect(usize),
    /// One connection, in one direction.
    Bulk,
}

impl Kind {
    /// Connections at a time.
    pub(crate) fn connections(self) -> usize {
        match self {
            Kind::Connections(n) | Kind::Requests(n) | Kind::Connect(n) => n,
            _ => 1,
        }
    }
}

/// The figure of a case that is compared: its metric, and which way is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) metric: &'static str,
    pub(crate) higher_is_better: bool,
}

/// With more connections smoltcp is not measured: a round would take minutes.
const SMOLTCP_CONNECTIONS_MAX: usize = 4000;
/// Pause that lets both ends fall asleep, in microseconds.
const THINK_US: u64 = 2_000;

impl Case {
    fn new(name: impl Into<String>, title: impl Into<String>, kind: Kind) -> Case {
        Case { name: name.into(), title: title.into(), kind }
    }

    /// All cases, in the order of running.
    pub(crate) fn all() -> Vec<Case> {
        let mut cases = Vec::new();
        for bytes in [8, 64, 512, 4096, 65536] {
            let title = format!("round trip of {bytes} B, both polling");
            cases.push(Case::new(format!("round-trip-{bytes}"), title, Kind::RoundTrip { bytes, think_us: 0 }));
        }
        for bytes in [64, 4096] {
            let title = format!("round trip of {bytes} B, both asleep");
            cases.push(Case::new(format!("asleep-{bytes}"), title, Kind::RoundTrip { bytes, think_us: THINK_US }));
        }
        cases.push(Case::new("messages-8", "messages of 8 B in one direction", Kind::Messages { bytes: 8 }));
        cases.push(Case::new("stream-64k", "stream of 64 KiB writes", Kind::Stream { bytes: 65536 }));
        for n in [1, 10, 100, 1_000, 10_000] {
            let title = format!("requests of 64 B over epoll, connections: {n}");
            cases.push(Case::new(format!("connections-{n}"), title, Kind::Connections(n)));
        }
        cases.push(Case::new("short", "connections of one request", Kind::Short));
        cases.push(Case::new("one-core-8", "8 pairs of processes on one CPU, 64 B", Kind::OneCore { pairs: 8 }));
        cases.extend(Case::programs());
        cases
    }

    /// Those of `bench tcp`.
    pub(crate) fn tcp() -> Vec<Case> {
        let requests =
            |n| Case::new(format!("requests-{n}"), format!("requests of 64 B, connections: {n}"), Kind::Requests(n));
        let mut cases: Vec<Case> = [1, 16, 256, 1000, 4000, 16_000, 100_000].map(requests).into();
        for n in [64, 1024] {
            let title = format!("connections with one exchange of 64 B, {n} at a time");
            cases.push(Case::new(format!("connect-{n}"), title, Kind::Connect(n)));
        }
        cases.push(Case::new("bulk", "one connection in one direction", Kind::Bulk));
        cases
    }

    fn programs() -> Vec<Case> {
        let mut cases = Vec::new();
        for (command, connections) in [("get", 1), ("set", 1), ("get", 50), ("set", 50)] {
            let title = format!("Redis {}, connections: {connections}", command.to_uppercase());
            cases.push(Case::new(
                format!("redis-{command}-{connections}"),
                title,
                Kind::Redis { command, connections },
            ));
        }
        for connections in [1, 50] {
            let title = format!("memcached get, connections: {connections}");
            cases.push(Case::new(format!("memcached-{connections}"), title, Kind::Memcached { connections }));
        }
        let nginx = |bytes, connections| Kind::Nginx { bytes, connections };
        cases.push(Case::new("nginx-small", "nginx, 612 B, connections: 16", nginx(612, 16)));
        cases.push(Case::new("nginx-large", "nginx, 1 MiB, connections: 4", nginx(1 << 20, 4)));
        cases.push(Case::new("haproxy", "HAProxy before nginx, connections: 16", Kind::Haproxy { connections: 16 }));
        cases
    }

    pub(crate) fn paths(&self) -> Vec<Path> {
        match self.kind {
            // smoltcp looks at all its sockets for each packet.
            Kind::Requests(n) if n > SMOLTCP_CONNECTIONS_MAX => return vec![Path::Tcp, Path::Veth, Path::Engine],
            Kind::Requests(_) | Kind::Connect(_) | Kind::Bulk => {
                return vec![Path::Tcp, Path::Veth, Path::Smoltcp, Path::Engine];
            }
            _ => {}
        }
        let takes = |path: &Path| match (path, self.kind) {
            (Path::Limit, Kind::RoundTrip { think_us: 0, .. } | Kind::Stream { .. }) => true,
            (Path::Limit, _) | (Path::Unix, Kind::Nginx { .. } | Kind::Haproxy { .. }) => false,
            _ if Path::TCP.contains(path) => false,
            _ => true,
        };
        Path::ALL.into_iter().filter(takes).collect()
    }

    pub(crate) fn figure(&self) -> Figure {
        let (metric, higher_is_better) = match self.kind {
            Kind::RoundTrip { .. } => ("round_trip_p50_us", false),
            Kind::Messages { .. } => ("messages_per_s", true),
            Kind::Stream { .. } | Kind::Bulk => ("bytes_per_s", true),
            Kind::Short | Kind::Connect(_) => ("connections_per_s", true),
            Kind::OneCore { .. } => ("round_trips_per_s", true),
            _ => ("requests_per_s", true),
        };
        Figure { metric, higher_is_better }
    }

    /// Programs that it needs beside our own.
    pub(crate) fn programs_needed(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Redis { .. } => &["redis-server", "redis-benchmark"],
            Kind::Memcached { .. } => &["memcached"],
            Kind::Nginx { .. } => &["nginx", "wrk"],
            Kind::Haproxy { .. } => &["haproxy", "nginx", "wrk"],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_case_has_the_kernel_to_compare_with() {
        let cases = Case::all();
        let names: std::collections::BTreeSet<_> = cases.iter().map(|c| &c.name).collect();
        assert_eq!(names.len(), cases.len());
        assert!(cases.iter().all(|c| c.paths().contains(&Path::Tcp) && c.paths().contains(&Path::RingwayBalanced)));
        let tcp = Case::tcp();
        assert!(tcp.iter().all(|c| c.paths().contains(&Path::Tcp) && c.paths().contains(&Path::Engine)));
        assert!(tcp.iter().all(|c| !names.contains(&c.name)));
    }
}
