//! Namespaces, veth pairs and bridge processes, all gone when the test ends.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a state may take to come about; far beyond what it takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Devices are few: one test at a time.
static TURN: Mutex<()> = Mutex::new(());

pub(crate) struct Bed {
    tag: String,
    _turn: MutexGuard<'static, ()>,
}

/// Says that a test did nothing, and why.
pub(crate) fn skip(test: &str) {
    println!("SKIP {test}: needs root and ip(8) for network namespaces");
}

impl Bed {
    /// Three namespaces; None where they cannot be made.
    pub(crate) fn new(test: &str) -> Option<Bed> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let bed = Bed { tag: format!("rw{}{test}", std::process::id()), _turn: turn };
        let made = ["a", "b", "m"].iter().all(|part| {
            let add = Command::new("ip").args(["netns", "add", &format!("{}{part}", bed.tag)]).output();
            add.is_ok_and(|output| output.status.success())
        });
        if !made {
            return None;
        }
        for part in ["a", "b", "m"] {
            bed.ip(&["-n", &format!("{}{part}", bed.tag), "link", "set", "lo", "up"]);
        }
        Some(bed)
    }

    pub(crate) fn middle(&self) -> String {
        format!("{}m", self.tag)
    }

    pub(crate) fn stack(&self, side: char) -> String {
        format!("{}{side}", self.tag)
    }

    pub(crate) fn ip(&self, arguments: &[&str]) -> String {
        let output = Command::new("ip").args(arguments).output().unwrap();
        assert!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A veth pair from the side's stack to the middle.
    pub(crate) fn veth(&self, side: char) {
        let (kernel_end, port_end) = (format!("k{side}"), format!("p{side}"));
        let (stack, middle) = (self.stack(side), self.middle());
        let add = ["link", "add", &kernel_end, "netns", &stack, "type", "veth", "peer", "name", &port_end];
        self.ip(&[&add[..], &["netns", &middle]].concat());
        self.ip(&["-n", &middle, "link", "set", &port_end, "promisc", "on", "up"]);
    }

    /// Gives the side's stack its address, 10.77.0.1 or .2.
    pub(crate) fn raise(&self, side: char) {
        let (stack, device) = (self.stack(side), format!("k{side}"));
        self.ip(&["-n", &stack, "addr", "add", &format!("{}/24", address(side)), "dev", &device]);
        self.ip(&["-n", &stack, "link", "set", &device, "up"]);
    }

    /// Everything about the middle's interfaces.
    pub(crate) fn links(&self) -> String {
        self.ip(&["-n", &self.middle(), "-d", "link", "show"])
    }

    fn command(&self, options: &[&str], ports: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.middle()]).arg(program()).args(options).args(ports);
        command
    }

    /// A bridge in the middle that has said `ready`.
    pub(crate) fn bridge(&self, options: &[&str], ports: &[&str]) -> Bridge {
        let mut child = self.command(options, ports).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.ends_with("ready\n") && out.read_line(&mut said).unwrap() > 0 {}
        assert!(said.ends_with("ready\n"), "the bridge of {ports:?} said {said:?}");
        Bridge { child, said, _out: out }
    }

    /// Stops the bridge, with its ports open, until the returned guard is dropped, which ends it.
    pub(crate) fn bridge_stopped(&self, bridge: Bridge) -> Bridge {
        signal(bridge.child.id(), "STOP");
        bridge
    }

    /// What the bridge says when it cannot open its ports.
    pub(crate) fn refused(&self, options: &[&str], ports: &[&str]) -> String {
        text_of_failure(self.command(options, ports).output().unwrap())
    }

    /// The same without any privilege.
    pub(crate) fn refused_unprivileged(&self, ports: &[&str]) -> String {
        let mut command = Command::new("ip");
        let drop = ["setpriv", "--reuid", "65534", "--clear-groups", "--bounding-set", "-all", "--inh-caps", "-all"];
        let copy = readable_program();
        command.args(["netns", "exec", &self.middle()]).args(drop).arg(&copy).args(ports);
        let text = text_of_failure(command.output().unwrap());
        let _ = std::fs::remove_file(copy);
        text
    }

    /// No program, no device of ours; waits for the kernel to have cleaned up.
    pub(crate) fn assert_nothing_is_left(&self) {
        let clean = || {
            let links = self.links();
            ["prog/xdp", "rwhost", "rwt0", "tun type tap"].iter().all(|trace| !links.contains(trace))
        };
        assert!(eventually(clean), "{}", self.links());
        assert!(eventually(|| !owners_of_sockets(&self.middle())), "an XDP socket or a packet socket is left");
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for part in ["a", "b", "m"] {
            let _ = Command::new("ip").args(["netns", "del", &format!("{}{part}", self.tag)]).output();
        }
    }
}

/// A running bridge; its input ends when it is dropped, and so does it.
pub(crate) struct Bridge {
    child: Child,
    pub(crate) said: String,
    _out: BufReader<ChildStdout>,
}

impl Bridge {
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        signal(self.child.id(), "CONT");
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

pub(crate) fn address(side: char) -> &'static str {
    if side == 'a' { "10.77.0.1" } else { "10.77.0.2" }
}

/// Whether `what` comes true within a time that is far beyond what it takes.
pub(crate) fn eventually(what: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !what() {
        if begun.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).output();
}

fn text_of_failure(output: Output) -> String {
    assert!(!output.status.success(), "opened: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

/// Whether packet sockets are open in a namespace (the kernel lists no XDP sockets here).
fn owners_of_sockets(namespace: &str) -> bool {
    let output = Command::new("ip").args(["netns", "exec", namespace, "cat", "/proc/net/packet"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().count() > 1
}

/// `examples/bridge.rs`, which cargo builds beside the tests.
fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().parent().unwrap().join("examples/bridge");
    assert!(program.exists(), "{} is missing; `cargo test -p ringway-port` builds it", program.display());
    program
}

/// A copy that everybody may run, wherever the build is.
fn readable_program() -> PathBuf {
    let copy = std::env::temp_dir().join(format!("ringway-bridge-{}", std::process::id()));
    std::fs::copy(program(), &copy).unwrap();
    copy
}
