//! The program on an interface, and its map from queues to sockets: one for each interface in this process, shared by
//! the ports of its queues. The kernel removes the program with the link's last descriptor, so with the process at
//! the latest, however it ends.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::io::Errno;

use super::Rule;
use super::program::steering;
use crate::device::{DeviceOptions, Interface, Step, refusal};
use crate::error::PortError;
use crate::sys::device::bpf::{self, Hook, Kind};

pub(super) struct Attachment {
    link: OwnedFd,
    map: OwnedFd,
    pub(super) hook: Hook,
    /// Why it is not in the driver.
    pub(super) generic_because: Option<String>,
    rules: Mutex<Vec<Rule>>,
}

/// Number of the network namespace, and of the interface in it.
type Place = (u64, u32);

static ATTACHED: Mutex<Vec<(Place, Weak<Attachment>)>> = Mutex::new(Vec::new());

fn place(index: u32) -> Result<Place, PortError> {
    let namespace = rustix::fs::stat("/proc/thread-self/ns/net");
    Ok((namespace.map_err(|e| PortError::os("look at the network namespace", e))?.st_ino, index))
}

/// The program on this interface; attached if it is not there.
pub(super) fn attach(interface: &Interface, options: &DeviceOptions) -> Result<Arc<Attachment>, PortError> {
    let place = place(interface.index)?;
    let mut attached = ATTACHED.lock().unwrap_or_else(PoisonError::into_inner);
    attached.retain(|(_, attachment)| attachment.strong_count() > 0);
    let found = attached.iter().find(|(at, _)| *at == place).and_then(|(_, attachment)| attachment.upgrade());
    if let Some(attachment) = found {
        let same = *attachment.rules.lock().unwrap_or_else(PoisonError::into_inner) == options.steering;
        let why = "is open with other steering rules in this process; open all its ports with the same";
        return same.then_some(attachment).ok_or_else(|| PortError::refused(&interface.name, why));
    }
    let attachment = Arc::new(Attachment::new(interface, options)?);
    attached.push((place, Arc::downgrade(&attachment)));
    Ok(attachment)
}

/// Puts other rules in the place of those of an interface that this process has open.
pub(crate) fn replace_rules(interface: &Interface, rules: &[Rule]) -> Result<(), PortError> {
    let place = place(interface.index)?;
    let attached = ATTACHED.lock().unwrap_or_else(PoisonError::into_inner);
    let found = attached.iter().find(|(at, _)| *at == place).and_then(|(_, attachment)| attachment.upgrade());
    let why = "is not open in this process; steering is for open interfaces";
    let attachment = found.ok_or_else(|| PortError::refused(&interface.name, why))?;
    let program = load(&interface.name, rules, attachment.map.as_fd())?;
    bpf::replace(attachment.link.as_fd(), program.as_fd()).map_err(|e| refusal(&interface.name, Step::Attach, e))?;
    *attachment.rules.lock().unwrap_or_else(PoisonError::into_inner) = rules.to_vec();
    Ok(())
}

fn load(name: &str, rules: &[Rule], map: BorrowedFd<'_>) -> Result<OwnedFd, PortError> {
    bpf::load(Kind::Xdp, &steering(rules, map.as_raw_fd())).map_err(|(errno, log)| refused_program(name, errno, &log))
}

/// The refusal of a program, with the verifier's words if it had any.
pub(crate) fn refused_program(name: &str, errno: Errno, log: &str) -> PortError {
    match (refusal(name, Step::Program, errno), log) {
        (refused, "") => refused,
        (PortError::Refused { name, why }, log) => PortError::Refused { name, why: format!("{why} (verifier: {log})") },
        (other, _) => other,
    }
}

impl Attachment {
    /// In the driver if it can, else in the generic path.
    fn new(interface: &Interface, options: &DeviceOptions) -> Result<Attachment, PortError> {
        let name = &interface.name;
        let queues = interface.rx_queues.max(interface.tx_queues);
        let map = bpf::socket_map(queues).map_err(|errno| refusal(name, Step::Map, errno))?;
        let program = load(name, &options.steering, map.as_fd())?;
        let attach = |hook| bpf::attach(program.as_fd(), interface.index, hook);
        let (link, hook, because) = match if options.generic { Err(Errno::OPNOTSUPP) } else { attach(Hook::XdpNative) }
        {
            Ok(link) => (link, Hook::XdpNative, None),
            // Neither is about the driver, and the generic path would answer the same.
            Err(errno @ (Errno::PERM | Errno::BUSY | Errno::EXIST)) => return Err(refusal(name, Step::Attach, errno)),
            Err(native) => {
                let link = attach(Hook::XdpGeneric).map_err(|errno| refusal(name, Step::Attach, errno))?;
                let why = if options.generic { "asked for".to_owned() } else { format!("the driver says {native}") };
                (link, Hook::XdpGeneric, Some(why))
            }
        };
        let rules = Mutex::new(options.steering.clone());
        Ok(Attachment { link, map, hook, generic_because: because, rules })
    }

    /// Frames of `queue` go to `socket` from now on, until it is closed.
    pub(super) fn deliver(&self, name: &str, queue: u32, socket: BorrowedFd<'_>) -> Result<(), PortError> {
        bpf::set_socket(self.map.as_fd(), queue, socket).map_err(|errno| refusal(name, Step::Map, errno))
    }
}
