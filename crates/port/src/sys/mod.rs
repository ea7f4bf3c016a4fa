//! Everything unsafe of the crate: references into packet buffers.

pub(crate) mod buffers;
