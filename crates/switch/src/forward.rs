//! What a forwarding module is.

use crate::frame::Frame;

/// The tx ring that a batch comes from.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Number of the port at the switch.
    pub port: u8,
    /// Number of the ring at the port.
    pub ring: u8,
    /// For the module: what it remembers about this ring from batch to batch. Zero at first.
    pub memory: u64,
}

/// Decides where frames go.
///
/// Several senders call it at the same time, each for its own batch, and none of them waits: state is to be made of
/// atomics, or of what is replaced as a whole. State in the [fabric's words](ringway_mem::fabric::Fabric::module_words)
/// is common to the processes that share a switch.
pub trait Forward: Send + Sync {
    /// Sets each frame's `verdict`. `now_ns` is a monotonic clock.
    fn lookup(&self, source: &mut Source, now_ns: u64, frames: &mut [Frame]);

    /// A port has left: nothing is to be sent to its number until another one comes.
    fn port_left(&self, _port: u8) {}
}
