//! The machine and how busy it is: a figure without them says nothing.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cpus: usize,
    pub(crate) kernel: String,
    pub(crate) ringway: String,
}

/// The load at one moment.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Load {
    /// Mean number of runnable threads in the last minute.
    pub(crate) average_1min: f64,
    /// Time that other guests took from this one since it started, in hundredths of a CPU second.
    pub(crate) steal_ticks: u64,
    /// All time of all CPUs since the start, in the same unit.
    pub(crate) total_ticks: u64,
}

impl Machine {
    pub(crate) fn this() -> Machine {
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':'));
        Machine {
            cpu: model.map_or("unknown CPU", |(_, name)| name.trim()).to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            ringway: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    pub(crate) fn describe(&self) -> String {
        format!("{}, {} CPUs, Linux {}, ringway {}", self.cpu, self.cpus, self.kernel, self.ringway)
    }
}

impl Load {
    pub(crate) fn now() -> Load {
        let stat = read("/proc/stat");
        let ticks: Vec<u64> = stat.lines().next().unwrap_or("").split(' ').filter_map(|n| n.parse().ok()).collect();
        Load {
            average_1min: read("/proc/loadavg").split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0),
            steal_ticks: ticks.get(7).copied().unwrap_or(0),
            total_ticks: ticks.iter().take(8).sum(),
        }
    }

    /// Share of CPU time that was stolen since `before`, in percent.
    pub(crate) fn steal_percent(&self, before: &Load) -> f64 {
        let total = self.total_ticks.saturating_sub(before.total_ticks).max(1);
        self.steal_ticks.saturating_sub(before.steal_ticks) as f64 * 100.0 / total as f64
    }
}

fn read(file: &str) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

/// The first two CPUs that we may use, for the two ends; none if there is only one.
pub(crate) fn two_cpus() -> Option<[usize; 2]> {
    let allowed = rustix::thread::sched_getaffinity(None).ok()?;
    let mut cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    Some([cpus.next()?, cpus.next()?])
}
