//! TCP as a deterministic state machine: packets, calls and the time go in; packets, events and the
//! next deadline come out.
//!
//! ```text
//!      on_packet(now, ip packet)     connect, send, recv, close...     on_timer(now)
//!                 |                            |                           |
//!            +----v----------------------------v---------------------------v----+
//!            |                             Engine                              |
//!            +----+----------------------------+---------------------------+----+
//!                 |                            |                           |
//!        poll_transmit(now, batch)     poll_events(batch)            next_deadline()
//! ```
//!
//! There is no clock, no randomness (a seed is given once), no thread and no allocation per packet.
//! The same seed and the same inputs give the same bytes.
//!
//! - [`time`]: points in time, in microseconds.

#![forbid(unsafe_code)]

pub mod time;

pub use time::Instant;
