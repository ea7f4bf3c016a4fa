//! From the bytes of an IP packet to a segment, and back.

mod arriving;
mod leaving;

pub(crate) use arriving::{Arriving, Segment, parse};
pub(crate) use leaving::{IpFields, Leaving, emit};
pub use leaving::{PacketBatch, TxBatch};
