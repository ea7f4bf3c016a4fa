//! The forwarding modules that come with the switch.

pub mod bridge;
pub mod filter;
pub mod hub;
pub mod router;
