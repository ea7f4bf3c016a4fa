//! Selective acknowledgments (RFC 2018).

use crate::tcp::SeqNumber;

/// Sequence numbers `left <= n < right` have arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlock {
    pub left: SeqNumber,
    pub right: SeqNumber,
}

/// Up to four blocks, in the order in which they stand: the first may be a DSACK (RFC 2883). What they claim is
/// not judged here.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct SackBlocks {
    /// Those behind `len` are zero.
    blocks: [SackBlock; Self::MAX],
    len: u8,
}

impl SackBlocks {
    /// More do not fit into 40 bytes.
    pub const MAX: usize = 4;
    pub const EMPTY: SackBlocks =
        SackBlocks { blocks: [SackBlock { left: SeqNumber(0), right: SeqNumber(0) }; Self::MAX], len: 0 };

    /// The option's data; `None` unless it is a whole number of blocks from 1 to 4.
    pub(super) fn parse(data: &[u8]) -> Option<SackBlocks> {
        let (blocks, []) = data.as_chunks::<8>() else { return None };
        let mut sack = SackBlocks::EMPTY;
        for &[a, b, c, d, e, f, g, h] in blocks {
            let left = SeqNumber(u32::from_be_bytes([a, b, c, d]));
            let right = SeqNumber(u32::from_be_bytes([e, f, g, h]));
            if !sack.push(SackBlock { left, right }) {
                return None;
            }
        }
        (!sack.is_empty()).then_some(sack)
    }

    /// Adds a block behind the others; `false` if there are four.
    pub fn push(&mut self, block: SackBlock) -> bool {
        let Some(place) = self.blocks.get_mut(usize::from(self.len)) else { return false };
        *place = block;
        self.len += 1;
        true
    }

    #[inline(always)]
    pub fn as_slice(&self) -> &[SackBlock] {
        &self.blocks[..self.len()]
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        usize::from(self.len).min(Self::MAX)
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl core::fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.as_slice().iter().map(|b| b.left..b.right)).finish()
    }
}
