//! From the bytes of an IP packet to a segment, and back.

mod arriving;
mod leaving;
mod path_error;

pub(crate) use arriving::{Arriving, Segment, Usual, parse};
pub(crate) use leaving::{IpFields, Leaving, emit, emit_usual};
pub use leaving::{PacketBatch, TxBatch};
pub(crate) use path_error::{PathError, What};
