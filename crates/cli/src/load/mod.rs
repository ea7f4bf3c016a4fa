//! A load generator on any [`ringway_stack::Sockets`]: requests on many connections, and how long the answers took.
//!
//! ```text
//!   generator   whose turn it is: opens, asks, takes answers, begins again      links   connections by number and by id
//!     |                                                                         schedule  when the next request is due
//!   target      where to, and what a request looks like
//!   answer      bytes -> "more is to come" or "that was it": HTTP, or a number of bytes
//!   tally       latencies, counts, what went wrong
//! ```
//! A closed loop asks again when the answer is there. An open loop asks at a given rate, and counts the latency from the
//! moment when a request was due, so that a server that stalls cannot hide it.

mod answer;
mod chunks;
mod generator;
mod links;
mod report;
mod schedule;
mod tally;
mod target;

pub(crate) use generator::{Ending, Generator, Plan};
pub(crate) use report::Report;
pub(crate) use target::{Sizes, Target};
