//! The prefixes as they were given: the source that the lookup table is rebuilt from.

use std::collections::BTreeMap;

use super::prefix::{Address, Prefix};
use super::{DxrError, NextHop, PREFIXES_MAX};

/// Every prefix with its next hop, in the order of [`Prefix`]: each before those that lie in it.
#[derive(Debug, Default)]
pub(super) struct Rib<A> {
    prefixes: BTreeMap<Prefix<A>, NextHop>,
}

impl<A: Address> Rib<A> {
    pub(super) fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Returns the next hop that `prefix` had.
    pub(super) fn insert(&mut self, prefix: Prefix<A>, next_hop: NextHop) -> Result<Option<NextHop>, DxrError> {
        if self.prefixes.len() >= PREFIXES_MAX && !self.prefixes.contains_key(&prefix) {
            return Err(DxrError::Full);
        }
        Ok(self.prefixes.insert(prefix, next_hop))
    }

    pub(super) fn remove(&mut self, prefix: Prefix<A>) -> Option<NextHop> {
        self.prefixes.remove(&prefix)
    }

    pub(super) fn get(&self, prefix: Prefix<A>) -> Option<NextHop> {
        self.prefixes.get(&prefix).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Prefix<A>, NextHop)> {
        self.prefixes.iter().map(|(prefix, next_hop)| (*prefix, *next_hop))
    }

    /// Prefixes from the first that begins at `address` on.
    pub(super) fn starting_at(&self, address: A) -> impl Iterator<Item = (Prefix<A>, NextHop)> {
        self.prefixes.range(Prefix::position(address, 0)..).map(|(prefix, next_hop)| (*prefix, *next_hop))
    }

    /// The prefixes that begin before `address` and hold it, longest first: one search each, and one
    /// for each neighbour that shares leading bits with `address` without holding it.
    pub(super) fn covering(&self, address: A) -> Vec<(Prefix<A>, NextHop)> {
        let mut found = Vec::new();
        let mut below = Prefix::position(address, 0);
        while let Some((&prefix, &next_hop)) = self.prefixes.range(..below).next_back() {
            let shared = prefix.address().common_bits(address);
            // Whatever else holds `address` also holds this neighbour, so it is no longer than what they share.
            let len_max = if shared >= prefix.length() {
                found.push((prefix, next_hop));
                match prefix.length().checked_sub(1) {
                    Some(shorter) => shorter,
                    None => break,
                }
            } else {
                shared
            };
            below = below.min(Prefix::position(address.masked(len_max), len_max + 1));
        }
        found
    }
}
