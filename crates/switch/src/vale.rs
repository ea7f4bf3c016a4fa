//! Ports at a switch that run in their sender's context: the thread that syncs a tx ring copies its frames straight
//! into the receivers' rings. For users that trust each other; see [`served`](crate::served) for those that do not.

use std::sync::Arc;

use ringway_mem::pool::{Kind, Pool, RingCounts, Sharing};
use ringway_port::{Backend, Info, Port, PortError, RxKring, Transport, TxKring};

use crate::sender::Sender;
use crate::switch::Switch;

/// Longest frame that a switch forwards, in bytes: a full chain of fragments is longer in large buffers.
pub const FRAME_BYTES_MAX: u32 = 65_535;

/// How often a port's syncs look for ports whose users are gone, in nanoseconds.
const SWEEP_NS: u64 = 1_000_000_000;

/// The back end of a port at a switch. Dropping it detaches the port.
struct Vale {
    switch: Arc<Switch>,
    number: u8,
    senders: Vec<Sender>,
    /// When it looked last.
    swept_ns: u64,
}

/// Opens a new port of `pool` and attaches it to `switch`.
///
/// # Errors
/// The pool has no room for it, or the switch no place; a name that is in use.
pub fn open(switch: &Arc<Switch>, pool: &Arc<Pool>, name: &str, counts: RingCounts) -> Result<Port, PortError> {
    let refused = |e: crate::SwitchError| PortError::refused(name, e.to_string());
    switch.make_room(pool).map_err(refused)?;
    let registration = pool.open(name, counts, Sharing::Exclusive)?;
    let number = switch.attach(pool, registration.port()).map_err(refused)?;
    let senders = (0..counts.tx).map(|ring| Sender::new(switch, number, ring as u8, true)).collect();
    let backend = Vale { switch: switch.clone(), number, senders, swept_ns: 0 };
    let rings = [Kind::Tx, Kind::Rx].into_iter().flat_map(|kind| (0..counts.of(kind)).map(move |ring| (kind, ring)));
    let info = Info {
        name: name.to_owned(),
        counts,
        buffer_bytes: pool.config().buffer_bytes,
        transport: Transport::Copy,
        packet_bytes_max: FRAME_BYTES_MAX,
        vnet_header_bytes: 0,
        pool_id: pool.id(),
        limits: vec![],
    };
    Port::new(registration, &rings.collect(), Box::new(backend), info)
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

impl Drop for Vale {
    fn drop(&mut self) {
        // A stopped sender keeps the place; the next port that attaches tries again to free it.
        let _ = self.switch.detach(self.number);
    }
}
