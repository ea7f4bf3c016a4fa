//! The Debian packages that tests and demo exercise: which are missing, and their installation.
//!
//! Installing never starts a system service: while `apt-get` runs, `policy-rc.d` answers 101
//! ("action forbidden"), and what was there before is put back.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process;

/// Package and the file that shows its presence: a program, or a path with slashes.
const KNOWN: &[(&str, &str)] = &[
    ("curl", "curl"),
    ("default-jdk-headless", "javac"),
    ("default-jre-headless", "java"),
    ("g++", "g++"),
    ("gcc", "gcc"),
    ("haproxy", "haproxy"),
    ("iperf3", "iperf3"),
    ("iproute2", "ip"),
    ("iputils-ping", "ping"),
    ("libmemcached-tools", "memcaslap"),
    ("libpython3.11-testsuite", "/usr/lib/python3.11/test/test_socket.py"),
    ("memcached", "memcached"),
    ("musl-tools", "musl-gcc"),
    ("nginx-light", "nginx"),
    ("nodejs", "node"),
    ("openssl", "openssl"),
    ("pkgconf", "pkgconf"),
    ("postgresql", "pgbench"),
    ("python3", "python3"),
    ("python3-tornado", "/usr/lib/python3/dist-packages/tornado/test/runtests.py"),
    ("python3-uvloop", "/usr/lib/python3/dist-packages/uvloop/__init__.py"),
    ("redis-server", "redis-server"),
    ("redis-tools", "redis-benchmark"),
    ("sockperf", "sockperf"),
    ("strace", "strace"),
    ("tcpdump", "tcpdump"),
    ("tshark", "tshark"),
    ("valgrind", "valgrind"),
    ("wrk", "wrk"),
];

const APT_LIMIT: Duration = Duration::from_secs(600);
const POLICY: &str = "/usr/sbin/policy-rc.d";
const POLICY_SAVED: &str = "/usr/sbin/policy-rc.d.ringway-saved";
const POLICY_TEXT: &str =
    "#!/bin/sh\n# Written by Ringway's `cargo xtask` while it installs packages; removed afterwards.\nexit 101\n";

/// What shows that the package is here, if it is known.
pub(crate) fn evidence(package: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(name, _)| *name == package).map(|(_, evidence)| *evidence)
}

/// Is the package's program here, whoever installed it?
pub(crate) fn present(package: &str) -> bool {
    let evidence = evidence(package).unwrap_or(package);
    if evidence.contains('/') { Path::new(evidence).exists() } else { find_program(evidence).is_some() }
}

/// A program's path, searched where shells do and where Debian keeps servers.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin".into(), "/usr/local/sbin".into(), "/sbin".into()]);
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        folders.extend(versions.flatten().map(|v| v.path().join("bin")));
    }
    folders.into_iter().map(|f| f.join(name)).find(|p| p.is_file())
}

/// Installs what is missing of `packages` if that is possible; returns what is missing afterwards.
/// Says on stderr what it does and, if it cannot, the command that somebody else can run.
pub(crate) fn ensure(packages: &[&str]) -> Result<Vec<String>> {
    let missing = |of: &[&str]| -> Vec<String> { of.iter().filter(|p| !present(p)).map(|p| (*p).to_owned()).collect() };
    let wanted = missing(packages);
    if wanted.is_empty() {
        return Ok(wanted);
    }
    let remedy = format!("apt-get install --no-install-recommends {}", wanted.join(" "));
    if !rustix::process::geteuid().is_root() {
        eprintln!("missing packages, and installing needs root; please run: {remedy}");
        return Ok(wanted);
    }
    eprintln!("installing {} (no service is started)", wanted.join(" "));
    let policy = ServicesHeld::new()?;
    if apt_install(&wanted).is_err() {
        // The lists may be old, or one package may be unavailable here: refresh, then one by one.
        if let Err(error) = process::run_visibly(&mut apt(&["update", "-q"]), APT_LIMIT) {
            eprintln!("apt-get update: {error:#}");
        }
        for package in &wanted {
            process::check_interrupt()?;
            if let Err(error) = apt_install(std::slice::from_ref(package)) {
                eprintln!("cannot install {package}: {error:#}");
            }
        }
    }
    drop(policy);
    let still = missing(packages);
    if !still.is_empty() {
        eprintln!("still missing: {}; please run: {remedy}", still.join(" "));
    }
    Ok(still)
}

fn apt(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
    command
}

fn apt_install(packages: &[String]) -> Result<()> {
    let mut command = apt(&["install", "-y", "-qq", "--no-install-recommends"]);
    process::run_visibly(command.args(packages), APT_LIMIT)
}

/// While it lives, packages cannot start their services.
struct ServicesHeld;

impl ServicesHeld {
    fn new() -> Result<ServicesHeld> {
        // A saved file is what a killed run could not put back.
        if Path::new(POLICY).exists() && !Path::new(POLICY_SAVED).exists() {
            std::fs::rename(POLICY, POLICY_SAVED).with_context(|| format!("cannot rename {POLICY}"))?;
        }
        std::fs::write(POLICY, POLICY_TEXT).with_context(|| format!("cannot write {POLICY}"))?;
        std::fs::set_permissions(POLICY, std::fs::Permissions::from_mode(0o755))?;
        Ok(ServicesHeld)
    }
}

impl Drop for ServicesHeld {
    fn drop(&mut self) {
        let restored = if Path::new(POLICY_SAVED).exists() {
            std::fs::rename(POLICY_SAVED, POLICY)
        } else {
            std::fs::remove_file(POLICY)
        };
        if let Err(error) = restored {
            eprintln!("cannot restore {POLICY}: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_and_missing_ones_are_not() {
        assert!(find_program("sh").is_some());
        assert!(find_program("no-such-program-anywhere").is_none());
        assert!(!present("no-such-package-anywhere"));
    }

    #[test]
    fn the_table_is_sorted_so_that_nothing_is_in_it_twice() {
        assert!(KNOWN.windows(2).all(|w| w[0].0 < w[1].0));
    }
}
