//! Where ports of one name meet: pools by name. Within a process a table is enough; between processes the monitor
//! hands them out.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ringway_mem::pool::{Pool, PoolConfig};
use rustix::fs::{Mode, OFlags};

use crate::error::PortError;

/// Number of the memory region that all ports share which ask for it.
pub const SHARED_REGION: u16 = 1;

static POOLS: Mutex<Option<HashMap<String, Weak<Pool>>>> = Mutex::new(None);

/// The pool of this name; made if there is none, or none any more.
pub fn pool(name: &str, config: PoolConfig) -> Result<Arc<Pool>, PortError> {
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    let pools = pools.get_or_insert_default();
    if let Some(pool) = pools.get(name).and_then(Weak::upgrade) {
        return Ok(pool);
    }
    pools.retain(|_, pool| pool.strong_count() > 0);
    let pool = Pool::create(config)?;
    pools.insert(name.to_owned(), Arc::downgrade(&pool));
    Ok(pool)
}

/// Number of a pool's memory region, as netmap's programs know it: ports with the same number can swap buffers.
pub fn region_of(pool: &Pool) -> u16 {
    let shared = known(&region_name(SHARED_REGION)).is_some_and(|shared| shared.id() == pool.id());
    if shared { SHARED_REGION } else { (pool.id() % u64::from(u16::MAX - SHARED_REGION)) as u16 + SHARED_REGION + 1 }
}

/// The pool whose region has this number; region 1 is made if it is not there.
///
/// # Errors
/// No port that this process knows has memory of that number.
pub fn region(number: u16, config: PoolConfig) -> Result<Arc<Pool>, PortError> {
    if number == SHARED_REGION {
        return pool(&region_name(number), config);
    }
    let all: Vec<Arc<Pool>> = {
        let pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        pools.iter().flat_map(HashMap::values).filter_map(Weak::upgrade).collect()
    };
    let found = all.into_iter().find(|pool| region_of(pool) == number);
    found.ok_or_else(|| PortError::refused(format!("@{number}"), "no open port has a memory region of this number"))
}

/// The pool behind a descriptor from elsewhere; one that is known already is not mapped again.
pub fn attach(fd: BorrowedFd<'_>) -> Result<Arc<Pool>, PortError> {
    // A description of its own: what keeps a port open must be seen from the pool's as somebody else's.
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let fd = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| PortError::os("open a pool again", errno))?;
    let attached = Pool::attach(fd)?;
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    let pools = pools.get_or_insert_default();
    if let Some(known) = pools.values().filter_map(Weak::upgrade).find(|pool| pool.id() == attached.id()) {
        return Ok(known);
    }
    pools.insert(format!("#{:016x}", attached.id()), Arc::downgrade(&attached));
    Ok(attached)
}

fn region_name(number: u16) -> String {
    format!("@{number}")
}

/// The pool of this name, if there is one.
pub fn known(name: &str) -> Option<Arc<Pool>> {
    let pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    pools.as_ref()?.get(name).and_then(Weak::upgrade)
}
