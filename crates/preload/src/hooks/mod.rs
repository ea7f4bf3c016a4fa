//! The exported names.

pub(crate) mod signal;
