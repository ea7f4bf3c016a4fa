//! Packet views and checksums: the formats on the wire, and nothing of what they mean to a stack.
//!
//! ```text
//!   frame                                        what reads it            what writes it
//!   +----------+------+-----+----------------+
//!   | Ethernet | VLAN | IP  | TCP UDP ICMP   |
//!   +----------+------+-----+----------------+
//!        |        |      |       |
//!        |        |      |       +---------  tcp::Segment             tcp::Repr, tcp::Options
//!        |        |      +-----------------  ipv4::Packet             ipv4::Repr
//!        |        |                          ipv6::Packet             ipv6::Repr
//!        +--------+------------------------  ethernet::Frame          ethernet::Repr
//! ```
//!
//! Every protocol has two levels, and the names repeat. The **view** (`Frame`, `Packet`, `Segment`) borrows bytes:
//! `new_checked` looks at every length once, and afterwards each accessor is a load at a constant offset. It judges
//! nothing else. The **representation** (`Repr`) owns values and can only say what is valid: `parse` judges the
//! view, `emit` writes it, and `parse(emit(x)) == x`.
//!
//! Bytes from the wire are hostile: no function here panics on any of them, every loop has a bound, and what is
//! refused is refused by one [`Error`] for each cause, so that a receiver can count causes.
//!
//! [`checksum`] sums bytes, also in part, and knows that devices sum too: a receiver says whether sums are to be
//! verified ([`Verify`]), a sender whether they are to be complete ([`Fill`]).

#![forbid(unsafe_code)]
#![cfg_attr(not(test), no_std)]

mod bytes;
pub mod checksum;
mod error;
pub mod ethernet;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod tcp;

pub use checksum::{Fill, Pseudo, Sum, Verify};
pub use error::Error;
pub use ethernet::{EtherType, MacAddress};
pub use ip::{Ecn, Endpoint, IpAddress, Protocol};
pub use tcp::SeqNumber;
