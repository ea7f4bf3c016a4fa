//! Network devices: veth pairs and the Linux bridge, in a network namespace of the measuring thread.
//!
//! ```text
//!   link      a0 ===== a1             frames in at a0, out at a1
//!   bridge    a0 ===== a1 - br0 - b1 ===== b0
//!   forward   a0 ===== a1 - ours - b1 ===== b0
//! ```

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sched::{CloneFlags, unshare};
use ringway_port::{Port, open};

use super::super::bed::find_program;
use super::super::worker::Sample;
use super::Setting;
use super::drive::{self, Frames, stay_on};
use super::vale::introduce;
use crate::packets::meter::Count;
use crate::packets::transfer::pass_on;

/// How long a bridge may take until it forwards.
const FORWARDS_AFTER: Duration = Duration::from_secs(5);

/// What frames go through at the ends of a veth pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ends {
    Packet,
    Xdp,
}

impl Ends {
    fn open(self, interface: &str) -> Result<Port> {
        let scheme = if self == Ends::Xdp { "xdp" } else { "packet" };
        Ok(open(&format!("{scheme}:{interface}"))?)
    }
}

/// Why there can be no devices here.
pub(super) fn obstacle() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root, for network devices");
    }
    find_program("ip").is_none().then_some("needs ip(8)")
}

/// Runs `work` in a thread that has a network namespace of its own; the devices go with it.
fn apart(work: impl FnOnce() -> Result<Sample> + Send) -> Result<Sample> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).context("cannot make a network namespace")?;
            work()
        });
        thread.join().expect("measurements do not panic")
    })
}

fn ip(words: &str) -> Result<()> {
    let output = Command::new("ip").args(words.split(' ')).env_remove("LD_PRELOAD").output()?;
    ensure!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// A pair of devices that carry nothing but what is sent here.
fn veth(name: &str) -> Result<()> {
    ip(&format!("link add {name}0 type veth peer name {name}1"))?;
    for end in ["0", "1"] {
        // The kernel would say hello by IPv6.
        ip(&format!("link set {name}{end} addrgenmode none"))?;
        ip(&format!("link set {name}{end} promisc on up"))?;
    }
    Ok(())
}

fn frames(len: u16) -> Frames {
    Frames { len, destination: [2, 0, 0, 0, 0, 2], are_looked_at: true, yield_cpu: false }
}

/// From one end of a veth pair to the other.
pub(super) fn link(ends: Ends, len: u16, setting: &Setting) -> Result<Sample> {
    apart(|| {
        veth("a")?;
        // The receiver first: on veth, frames reach an XDP program only if there is one when they come.
        let (receiver, sender) = (ends.open("a1")?, ends.open("a0")?);
        drive::run(&mut [sender], &mut [receiver], frames(len), setting)
    })
}

/// From one veth pair to another through the kernel's bridge.
pub(super) fn linux_bridge(ends: Ends, len: u16, setting: &Setting) -> Result<Sample> {
    apart(|| {
        veth("a")?;
        veth("b")?;
        ip("link add br0 type bridge")?;
        ip("link set a1 master br0")?;
        ip("link set b1 master br0")?;
        ip("link set br0 addrgenmode none")?;
        ip("link set br0 up")?;
        let (mut receiver, sender) = (ends.open("b0")?, ends.open("a0")?);
        let mut senders = [sender];
        // A bridge's ports forward some time after they are up.
        let deadline = Instant::now() + FORWARDS_AFTER;
        while introduce(&mut receiver, &mut senders)? == 0 {
            ensure!(Instant::now() < deadline, "the bridge forwards nothing");
            std::thread::sleep(Duration::from_millis(5));
        }
        drive::run(&mut senders, &mut [receiver], frames(len), setting)
    })
}

/// From one veth pair to another through a thread of ours that passes packets on between two ports.
pub(super) fn forward(middle: Ends, setting: &Setting) -> Result<Sample> {
    apart(|| {
        veth("a")?;
        veth("b")?;
        let (mut left, mut right) = (middle.open("a1")?, middle.open("b1")?);
        let (receiver, sender) = (Ends::Packet.open("b0")?, Ends::Packet.open("a0")?);
        let running = AtomicBool::new(true);
        std::thread::scope(|scope| {
            let forwarding = scope.spawn(|| {
                stay_on(setting.cpus.map(|cpus| cpus[1]));
                let mut count = Count::default();
                while running.load(Relaxed) {
                    pass_on(&mut left, &mut right, &mut count)?;
                }
                anyhow::Ok(())
            });
            let sample = drive::run(&mut [sender], &mut [receiver], frames(60), setting);
            running.store(false, Relaxed);
            forwarding.join().expect("forwarding does not panic")?;
            sample
        })
    })
}
