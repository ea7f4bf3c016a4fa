//! What ports there are: those at the monitor's names, with what went through them, and what the keeper holds.

use std::path::Path;

use anyhow::Result;
use ringway_daemon::control::{Control, Meeting};
use ringway_mem::fabric::Fabric;
use ringway_mem::pool::{Kind, Pool, PoolConfig, PortId};
use ringway_port::meeting::meet_in;
use ringway_port::registry;
use serde::Serialize;

use crate::keeper::{Held, Request, ask};

/// All that is known.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Inventory {
    pub(crate) schema: u32,
    pub(crate) names: Vec<Name>,
    pub(crate) held: Vec<Held>,
}

/// A name of the monitor's.
#[derive(Debug, Serialize)]
pub(crate) struct Name {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) is_switch: bool,
    pub(crate) memory_bytes: u64,
    /// Why its ports cannot be looked at.
    pub(crate) closed: Option<String>,
    pub(crate) ports: Vec<PortEntry>,
}

/// A port at a name.
#[derive(Debug, Serialize)]
pub(crate) struct PortEntry {
    pub(crate) port: String,
    /// Its number at the switch.
    pub(crate) number: Option<usize>,
    pub(crate) is_open: bool,
    pub(crate) tx_rings: u32,
    pub(crate) rx_rings: u32,
    pub(crate) tx_slots: u32,
    pub(crate) rx_slots: u32,
    pub(crate) tx: Totals,
    pub(crate) rx: Totals,
}

/// What went through all rings of a kind.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Totals {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) dropped: u64,
}

impl Inventory {
    /// Looks at the monitor and the keeper of `folder`; where there is none, there is nothing.
    ///
    /// # Errors
    /// One of them says nothing, or not what it should.
    pub(crate) fn take(folder: &Path) -> Result<Inventory> {
        let held = ask(folder, &Request::Show)?.map_or(vec![], |answer| answer.held);
        let meetings = match Control::connect(folder) {
            Ok(mut control) => control.meetings()?.meetings,
            Err(_) => vec![],
        };
        meet_in(folder);
        Ok(Inventory { schema: 1, names: meetings.into_iter().map(Name::look).collect(), held })
    }

    /// Only what belongs to this name: a name of the monitor's, a port at one, or a thing held.
    pub(crate) fn only(mut self, wanted: &str) -> Inventory {
        for name in &mut self.names {
            if name.name != wanted {
                let of_switch = wanted.strip_prefix(&name.name).and_then(|rest| rest.strip_prefix(':'));
                name.ports.retain(|port| port.port == wanted || of_switch == Some(&port.port));
            }
        }
        self.names.retain(|name| name.name == wanted || !name.ports.is_empty());
        self.held.retain(|held| {
            held.name == wanted || held.name.split_once(':').is_some_and(|(switch, _)| switch == wanted)
        });
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.held.is_empty()
    }
}

impl Name {
    fn look(meeting: Meeting) -> Name {
        let Meeting { name, uid, is_switch, memory_bytes } = meeting;
        // The size matters to those who come first only.
        let found = if is_switch {
            registry::switch(&name, PoolConfig::default())
        } else {
            registry::pool(&name, PoolConfig::default())
        };
        let (ports, closed) = match found {
            Ok(found) => {
                let fabric = found.fabric.and_then(|fd| Fabric::attach(fd).ok());
                (entries(&found.pool, fabric.as_deref()), None)
            }
            Err(e) => (vec![], Some(e.to_string())),
        };
        Name { name, uid, is_switch, memory_bytes, closed, ports }
    }
}

fn entries(pool: &std::sync::Arc<Pool>, fabric: Option<&Fabric>) -> Vec<PortEntry> {
    let entry = |port: PortId| {
        let counts = pool.counts(port).ok()?;
        let seat = fabric.and_then(|f| f.seats().iter().position(|seat| seat.occupant() == Some((pool.id(), port))));
        Some(PortEntry {
            port: pool.name(port).ok()?,
            number: seat,
            is_open: pool.is_open(port),
            tx_rings: counts.tx,
            rx_rings: counts.rx,
            tx_slots: counts.tx_slots,
            rx_slots: counts.rx_slots,
            tx: totals(pool, port, Kind::Tx, counts.tx),
            rx: totals(pool, port, Kind::Rx, counts.rx),
        })
    };
    pool.ports().filter_map(entry).collect()
}

fn totals(pool: &std::sync::Arc<Pool>, port: PortId, kind: Kind, rings: u32) -> Totals {
    use std::sync::atomic::Ordering::Relaxed;
    let mut all = Totals::default();
    for ring in (0..rings).filter_map(|ring| pool.ring(port, kind, ring)) {
        let own = &ring.kring().own;
        all.packets += own.packets.load(Relaxed);
        all.bytes += own.bytes.load(Relaxed);
        all.dropped += own.dropped.load(Relaxed);
    }
    all
}
