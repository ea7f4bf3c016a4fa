//! From prefixes to ranges: one ordered sweep with a stack of the prefixes that are open.

use std::iter::Peekable;

use super::arena::{Arena, Target};
use super::prefix::{Address, Prefix};
use super::{NextHop, Rib};

/// Rebuilds entries `first..=last` of the direct table, one for each value of an address's first `direct_bits`.
pub(super) fn rebuild<A: Address>(
    rib: &Rib<A>,
    arena: &mut Arena<A::Entry>,
    direct: &mut [Target],
    (first, last): (u32, u32),
) {
    let direct_bits = direct.len().trailing_zeros();
    for target in &mut direct[first as usize..=last as usize] {
        arena.free(std::mem::replace(target, Target::NONE));
    }
    let address = A::from_top(first, direct_bits);
    let mut level = Level::new(0, direct_bits, first, u64::from(last) + 1);
    for (prefix, next_hop) in rib.covering(address).into_iter().rev() {
        level.open(prefix, next_hop);
    }
    let mut prefixes = rib.starting_at(address).peekable();
    level.sweep(A::default(), &mut prefixes, arena);
    let ends = level.ranges.iter().skip(1).map(|(start, _)| *start).chain([last + 1]);
    for ((start, target), end) in level.ranges.iter().zip(ends) {
        direct[*start as usize..end as usize].fill(*target);
    }
}

/// One level of ranges while it is made: the addresses' bits `from..from + width` are the key.
struct Level {
    from: u32,
    width: u32,
    /// First key behind the last one.
    end: u64,
    ranges: Vec<(u32, Target)>,
    /// Prefixes that hold the current key, each with the first key behind it; the outermost first.
    open: Vec<(u64, Target)>,
}

impl Level {
    fn new(from: u32, width: u32, start: u32, end: u64) -> Level {
        Level { from, width, end, ranges: vec![(start, Target::NONE)], open: vec![(u64::MAX, Target::NONE)] }
    }

    /// Takes from `prefixes` all those in the part of the level that begins with `base`'s first `from` bits.
    fn sweep<A: Address>(
        &mut self,
        base: A,
        prefixes: &mut Peekable<impl Iterator<Item = (Prefix<A>, NextHop)>>,
        arena: &mut Arena<A::Entry>,
    ) {
        let level_len = self.from + self.width;
        while let Some(&(prefix, next_hop)) = prefixes.peek() {
            let key = prefix.address().bits(self.from, self.width);
            if prefix.address().common_bits(base) < self.from || u64::from(key) >= self.end {
                break;
            }
            self.close_before(key);
            if prefix.length() <= level_len {
                prefixes.next();
                self.open(prefix, next_hop);
            } else {
                let below_width = A::LEVEL_BITS.min(A::BITS - level_len);
                let mut below = Level::new(level_len, below_width, 0, 1 << below_width);
                below.ranges[0].1 = self.innermost();
                below.open[0].1 = self.innermost();
                below.sweep(prefix.address(), prefixes, arena);
                self.emit(u64::from(key), arena.store(&below.ranges, below_width));
                self.emit(u64::from(key) + 1, self.innermost());
            }
        }
        while self.open.len() > 1 {
            self.close();
        }
    }

    fn innermost(&self) -> Target {
        self.open.last().map_or(Target::NONE, |(_, target)| *target)
    }

    fn open<A: Address>(&mut self, prefix: Prefix<A>, next_hop: NextHop) {
        let key = prefix.address().bits(self.from, self.width);
        let target = Target::next_hop(next_hop);
        let start = key.max(self.ranges[0].0);
        self.emit(u64::from(start), target);
        self.open.push((u64::from(key) + (1 << (self.from + self.width - prefix.length())), target));
    }

    /// Closes the prefixes that end at `key` or before.
    fn close_before(&mut self, key: u32) {
        while self.open.last().is_some_and(|(end, _)| *end <= u64::from(key)) {
            self.close();
        }
    }

    fn close(&mut self) {
        if let Some((end, _)) = self.open.pop() {
            self.emit(end, self.innermost());
        }
    }

    /// From `start` on, addresses lead to `target`.
    fn emit(&mut self, start: u64, target: Target) {
        if start >= self.end {
            return;
        }
        let start = start as u32;
        if self.ranges.last().is_some_and(|(last, _)| *last == start) {
            self.ranges.pop();
        }
        if self.ranges.last().is_none_or(|(_, last)| *last != target) {
            self.ranges.push((start, target));
        }
    }
}
