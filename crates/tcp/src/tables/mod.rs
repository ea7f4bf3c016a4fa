//! The tables that find things: connections by their addresses, timers by their time, slots by their number.

mod flow;
mod slab;
mod wheel;

pub(crate) use flow::{FlowKey, FlowTable};
pub(crate) use slab::Slab;
pub(crate) use wheel::Wheel;
