//! Everything unsafe of the crate: references into packet buffers.

pub(crate) mod buffers;
pub(crate) mod device;
