//! Switch ports by name: the switches that this process has open, each a learning bridge in its senders' context.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ringway_mem::fabric::Fabric;
use ringway_mem::pool::{PoolConfig, RingCounts};
use ringway_port::name::{RingsName, Scheme};
use ringway_port::{Port, PortError, PortName, open_in, open_name, registry};
use ringway_switch::modules::bridge::Bridge;
use ringway_switch::{Switch, vale};

/// Slots of a ring and rings of a kind if the request does not say, as in netmap.
const SLOTS: u32 = 1024;
const RINGS: u32 = 1;
/// Addresses that a bridge remembers, as in netmap.
const STATIONS: usize = 1024;

static SWITCHES: Mutex<Option<HashMap<String, Weak<Switch>>>> = Mutex::new(None);

/// Opens any port: those of switches here, the others where ports are.
pub(crate) fn open(name: &PortName) -> Result<Port, PortError> {
    let Scheme::Vale { switch } = &name.scheme else { return open_name(name) };
    let conf = name.options.conf;
    let or = |n: u32, default: u32| if n == 0 { default } else { n };
    let counts = RingCounts {
        tx: or(conf.tx_rings, RINGS),
        rx: or(conf.rx_rings, RINGS),
        tx_slots: or(conf.tx_slots, SLOTS),
        rx_slots: or(conf.rx_slots, SLOTS),
        ..RingCounts::default()
    };
    let pool = match name.options.region {
        Some(region) => registry::region(region, PoolConfig::default())?,
        None => registry::pool(&name.pool_name(), PoolConfig::default())?,
    };
    match name.rings {
        RingsName::Master(_) | RingsName::Slave(_) => open_in(&pool, &name.to_string()),
        RingsName::AllNic | RingsName::Nic(_) => vale::open(&self::switch(switch)?, &pool, &name.port_name(), counts),
        _ => Err(PortError::refused(name.to_string(), "a port of a switch has no host rings")),
    }
}

/// The switch of this name; made if no port of it is open.
fn switch(name: &str) -> Result<Arc<Switch>, PortError> {
    let mut switches = SWITCHES.lock().unwrap_or_else(PoisonError::into_inner);
    let switches = switches.get_or_insert_default();
    if let Some(switch) = switches.get(name).and_then(Weak::upgrade) {
        return Ok(switch);
    }
    switches.retain(|_, switch| switch.strong_count() > 0);
    let fabric = Fabric::create().map_err(|e| PortError::refused(format!("vale{name}"), e.to_string()))?;
    let switch = Switch::new(fabric, Arc::new(Bridge::new(STATIONS)));
    switches.insert(name.to_owned(), Arc::downgrade(&switch));
    Ok(switch)
}
