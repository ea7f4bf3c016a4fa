//! Who owns each buffer and each page of rings: one word per thing, changed by compare and exchange, so nothing
//! is ever handed out twice, and what a dead owner leaves is found by looking through the words.

use crate::sync::{AtomicU32, Ordering::*};

/// Owner word of what nobody owns.
pub(super) const FREE: u32 = 0;

/// A view of the words.
#[derive(Clone, Copy)]
pub(super) struct Owners<'a>(pub(super) &'a [AtomicU32]);

impl<'a> Owners<'a> {
    /// The owner as last seen; FREE for what does not exist.
    #[inline]
    pub(super) fn of(self, thing: u32) -> u32 {
        self.0.get(thing as usize).map_or(FREE, |word| word.load(Relaxed))
    }

    /// Says whose `thing` is, whoever had it; nothing if there is no such thing.
    #[inline]
    pub(super) fn set(self, thing: u32, owner: u32) {
        if let Some(word) = self.0.get(thing as usize) {
            word.store(owner, Relaxed);
        }
    }

    /// Gives `thing` from `before` to `after`; false if it was not `before`'s.
    pub(super) fn pass(self, thing: u32, before: u32, after: u32) -> bool {
        let Some(word) = self.0.get(thing as usize) else { return false };
        word.compare_exchange(before, after, AcqRel, Relaxed).is_ok()
    }

    /// Takes a free thing at or after `from`; None if there is none from there on.
    pub(super) fn take(self, from: u32, owner: u32) -> Option<u32> {
        let free = (from as usize..self.0.len()).filter(|i| self.0[*i].load(Relaxed) == FREE);
        free.map(|i| i as u32).find(|i| self.pass(*i, FREE, owner))
    }

    /// Takes `n` free things in a row (under the control lock); None if there are no such.
    pub(super) fn take_run(self, n: u32, owner: u32) -> Option<u32> {
        let (mut start, mut len) = (0, 0);
        for (i, word) in self.0.iter().enumerate() {
            if word.load(Relaxed) != FREE {
                (start, len) = (i + 1, 0);
                continue;
            }
            len += 1;
            if len == n as usize {
                self.0[start..=i].iter().for_each(|word| word.store(owner, Relaxed));
                return Some(start as u32);
            }
        }
        None
    }

    /// All things of `owner`.
    pub(super) fn all_of(self, owner: u32) -> impl Iterator<Item = u32> + 'a {
        let owned = self.0.iter().enumerate().filter(move |(_, word)| word.load(Relaxed) == owner);
        owned.map(|(i, _)| i as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_twice() {
        let words: Vec<AtomicU32> = (0..100).map(|_| AtomicU32::new(FREE)).collect();
        let owners = Owners(&words);
        std::thread::scope(|s| {
            for owner in 1..=4 {
                s.spawn(move || {
                    let mut taken = 0;
                    while owners.take(0, owner).is_some() {
                        taken += 1;
                    }
                    assert_eq!(owners.all_of(owner).count(), taken);
                });
            }
        });
        assert_eq!(owners.all_of(FREE).count(), 0);
        assert_eq!((1..=4).map(|owner| owners.all_of(owner).count()).sum::<usize>(), 100);
    }

    #[test]
    fn a_run_is_found_behind_gaps() {
        let words: Vec<AtomicU32> = [0, 9, 0, 0, 9, 0, 0, 0].map(AtomicU32::new).into();
        let owners = Owners(&words);
        assert_eq!(owners.take_run(3, 5), Some(5));
        assert_eq!(owners.take_run(3, 5), None);
        assert_eq!(owners.take_run(2, 5), Some(2));
        assert!(owners.pass(0, FREE, 5) && !owners.pass(0, FREE, 6) && !owners.pass(99, FREE, 6));
    }
}
