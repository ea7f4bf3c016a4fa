//! Packet ports: netmap's semantics in user space.
//!
//! ```text
//!   user            TxBatch / RxBatch: slots from head to tail, filled, read, swapped without copying
//!     |                  |
//!     |             Port::sync_tx / sync_rx / wait: check the user's words (as netmap's kernel does), lock, call
//!     |                  |
//!   Backend         null, pipe, xdp, tap, packet: TxKring / RxKring, the port's side of the same rings
//!     |                  |
//!   ringway_mem     pool: rings and buffers in one sealed region, every buffer with an owner
//! ```
//! - [`open`] a [`Port`] by [`name`]; [`Info`] says what it is and cannot do.
//! - Implement [`Backend`] for a new kind of port; [`TxKring`] and [`RxKring`] are what it works with, and what a
//!   switch uses to deliver into other ports' rings.
//! - [`observe`] any port's packets as text or as a file ([`pcap`]), or put it behind a bad line ([`impair`]).
//! - [`monitor`]: ports that see what passes another port, in whatever process.
//! - [`device`]: ports of network devices and how to open them; [`xdp`]: the fastest of these, and steering.
//! - [`registry`]: how ports of one name find each other's memory; [`meeting`]: in other processes.
//! - `hostile` (tests and fuzzing): a peer that scribbles over all shared words.
//!
//! ```
//! use ringway_port::{Ready, open};
//! let (mut a, mut b) = (open("shm:tour")?, open("shm:tour")?);
//! let mut batch = a.tx(0)?;
//! let slots = batch.put(0, b"a packet").unwrap();
//! batch.send(slots);
//! a.sync_tx(0)?;
//! assert!(b.wait(Ready::RX, None)?.rx);
//! let batch = b.rx(0)?;
//! assert_eq!(batch.bytes(0), b"a packet");
//! batch.release(1);
//! # Ok::<(), ringway_port::PortError>(())
//! ```

mod backend;
mod batch;
mod check;
pub mod clock;
pub mod device;
mod error;
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
pub mod impair;
mod info;
mod kring;
pub mod meeting;
pub mod monitor;
pub mod name;
mod null;
pub mod observe;
mod open;
mod packet;
pub mod pcap;
mod pipe;
mod port;
pub mod registry;
mod sys;
mod tap;
mod wait;
mod watched;
pub mod xdp;

pub use backend::{Backend, Wakers};
pub use batch::{RxBatch, TxBatch};
pub use error::PortError;
pub use info::{Counters, Info, Transport};
pub use kring::{RxKring, TxKring};
pub use name::PortName;
pub use open::{adopt, adopt_registration, open, open_in, open_name};
pub use port::{Port, Ready, Rings};
