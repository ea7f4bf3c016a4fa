//! The statistics page: one sealed 4 KiB region per process, made by the monitor.
//!
//! ```text
//!  0     mailbox (monitor bumps it when a message waits), process id, profile, library version
//!  128   counters, one u64 each, written only by the process (relaxed)
//!  1024  refusals by reason number, one u64 each (64 of them)
//! ```
//! Readers (`ringway ss`, `top`, the metrics endpoint) map it read-only and never slow the process.

use std::mem::{offset_of, size_of};

use crate::sync::{AtomicU32, AtomicU64};

/// Length of a process page, in bytes.
pub const PROCESS_PAGE_BYTES: usize = 4096;

/// Slots for refusals: reason numbers below this are counted each on their own.
pub const REASON_SLOTS: usize = 64;

/// See the module's drawing.
#[repr(C)]
pub struct ProcessPage {
    /// Grows by one for every message that the monitor has queued for the process.
    pub mailbox: AtomicU32,
    /// Process id in the monitor's pid namespace.
    pub pid: AtomicU32,
    /// 0 latency, 1 balanced, 2 efficient.
    pub profile: AtomicU32,
    _reserved: [AtomicU32; 29],
    pub counters: Counters,
    _gap: [AtomicU64; 112 - size_of::<Counters>() / 8],
    /// Connections that stayed on or went back to TCP, by reason number.
    pub refusals: [AtomicU64; REASON_SLOTS],
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What a process counts; each value only grows unless it says otherwise.
        #[repr(C)]
        pub struct Counters { $($(#[$doc])* pub $name: AtomicU64),* }

        impl Counters {
            /// Names in page order, as metrics and JSON show them.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Values in page order, read one by one.
            pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.load(crate::sync::Ordering::Relaxed))),*]
            }
        }
    };
}

counters! {
    /// TCP connections that the library has seen and might upgrade.
    connections_seen,
    /// Sockets offered to the monitor.
    connections_offered,
    /// Connections upgraded (this end attached).
    connections_upgraded,
    /// Directions that went back to TCP.
    connections_demoted,
    /// Upgraded connections whose last descriptor in this process was closed.
    connections_closed,
    /// Payload bytes sent over rings.
    ring_tx_bytes,
    /// Payload bytes received over rings.
    ring_rx_bytes,
    /// Calls that sent over a ring.
    ring_tx_calls,
    /// Calls that received over a ring.
    ring_rx_calls,
    /// Waits that ended while spinning.
    spin_hits,
    /// Waits whose spinning was in vain.
    spin_misses,
    /// Times that a thread slept in the kernel for an upgraded connection.
    sleeps,
    /// Doorbells rung for sleeping peers.
    wakes,
    /// Times that a ring was found full.
    ring_full,
    /// Times that a ring changed its capacity class.
    ring_resizes,
    /// Connections reset because the peer broke the rules of the ring.
    violations,
}

const _: () = {
    assert!(offset_of!(ProcessPage, counters) == 128);
    assert!(offset_of!(ProcessPage, refusals) == 1024);
    assert!(size_of::<ProcessPage>() <= PROCESS_PAGE_BYTES);
};
