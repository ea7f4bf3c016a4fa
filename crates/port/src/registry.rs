//! Where ports of one name meet: pools by name. Within a process a table is enough; between processes the monitor
//! hands them out ([`meeting`]).

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ringway_mem::pool::{Pool, PoolConfig};
use rustix::fs::{Mode, OFlags};

use crate::error::PortError;
use crate::meeting::message::{Request, What};
use crate::meeting::{self, Met};

/// Number of the memory region that all ports share which ask for it.
pub const SHARED_REGION: u16 = 1;

/// Pools by their names; see [`pool`].
type Pools = HashMap<String, Weak<Pool>>;

static POOLS: Mutex<Option<Pools>> = Mutex::new(None);

/// Memory found by a name. To be kept until a port of it is open: who opens none loses it to whoever asks next.
#[derive(Debug)]
pub struct Found {
    pub pool: Arc<Pool>,
    /// Of a switch at which other processes can be.
    pub fabric: Option<OwnedFd>,
    /// Why only ports of this process meet here, if others were to.
    pub limit: Option<String>,
    _lease: Option<OwnedFd>,
}

fn pools() -> MutexGuard<'static, Option<Pools>> {
    POOLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pool of this name; made if there is none, or none any more.
///
/// # Errors
/// The monitor refuses it: another user's, or a bound is reached.
pub fn pool(name: &str, config: PoolConfig) -> Result<Found, PortError> {
    find(What::Pool, name, config)
}

/// The pool for the ports of the switch of this name, with its fabric if other processes can be at it.
///
/// # Errors
/// As for [`pool`].
pub fn switch(name: &str, config: PoolConfig) -> Result<Found, PortError> {
    find(What::Switch, name, config)
}

fn find(what: What, name: &str, config: PoolConfig) -> Result<Found, PortError> {
    // Before the table is locked: another thread may fork.
    let met = meeting::meet(&Request { what, name: name.to_owned(), config })?;
    let Some(Met { memory, lease }) = met else { return own_pool(name, config) };
    let mut memory = memory.into_iter();
    let fd = memory.next().ok_or_else(|| PortError::refused(name, "the monitor sent no memory"))?;
    let pool = attached(fd.as_fd(), Some(name))?;
    pool.set_met_at(name);
    Ok(Found { pool, fabric: memory.next(), limit: None, _lease: Some(lease) })
}

fn own_pool(name: &str, config: PoolConfig) -> Result<Found, PortError> {
    let limit = meeting::place().map(|_| "no monitor answers: only ports of this process meet here".to_owned());
    let found = |pool| Found { pool, fabric: None, limit, _lease: None };
    let mut pools = pools();
    let pools = pools.get_or_insert_default();
    if let Some(pool) = pools.get(name).and_then(Weak::upgrade) {
        return Ok(found(pool));
    }
    pools.retain(|_, pool| pool.strong_count() > 0);
    let pool = Pool::create(config)?;
    pool.set_met_at(name);
    pools.insert(name.to_owned(), Arc::downgrade(&pool));
    Ok(found(pool))
}

/// Number of a pool's memory region, as netmap's programs know it: ports with the same number can swap buffers.
pub fn region_of(pool: &Pool) -> u16 {
    let shared = known(&region_name(SHARED_REGION)).is_some_and(|shared| shared.id() == pool.id());
    if shared { SHARED_REGION } else { (pool.id() % u64::from(u16::MAX - SHARED_REGION)) as u16 + SHARED_REGION + 1 }
}

/// Whether there is a region of this number, or would be if it were asked for.
pub fn is_region(number: u16) -> bool {
    let known: Vec<Arc<Pool>> = pools().iter().flat_map(HashMap::values).filter_map(Weak::upgrade).collect();
    number == SHARED_REGION || known.iter().any(|pool| region_of(pool) == number)
}

/// The pool whose region has this number; region 1 is made if it is not there.
///
/// # Errors
/// No port that this process knows has memory of that number.
pub fn region(number: u16, config: PoolConfig) -> Result<Found, PortError> {
    if number == SHARED_REGION {
        return pool(&region_name(number), config);
    }
    let all: Vec<Arc<Pool>> = pools().iter().flat_map(HashMap::values).filter_map(Weak::upgrade).collect();
    let pool = all.into_iter().find(|pool| region_of(pool) == number);
    let pool = pool
        .ok_or_else(|| PortError::refused(format!("@{number}"), "no open port has a memory region of this number"))?;
    Ok(Found { pool, fabric: None, limit: None, _lease: None })
}

/// The pool behind a descriptor from elsewhere; one that is known already is not mapped again.
pub fn attach(fd: BorrowedFd<'_>) -> Result<Arc<Pool>, PortError> {
    attached(fd, None)
}

/// Like [`attach`]; the pool is known by `name` from then on.
fn attached(fd: BorrowedFd<'_>, name: Option<&str>) -> Result<Arc<Pool>, PortError> {
    // A description of its own: what keeps a port open must be seen from the pool's as somebody else's.
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let fd = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| PortError::os("open a pool again", errno))?;
    let attached = Pool::attach(fd)?;
    let mut pools = pools();
    let pools = pools.get_or_insert_default();
    pools.retain(|_, pool| pool.strong_count() > 0);
    let known = pools
        .iter()
        .find_map(|(name, pool)| Some((name.clone(), pool.upgrade()?)).filter(|(_, pool)| pool.id() == attached.id()));
    let (known_as, pool) = known.unwrap_or_else(|| (format!("#{:016x}", attached.id()), attached));
    pools.insert(name.map_or(known_as, str::to_owned), Arc::downgrade(&pool));
    Ok(pool)
}

fn region_name(number: u16) -> String {
    format!("@{number}")
}

/// The pool of this name, if this process knows it.
pub fn known(name: &str) -> Option<Arc<Pool>> {
    pools().as_ref()?.get(name).and_then(Weak::upgrade)
}
