//! Ports of network devices, and what they have in common: how they are to be opened, what the kernel says of an
//! interface, and its refusals in words.
//!
//! ```text
//!   netmap:IF  xdp:IF/QUEUE   an XDP socket for each queue; frames go straight into slots       xdp
//!   packet:IF                 a packet socket: works on every interface, slowest                packet
//!   tap:NAME                  a TAP device, whose other end is the host's stack                 tap
//!   netmap:IF^                the host's side of IF: what it sends, and what it is to receive   host
//! ```

mod host;
mod interface;
mod open;
mod refusal;

pub use open::{open_device, steer};

pub(crate) use open::open;

pub(crate) use interface::Interface;
pub(crate) use refusal::{Step, refusal};

use crate::xdp::Rule;

/// How to open a device's port. The default brings nothing up, leaves other traffic alone where it can, and
/// refuses what could cut the machine off.
#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    /// Take the interface even if the default route leads through it.
    pub force: bool,
    /// Bring the interface up.
    pub up: bool,
    /// Receive frames to other addresses, too (packet sockets; elsewhere that is the interface's own setting).
    pub promiscuous: bool,
    /// TAP and packet sockets: each frame has a virtio-net header before it (12 and 10 bytes), and checksums and
    /// segmentation are left to whoever reads it. Without, frames come complete.
    pub vnet_header: bool,
    /// XDP sockets: TCP and UDP checksums may hold the pseudo-header's sum only. Those of sent frames are completed by
    /// the kernel or the device; those of received frames are left as they come. Costs 32 bytes at the end of each buffer.
    pub partial_checksums: bool,
    /// XDP sockets: poll the device in our own calls, this many microseconds long; 0 for not.
    pub busy_poll_us: u32,
    /// XDP sockets: take only frames that match a rule, and leave the rest to the host. Empty: take all. At most
    /// [`crate::xdp::RULES_MAX`].
    pub steering: Vec<Rule>,
    /// XDP sockets: never in the driver's own path, nor without copying; for comparisons.
    pub generic: bool,
}
