//! Connections by their two endpoints: open addressing with the hash beside each value, so that a lookup reads
//! one cache line of the table, and removing and growing need no key.

use ringway_wire::{Endpoint, IpAddress};

use crate::hash::Key;

/// Local and remote end of a connection; IPv4 addresses stand as IPv4-mapped ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub(crate) struct FlowKey {
    local: [u32; 4],
    remote: [u32; 4],
    /// Local port above, remote port below.
    ports: u32,
}

/// The first three words of an IPv4-mapped address.
const MAPPED: [u32; 3] = [0, 0, 0xffff_u32.to_be()];

impl FlowKey {
    #[inline]
    pub(crate) fn new(local: Endpoint, remote: Endpoint) -> FlowKey {
        FlowKey {
            local: words(local.address),
            remote: words(remote.address),
            ports: u32::from(local.port) << 16 | u32::from(remote.port),
        }
    }

    /// Of IPv4 addresses as they lie in memory; `ports` has the local one above.
    #[inline]
    pub(crate) fn v4(local: [u8; 4], remote: [u8; 4], ports: u32) -> FlowKey {
        let mapped = |octets| [MAPPED[0], MAPPED[1], MAPPED[2], u32::from_ne_bytes(octets)];
        FlowKey { local: mapped(local), remote: mapped(remote), ports }
    }

    /// What [`FlowKey::v4`] was made of, if it was.
    #[inline]
    pub(crate) fn as_v4(&self) -> Option<([u8; 4], [u8; 4], u32)> {
        let ends = (self.local[3].to_ne_bytes(), self.remote[3].to_ne_bytes(), self.ports);
        self.is_v4().then_some(ends)
    }

    #[inline]
    pub(crate) fn local_port(&self) -> u16 {
        (self.ports >> 16) as u16
    }

    #[inline]
    pub(crate) fn remote_port(&self) -> u16 {
        self.ports as u16
    }

    pub(crate) fn local(&self) -> Endpoint {
        Endpoint::new(address(self.local), self.local_port())
    }

    pub(crate) fn remote(&self) -> Endpoint {
        Endpoint::new(address(self.remote), self.remote_port())
    }

    #[inline]
    pub(crate) fn is_v4(&self) -> bool {
        self.remote[..3] == MAPPED
    }

    #[inline]
    pub(crate) fn hash(&self, key: Key) -> u64 {
        let pair = |a: u32, b: u32| u64::from(a) << 32 | u64::from(b);
        if self.is_v4() {
            return key.hash(&[pair(self.local[3], self.remote[3]), u64::from(self.ports)]);
        }
        let (l, r) = (&self.local, &self.remote);
        key.hash(&[pair(l[0], l[1]), pair(l[2], l[3]), pair(r[0], r[1]), pair(r[2], r[3]), u64::from(self.ports)])
    }
}

#[inline]
fn words(address: IpAddress) -> [u32; 4] {
    match address {
        IpAddress::V4(v4) => [MAPPED[0], MAPPED[1], MAPPED[2], u32::from_ne_bytes(v4.octets())],
        IpAddress::V6(v6) => {
            let octets = v6.octets();
            let (words, _) = octets.as_chunks::<4>();
            [0, 1, 2, 3].map(|n| u32::from_ne_bytes(words[n]))
        }
    }
}

fn address(words: [u32; 4]) -> IpAddress {
    let mut octets = [0; 16];
    for (out, word) in octets.chunks_exact_mut(4).zip(words) {
        out.copy_from_slice(&word.to_ne_bytes());
    }
    IpAddress::from(octets).to_canonical()
}

#[derive(Clone, Copy)]
struct Slot {
    /// The hash's low half; the table's size never exceeds it.
    hash: u32,
    /// What was stored, or `EMPTY`.
    value: u32,
}

const EMPTY: u32 = u32::MAX;
const SLOTS_MIN: usize = 64;

/// Maps hashes to values; whoever asks says which of the values with that hash is meant.
pub(crate) struct FlowTable {
    slots: Vec<Slot>,
    len: usize,
}

impl FlowTable {
    pub(crate) fn new() -> FlowTable {
        FlowTable { slots: vec![Slot { hash: 0, value: EMPTY }; SLOTS_MIN], len: 0 }
    }

    /// The value stored under `hash` for which `is_it` holds.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.home(hash as u32);
        loop {
            let slot = self.slots[at];
            if slot.value == EMPTY {
                return None;
            }
            if slot.hash == hash as u32 && is_it(slot.value) {
                return Some(slot.value);
            }
            at = self.after(at);
        }
    }

    /// Reads the place where `hash` would be, so that it is in the cache when [`FlowTable::find`] comes; returns
    /// the value there if it is likely to be the one.
    #[inline]
    pub(crate) fn touch(&self, hash: u64) -> Option<u32> {
        let slot = self.slots[self.home(hash as u32)];
        (slot.hash == hash as u32 && slot.value != EMPTY).then_some(slot.value)
    }

    /// Stores a value that is not there yet; bounded by its owner.
    pub(crate) fn insert(&mut self, hash: u64, value: u32) {
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        self.len += 1;
        self.place(Slot { hash: hash as u32, value });
    }

    /// Removes `value`. What follows moves up, so no gap breaks a search and no marker stays behind.
    pub(crate) fn remove(&mut self, hash: u64, value: u32) {
        let Some(mut gap) = self.position(hash, value) else { return };
        self.len -= 1;
        let mut at = self.after(gap);
        while self.slots[at].value != EMPTY {
            let from_home = self.distance(self.home(self.slots[at].hash), at);
            if from_home >= self.distance(gap, at) {
                self.slots[gap] = self.slots[at];
                gap = at;
            }
            at = self.after(at);
        }
        self.slots[gap].value = EMPTY;
    }

    fn position(&self, hash: u64, value: u32) -> Option<usize> {
        let mut at = self.home(hash as u32);
        while self.slots[at].value != EMPTY {
            if self.slots[at].value == value {
                return Some(at);
            }
            at = self.after(at);
        }
        None
    }

    fn grow(&mut self) {
        let twice = vec![Slot { hash: 0, value: EMPTY }; self.slots.len() * 2];
        for slot in core::mem::replace(&mut self.slots, twice) {
            if slot.value != EMPTY {
                self.place(slot);
            }
        }
    }

    fn place(&mut self, slot: Slot) {
        let mut at = self.home(slot.hash);
        while self.slots[at].value != EMPTY {
            at = self.after(at);
        }
        self.slots[at] = slot;
    }

    #[inline]
    fn home(&self, hash: u32) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn keys_give_their_endpoints_back() {
        for (local, remote) in [("10.0.0.1:80", "192.0.2.1:40000"), ("[2001:db8::1]:1", "[fe80::2]:65535")] {
            let ends = [local, remote].map(|text| Endpoint::from(text.parse::<core::net::SocketAddr>().unwrap()));
            let key = FlowKey::new(ends[0], ends[1]);
            assert_eq!([key.local(), key.remote()], ends);
            assert_eq!(key.is_v4(), local.starts_with('1'));
            if let Some((local, remote, ports)) = key.as_v4() {
                assert_eq!(FlowKey::v4(local, remote, ports), key);
            }
            assert_ne!(key.hash(Key::new(1, 1)), FlowKey::new(ends[1], ends[0]).hash(Key::new(1, 1)));
        }
        assert_eq!(size_of::<FlowKey>(), 36);
    }

    proptest! {
        /// Hashes from a small range, so that many collide.
        #[test]
        fn a_table_is_a_map(steps in proptest::collection::vec((0u64..90, any::<bool>()), 0..400)) {
            let (mut table, mut oracle) = (FlowTable::new(), HashMap::new());
            for (hash, insert) in steps {
                let value = hash as u32 * 3;
                let crowded = hash / 4 * 7;
                match (insert, oracle.contains_key(&hash)) {
                    (true, false) => {
                        table.insert(crowded, value);
                        oracle.insert(hash, value);
                    }
                    (false, true) => {
                        table.remove(crowded, value);
                        oracle.remove(&hash);
                    }
                    _ => {}
                }
                for hash in 0..90u64 {
                    let found = table.find(hash / 4 * 7, |value| value == hash as u32 * 3);
                    prop_assert_eq!(found, oracle.get(&hash).copied());
                }
            }
        }
    }
}
