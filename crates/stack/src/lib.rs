//! A TCP/IP host over one packet port, for one core: what `tcp` leaves open is done here.
//!
//! ```text
//!     application            listen, connect, accept, send, recv, close; poll() says who is ready
//!         |
//!   +-----v------ Stack ---------------------------------------------+
//!   |  poll:  what is to be sent -> burst out    sleep if nothing    |
//!   |         burst in -> sort   -> events       happens             |
//!   |            |                                                   |
//!   |   +--------v-- host -----------+      +--------- tcp --------+ |
//!   |   | ARP, ICMP, fragments,      |----->| Engine: connections, | |
//!   |   | routes, counters           |<-----| timers, packets      | |
//!   |   +----------------------------+      +----------------------+ |
//!   +-----|----------------------------------------------------------+
//!         | slots of a ring; packets are parsed and written in place
//!       port    tap:, xdp:, packet:, shm:
//! ```
//! - [`Stack`]: the loop, and the calls of an application. One thread, run to completion, no locks.
//! - [`Sockets`]: these calls as a trait, so that one program runs on the engine and on the kernel ([`KernelSockets`]).
//! - [`config`]: addresses and gateway. `host`: the rest of a host: neighbours, ICMP, routes. [`DropReason`]: why packets are dropped.
//! - `frames`: the engine's packets become frames in slots. `sleep`: waiting without burning the core.
//!
//! ```
//! use ringway_stack::{Endpoint, Sockets, Stack, StackConfig};
//! let host = |n: u8| -> Result<Stack, Box<dyn std::error::Error>> {
//!     let config = StackConfig { addresses: vec![format!("10.0.0.{n}/24").parse()?], ..StackConfig::default() };
//!     Ok(Stack::new(ringway_port::open("shm:stacktour")?, config, n.into())?)
//! };
//! let (mut server, mut client) = (host(1)?, host(2)?);
//! let at = Endpoint::new("10.0.0.1".parse()?, 80);
//! let listener = server.listen(at, 16)?;
//! let conn = client.connect(at)?;
//! // Kept until the connection is open.
//! client.send(conn, b"early")?;
//! let (mut accepted, mut text) = (None, [0; 5]);
//! while !accepted.is_some_and(|accepted| server.recv(accepted, &mut text).is_ok()) {
//!     let mut events = vec![];
//!     client.poll(&mut events, Some(std::time::Duration::ZERO))?;
//!     server.poll(&mut events, Some(std::time::Duration::ZERO))?;
//!     accepted = accepted.or(server.accept(listener).ok());
//! }
//! assert_eq!(&text, b"early");
//! assert_eq!(server.peer(accepted.unwrap())?.address, client.addresses()[0].address);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod config;
mod frames;
mod host;
mod kernel;
mod sleep;
mod sockets;
mod stack;

pub use config::{Prefix, StackConfig};
pub use host::counters::{Counters, DropReason};
pub use kernel::KernelSockets;
pub use ringway_tcp::{
    Config, ConnId, Error, Event, Instant, ListenerId, Ready, Shutdown, SocketOptions, Source, options, stats,
};
pub use ringway_wire::{Endpoint, MacAddress};
pub use sockets::Sockets;
pub use stack::Stack;
