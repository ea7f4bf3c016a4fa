//! The record of one segment in flight: 40 bytes.

use crate::rate::SendSnapshot;
use crate::time::Instant;

/// What is known of a segment that was sent and is not yet acknowledged cumulatively.
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment {
    /// Low half of the offset of its first octet.
    pub(super) start: u32,
    /// Octets of sequence space, SYN and FIN counted.
    pub(super) len: u16,
    /// How often it was sent; stays at 255.
    pub(super) transmissions: u8,
    pub(super) flags: u8,
    /// When it was sent last.
    pub(super) sent: Instant,
    /// Neighbours in the order of sending, by number; its own number stands for "none".
    pub(super) older: u32,
    pub(super) newer: u32,
    /// What the delivery-rate estimator knew when it was sent.
    pub(super) snapshot: SendSnapshot,
}

const _: () = assert!(size_of::<Segment>() == 40);

/// The receiver holds it (RFC 2018); it may still renege.
pub(super) const SACKED: u8 = 1;
/// Its last transmission but one, or the only one, is deemed lost.
pub(super) const LOST: u8 = 2;
/// Its newest transmission is a retransmission that is deemed in flight.
pub(super) const RETRANSMITTED: u8 = 4;
/// It is in the list of segments by time of sending: neither SACKed nor waiting for retransmission.
pub(super) const LISTED: u8 = 8;
/// It was sent when the application, not the network, limited the rate.
pub(super) const APP_LIMITED: u8 = 16;
/// It carries PSH, each time it is sent.
pub(super) const PUSHED: u8 = 32;
/// The last of the segments that left together.
pub(super) const LAST: u8 = 64;

impl Segment {
    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether it was ever sent again, so that an ACK of it does not say which transmission arrived (Karn).
    pub fn was_retransmitted(&self) -> bool {
        self.transmissions > 1
    }

    /// Whether it carries PSH.
    pub fn is_pushed(&self) -> bool {
        self.has(PUSHED)
    }

    /// When it was sent last.
    pub fn sent(&self) -> Instant {
        self.sent
    }

    /// Octets of sequence space.
    pub fn len(&self) -> u32 {
        u32::from(self.len)
    }

    /// Whether it holds nothing; no segment in flight does.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How often it was sent.
    pub fn transmissions(&self) -> u8 {
        self.transmissions
    }
}
