//! Lookups: one address, or a batch. Addresses of several levels (IPv6) are looked up in lockstep, so that one's cache misses
//! hide behind the others'; an IPv4 lookup is so short that the processor has several under way by itself.

use std::hint::select_unpredictable;

use super::arena::{Entry, Target};
use super::{Address, Dxr, NextHop};

/// Addresses that are looked up together: enough to keep the memory busy, few enough for registers and L1.
const LANES: usize = 16;

impl<A: Address> Dxr<A> {
    /// The next hop of the longest prefix that holds `address`, or [`NextHop::NONE`].
    #[inline]
    pub fn lookup(&self, address: A) -> NextHop {
        let mut target = self.direct[address.bits(0, self.direct_bits) as usize];
        let mut from = self.direct_bits;
        while !target.is_next_hop() {
            let width = A::LEVEL_BITS.min(A::BITS - from);
            let key = address.bits(from, width);
            target = if target.is_short() {
                let form = self.arena.short_form;
                form.target(search(self.arena.short(), target, form.ceiling(key, width)))
            } else {
                search(self.arena.full(), target, A::Entry::ceiling(key)).target()
            };
            from += width;
        }
        target.to_next_hop()
    }

    /// Looks up each of `addresses`; the answers go to the same places in `next_hops`.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn lookup_batch(&self, addresses: &[A], next_hops: &mut [NextHop]) {
        assert_eq!(addresses.len(), next_hops.len(), "as many answers as addresses");
        if A::BITS - self.direct_bits <= A::LEVEL_BITS {
            return addresses.iter().zip(next_hops).for_each(|(address, answer)| *answer = self.lookup(*address));
        }
        let mut groups = addresses.chunks_exact(LANES);
        let mut answers = next_hops.chunks_exact_mut(LANES);
        for (group, answers) in (&mut groups).zip(&mut answers) {
            if let (Ok(group), Ok(answers)) = (group.try_into(), answers.try_into()) {
                self.lookup_lanes(group, answers);
            }
        }
        for (address, answer) in groups.remainder().iter().zip(answers.into_remainder()) {
            *answer = self.lookup(*address);
        }
    }

    fn lookup_lanes(&self, addresses: &[A; LANES], next_hops: &mut [NextHop; LANES]) {
        let mut targets = addresses.map(|address| self.direct[address.bits(0, self.direct_bits) as usize]);
        let form = self.arena.short_form;
        let mut from = self.direct_bits;
        while targets.iter().any(|target| !target.is_next_hop()) {
            let width = A::LEVEL_BITS.min(A::BITS - from);
            let keys = addresses.map(|address| address.bits(from, width));
            let before = targets;
            if before.iter().any(|target| target.is_short()) {
                let is_searched = before.map(|target| target.is_short());
                let ceilings = keys.map(|key| form.ceiling(key, width));
                let found = search_lanes(self.arena.short(), &before, &is_searched, &ceilings);
                replace(&mut targets, &is_searched, found.map(|entry| form.target(entry)));
            }
            if before.iter().any(|target| !target.is_short() && !target.is_next_hop()) {
                let is_searched = before.map(|target| !target.is_short() && !target.is_next_hop());
                let ceilings = keys.map(A::Entry::ceiling);
                let found = search_lanes(self.arena.full(), &before, &is_searched, &ceilings);
                replace(&mut targets, &is_searched, found.map(Entry::target));
            }
            from += width;
        }
        *next_hops = targets.map(Target::to_next_hop);
    }
}

/// The last entry of `chunk` that is no larger than `ceiling`.
#[inline]
fn search<E: Copy + Ord>(entries: &[E], chunk: Target, ceiling: E) -> E {
    let mut place = chunk.first() as usize;
    let mut half = (1 << chunk.class()) / 2;
    while half > 0 {
        place += select_unpredictable(entries[place + half] <= ceiling, half, 0);
        half /= 2;
    }
    entries[place]
}

/// As `search`, for all lanes with `is_searched`. Each step is taken for all lanes before the next, and without
/// branches that depend on the data: a lane that needs fewer steps than another compares with itself.
#[inline]
fn search_lanes<E: Copy + Ord>(
    entries: &[E],
    chunks: &[Target; LANES],
    is_searched: &[bool; LANES],
    ceilings: &[E; LANES],
) -> [E; LANES] {
    let masked = |lane: usize, number: u32| select_unpredictable(is_searched[lane], number, 0);
    let mut places: [u32; LANES] = std::array::from_fn(|lane| masked(lane, chunks[lane].first()));
    let classes: [u32; LANES] = std::array::from_fn(|lane| masked(lane, chunks[lane].class()));
    let steps = classes.into_iter().fold(0, u32::max);
    for step in 1..=steps {
        for lane in 0..LANES {
            let half = (1 << classes[lane]) >> (step & 31);
            let is_above = entries[(places[lane] + half) as usize] <= ceilings[lane];
            places[lane] += select_unpredictable(is_above, half, 0);
        }
    }
    places.map(|place| entries[place as usize])
}

#[inline]
fn replace(targets: &mut [Target; LANES], is_searched: &[bool; LANES], found: [Target; LANES]) {
    for lane in 0..LANES {
        targets[lane] = select_unpredictable(is_searched[lane], found[lane], targets[lane]);
    }
}
