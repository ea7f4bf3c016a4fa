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
//! - [`Engine`]: the tables, and the calls by which everything comes in and goes out.
//! - `conn`: one connection, a file for each concern; begin with `conn/arrive.rs`.
//! - `packet`: from an IP packet's bytes to a segment and back. `tables`: flows, timers, slots. `buffer`: bytes that wait.
//! - [`config`]: Linux's sysctls. [`options`]: Linux's socket options. [`info`]: Linux's `TCP_INFO`. [`stats`]: what happened.
//! - [`time`], [`stamp`]: points in time, in microseconds. [`span`]: pieces of a stream.
//! - [`assembler`]: what arrived early, and the SACK blocks that say so. [`ecn`]: marks and their echoes.
//! - [`rtt`], [`min_filter`]: round-trip time and the retransmission timeout.
//! - [`recovery`]: what is in flight, what is lost, what to send again.
//! - [`congestion`], [`rate`], [`pacing`]: how much may be in flight, and how fast.

#![forbid(unsafe_code)]

pub mod assembler;
mod buffer;
pub mod config;
pub mod congestion;
mod conn;
pub mod ecn;
mod engine;
pub mod error;
pub mod event;
mod hash;
pub mod info;
mod isn;
pub mod min_filter;
pub mod options;
pub mod pacing;
mod packet;
pub mod rate;
pub mod recovery;
pub mod rtt;
pub mod sockopt;
pub mod span;
pub mod stamp;
pub mod stats;
mod tables;
pub mod time;

pub use config::Config;
pub use conn::state::State;
pub use engine::Engine;
pub use error::Error;
pub use event::{ConnId, Event, ListenerId, Ready, Source};
pub use options::{ReceiveFlags, SendFlags, Shutdown, SocketOptions};
pub use packet::{PacketBatch, TxBatch};
pub use time::Instant;
