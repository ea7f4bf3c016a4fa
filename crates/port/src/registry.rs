//! Where ports of one name meet: pools by name. Within a process a table is enough; between processes the monitor
//! hands them out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ringway_mem::pool::{Pool, PoolConfig};

use crate::error::PortError;

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
