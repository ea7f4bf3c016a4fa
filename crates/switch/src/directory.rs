//! What is known of switches by their names: who is at them, and what their ports' frames begin with.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ringway_mem::fabric::Seat;
use ringway_port::PortName;
use ringway_port::name::Scheme;

use crate::Switch;
use crate::names::switches;

/// A port at a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// `valeS:P`
    pub name: String,
    /// Position of its switch among those that this process is at, by name.
    pub switch: usize,
    /// Its number at the switch.
    pub port: u8,
}

/// All ports of the switches that this process is at, by the switches' names and the ports' numbers.
pub fn members() -> Vec<Member> {
    let mut switches = switches();
    switches.sort_by(|(a, _), (b, _)| a.cmp(b));
    let of_switch = |(switch, (name, at)): (usize, &(String, Arc<Switch>))| {
        let ports = at.ports().into_iter();
        ports
            .map(|(port, port_name)| Member { name: format!("vale{name}:{port_name}"), switch, port })
            .collect::<Vec<_>>()
    };
    switches.iter().enumerate().flat_map(of_switch).collect()
}

/// Calls `look` with the seat of a port; None if this process knows no such port.
fn with_seat<T>(name: &PortName, look: impl FnOnce(&Switch, &Seat) -> T) -> Option<T> {
    let Scheme::Vale { switch: wanted } = &name.scheme else { return None };
    let switch = switches().into_iter().find_map(|(name, switch)| (name == *wanted).then_some(switch))?;
    let (number, _) = switch.ports().into_iter().find(|(_, port)| *port == name.port_name())?;
    Some(look(&switch, &switch.fabric().seats()[usize::from(number)]))
}

/// Bytes of the virtio-net header with which frames of a port begin; None if there is no such port.
pub fn header_bytes(name: &PortName) -> Option<u32> {
    with_seat(name, |_, seat| seat.vnet_header_bytes.load(Relaxed))
}

/// From now on frames of a port begin with a header of 0, 10 or 12 bytes; false if there is no such port.
pub fn set_header_bytes(name: &PortName, bytes: u32) -> bool {
    let set = with_seat(name, |switch, seat| {
        seat.vnet_header_bytes.store(bytes, Relaxed);
        switch.fabric().changed();
    });
    set.is_some()
}
