//! What a monitor in the background inherits from whoever happened to start it, put right: it serves
//! others too, and longer.
//!
//! A hard limit, the control group, a seccomp filter and the namespaces stay as they are: no program can
//! leave those by itself.

use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::sys;

/// Limits that would end the monitor, or refuse it memory and threads.
const LIMITS: [Resource; 5] = [Resource::As, Resource::Data, Resource::Fsize, Resource::Cpu, Resource::Nproc];

/// How far out-of-memory killing prefers this process; zero is as usual.
const OOM_ADJUSTMENT: &str = "/proc/self/oom_score_adj";

/// Takes back the caller's limits, priority, processors and ignored signals, each as far as the kernel
/// permits. Call it on the main thread, before others are started.
pub fn reset() {
    LIMITS.into_iter().for_each(lift);
    sys::use_the_usual_scheduler();
    let _ = setpriority_process(None, 0);
    let mut every = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| every.set(cpu));
    // The kernel keeps it within the cpuset.
    let _ = sched_setaffinity(None, &every);
    let sacrificed = std::fs::read_to_string(OOM_ADJUSTMENT).is_ok_and(|n| n.trim().parse().is_ok_and(|n: i32| n > 0));
    if sacrificed {
        let _ = std::fs::write(OOM_ADJUSTMENT, "0");
    }
    sys::heed_signals();
}

/// Without a limit if that is allowed, else up to the hard limit.
fn lift(resource: Resource) {
    if setrlimit(resource, Rlimit { current: None, maximum: None }).is_err() {
        let maximum = getrlimit(resource).maximum;
        let _ = setrlimit(resource, Rlimit { current: maximum, maximum });
    }
}
