//! The configuration, and the contexts that are made from it: one for each core.

use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::*};
use std::sync::{Mutex, PoisonError};

use libc::c_int;
use ringway_port::device::{DeviceOptions, open_device};
use ringway_port::name::{PortName, Scheme};
use ringway_port::{Port, meeting};
use ringway_stack::{MacAddress, Stack, StackConfig};

use crate::conf::{CORES_MAX, Conf};
use crate::errno::{Errno, Result};
use crate::state::State;

/// `struct mtcp_context`, of which programs see the core's number.
#[repr(C)]
pub(crate) struct Context {
    cpu: c_int,
    pub(crate) state: Mutex<State>,
}

static CONF: Mutex<Option<Conf>> = Mutex::new(None);
static CONTEXTS: [AtomicPtr<Context>; CORES_MAX] = [const { AtomicPtr::new(ptr::null_mut()) }; CORES_MAX];

/// Changes or reads the configuration.
///
/// # Errors
/// `EINVAL` before `mtcp_init`.
pub(crate) fn with_conf<T>(use_it: impl FnOnce(&mut Conf) -> T) -> Result<T> {
    let mut conf = CONF.lock().unwrap_or_else(PoisonError::into_inner);
    conf.as_mut().map(use_it).ok_or(Errno::INVAL)
}

pub(crate) fn set_conf(conf: Option<Conf>) {
    *CONF.lock().unwrap_or_else(PoisonError::into_inner) = conf;
}

/// Whether a pointer is a context that exists: anything else is not looked at.
pub(crate) fn is_known(context: *const Context) -> bool {
    !context.is_null() && CONTEXTS.iter().any(|place| ptr::eq(place.load(Acquire), context))
}

/// Takes a context out of the table: from now on it is the caller's.
pub(crate) fn take(context: *mut Context) -> bool {
    let taken = |place: &AtomicPtr<Context>| place.compare_exchange(context, ptr::null_mut(), AcqRel, Acquire).is_ok();
    !context.is_null() && CONTEXTS.iter().any(taken)
}

/// A new context, which stays until it is taken.
///
/// # Errors
/// `EINVAL` before `mtcp_init` or for a core that it has no port for, `EEXIST` if the core has one; what opening the port
/// answers, which is said on standard error, too.
pub(crate) fn create(cpu: c_int) -> Result<*mut Context> {
    let conf = with_conf(|conf| conf.clone())?;
    let core = usize::try_from(cpu).ok().filter(|core| *core < conf.num_cores).ok_or(Errno::INVAL)?;
    if !CONTEXTS[core].load(Acquire).is_null() {
        return Err(Errno(libc::EEXIST));
    }
    let stack = stack(&conf, core).inspect_err(|(why, _)| eprintln!("mtcp: core {core}: {why}"));
    let stack = stack.map_err(|(_, errno)| errno)?;
    let context = Box::into_raw(Box::new(Context { cpu, state: Mutex::new(State::new(stack, &conf)) }));
    CONTEXTS[core].store(context, Release);
    Ok(context)
}

/// The stack of a core; why there is none, in words and as a number.
fn stack(conf: &Conf, core: usize) -> std::result::Result<Stack, (String, Errno)> {
    let port = open(&conf.ports[core]).map_err(|e| (e.to_string(), Errno(libc::ENODEV)))?;
    let config = StackConfig {
        addresses: conf.addresses_of(core),
        gateways: conf.gateways.clone(),
        mac: conf.mac.filter(|_| core == 0).or_else(|| mac_of(&conf.ports[core])),
        tcp: conf.tcp.clone(),
        spin_us: conf.spin_us,
    };
    let mut seed = [0; 8];
    let drawn = rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty());
    drawn.map_err(|e| ("cannot draw a random number".to_owned(), Errno(e.raw_os_error())))?;
    Stack::new(port, config, u64::from_ne_bytes(seed)).map_err(|e| (e.to_string(), Errno::INVAL))
}

/// A TAP device is brought up: its other end is useless otherwise. Pipes and ports of switches meet those of other processes
/// at the monitor that `RINGWAY_SOCKET` names.
fn open(name: &PortName) -> std::result::Result<Port, ringway_port::PortError> {
    if name.scheme == Scheme::Tap {
        return open_device(&name.to_string(), &DeviceOptions { up: true, ..DeviceOptions::default() });
    }
    let socket = std::env::var_os("RINGWAY_SOCKET").map(PathBuf::from);
    if let Some(folder) = socket.as_deref().and_then(Path::parent) {
        meeting::meet_in(folder);
    }
    ringway_switch::open_any(name)
}

/// Where the port is an interface that exists, its frames come to the interface's own address.
fn mac_of(name: &PortName) -> Option<MacAddress> {
    if !matches!(name.scheme, Scheme::Netmap | Scheme::Xdp { .. } | Scheme::Packet) {
        return None;
    }
    let text = std::fs::read_to_string(format!("/sys/class/net/{}/address", name.port)).ok()?;
    crate::conf::mac(text.trim())
}
