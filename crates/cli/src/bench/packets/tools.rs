//! `ringway gen` and `ringway sink` as processes of their own, which meet at a private monitor.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ringway_daemon::paths;
use rustix::process::Pid;
use serde_json::Value;

use super::super::bed::{STEP_LIMIT, start_monitor};
use super::super::process::Process;
use super::super::worker::Sample;
use super::Setting;

/// What the tools may take beyond the measurement to begin and to end.
const GRACE: Duration = Duration::from_secs(10);
/// How often the receiver tells its rates, in seconds.
const INTERVAL_S: &str = "0.1";

/// What `sink` counts at `to` while `gen` sends at `from`.
pub(super) fn between(from: &str, to: &str, setting: &Setting) -> Result<Sample> {
    let folder = tempfile::Builder::new().prefix("ringway-bench-").tempdir()?;
    let _monitor = start_monitor(folder.path())?;
    let start = |tool: &str, port: &str, words: &[&str], cpu: Option<usize>| {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([tool, "-i", port]).args(words).env_remove("LD_PRELOAD");
        command.env(paths::SOCKET_VARIABLE, paths::monitor_socket(folder.path()));
        let log = folder.path().join(format!("{tool}.log"));
        let mut process = Process::start(command, &log)?;
        // It says what its port is once that is open.
        process.wait_until(STEP_LIMIT, || has_said_something(&log)).with_context(|| format!("{tool} at {port}"))?;
        stay_on(&process, cpu);
        anyhow::Ok(process)
    };
    let time = format!("{:.3}", setting.duration.as_secs_f64() + 0.2);
    let mut sink =
        start("sink", to, &["--blind", "--json", "--interval", INTERVAL_S], setting.cpus.map(|cpus| cpus[1]))?;
    let mut generator =
        start("gen", from, &["--interval", "0", "--duration", &time], setting.cpus.map(|cpus| cpus[0]))?;
    generator.finish(setting.duration + GRACE)?;
    interrupt(&sink);
    rates(&sink.finish(GRACE)?)
}

fn has_said_something(log: &Path) -> bool {
    std::fs::metadata(log).is_ok_and(|log| log.len() > 0)
}

fn pid(process: &Process) -> Option<Pid> {
    Pid::from_raw(process.pid() as i32)
}

fn stay_on(process: &Process, cpu: Option<usize>) {
    if let Some(cpu) = cpu {
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        // Where it may not be there, it stays where it is.
        let _ = rustix::thread::sched_setaffinity(pid(process), &set);
    }
}

fn interrupt(process: &Process) {
    if let Some(pid) = pid(process) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
    }
}

/// The mean of the receiver's lines, without the first and the last in which anything came: they hold the beginning and
/// the end.
fn rates(output: &str) -> Result<Sample> {
    let lines = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let lines: Vec<(f64, f64)> = lines
        .filter(|line| line["summary"] == false)
        .filter_map(|line| Some((line["packets_per_s"].as_f64()?, line["bits_per_s"].as_f64()?)))
        .filter(|(packets, _)| *packets > 0.0)
        .collect();
    let [_, middle @ .., _] = &lines[..] else {
        bail!("{} lines with packets; give the measurement more time", lines.len())
    };
    if middle.is_empty() {
        bail!("2 lines with packets; give the measurement more time");
    }
    let mean = |of: fn(&(f64, f64)) -> f64| middle.iter().map(of).sum::<f64>() / middle.len() as f64;
    Ok([("packets_per_s".to_owned(), mean(|line| line.0)), ("bits_per_s".to_owned(), mean(|line| line.1))].into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_whole_intervals() {
        let line = |summary: bool, rate: f64| {
            format!("{{\"summary\":{summary},\"packets_per_s\":{rate},\"bits_per_s\":{}}}\n", rate * 480.0)
        };
        let output: String = [0.0, 3.0, 10.0, 20.0, 1.0, 0.0].iter().map(|rate| line(false, *rate)).collect();
        let sample = rates(&(output + &line(true, 7.0) + "ring 0\n")).unwrap();
        assert_eq!((sample["packets_per_s"], sample["bits_per_s"]), (15.0, 7200.0));
        assert!(rates(&line(false, 1.0)).is_err());
    }
}
