//! Integers in network byte order at constant offsets.
//!
//! The offsets are constants at every call, so that inlined code has no bounds check left.

#[inline(always)]
pub(crate) fn be16<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline(always)]
pub(crate) fn be32<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// `LEN` bytes from `at` on.
#[inline(always)]
pub(crate) fn array<const LEN: usize, const N: usize>(bytes: &[u8; N], at: usize) -> [u8; LEN] {
    let mut out = [0; LEN];
    out.copy_from_slice(&bytes[at..at + LEN]);
    out
}

#[inline(always)]
pub(crate) fn put_be16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[inline(always)]
pub(crate) fn put_be32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}
