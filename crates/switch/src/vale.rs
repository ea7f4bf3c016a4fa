//! Ports at a switch that run in their sender's context: the thread that syncs a tx ring copies its frames straight
//! into the receivers' rings. For users that trust each other; see [`served`](crate::served) for those that do not.

use std::sync::Arc;

use ringway_mem::fabric::SWITCH_RINGS_MAX;
use ringway_mem::pool::{Kind, Pool, Registration, RingCounts, Sharing};
use ringway_port::name::RingsName;
use ringway_port::{Backend, Info, Port, PortError, PortName, RxKring, Transport, TxKring};

use crate::names::counts;
use crate::sender::Sender;
use crate::switch::Switch;

/// Longest frame that a switch forwards, in bytes: a full chain of fragments is longer in large buffers.
pub const FRAME_BYTES_MAX: u32 = 65_535;

/// How often a port's syncs look for ports whose users are gone, in nanoseconds.
const SWEEP_NS: u64 = 1_000_000_000;

/// The back end of a port at a switch.
struct Vale {
    switch: Arc<Switch>,
    number: u8,
    senders: Vec<Sender>,
    /// When it looked last.
    swept_ns: u64,
}

/// Detaches the port when its last user has closed it, whichever of those that share it that is.
struct Place {
    switch: Arc<Switch>,
    number: u8,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.switch.let_go(self.number);
    }
}

/// Opens a new port of `pool` for this user alone and attaches it to `switch`.
///
/// # Errors
/// The pool has no room for it, or the switch no place; a name that is in use.
pub fn open(switch: &Arc<Switch>, pool: &Arc<Pool>, name: &str, counts: RingCounts) -> Result<Port, PortError> {
    let registration = register(switch, pool, name, counts, Sharing::Exclusive)?;
    port_of(switch, registration, name.to_owned(), &|_, _| true)
}

/// Opens the port of this name, which others may have open, too; the first of them attaches it to `switch`.
///
/// # Errors
/// As for [`open`]; a ring that the port does not have.
pub(crate) fn open_shared(switch: &Arc<Switch>, pool: &Arc<Pool>, name: &PortName) -> Result<Port, PortError> {
    let sharing = if name.flags.exclusive { Sharing::Exclusive } else { Sharing::Shared };
    let registration = register(switch, pool, &name.port_name(), counts(name), sharing)?;
    let only = if let RingsName::Nic(ring) = name.rings { Some(u32::from(ring)) } else { None };
    let flags = name.flags;
    let uses = |kind: Kind, ring: u32| {
        let side = if kind.sends() { !flags.rx_only } else { !flags.tx_only };
        side && only.is_none_or(|only| only == ring)
    };
    let port = port_of(switch, registration, name.to_string(), &uses)?;
    let rings = port.info().counts.tx.max(port.info().counts.rx);
    only.filter(|ring| *ring >= rings).map_or(Ok(port), |ring| Err(PortError::NoRing { ring, rings }))
}

fn register(
    switch: &Arc<Switch>,
    pool: &Arc<Pool>,
    name: &str,
    counts: RingCounts,
    sharing: Sharing,
) -> Result<Registration, PortError> {
    let most = counts.tx.max(counts.rx);
    if most > SWITCH_RINGS_MAX {
        let why = format!("a port of a switch has at most {SWITCH_RINGS_MAX} rings of a kind, not {most}");
        return Err(PortError::refused(name, why));
    }
    switch.make_room(pool).map_err(|e| PortError::refused(name, e.to_string()))?;
    Ok(pool.open(name, counts, sharing)?)
}

/// The port that a registration stands for, to be called `name`, with those of its rings that `uses` names.
pub(crate) fn port_of(
    switch: &Arc<Switch>,
    registration: Registration,
    name: String,
    uses: &dyn Fn(Kind, u32) -> bool,
) -> Result<Port, PortError> {
    let number = switch.join(&registration).map_err(|e| PortError::refused(&name, e.to_string()))?;
    let place = Place { switch: switch.clone(), number };
    let pool = registration.pool();
    let counts = pool.counts(registration.port())?;
    let wanted = |kind| (0..counts.of(kind)).filter(move |ring| uses(kind, *ring));
    let senders = wanted(Kind::Tx).map(|ring| Sender::new(switch, number, ring as u8, true)).collect();
    let backend = Vale { switch: switch.clone(), number, senders, swept_ns: 0 };
    let rings = [Kind::Tx, Kind::Rx].into_iter().flat_map(|kind| wanted(kind).map(move |ring| (kind, ring)));
    let info = Info {
        name,
        counts,
        buffer_bytes: pool.config().buffer_bytes,
        transport: Transport::Copy,
        packet_bytes_max: FRAME_BYTES_MAX,
        vnet_header_bytes: 0,
        pool_id: pool.id(),
        limits: vec![],
    };
    let mut port = Port::new(registration, &rings.collect(), Box::new(backend), info)?;
    port.keep(place);
    Ok(port)
}

impl Backend for Vale {
    fn sync_tx(&mut self, ring: usize, tx: &TxKring, now_ns: u64) -> Result<(), PortError> {
        self.sweep(now_ns);
        if let Some(sender) = self.senders.get_mut(ring) {
            sender.forward(tx, now_ns);
        }
        Ok(())
    }

    fn sync_rx(&mut self, _ring: usize, _rx: &RxKring, _released: u32, now_ns: u64) -> Result<(), PortError> {
        self.sweep(now_ns);
        // Senders have filled the ring already, and see from `hwcur` what was given back.
        Ok(())
    }

    fn sender_died(&mut self, ring: usize) {
        if let Some(ring) = self.senders.get(ring).map(Sender::ring) {
            self.switch.release_leases_of(self.number, ring..ring + 1);
        }
    }
}

impl Vale {
    #[inline]
    fn sweep(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.swept_ns) >= SWEEP_NS {
            self.swept_ns = now_ns;
            self.switch.sweep_in_passing();
        }
    }
}
