//! What this host offers and lacks, check by check, for `ringway doctor`.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ringway_channel::rendezvous::PROTOCOL_VERSION;
use ringway_daemon::control::Control;
use ringway_daemon::paths;
use ringway_mem::region;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use crate::launch::library;
use crate::monitor;

/// Upgraded connections that a well set-up process can hold.
const CONNECTIONS_WANTED: u64 = 10_000;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Ok,
    /// It works, with less than there could be.
    Warn,
    /// Nothing will be accelerated.
    Fail,
}

/// One line of the report.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    pub name: &'static str,
    pub verdict: Verdict,
    pub finding: String,
    /// The command that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Check {
    fn ok(name: &'static str, finding: impl Into<String>) -> Check {
        Check { name, verdict: Verdict::Ok, finding: finding.into(), remedy: None }
    }

    fn warn(name: &'static str, finding: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { name, verdict: Verdict::Warn, finding: finding.into(), remedy: Some(remedy.into()) }
    }

    fn fail(name: &'static str, finding: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { name, verdict: Verdict::Fail, finding: finding.into(), remedy: Some(remedy.into()) }
    }
}

/// Runs every check; `socket_dir` holds the monitor to look for.
pub(crate) fn run(socket_dir: &Path) -> Vec<Check> {
    let release = read("/proc/sys/kernel/osrelease");
    vec![
        kernel(&release),
        sealed_memory(),
        loopback(),
        library_loads(),
        socket_folder(socket_dir),
        monitor_answers(socket_dir),
        open_files(),
        mappings(&read("/proc/sys/vm/max_map_count")),
        Check::ok("locked memory", "not needed: rings are ordinary memory"),
        processors(std::thread::available_parallelism().map_or(1, |n| n.get())),
        io_uring(&read("/proc/sys/kernel/io_uring_disabled")),
        confinement(&read("/proc/self/status")),
        Check::ok(
            "privileged programs",
            "setuid, setgid and file-capability programs ignore LD_PRELOAD and stay on TCP",
        ),
    ]
}

/// A small file's text without the line end; empty if it cannot be read.
fn read(path: &str) -> String {
    std::fs::read_to_string(path).map(|text| text.trim_end().to_string()).unwrap_or_default()
}

fn kernel(release: &str) -> Check {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match version {
        v if v >= (6, 5) => Check::ok(
            "kernel",
            format!("{release}: SO_NETNS_COOKIE, TCP_INFO byte counters and SO_PEERPIDFD are there"),
        ),
        v if v >= (5, 14) => Check::warn(
            "kernel",
            format!("{release}: no SO_PEERPIDFD, so policy rules by control group are not served"),
            "install kernel 6.5 or newer if you need such rules",
        ),
        _ => Check::fail(
            "kernel",
            format!("{release}: the monitor needs SO_NETNS_COOKIE (5.14)"),
            "install kernel 5.14 or newer",
        ),
    }
}

fn sealed_memory() -> Check {
    let noexec = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::NOEXEC_SEAL;
    let plain = region::create_sealed("ringway-doctor", 4096).map(|fd| region::Region::open_read_only(fd, 4096));
    match (plain, rustix::fs::memfd_create("ringway-doctor", noexec)) {
        (Ok(Ok(_)), Ok(_)) => Check::ok("shared memory", "memfd with seals works, MFD_NOEXEC_SEAL too"),
        (Ok(Ok(_)), Err(_)) => Check::warn(
            "shared memory",
            "memfd with seals works, MFD_NOEXEC_SEAL does not (kernel before 6.3)",
            "nothing to do unless vm.memfd_noexec is 2",
        ),
        (Ok(Err(e)) | Err(e), _) => Check::fail(
            "shared memory",
            format!("sealed memfds do not work: {e}"),
            "allow memfd_create, fcntl and mmap in the container's seccomp profile",
        ),
    }
}

fn loopback() -> Check {
    let connect = || {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        TcpStream::connect_timeout(&listener.local_addr()?, Duration::from_secs(1))
    };
    match connect() {
        Ok(_) => Check::ok("loopback", "127.0.0.1 connects"),
        Err(e) => Check::fail("loopback", format!("127.0.0.1 does not connect: {e}"), "ip link set lo up"),
    }
}

fn library_loads() -> Check {
    const NAME: &str = "library";
    let library = match library::find() {
        Ok(library) => library,
        Err(e) => {
            return Check::fail(
                NAME,
                format!("{e:#}"),
                format!("export {}=/path/to/libringway.so", library::LIBRARY_VARIABLE),
            );
        }
    };
    let shown = library.display();
    let trial = Command::new("/bin/true")
        .env("LD_PRELOAD", &library)
        .env(paths::SOCKET_VARIABLE, "/nonexistent/monitor.sock")
        .stdin(Stdio::null())
        .output();
    match trial {
        Err(e) => {
            Check::warn(NAME, format!("{shown}: /bin/true does not start ({e})"), "ringway run -v -- ANY-PROGRAM")
        }
        // The dynamic linker complains and goes on without it.
        Ok(out) if String::from_utf8_lossy(&out.stderr).contains("cannot be preloaded") => Check::fail(
            NAME,
            format!("{shown}: {}", String::from_utf8_lossy(&out.stderr).trim()),
            "install the package for this architecture and C library",
        ),
        Ok(out) if !out.status.success() => {
            Check::fail(NAME, format!("{shown}: /bin/true under it ends with {}", out.status), "report this as a bug")
        }
        Ok(_) => Check::ok(NAME, format!("{shown} loads")),
    }
}

fn socket_folder(dir: &Path) -> Check {
    match monitor::trust(dir) {
        Ok(()) if dir.exists() => Check::ok("socket folder", format!("{} is safe", dir.display())),
        Ok(()) => Check::ok("socket folder", format!("{} will be made by the monitor", dir.display())),
        Err(problem) => Check::fail("socket folder", problem, format!("rm -r {0}  (or chmod 700 {0})", dir.display())),
    }
}

fn monitor_answers(dir: &Path) -> Check {
    const NAME: &str = "monitor";
    let start = format!("{} --background", paths::start_command(dir));
    if !paths::answers(dir) {
        return Check::warn(NAME, format!("none answers in {}; `ringway run` starts one", dir.display()), start);
    }
    match Control::connect(dir).and_then(|mut control| control.status()) {
        Err(e) => Check::fail(NAME, e.to_string(), format!("{start} --takeover")),
        Ok(status) if status.protocol_version != PROTOCOL_VERSION => Check::fail(
            NAME,
            format!(
                "release {} speaks protocol {}, this is {PROTOCOL_VERSION}",
                status.version, status.protocol_version
            ),
            format!("kill {}; {start}", status.pid),
        ),
        Ok(status) if status.version != env!("CARGO_PKG_VERSION") => Check::warn(
            NAME,
            format!("release {} answers, this is {}", status.version, env!("CARGO_PKG_VERSION")),
            format!("{start} --takeover"),
        ),
        Ok(status) => Check::ok(NAME, format!("pid {} answers, same release", status.pid)),
    }
}

fn open_files() -> Check {
    // A server with this many connections needs one descriptor each; rings need none of their own.
    let wanted = CONNECTIONS_WANTED + 100;
    let limit = getrlimit(Resource::Nofile);
    match limit.current {
        Some(current) if current < wanted => {
            let verdict = format!("{current} open files allowed; {CONNECTIONS_WANTED} connections need {wanted}");
            let remedy = match limit.maximum {
                Some(maximum) if maximum < wanted => {
                    format!("raise the hard limit: LimitNOFILE={wanted} (systemd) or /etc/security/limits.conf")
                }
                _ => format!("ulimit -n {wanted}"),
            };
            Check::warn("open files", verdict, remedy)
        }
        Some(current) => Check::ok("open files", format!("{current} allowed")),
        None => Check::ok("open files", "no limit"),
    }
}

fn mappings(max_map_count: &str) -> Check {
    // Each end maps its ring and its own page.
    let wanted = 2 * CONNECTIONS_WANTED + 1000;
    match max_map_count.parse::<u64>() {
        Ok(count) if count < wanted => Check::warn(
            "mappings",
            format!("vm.max_map_count is {count}; {CONNECTIONS_WANTED} connections of a process need {wanted}"),
            format!("sysctl -w vm.max_map_count={}", 4 * CONNECTIONS_WANTED),
        ),
        Ok(count) => {
            Check::ok("mappings", format!("vm.max_map_count {count} is enough for {CONNECTIONS_WANTED} connections"))
        }
        Err(_) => Check::ok("mappings", "vm.max_map_count is hidden here"),
    }
}

fn processors(count: usize) -> Check {
    match count {
        1 => Check::warn(
            "processors",
            "one: the two ends cannot run at once, so waiting is never active and round trips gain less",
            "give the programs two processors (taskset, cpuset, --cpus)",
        ),
        n => Check::ok("processors", format!("{n}: the two ends can run at once")),
    }
}

fn io_uring(disabled: &str) -> Check {
    let finding = match disabled {
        "0" => "enabled; sockets that a program drives by io_uring stay on plain TCP",
        "1" => "only for privileged programs; those that fall back to ordinary calls are accelerated",
        "2" => "disabled; programs fall back to ordinary calls, which are accelerated",
        _ => "not known to this kernel; programs use ordinary calls, which are accelerated",
    };
    Check::ok("io_uring", finding)
}

fn confinement(status: &str) -> Check {
    let value = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map_or("", str::trim);
    let container = ["/.dockerenv", "/run/.containerenv"].iter().any(|file| Path::new(file).exists());
    match (value("Seccomp:"), container) {
        ("2", _) => Check::warn(
            "confinement",
            "a seccomp filter is active; programs under it need futex, memfd mappings and connect to AF_UNIX",
            "mount the monitor's folder into the container and try `ringway run --require -v -- PROGRAM`",
        ),
        (_, true) => Check::warn(
            "confinement",
            "in a container; its programs pair only with those that reach the same monitor",
            "mount the host's /run/ringway into the container, or run all programs in this one",
        ),
        _ => Check::ok("confinement", "no seccomp filter, no container"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_judged_by_number_not_by_text() {
        assert_eq!(kernel("6.18.44-cloud").verdict, Verdict::Ok);
        assert_eq!(kernel("6.1.0-28-amd64").verdict, Verdict::Warn);
        assert_eq!(kernel("5.14.0").verdict, Verdict::Warn);
        assert_eq!(kernel("5.4.0").verdict, Verdict::Fail);
        assert_eq!(kernel("").verdict, Verdict::Fail);
    }

    #[test]
    fn limits_name_the_number_that_is_needed() {
        let check = mappings("20000");
        assert_eq!(check.verdict, Verdict::Warn);
        assert!(check.finding.contains("21000") && check.remedy.unwrap().contains("vm.max_map_count=40000"));
        assert_eq!(mappings("65530").verdict, Verdict::Ok);
        assert_eq!(processors(1).verdict, Verdict::Warn);
        assert_eq!(processors(2).verdict, Verdict::Ok);
    }

    #[test]
    fn a_seccomp_filter_is_noticed() {
        assert_eq!(confinement("Name:\tx\nSeccomp:\t2\n").verdict, Verdict::Warn);
    }

    #[test]
    fn every_remedy_is_for_something_and_every_problem_has_one() {
        let folder = tempfile::tempdir().unwrap();
        for check in run(folder.path()) {
            assert_eq!(check.remedy.is_some(), check.verdict != Verdict::Ok, "{check:?}");
            assert!(!check.finding.is_empty(), "{check:?}");
        }
    }
}
