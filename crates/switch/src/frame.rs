//! A frame as a forwarding module sees it: its first bytes, read once, and what is decided about it.

use ringway_mem::pool::LINE_BYTES;
use ringway_mem::slot::NS_NO_LEARN;

/// Bytes of a frame that a module can see: Ethernet, two VLAN tags, IPv4 with all options or IPv6, ports.
pub const HEAD_BYTES: usize = 112;

/// Where a frame is to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// To one ring of a port; a ring that the port does not have counts modulo those that it has.
    To { port: u8, ring: u8 },
    /// To all ports but the one that it came from.
    Broadcast,
    #[default]
    Drop,
}

/// A frame of a batch.
///
/// The head was copied out of the sender's buffer, which the sender may go on writing. What a module judges, and
/// changes, is what receivers get.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Frame {
    pub(crate) len: u32,
    pub(crate) flags: u16,
    pub(crate) first_fragment: u16,
    pub(crate) fragments: u8,
    pub(crate) head_bytes: u8,
    /// What the module decides; [`Verdict::Drop`] at first.
    pub verdict: Verdict,
    pub(crate) bytes: [u8; HEAD_BYTES],
}

const _: () = assert!(size_of::<Frame>() == 128);

impl Frame {
    pub(crate) const EMPTY: Frame = Frame {
        len: 0,
        flags: 0,
        first_fragment: 0,
        fragments: 0,
        head_bytes: 0,
        verdict: Verdict::Drop,
        bytes: [0; HEAD_BYTES],
    };

    /// A frame of these bytes alone, for tests of modules.
    pub fn of(bytes: &[u8]) -> Frame {
        let mut frame = Frame { len: bytes.len() as u32, ..Frame::EMPTY };
        frame.head_bytes = bytes.len().min(HEAD_BYTES) as u8;
        frame.bytes[..usize::from(frame.head_bytes)].copy_from_slice(&bytes[..usize::from(frame.head_bytes)]);
        frame
    }

    /// The first bytes, up to [`HEAD_BYTES`]; at least an Ethernet header in a batch.
    #[inline]
    pub fn head(&self) -> &[u8] {
        &self.bytes[..usize::from(self.head_bytes)]
    }

    /// The first line, if all of the frame is in it. What follows the frame there is of no meaning.
    #[inline]
    pub(crate) fn line(&self) -> Option<&[u8; LINE_BYTES]> {
        if self.len() <= LINE_BYTES { self.bytes.first_chunk() } else { None }
    }

    /// The head, to change on the way.
    #[inline]
    pub fn head_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..usize::from(self.head_bytes)]
    }

    /// Length of the whole frame, in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether its source address may be learnt (NS_NO_LEARN is not set).
    #[inline]
    pub fn may_learn(&self) -> bool {
        self.flags & NS_NO_LEARN == 0
    }

    /// Destination address, as a number of 48 bits, of a frame that has one.
    #[inline]
    pub fn destination(&self) -> u64 {
        self.mac_at(0)
    }

    /// Source address, as a number of 48 bits.
    #[inline]
    pub fn source(&self) -> u64 {
        self.mac_at(6)
    }

    /// The same number for all frames of a flow, in both directions: addresses and ports of IP packets, station
    /// addresses of anything else.
    pub fn flow_hash(&self) -> u32 {
        crate::headers::flow_hash(self)
    }

    #[inline]
    fn mac_at(&self, at: usize) -> u64 {
        let b = &self.bytes[at..at + 6];
        u64::from_be_bytes([0, 0, b[0], b[1], b[2], b[3], b[4], b[5]])
    }
}

/// Whether this is a group's address (multicast, broadcast).
#[inline]
pub fn is_group(mac: u64) -> bool {
    mac >> 40 & 1 != 0
}
