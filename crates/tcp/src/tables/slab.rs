//! Numbered slots in pieces, so that a table of a million grows without ever being moved.

const CHUNK: usize = 256;

/// Slots that are taken and given back; a free slot keeps its old value until it is taken again.
pub(crate) struct Slab<T> {
    chunks: Vec<Box<[T; CHUNK]>>,
    free: Vec<u32>,
    len: usize,
    len_max: usize,
}

impl<T: Default> Slab<T> {
    pub(crate) fn new(len_max: usize) -> Slab<T> {
        Slab { chunks: Vec::new(), free: Vec::new(), len: 0, len_max }
    }

    /// A free slot's number, or `None` if the table holds as many as it may.
    pub(crate) fn take(&mut self) -> Option<u32> {
        if self.len == self.len_max {
            return None;
        }
        if self.free.is_empty() {
            let first = (self.chunks.len() * CHUNK) as u32;
            self.chunks.push(chunk());
            self.free.extend((first..first + CHUNK as u32).rev());
        }
        self.len += 1;
        self.free.pop()
    }

    pub(crate) fn give_back(&mut self, index: u32) {
        self.len -= 1;
        self.free.push(index);
    }

    /// Slots taken.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether there ever was a slot of this number.
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.chunks.get(index as usize / CHUNK).map(|chunk| &chunk[index as usize % CHUNK])
    }
}

/// A chunk that is made on the heap, as it may be too large for a stack.
fn chunk<T: Default>() -> Box<[T; CHUNK]> {
    let slots: Box<[T]> = (0..CHUNK).map(|_| T::default()).collect();
    slots.try_into().unwrap_or_else(|_| unreachable!("as many as asked for"))
}

impl<T> core::ops::Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }
}

impl<T> core::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_taken_once_up_to_the_bound() {
        let mut slab = Slab::<u8>::new(300);
        let taken: Vec<u32> = core::iter::from_fn(|| slab.take()).collect();
        assert_eq!(taken, (0..300).collect::<Vec<u32>>());
        slab[299] = 7;
        slab.give_back(299);
        assert_eq!((slab.len(), slab.take(), slab[299]), (299, Some(299), 7));
        assert!(slab.get(511).is_some() && slab.get(512).is_none());
    }
}
