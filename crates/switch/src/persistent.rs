//! Persistent interfaces: ports that stay at their switch though nobody has them open (VALE_NEWIF, VALE_ATTACH). Frames to
//! them wait in their rings. They end with the process that made them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ringway_port::name::{Conf, Scheme};
use ringway_port::{Port, PortError, PortName};

use crate::names::open_any;

/// Persistent interfaces of a process at most.
const INTERFACES_MAX: usize = 1024;

/// One of them, and its port if it is at a switch.
struct Interface {
    conf: Conf,
    attached: Option<Port>,
}

/// Why it cannot be made, removed, attached or detached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfaceError {
    /// There is an interface of this name.
    Exists,
    /// There is no persistent interface of this name, or it is not at that switch.
    Unknown,
    /// It is at a switch, or somebody uses its port there.
    Busy,
    /// The process has 1024 of them, its most.
    Full,
    /// Its port cannot be opened.
    Port(PortError),
}

static INTERFACES: Mutex<Option<HashMap<String, Interface>>> = Mutex::new(None);

struct Held(MutexGuard<'static, Option<HashMap<String, Interface>>>);

impl Held {
    fn table(&mut self) -> &mut HashMap<String, Interface> {
        self.0.get_or_insert_default()
    }
}

fn interfaces() -> Held {
    Held(INTERFACES.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Makes one, with rings as `conf` says.
pub fn create(name: &str, conf: Conf) -> Result<(), InterfaceError> {
    let mut held = interfaces();
    let table = held.table();
    if table.contains_key(name) || std::path::Path::new("/sys/class/net").join(name).exists() {
        return Err(InterfaceError::Exists);
    }
    if table.len() == INTERFACES_MAX {
        return Err(InterfaceError::Full);
    }
    table.insert(name.to_owned(), Interface { conf, attached: None });
    Ok(())
}

/// Removes one that is at no switch.
pub fn remove(name: &str) -> Result<(), InterfaceError> {
    let mut held = interfaces();
    match held.table().get(name) {
        None => Err(InterfaceError::Unknown),
        Some(Interface { attached: Some(_), .. }) => Err(InterfaceError::Busy),
        Some(_) => {
            held.table().remove(name);
            Ok(())
        }
    }
}

/// Attaches interface P to switch S, as `valeS:P` says.
pub fn attach(name: &PortName) -> Result<(), InterfaceError> {
    let mut held = interfaces();
    let interface = held.table().get_mut(&name.port).ok_or(InterfaceError::Unknown)?;
    if interface.attached.is_some() {
        return Err(InterfaceError::Busy);
    }
    let mut wanted = name.clone();
    wanted.options.conf = interface.conf;
    interface.attached = Some(open_any(&wanted).map_err(InterfaceError::Port)?);
    Ok(())
}

/// Takes interface P off switch S.
pub fn detach(name: &PortName) -> Result<(), InterfaceError> {
    let mut held = interfaces();
    let interface = held.table().get_mut(&name.port).ok_or(InterfaceError::Unknown)?;
    let port = interface.attached.as_ref().ok_or(InterfaceError::Unknown)?;
    let Scheme::Vale { switch } = &name.scheme else { return Err(InterfaceError::Unknown) };
    if port.pool().met_at() != format!("vale{switch}") {
        return Err(InterfaceError::Unknown);
    }
    if port.registration().is_shared() {
        return Err(InterfaceError::Busy);
    }
    interface.attached = None;
    Ok(())
}
