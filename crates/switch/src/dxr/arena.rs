//! Where the ranges lie: two arrays, cut into chunks whose lengths are powers of two.
//!
//! A chunk that is not full repeats its last range to the end, so a search needs no length and a fixed
//! number of steps. What limits lookups is how much memory they touch, so a chunk is *short* where it can be: 16
//! bits for a range instead of 32 (IPv4) or 64 (IPv6).
//!
//! Freed chunks wait on a list of their class; when more than half of an array is waste, the table is
//! rebuilt, so memory stays within twice of what the chunks need.

use super::NextHop;

/// What an address range leads to: a next hop, or a chunk of finer ranges.
///
/// As a number: `next hop << 6`, or `first entry << 6 | is short << 5 | class` for a chunk of `2^class`
/// entries, class > 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target(u32);

const CLASS_MASK: u32 = 0x1f;
const SHORT: u32 = 0x20;
const SHIFT: u32 = 6;
/// Entries that an array may hold; [`super::PREFIXES_MAX`] prefixes cannot need more.
const ENTRIES_MAX: usize = 1 << (32 - SHIFT);

impl Target {
    pub(super) const NONE: Target = Target::next_hop(NextHop::NONE);

    pub(super) const fn next_hop(next_hop: NextHop) -> Target {
        Target((next_hop.0 as u32) << SHIFT)
    }

    #[inline]
    pub(super) fn is_next_hop(self) -> bool {
        self.class() == 0
    }

    /// Meaningful for next hops.
    #[inline]
    pub(super) fn to_next_hop(self) -> NextHop {
        NextHop((self.0 >> SHIFT) as u16)
    }

    /// The chunk has `2^class` entries; a search in it takes as many steps.
    #[inline]
    pub(super) fn class(self) -> u32 {
        self.0 & CLASS_MASK
    }

    #[inline]
    pub(super) fn is_short(self) -> bool {
        self.0 & SHORT != 0
    }

    /// First entry of the chunk.
    #[inline]
    pub(super) fn first(self) -> u32 {
        self.0 >> SHIFT
    }
}

/// A range in full: the key it begins at in its upper half, what it leads to in its lower half.
pub trait Entry: Copy + Ord + Default {
    fn new(start: u32, target: Target) -> Self;
    /// The largest entry that begins at `key`: all that begin no later compare less or equal.
    fn ceiling(key: u32) -> Self;
    fn target(self) -> Target;
}

/// IPv4: 16 bits each. The lower half is a next hop, for nothing is finer.
impl Entry for u32 {
    fn new(start: u32, target: Target) -> u32 {
        debug_assert!(start <= 0xffff && target.is_next_hop());
        start << 16 | u32::from(target.to_next_hop().0)
    }

    #[inline]
    fn ceiling(key: u32) -> u32 {
        key << 16 | 0xffff
    }

    #[inline]
    fn target(self) -> Target {
        Target::next_hop(NextHop(self as u16))
    }
}

/// IPv6: 32 bits each.
impl Entry for u64 {
    fn new(start: u32, target: Target) -> u64 {
        u64::from(start) << 32 | u64::from(target.0)
    }

    #[inline]
    fn ceiling(key: u32) -> u64 {
        u64::from(key) << 32 | 0xffff_ffff
    }

    #[inline]
    fn target(self) -> Target {
        Target(self as u32)
    }
}

/// How short entries are cut: the first bits of a key and a small next hop share 16 bits.
///
/// Direct table and short key make 24 bits together, so that a chunk is short unless one of its prefixes is longer
/// than /24, or a next hop does not fit (8 bits of it with 16 direct bits, 12 with 20).
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortForm {
    next_hop_bits: u32,
}

impl ShortForm {
    pub(super) fn new(direct_bits: u32) -> ShortForm {
        ShortForm { next_hop_bits: direct_bits - 8 }
    }

    /// All ones stand for [`NextHop::NONE`].
    #[inline]
    fn next_hop_mask(self) -> u16 {
        ((1_u32 << self.next_hop_bits) - 1) as u16
    }

    /// The largest entry that begins at `key` of `width` bits.
    #[inline]
    pub(super) fn ceiling(self, key: u32, width: u32) -> u16 {
        let top = key >> (width + self.next_hop_bits - 16);
        (top << self.next_hop_bits) as u16 | self.next_hop_mask()
    }

    #[inline]
    pub(super) fn target(self, entry: u16) -> Target {
        let next_hop = entry & self.next_hop_mask();
        Target::next_hop(if next_hop == self.next_hop_mask() { NextHop::NONE } else { NextHop(next_hop) })
    }

    /// The entry for a range, if it fits.
    fn entry(self, (start, target): (u32, Target), width: u32) -> Option<u16> {
        let key_shift = (width + self.next_hop_bits).checked_sub(16)?;
        let next_hop = target.to_next_hop();
        let fits = target.is_next_hop()
            && start.trailing_zeros() >= key_shift
            && (next_hop.is_none() || next_hop.0 < self.next_hop_mask());
        fits.then(|| ((start >> key_shift) << self.next_hop_bits) as u16 | next_hop.0.min(self.next_hop_mask()))
    }
}

/// Chunks of short and of full entries.
#[derive(Debug)]
pub(super) struct Arena<E> {
    pub(super) short_form: ShortForm,
    short: Chunks<u16>,
    full: Chunks<E>,
}

impl<E: Entry> Arena<E> {
    pub(super) fn new(direct_bits: u32) -> Self {
        Arena { short_form: ShortForm::new(direct_bits), short: Chunks::new(), full: Chunks::new() }
    }

    #[inline]
    pub(super) fn short(&self) -> &[u16] {
        &self.short.entries
    }

    #[inline]
    pub(super) fn full(&self) -> &[E] {
        &self.full.entries
    }

    pub(super) fn bytes(&self) -> usize {
        self.short.bytes() + self.full.bytes()
    }

    /// Whether a rebuild would at least halve an array.
    pub(super) fn is_wasteful(&self) -> bool {
        self.short.is_wasteful() || self.full.is_wasteful()
    }

    /// Lays down `ranges` (at least one, ascending, the first at key 0) of keys of `width` bits; a single
    /// one needs no chunk.
    pub(super) fn store(&mut self, ranges: &[(u32, Target)], width: u32) -> Target {
        if let [(_, only)] = ranges {
            return *only;
        }
        let short: Option<Vec<u16>> = ranges.iter().map(|range| self.short_form.entry(*range, width)).collect();
        match short {
            Some(entries) => Target(self.short.store(&entries) | SHORT),
            None => {
                let entries: Vec<E> = ranges.iter().map(|(start, target)| E::new(*start, *target)).collect();
                Target(self.full.store(&entries))
            }
        }
    }

    /// Frees the chunk that `target` leads to, if any, and those below it.
    pub(super) fn free(&mut self, target: Target) {
        if target.is_next_hop() {
            return;
        }
        let (first, class) = (target.first(), target.class());
        if target.is_short() {
            return self.short.free(first, class);
        }
        let mut before = Target::NONE;
        for at in first..first + (1 << class) {
            let below = self.full.entries[at as usize].target();
            // The last range may be repeated: its chunk is freed once.
            if below != before {
                self.free(below);
            }
            before = below;
        }
        self.full.free(first, class);
    }
}

/// One array and its free chunks.
#[derive(Debug)]
struct Chunks<E> {
    /// The entry 0 belongs to no chunk: a lane of a batch that has nothing to search reads it.
    entries: Vec<E>,
    /// First entries of the free chunks, by class.
    free: [Vec<u32>; CLASS_MASK as usize + 1],
    free_entries: usize,
}

impl<E: Copy + Default> Chunks<E> {
    fn new() -> Self {
        Chunks { entries: vec![E::default()], free: std::array::from_fn(|_| Vec::new()), free_entries: 0 }
    }

    fn bytes(&self) -> usize {
        let lists: usize = self.free.iter().map(|list| list.capacity() * size_of::<u32>()).sum();
        self.entries.capacity() * size_of::<E>() + lists
    }

    fn is_wasteful(&self) -> bool {
        self.free_entries > self.entries.len() / 2 && self.free_entries > 4096
    }

    /// Returns the first entry and the class as a [`Target`] has them.
    fn store(&mut self, entries: &[E]) -> u32 {
        let class = entries.len().next_power_of_two().trailing_zeros();
        let first = self.allocate(class);
        let (filled, rest) = self.entries[first..first + (1 << class)].split_at_mut(entries.len());
        filled.copy_from_slice(entries);
        rest.fill(entries[entries.len() - 1]);
        (first as u32) << SHIFT | class
    }

    fn allocate(&mut self, class: u32) -> usize {
        if let Some(first) = self.free[class as usize].pop() {
            self.free_entries -= 1 << class;
            return first as usize;
        }
        let first = self.entries.len();
        assert!(first + (1 << class) <= ENTRIES_MAX, "the bound on prefixes keeps an array below its own");
        if first + (1 << class) > self.entries.capacity() {
            // Growing by an eighth instead of twofold, for the same reason as short entries.
            self.entries.reserve_exact((1 << class).max(first / 8));
        }
        self.entries.resize(first + (1 << class), E::default());
        first
    }

    fn free(&mut self, first: u32, class: u32) {
        self.free[class as usize].push(first);
        self.free_entries += 1 << class;
    }
}
