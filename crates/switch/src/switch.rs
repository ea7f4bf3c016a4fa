//! A switch: the ports that sit at it, coming and going while traffic flows.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringway_mem::fabric::{Fabric, FabricError, SWITCH_PORTS_MAX, SWITCH_RINGS_MAX, Seat};
use ringway_mem::pool::{Kind, Pool, PortId, Registration, Ring};

use crate::forward::Forward;
use crate::receiver::{Receiver, header_bytes};

/// How long a detaching port waits for senders that are copying to it, in milliseconds.
const QUIET_MS: u64 = 1000;

/// Why a port cannot come or go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwitchError {
    /// The shared memory of the switch.
    Fabric(FabricError),
    /// All 254 places are taken.
    Full,
    /// The port is of a pool that this switch does not know.
    NoPool(u64),
    /// No port of that number.
    NoPort(u32),
    /// Another process keeps the switch's control lock.
    Stuck,
    /// A sender, alive but stopped, holds slots of the port.
    Busy(u32),
}

impl std::fmt::Display for SwitchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fabric(e) => e.fmt(f),
            Self::Full => write!(f, "the switch has {SWITCH_PORTS_MAX} ports already, its most"),
            Self::NoPool(id) => write!(f, "the port's pool {id:016x} is not mapped here; add it to the switch first"),
            Self::NoPort(port) => write!(f, "the switch has no port {port}"),
            Self::Stuck => write!(f, "another process keeps the switch locked"),
            Self::Busy(port) => {
                write!(f, "port {port} is being delivered to by a stopped process; let it go on or end it, then retry")
            }
        }
    }
}

impl std::error::Error for SwitchError {}

impl From<FabricError> for SwitchError {
    fn from(e: FabricError) -> Self {
        SwitchError::Fabric(e)
    }
}

/// A switch as this process sees it: shared state, the pools of its ports, and the module that forwards.
pub struct Switch {
    fabric: Arc<Fabric>,
    module: Arc<dyn Forward>,
    pools: Mutex<Vec<Arc<Pool>>>,
}

/// The ports as of a generation.
#[derive(Default)]
pub(crate) struct Ports {
    generation: u32,
    /// Numbers of the ports, ascending.
    pub(crate) numbers: Vec<u8>,
    /// The rx rings of each port, by its number.
    pub(crate) receivers: Vec<Vec<Receiver>>,
    /// Bytes of the virtio-net header of each port's frames, by its number.
    headers: Vec<u32>,
}

impl Ports {
    #[inline]
    pub(crate) fn header_bytes(&self, number: u8) -> u32 {
        self.headers.get(usize::from(number)).copied().unwrap_or_default()
    }
}

impl Switch {
    /// A switch over shared state that this process made or was given.
    pub fn new(fabric: Arc<Fabric>, module: Arc<dyn Forward>) -> Arc<Switch> {
        Arc::new(Switch { fabric, module, pools: Mutex::default() })
    }

    pub fn fabric(&self) -> &Arc<Fabric> {
        &self.fabric
    }

    pub fn module(&self) -> &dyn Forward {
        &*self.module
    }

    /// Tells where the ports of one more pool lie. A port whose pool is unknown here gets nothing from this process.
    pub fn add_pool(&self, pool: &Arc<Pool>) {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if !pools.iter().any(|known| known.id() == pool.id()) {
            pools.push(pool.clone());
            // Ports of it that came before are known from now on.
            self.fabric.changed();
        }
    }

    /// Forgets a pool, of which no port is at the switch any more.
    pub fn forget_pool(&self, id: u64) {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner).retain(|pool| pool.id() != id);
    }

    fn pool(&self, id: u64) -> Option<Arc<Pool>> {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.iter().find(|pool| pool.id() == id).cloned()
    }

    /// Gives a port the lowest free number. From now on frames come to its first 16 rx rings.
    ///
    /// # Errors
    /// No place, unknown pool, or a switch that is stuck.
    pub fn attach(&self, pool: &Arc<Pool>, port: PortId) -> Result<u8, SwitchError> {
        self.attach_unless(pool, port, false)
    }

    /// The number of a port that somebody else may have attached already; attaches it if not.
    ///
    /// # Errors
    /// As [`Switch::attach`].
    pub fn join(&self, registration: &Registration) -> Result<u8, SwitchError> {
        self.attach_unless(registration.pool(), registration.port(), registration.is_shared())
    }

    fn attach_unless(&self, pool: &Arc<Pool>, port: PortId, is_shared: bool) -> Result<u8, SwitchError> {
        self.make_room(pool)?;
        let _control = self.fabric.control().map_err(|_| SwitchError::Stuck)?;
        let seats = self.fabric.seats();
        match seats.iter().position(|seat| seat.occupant() == Some((pool.id(), port))) {
            Some(number) if is_shared => return Ok(number as u8),
            // It was opened anew before its place was free, and is as its dead user left it.
            Some(dead) => return Err(SwitchError::Busy(dead as u32)),
            None => {}
        }
        let number = seats.iter().position(|seat| seat.occupant().is_none()).ok_or(SwitchError::Full)?;
        pool.port_record(port).map_err(|_| SwitchError::NoPort(port.0))?.pin(true);
        for (index, ring) in rx_rings(pool, port).into_iter().enumerate() {
            let leases = self.fabric.leases(number as u32, index as u32);
            leases.open(Receiver::new(&self.fabric, number as u32, index as u32, ring).ends());
        }
        seats[number].vnet_header_bytes.store(0, Relaxed);
        seats[number].take(pool.id(), port);
        self.fabric.changed();
        Ok(number as u8)
    }

    /// Before a port of `pool` is opened and attached: ports whose users are gone go first, one of the same name among
    /// them.
    ///
    /// # Errors
    /// A switch that is stuck.
    pub fn make_room(&self, pool: &Arc<Pool>) -> Result<(), SwitchError> {
        self.add_pool(pool);
        match self.sweep() {
            // Another port's stopped sender is no reason to refuse this one.
            Ok(()) | Err(SwitchError::Busy(_)) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Takes a port away: no more frames are begun to it, and those under way are finished before this returns.
    ///
    /// # Errors
    /// A stopped sender that holds slots of the port; the port then stays closed and this may be tried again.
    pub fn detach(&self, number: u8) -> Result<(), SwitchError> {
        let _control = self.fabric.control().map_err(|_| SwitchError::Stuck)?;
        self.detach_under_lock(number, Duration::from_millis(QUIET_MS))
    }

    /// Under the control lock; waits for senders no longer than `patience`.
    fn detach_under_lock(&self, number: u8, patience: Duration) -> Result<(), SwitchError> {
        let seat = self.fabric.seats().get(usize::from(number)).ok_or(SwitchError::NoPort(number.into()))?;
        let (pool, port) = seat.occupant().ok_or(SwitchError::NoPort(number.into()))?;
        let pool = self.pool(pool).ok_or(SwitchError::NoPool(pool))?;
        let rings = rx_rings(&pool, port).into_iter().enumerate();
        let receivers: Vec<Receiver> =
            rings.map(|(index, ring)| Receiver::new(&self.fabric, number.into(), index as u32, ring)).collect();
        receivers.iter().for_each(|receiver| receiver.leases().close());
        self.fabric.changed();
        self.release_leases_of(number, 0..SWITCH_RINGS_MAX as u8);
        self.wait_until_quiet(number, &receivers, patience)?;
        seat.leave();
        self.module.port_left(number);
        self.fabric.changed();
        if let Ok(record) = pool.port_record(port) {
            record.pin(false);
        }
        Ok(())
    }

    /// Detaches ports whose last user is gone, so that their memory can be reclaimed.
    ///
    /// # Errors
    /// As [`Switch::detach`].
    pub fn sweep(&self) -> Result<(), SwitchError> {
        for number in self.dead_ports() {
            let control = self.fabric.control().map_err(|_| SwitchError::Stuck)?;
            let pool = self.detach_dead(number, Duration::from_millis(QUIET_MS))?;
            drop(control);
            if let Some(pool) = pool {
                let _ = pool.reap();
            }
        }
        Ok(())
    }

    /// Like [`Switch::sweep`], for those who pass by with packets: waits for nobody, and what is busy is left for the
    /// next time.
    pub fn sweep_in_passing(&self) {
        for number in self.dead_ports() {
            let Some(control) = self.fabric.try_control() else { return };
            let swept = self.detach_dead(number, Duration::ZERO);
            drop(control);
            if let Ok(Some(pool)) = swept {
                pool.try_reap();
            }
        }
    }

    /// Numbers of ports whose last user is gone.
    fn dead_ports(&self) -> Vec<u8> {
        let numbers = 0..self.fabric.seats().len() as u8;
        numbers.filter(|number| self.pool_of_dead(*number).is_some()).collect()
    }

    fn pool_of_dead(&self, number: u8) -> Option<Arc<Pool>> {
        let (pool, port) = self.fabric.seats().get(usize::from(number))?.occupant()?;
        self.pool(pool).filter(|pool| !pool.is_open(port))
    }

    /// Under the control lock: detaches the port if it is (still) dead, and returns its pool.
    fn detach_dead(&self, number: u8, patience: Duration) -> Result<Option<Arc<Pool>>, SwitchError> {
        let Some(pool) = self.pool_of_dead(number) else { return Ok(None) };
        self.detach_under_lock(number, patience).map(|()| Some(pool))
    }

    /// Detaches a port if its last user is gone.
    pub(crate) fn let_go(&self, number: u8) {
        let Ok(control) = self.fabric.control() else { return };
        let detached = self.detach_dead(number, Duration::from_millis(QUIET_MS));
        drop(control);
        // A stopped sender keeps the place; the next port that attaches tries again to free it.
        if let Ok(Some(pool)) = detached {
            let _ = pool.reap();
        }
    }

    /// Ends what a sender that is gone had leased: the slots are blanked and shown, and who waited behind them goes on.
    pub(crate) fn release_leases_of(&self, number: u8, rings: Range<u8>) {
        let ports = self.read_ports();
        let owners = rings.map(|ring| owner_of(number, ring));
        for (owner, receiver) in owners.flat_map(|owner| ports.receivers.iter().flatten().map(move |r| (owner, r))) {
            while let Some(lease) = receiver.leases().inherit(receiver.ends(), owner, owner) {
                receiver.blank(lease.first, lease.slots);
                receiver.finish(lease);
            }
        }
    }

    /// If the oldest lease of a ring is a dead sender's, ends what that one has leased.
    pub(crate) fn unblock(&self, receiver: &Receiver) {
        let Some(owner) = receiver.leases().blocker(receiver.ends()) else { return };
        let Some((number, ring)) = sender_of(owner) else { return };
        let seat = self.fabric.seats().get(usize::from(number));
        let Some((pool, port)) = seat.and_then(|seat| seat.occupant()) else { return };
        let Some(pool) = self.pool(pool) else { return };
        if !pool.is_open(port) {
            return self.release_leases_of(number, ring..ring + 1);
        }
        // The port lives on with another user of it, who has not synced this ring since.
        let Some(tx) = pool.ring(port, Kind::Tx, ring.into()) else { return };
        let lock = &tx.kring().own.lock;
        let held = lock.holder_died().then(|| lock.try_lock()).flatten();
        if held.as_ref().is_some_and(|held| held.owner_died()) {
            self.release_leases_of(number, ring..ring + 1);
        }
    }

    fn wait_until_quiet(&self, number: u8, receivers: &[Receiver], patience: Duration) -> Result<(), SwitchError> {
        let deadline = Instant::now() + patience;
        for receiver in receivers {
            while !receiver.leases().is_quiet() {
                self.unblock(receiver);
                if receiver.leases().is_quiet() {
                    break;
                }
                if Instant::now() >= deadline {
                    return Err(SwitchError::Busy(number.into()));
                }
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Numbers and names of the ports whose pools are known here, ascending.
    pub fn ports(&self) -> Vec<(u8, String)> {
        let seats = self.fabric.seats().iter().enumerate();
        let named = |(number, seat): (usize, &Seat)| {
            let (pool, port) = seat.occupant()?;
            Some((number as u8, self.pool(pool)?.name(port).ok()?))
        };
        seats.filter_map(named).collect()
    }

    /// Brings `ports` up to date if a port has come or gone.
    #[inline]
    pub(crate) fn refresh(&self, ports: &mut Ports) {
        if ports.generation != self.fabric.generation() || ports.receivers.is_empty() {
            *ports = self.read_ports();
        }
    }

    fn read_ports(&self) -> Ports {
        // Whatever changes while this reads moves the generation on, and the next batch reads again.
        let generation = self.fabric.generation();
        let (mut numbers, mut receivers) = (Vec::new(), Vec::new());
        for (number, seat) in self.fabric.seats().iter().enumerate() {
            let occupant = seat.occupant().and_then(|(pool, port)| Some((self.pool(pool)?, port)));
            let rings = occupant.map_or(vec![], |(pool, port)| rx_rings(&pool, port));
            let of_ring = |(index, ring)| Receiver::new(&self.fabric, number as u32, index as u32, ring);
            let of_port: Vec<Receiver> = rings.into_iter().enumerate().map(of_ring).collect();
            if !of_port.is_empty() {
                numbers.push(number as u8);
            }
            receivers.push(of_port);
        }
        let headers = (0..receivers.len() as u32).map(|number| header_bytes(&self.fabric, number)).collect();
        Ports { generation, numbers, receivers, headers }
    }
}

/// The number of a port's tx ring in the books of leases; 0 is nobody.
pub(crate) fn owner_of(number: u8, ring: u8) -> u32 {
    u32::from(number) * SWITCH_RINGS_MAX + u32::from(ring) % SWITCH_RINGS_MAX + 1
}

/// The port and ring that have this number in the books.
fn sender_of(owner: u32) -> Option<(u8, u8)> {
    let sender = owner.checked_sub(1)?;
    Some((u8::try_from(sender / SWITCH_RINGS_MAX).ok()?, (sender % SWITCH_RINGS_MAX) as u8))
}

fn rx_rings(pool: &Arc<Pool>, port: PortId) -> Vec<Ring> {
    (0..SWITCH_RINGS_MAX).map_while(|index| pool.ring(port, Kind::Rx, index)).collect()
}
