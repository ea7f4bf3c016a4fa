//! One accelerated connection.

pub mod layout;
pub mod reason;
pub mod rendezvous;

pub use reason::Reason;
