//! What can go wrong with a port, said so that the reader knows what to do.

use ringway_mem::pool::PoolError;
use rustix::io::Errno;

use crate::name::NameError;

/// Why a port cannot be opened or synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortError {
    /// The name breaks the grammar.
    Name(NameError),
    /// The memory: a pool is full, locked or no pool.
    Pool(PoolError),
    /// What the name asks for cannot be had: which name, why, and what to try.
    Refused { name: String, why: String },
    /// A system call failed: what was asked, and the answer.
    Os { asked: String, errno: Errno },
    /// The user put impossible words into the ring; it starts over where the port's side is, and what was not
    /// yet synced is the user's again.
    Ring { head: u32, cur: u32, tail: u32, num_slots: u32 },
    /// No such ring: its number and how many there are.
    NoRing { ring: u32, rings: u32 },
    /// Another thread or process has been syncing this ring for two seconds.
    Busy,
}

impl PortError {
    /// A refusal that names what was asked for.
    pub fn refused(name: impl Into<String>, why: impl Into<String>) -> PortError {
        PortError::Refused { name: name.into(), why: why.into() }
    }

    /// A failed system call; `asked` continues "cannot".
    pub fn os(asked: impl Into<String>, errno: Errno) -> PortError {
        PortError::Os { asked: asked.into(), errno }
    }
}

impl std::fmt::Display for PortError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PortError::Name(e) => e.fmt(f),
            PortError::Pool(e) => e.fmt(f),
            PortError::Refused { name, why } => write!(f, "{name}: {why}"),
            PortError::Os { asked, errno } => write!(f, "cannot {asked}: {errno}"),
            PortError::Ring { head, cur, tail, num_slots } => write!(
                f,
                "head {head} and cur {cur} are impossible before tail {tail} in a ring of {num_slots}; the ring starts over"
            ),
            PortError::NoRing { ring, rings } => write!(f, "there is no ring {ring}, only {rings} from 0 on"),
            PortError::Busy => write!(f, "another thread or process keeps this ring busy"),
        }
    }
}

impl std::error::Error for PortError {}

impl From<PoolError> for PortError {
    fn from(e: PoolError) -> Self {
        PortError::Pool(e)
    }
}

impl From<NameError> for PortError {
    fn from(e: NameError) -> Self {
        PortError::Name(e)
    }
}
