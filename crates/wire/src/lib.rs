//! Packet views and checksums: the formats on the wire, and nothing of what they mean to a stack.
//!
//! ```text
//!   frame                                          read by              written by
//!   +----------+------+------------+-----------+
//!   | Ethernet | VLAN | IP, ARP    | transport |
//!   +----------+------+------------+-----------+
//!        |        |         |            |
//!        +--------+---------|------------|-----  ethernet::Frame      ethernet::Repr
//!                           |            |
//!                           +------------|-----  arp::Packet          arp::Repr
//!                           |            |       ipv4::Packet         ipv4::Repr
//!                           |            |       ipv6::Packet         ipv6::Repr
//!                           |            |         extensions::walk     emit_fragment
//!                     reassembly         |
//!                                        +-----  tcp::Segment         tcp::Repr, tcp::Options
//!                                                udp::Datagram        udp::Repr
//!                                                icmp::Message        icmpv4::Repr, icmpv6::Repr
//!                                                                     nd::Repr (neighbor discovery)
//! ```
//!
//! Every protocol has two levels, and the names repeat. The **view** (`Frame`, `Packet`, `Segment`) borrows bytes:
//! `new_checked` looks at every length once, and afterwards each accessor is a load at a constant offset. It judges
//! nothing else. The **representation** (`Repr`) owns values and can only say what is valid: `parse` judges the
//! view, `emit` writes it, and `parse(emit(x)) == x`.
//!
//! Bytes from the wire are hostile: no function here panics on any of them, every loop has a bound, and what is
//! refused is refused by one [`Error`] for each cause, so that a receiver can count causes. The module `hostile`
//! (tests and fuzzing) holds them to it.
//!
//! [`usual`] is the short way for the headers that nearly every packet has.
//!
//! [`checksum`] sums bytes, also in part, and knows that devices sum too: a receiver says whether sums are to be
//! verified ([`Verify`]), a sender whether they are to be complete ([`Fill`]); [`offload`] does a device's work
//! where there is none. Beside the packets stand two things
//! that devices and stacks have to agree on: [`virtio`], the header before a packet that says which work is left,
//! and [`rss`], the hash that spreads flows over queues.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod arp;
mod bytes;
pub mod checksum;
mod error;
pub mod ethernet;
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
pub mod icmp;
pub mod icmpv4;
pub mod icmpv6;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod nd;
pub mod offload;
pub mod reassembly;
pub mod rss;
pub mod tcp;
pub mod udp;
pub mod usual;
pub mod virtio;

pub use checksum::{Fill, Pseudo, Sum, Verify};
pub use error::Error;
pub use ethernet::{EtherType, MacAddress};
pub use ip::{Ecn, Endpoint, Fragment, IpAddress, Protocol};
pub use tcp::SeqNumber;
