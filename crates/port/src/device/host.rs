//! The host rings of an interface: what the host's stack sends by it, and what it is to receive from it.
//!
//! ```text
//!   the host's stack                    user
//!     |        ^                     rx | ^ host rings
//!     v egress | (arrives at IF)        | | tx
//!   +-IF--------------+     program   +-v---------+
//!   | tcx egress   ---|-------------->| TAP       |
//!   |        <--------|---------------|- tcx ingress
//!   +-----------------+     program   +-----------+
//! ```
//! A program at the interface's egress sends all frames of the host's stack to a TAP device of ours instead of to the
//! wire, and one at the TAP device's ingress has what we write arrive at the interface. Frames of XDP sockets and
//! of packet sockets pass neither. Device and programs go with the process, however it ends.

use std::os::fd::{AsFd, OwnedFd};

use crate::backend::{Backend, Wakers};
use crate::error::PortError;
use crate::kring::{RxKring, TxKring};
use crate::sys::device::bpf::{self, Hook, Kind};
use crate::sys::device::interface::Asker;
use crate::sys::device::tun;
use crate::tap::Tap;
use crate::xdp::{redirect_to, redirect_to_ingress, refused_program};

use super::{Interface, Step, refusal};

pub(crate) struct Host {
    tap: Tap,
    _links: [OwnedFd; 2],
}

impl Host {
    /// Takes over what the host sends by `interface`.
    pub(crate) fn open(interface: &Interface) -> Result<Host, PortError> {
        let name = format!("rwhost{}", interface.index);
        let queue = tun::open(&name, false).map_err(|errno| refusal(&name, Step::TapDevice, errno))?;
        tun::set_offload(&queue, false).map_err(|errno| refusal(&name, Step::TapOffload, errno))?;
        let device = Interface::find(&name)?;
        let asker = Asker::new().map_err(|errno| refusal(&name, Step::Interface, errno))?;
        // The device is no place for a stack of its own; where IPv6 is off already there is nothing to write to.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        let raised = asker.set_mtu(&name, interface.mtu).and_then(|()| asker.bring_up(&name));
        raised.map_err(|errno| refusal(&name, Step::Up, errno))?;
        let egress = attach(interface, Hook::TcEgress, &redirect_to(device.index))?;
        let ingress = attach(&device, Hook::TcIngress, &redirect_to_ingress(interface.index))?;
        let tap = Tap::new(vec![queue], false, interface.frame_bytes_max());
        Ok(Host { tap, _links: [egress, ingress] })
    }
}

fn attach(interface: &Interface, hook: Hook, program: &[bpf::Instruction]) -> Result<OwnedFd, PortError> {
    let name = &interface.name;
    let program =
        bpf::load(Kind::TrafficControl, program).map_err(|(errno, log)| refused_program(name, errno, &log))?;
    bpf::attach(program.as_fd(), interface.index, hook).map_err(|errno| refusal(name, Step::Redirect, errno))
}

impl Backend for Host {
    fn sync_tx(&mut self, ring: usize, tx: &TxKring, now_ns: u64) -> Result<(), PortError> {
        self.tap.sync_tx(ring, tx, now_ns)
    }

    fn sync_rx(&mut self, ring: usize, rx: &RxKring, released: u32, now_ns: u64) -> Result<(), PortError> {
        self.tap.sync_rx(ring, rx, released, now_ns)
    }

    fn wakers(&self, wakers: &mut Wakers) {
        self.tap.wakers(wakers);
    }
}

/// An interface's own rings, and behind them its host rings.
pub(crate) struct WithHost {
    pub(crate) nic: Box<dyn Backend>,
    pub(crate) nic_tx: usize,
    pub(crate) nic_rx: usize,
    pub(crate) host: Host,
}

impl Backend for WithHost {
    fn sync_tx(&mut self, ring: usize, tx: &TxKring, now_ns: u64) -> Result<(), PortError> {
        match ring.checked_sub(self.nic_tx) {
            None => self.nic.sync_tx(ring, tx, now_ns),
            Some(ring) => self.host.sync_tx(ring, tx, now_ns),
        }
    }

    fn sync_rx(&mut self, ring: usize, rx: &RxKring, released: u32, now_ns: u64) -> Result<(), PortError> {
        match ring.checked_sub(self.nic_rx) {
            None => self.nic.sync_rx(ring, rx, released, now_ns),
            Some(ring) => self.host.sync_rx(ring, rx, released, now_ns),
        }
    }

    fn wakers(&self, wakers: &mut Wakers) {
        self.nic.wakers(wakers);
        self.host.wakers(wakers);
    }
}
