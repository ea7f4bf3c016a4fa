//! Everything that two address spaces share.
//!
//! - [`region`]: sealed memory; [`sync`]: the atomics, with their loom twin.
//! - [`ring`]: bytes of a connection; [`stats`]: the statistics page of a process.
//! - [`slot`], [`kring`], [`pool`]: packet ports: slots and rings as netmap's programs see them, what netmap's
//!   kernel would keep of a ring, and the region that holds them with their buffers.
//! - [`lease`], [`fabric`]: many senders of one rx ring, and what the senders of a switch share.
//! - [`lock`]: a lock that survives its holder; [`csb`]: cells between a program and who serves its rings;
//!   [`limits`]: how fast memory is at best.
//! - [`bell`]: how a sleeper in poll(2) is woken; [`user`]: addresses that a program gave us.

#[cfg(not(loom))]
pub mod bell;
#[cfg(not(loom))]
pub mod cells;
pub mod csb;
#[cfg(not(loom))]
pub mod fabric;
pub mod kring;
pub mod lease;
#[cfg(not(loom))]
pub mod limits;
#[cfg(not(loom))]
pub mod lock;
#[cfg(not(loom))]
pub mod pool;
pub mod region;
pub mod ring;
pub mod slot;
#[cfg(not(loom))]
pub mod stats;
pub mod sync;
#[cfg(not(loom))]
pub mod user;
