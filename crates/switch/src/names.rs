//! Ports by name, those of switches included: `valeS:P` is port P of the learning bridge S, made with its first port,
//! gone with its last. Separately started processes meet at a switch through the monitor (`ringway_port::meeting`).

use std::collections::HashMap;
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ringway_mem::fabric::Fabric;
use ringway_mem::pool::{PoolConfig, RingCounts};
use ringway_port::meeting;
use ringway_port::name::{RingsName, Scheme};
use ringway_port::registry::{self, Found};
use ringway_port::{Port, PortError, PortName, adopt_registration, monitor, open_in, open_name};

use crate::modules::bridge::Bridge;
use crate::{Switch, isolated, vale};

/// Slots of a ring and rings of a kind if the name does not say, as in netmap.
const SLOTS: u32 = 1024;
const RINGS: u32 = 1;
/// The memory of all ports of a switch: 128 with default rings have room. Only what is touched is used.
const MEMORY: PoolConfig = PoolConfig { buffers: 1 << 18, buffer_bytes: 2048, object_pages: 1 << 13 };

/// By name, each with the number of the pool of its ports.
type Switches = HashMap<String, (u64, Weak<Switch>)>;

/// Switches that this process is at.
static SWITCHES: Mutex<Option<Switches>> = Mutex::new(None);

/// Opens a port by name: those of switches here, all others where ports are.
///
/// # Errors
/// As for [`ringway_port::open`].
pub fn open(name: &str) -> Result<Port, PortError> {
    open_any(&name.parse()?)
}

/// Like [`open`], for a name that is already taken apart.
///
/// # Errors
/// As for [`open`].
pub fn open_any(name: &PortName) -> Result<Port, PortError> {
    let Scheme::Vale { switch } = &name.scheme else { return open_name(name) };
    refuse_options(name)?;
    if let Some(port) = isolated(switch, name)? {
        return Ok(port);
    }
    // Kept until the port is open: so long the switch stays.
    let found = registry::switch(&name.pool_name(), MEMORY)?;
    if let Some(region) = name.options.region.filter(|region| *region != registry::region_of(&found.pool)) {
        let why = format!("the switch's memory is region {}, not {region}", registry::region_of(&found.pool));
        return Err(PortError::refused(name.to_string(), why));
    }
    let mut port = match name.rings {
        _ if monitor::is_monitor(name.flags) => monitor::open(&found.pool, name)?,
        RingsName::Master(_) | RingsName::Slave(_) => open_in(&found.pool, &name.to_string())?,
        RingsName::AllNic | RingsName::Nic(_) => vale::open_shared(&self::switch(switch, &found)?, &found.pool, name)?,
        _ => return Err(PortError::refused(name.to_string(), "a port of a switch has no host rings")),
    };
    port.add_limit(found.limit);
    Ok(port)
}

/// The port at a switch that has a process of its own; none if this one has not.
fn isolated(switch: &str, name: &PortName) -> Result<Option<Port>, PortError> {
    let socket = meeting::folder().map(|folder| isolated::socket(&folder, &format!("vale{switch}")));
    let Some(socket) = socket.filter(|socket| socket.exists()) else { return Ok(None) };
    match name.rings {
        RingsName::AllNic => isolated::open(&socket, name),
        _ => {
            Err(PortError::refused(name.to_string(), "at an isolated switch a port has all of its rings, and no pipes"))
        }
    }
}

/// Options that mean nothing at a switch.
fn refuse_options(name: &PortName) -> Result<(), PortError> {
    let options = &name.options;
    let what = match () {
        () if options.offset.is_some() => "@offset",
        () if options.share.is_some() => "@share",
        () if options.extmem.is_some() => "@extmem",
        () => return Ok(()),
    };
    Err(PortError::refused(name.to_string(), format!("the ports of a switch lie in its own memory; leave {what} out")))
}

/// The port that a descriptor stands for which another process, or this one before it executed a program, opened.
///
/// # Errors
/// As for [`ringway_port::adopt`]; a port of a switch that this process cannot reach by the name under which it is met.
pub fn adopt(fd: OwnedFd) -> Result<Port, PortError> {
    let pool = registry::attach(fd.as_fd())?;
    let met_at = pool.met_at();
    let Some(switch) = met_at.strip_prefix("vale") else { return ringway_port::adopt(fd) };
    let registration = pool.registration_of(fd)?;
    // An end of a pipe, or a monitor.
    if pool.peer(registration.port()).is_some() {
        return adopt_registration(registration);
    }
    let name: PortName = format!("{met_at}:{}", pool.name(registration.port())?).parse()?;
    let found = registry::switch(&name.pool_name(), pool.config())?;
    if found.pool.id() != pool.id() {
        let why = "its switch is another process's, and only a monitor could lead there; start one";
        return Err(PortError::refused(name.to_string(), why));
    }
    vale::port_of(&self::switch(switch, &found)?, registration, name.to_string(), &|_, _| true)
}

/// The rings that a name asks for.
pub(crate) fn counts(name: &PortName) -> RingCounts {
    let conf = name.options.conf;
    let or = |n: u32, default: u32| if n == 0 { default } else { n };
    RingCounts {
        tx: or(conf.tx_rings, RINGS),
        rx: or(conf.rx_rings, RINGS),
        tx_slots: or(conf.tx_slots, SLOTS),
        rx_slots: or(conf.rx_slots, SLOTS),
        ..RingCounts::default()
    }
}

/// The switches that this process is at, by name.
pub(crate) fn switches() -> Vec<(String, Arc<Switch>)> {
    let switches = SWITCHES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = switches.iter().flatten();
    known.filter_map(|(name, (_, switch))| Some((name.clone(), switch.upgrade()?))).collect()
}

/// The switch of this name as this process sees it.
fn switch(name: &str, found: &Found) -> Result<Arc<Switch>, PortError> {
    let mut switches = SWITCHES.lock().unwrap_or_else(PoisonError::into_inner);
    let switches = switches.get_or_insert_default();
    let known = switches.get(name).filter(|(pool, _)| *pool == found.pool.id());
    if let Some(switch) = known.and_then(|(_, switch)| switch.upgrade()) {
        return Ok(switch);
    }
    switches.retain(|_, (_, switch)| switch.strong_count() > 0);
    let fabric = match &found.fabric {
        Some(fd) => fd.try_clone().map(Fabric::attach).map_err(|e| e.to_string()),
        None => Ok(Fabric::create()),
    };
    let fabric = fabric.and_then(|fabric| fabric.map_err(|e| e.to_string()));
    let fabric = fabric.map_err(|why| PortError::refused(format!("vale{name}"), why))?;
    let stations = Bridge::over(Stations(fabric.clone()));
    let switch = Switch::new(fabric, Arc::new(stations));
    switches.insert(name.to_owned(), (found.pool.id(), Arc::downgrade(&switch)));
    Ok(switch)
}

/// The bridge's table: common to all processes at the switch, since each learns from its own senders only.
struct Stations(Arc<Fabric>);

impl Deref for Stations {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        self.0.module_words()
    }
}
