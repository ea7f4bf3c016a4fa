//! The software switch: batches of frames in, batches out, by a pluggable forwarding module; and routing by DXR.
//!
//! ```text
//!   tx ring of port 1            the sender's thread                               rx rings of ports 2, 3, ...
//!   [slots, buffers]  ---> batch: check, copy the heads, fetch ahead
//!                          module: a verdict for each frame
//!                          fanout: a list for each receiver
//!                          receiver: lease slots, copy, finish the lease   --->   [slots, buffers]
//! ```
//! After VALE (Rizzo, Lettieri; CoNEXT 2012) and mSwitch (Honda, Huici, Lettieri, Rizzo; SOSR 2015): per-batch costs are
//! shared by up to 1024 frames, copies run outside of any lock, a full receiver loses frames and never blocks a sender.
//!
//! - [`Frame`], [`Verdict`], [`Forward`]: what a module sees and says. [`modules`] has those that come with it.
//! - [`Batch`], [`fanout`]: the two passes. [`Sender`] drives them for one tx ring.
//! - [`Switch`]: ports come and go while traffic flows. [`vale`]: ports in their senders' context; [`served`]: ports that
//!   another process serves; [`isolated`]: that process.
//! - [`open`]: any port by name, `valeS:P` included.
//! - [`dxr`]: longest-prefix match.
//!
//! A module in full:
//!
//! ```
//! use ringway_switch::{Forward, Frame, Source, Verdict};
//!
//! /// Spreads what comes in at port 0 over ports 1 to 4 by flow; what comes back goes to port 0.
//! struct Balancer;
//!
//! impl Forward for Balancer {
//!     fn lookup(&self, source: &mut Source, _now_ns: u64, frames: &mut [Frame]) {
//!         for frame in frames {
//!             let port = if source.port == 0 { 1 + (frame.flow_hash() % 4) as u8 } else { 0 };
//!             frame.verdict = Verdict::To { port, ring: source.ring };
//!         }
//!     }
//! }
//! ```

#![forbid(unsafe_code)]

mod batch;
pub mod directory;
pub mod dxr;
pub mod fanout;
mod forward;
mod frame;
mod headers;
pub mod isolated;
pub mod modules;
mod names;
pub mod persistent;
mod receiver;
mod sender;
pub mod served;
mod switch;
#[cfg(test)]
mod tests;
pub mod vale;
mod vnet;

pub use batch::{BATCH_SLOTS, Batch, Collected, Fragment};
pub use forward::{Forward, Source};
pub use frame::{Frame, HEAD_BYTES, Verdict, is_group};
pub use headers::{Headers, Ip};
pub use names::{adopt, open, open_any};
pub use sender::Sender;
pub use switch::{Switch, SwitchError};
