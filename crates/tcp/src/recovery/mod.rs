//! Loss recovery.

pub mod bit_ring;
pub mod frto;
pub mod prr;
pub mod rack;
pub mod scoreboard;
pub mod segment;
pub mod time_order;
pub mod tlp;
pub mod undo;
