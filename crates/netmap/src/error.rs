//! Errors of ports as the errno that netmap would answer.

use ringway_mem::pool::PoolError;
use ringway_mem::region::RegionError;
use ringway_port::PortError;
use rustix::io::Errno;

/// The errno that stands for an error of a port.
pub(crate) fn errno(e: &PortError) -> Errno {
    match e {
        PortError::Name(_) | PortError::Ring { .. } | PortError::NoRing { .. } => Errno::INVAL,
        PortError::Pool(e) => pool_errno(e),
        PortError::Refused { .. } => Errno::NXIO,
        PortError::Os { errno, .. } => *errno,
        PortError::Busy => Errno::BUSY,
    }
}

/// The errno that stands for an error of a pool.
pub(crate) fn pool_errno(e: &PoolError) -> Errno {
    match e {
        PoolError::Busy(_) | PoolError::Stuck => Errno::BUSY,
        PoolError::PortsExhausted | PoolError::ObjectsExhausted { .. } | PoolError::BuffersExhausted { .. } => {
            Errno::NOMEM
        }
        PoolError::NoPort(_) => Errno::NXIO,
        PoolError::Region(RegionError::Os(errno)) => *errno,
        _ => Errno::INVAL,
    }
}
