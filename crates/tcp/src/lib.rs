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
//! - [`time`], [`stamp`]: points in time, in microseconds. [`span`]: pieces of a stream.
//! - [`assembler`]: what arrived early, and the SACK blocks that say so. [`ecn`]: marks and their echoes.
//! - [`rtt`], [`min_filter`]: round-trip time and the retransmission timeout.
//! - [`recovery`]: what is in flight, what is lost, what to send again.
//! - [`congestion`], [`rate`], [`pacing`]: how much may be in flight, and how fast.

#![forbid(unsafe_code)]

pub mod assembler;
pub mod congestion;
pub mod ecn;
pub mod min_filter;
pub mod pacing;
pub mod rate;
pub mod recovery;
pub mod rtt;
pub mod span;
pub mod stamp;
pub mod time;

pub use time::Instant;
