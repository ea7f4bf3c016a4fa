//! A hierarchical timer wheel: 1 ms, 256 slots, 4 levels, one node for each connection (Varghese and Lauck 1987).
//!
//! Nodes are moved as seldom as possible: who postpones a deadline only notes the new one in the connection, and
//! arms it again when the old one goes off. So an acknowledgement costs no list operation.

const LEVELS: usize = 4;
const SLOTS: usize = 256;
const NONE: u32 = u32::MAX;
/// The last tick that the wheel can hold beyond the present one: 49 days.
const HORIZON: u64 = 1 << 32;

#[derive(Clone, Copy)]
struct Node {
    next: u32,
    prev: u32,
    tick: u64,
    /// Level and slot, or `NONE` when not armed.
    slot: u32,
}

const IDLE: Node = Node { next: NONE, prev: NONE, tick: 0, slot: NONE };

pub(crate) struct Wheel {
    now: u64,
    heads: [u32; LEVELS * SLOTS],
    occupied: [[u64; SLOTS / 64]; LEVELS],
    nodes: Vec<Node>,
}

impl Wheel {
    pub(crate) fn new() -> Wheel {
        Wheel { now: 0, heads: [NONE; LEVELS * SLOTS], occupied: Default::default(), nodes: Vec::new() }
    }

    /// Arms `id` for `tick` (milliseconds), or the next one if that is past; it may be armed already.
    pub(crate) fn arm(&mut self, id: u32, tick: u64) {
        if self.nodes.len() <= id as usize {
            self.nodes.resize(id as usize + 1, IDLE);
        }
        self.disarm(id);
        self.insert(id, tick.clamp(self.now + 1, self.now + HORIZON - 1));
    }

    /// The tick for which `id` is armed.
    pub(crate) fn armed(&self, id: u32) -> Option<u64> {
        self.nodes.get(id as usize).filter(|node| node.slot != NONE).map(|node| node.tick)
    }

    pub(crate) fn disarm(&mut self, id: u32) {
        let Some(&node) = self.nodes.get(id as usize).filter(|node| node.slot != NONE) else { return };
        match node.prev {
            NONE => self.heads[node.slot as usize] = node.next,
            prev => self.nodes[prev as usize].next = node.next,
        }
        if node.next != NONE {
            self.nodes[node.next as usize].prev = node.prev;
        }
        if self.heads[node.slot as usize] == NONE {
            let (level, slot) = (node.slot as usize / SLOTS, node.slot as usize % SLOTS);
            self.occupied[level][slot / 64] &= !(1 << (slot % 64));
        }
        self.nodes[id as usize] = IDLE;
    }

    /// The next timer that is due at `now`, disarmed; `None` when all that are due have been taken.
    pub(crate) fn pop_due(&mut self, now: u64) -> Option<u32> {
        loop {
            let current = self.heads[self.now as usize % SLOTS];
            if current != NONE && self.nodes[current as usize].tick <= self.now {
                self.disarm(current);
                return Some(current);
            }
            match self.next_tick() {
                Some(tick) if tick <= now => self.turn_to(tick),
                _ => {
                    self.now = self.now.max(now);
                    return None;
                }
            }
        }
    }

    /// When to look again: at or before the next timer.
    pub(crate) fn next_tick(&self) -> Option<u64> {
        if self.heads[self.now as usize % SLOTS] != NONE {
            return Some(self.now);
        }
        (0..LEVELS).filter_map(|level| self.next_in_level(level)).min()
    }

    /// The first tick of the next occupied slot of `level` after the present one.
    fn next_in_level(&self, level: usize) -> Option<u64> {
        let present = self.now >> (8 * level);
        let from = (present as usize + 1) % SLOTS;
        let words = &self.occupied[level];
        for step in 0..=SLOTS / 64 {
            let word = (from / 64 + step) % (SLOTS / 64);
            let mask = match step {
                0 => u64::MAX << (from % 64),
                4 => !(u64::MAX << (from % 64)),
                _ => u64::MAX,
            };
            let bits = words[word] & mask;
            if bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                let distance = (slot + SLOTS - from) % SLOTS + 1;
                return Some((present + distance as u64) << (8 * level));
            }
        }
        None
    }

    /// Makes `tick` the present one; the higher levels' slots that begin with it move down.
    fn turn_to(&mut self, tick: u64) {
        self.now = tick;
        for level in (1..LEVELS).rev() {
            if tick.trailing_zeros() < 8 * level as u32 {
                continue;
            }
            let slot = level * SLOTS + (tick >> (8 * level)) as usize % SLOTS;
            while self.heads[slot] != NONE {
                let id = self.heads[slot];
                let at = self.nodes[id as usize].tick;
                self.disarm(id);
                self.insert(id, at);
            }
        }
    }

    fn insert(&mut self, id: u32, tick: u64) {
        let fits = |level: &usize| (tick >> (8 * level)) - (self.now >> (8 * level)) < SLOTS as u64;
        let level = (0..LEVELS - 1).find(fits).unwrap_or(LEVELS - 1);
        let slot = (tick >> (8 * level)) as usize % SLOTS;
        self.occupied[level][slot / 64] |= 1 << (slot % 64);
        let head = &mut self.heads[level * SLOTS + slot];
        let next = core::mem::replace(head, id);
        if next != NONE {
            self.nodes[next as usize].prev = id;
        }
        self.nodes[id as usize] = Node { next, prev: NONE, tick, slot: (level * SLOTS + slot) as u32 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Against a sorted list: every timer goes off once, in the tick it was armed for, never early.
        #[test]
        fn a_wheel_is_a_sorted_list(steps in proptest::collection::vec((0u32..20, 1u64..1 << 34, 0u32..34), 1..80)) {
            let (mut wheel, mut oracle, mut now) = (Wheel::new(), BTreeMap::new(), 0u64);
            for (id, random, shift) in steps {
                let (delay, ahead) = ((random >> shift).clamp(1, HORIZON - 1), random >> (shift / 2 + 10));
                wheel.arm(id, now + delay);
                oracle.insert(id, now + delay);
                if id % 5 == 0 {
                    wheel.disarm(id);
                    oracle.remove(&id);
                }
                if let Some(next) = oracle.values().min() {
                    prop_assert!(wheel.next_tick().is_some_and(|tick| tick <= *next && tick > now));
                }
                now += ahead;
                let mut due = vec![];
                while let Some(id) = wheel.pop_due(now) {
                    due.push(id);
                }
                let mut expected: Vec<u32> = oracle.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id).collect();
                oracle.retain(|_, at| *at > now);
                due.sort();
                expected.sort();
                prop_assert_eq!(due, expected);
            }
        }
    }

    #[test]
    fn a_timer_in_the_past_goes_off_in_the_next_tick() {
        let mut wheel = Wheel::new();
        assert_eq!(wheel.pop_due(1000), None);
        wheel.arm(3, 5);
        assert_eq!((wheel.armed(3), wheel.pop_due(1000), wheel.pop_due(1001)), (Some(1001), None, Some(3)));
        assert_eq!((wheel.armed(3), wheel.next_tick()), (None, None));
    }
}
