//! One accelerated connection: two byte rings and the exact points at which each direction moves
//! between TCP and its ring.
//!
//! - [`layout`]: the memory that both ends map, drawn.
//! - [`end`]: one end; the state machine of switching and going back, free of system calls.
//! - [`wait`]: sleep words, so that no wake-up is lost and none is sent in vain.
//! - [`rendezvous`]: the messages by which two ends find each other through the monitor.
//! - [`observe`]: reading along, for captures.
//! - [`reason`]: why a connection is on TCP.
//! - `hostile` (tests and fuzzing): a peer that scribbles on everything it can write.

#[cfg(not(loom))]
pub mod end;
#[cfg(all(not(loom), any(test, feature = "hostile")))]
pub mod hostile;
#[cfg(not(loom))]
pub mod layout;
#[cfg(not(loom))]
pub mod observe;
pub mod reason;
pub mod rendezvous;
pub mod wait;

#[cfg(not(loom))]
pub use end::{End, EndPage, Path, RxSource};
pub use reason::Reason;
