//! Bytes that wait: a ring for each direction of a connection that has any, from a pool with a budget.

mod pool;
mod ring;

pub(crate) use pool::Pool;
pub(crate) use ring::Ring;
