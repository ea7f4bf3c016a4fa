//! A network in one thread: a virtual clock, links that lose, delay, reorder, duplicate, corrupt and mark, and any
//! number of TCP engines joined by them. Everything follows from one number, the seed; a run can be repeated exactly.
//!
//! ```text
//!      transfer: writes and reads a pattern, checks every byte
//!          |                                        |
//!      [Engine 0]                               [Engine 1]        hosts of the world
//!          |   packets                              ^
//!          v                                        |
//!      tap: judges what is sent and delivered as a stranger on the wire would
//!          |                                        |
//!          +--> link --> link --> ... --------------+             a path, one for each pair of hosts and direction
//! ```
//!
//! - [`world`]: hosts, paths, and the loop over the earliest of arrivals and deadlines.
//! - [`link`]: rate, queue, delay, MTU. [`fault`]: what it does to single packets. [`random`]: the seed's numbers.
//! - [`tap`]: what must hold of every packet. [`trace`]: packets as text, if `RINGWAY_TRACE` is set.
//!   [`transfer`]: an application that checks what it reads.
//! - [`scenario`], [`swarm`]: a pair of hosts, a path and some transfers, run to the end; the tables of the grid; scenarios at random.
//!
//! What must hold, and is checked at every step: packets are valid, within the MTU and the peer's window; what was
//! sent once never changes; acknowledgements cover what was sent and never move back; windows do not shrink; engines'
//! counts add up ([`ringway_tcp::Engine::audit`]); memory stays within its budget; and while a transfer is not
//! finished, either a packet is on its way or some engine has a deadline.

#![forbid(unsafe_code)]

pub mod fault;
pub mod link;
pub mod random;
pub mod scenario;
pub mod swarm;
pub mod tap;
pub mod trace;
pub mod transfer;
pub mod world;
