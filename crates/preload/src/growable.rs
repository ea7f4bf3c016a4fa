//! A growable array on its own pages: the program's allocator must not be called from a hook.

use core::mem::size_of;
use core::ptr;

use crate::leave::Hold;
use crate::sys;

pub(crate) struct Growable<T: Copy> {
    base: *mut T,
    len: usize,
    capacity: usize,
}

// SAFETY: the array owns its pages; access goes through &self and &mut self.
unsafe impl<T: Copy + Send> Send for Growable<T> {}

impl<T: Copy> Growable<T> {
    pub(crate) const fn new() -> Self {
        Growable { base: ptr::null_mut(), len: 0, capacity: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        if self.base.is_null() {
            return &[];
        }
        // SAFETY: the first `len` elements were written by `push`.
        unsafe { core::slice::from_raw_parts(self.base, self.len) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        if self.base.is_null() {
            return &mut [];
        }
        // SAFETY: as above; `&mut self` makes it exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.base, self.len) }
    }

    /// Appends; false if there is no memory.
    pub(crate) fn push(&mut self, value: T) -> bool {
        if self.len == self.capacity && !self.grow() {
            return false;
        }
        // SAFETY: len < capacity.
        unsafe { self.base.add(self.len).write(value) };
        self.len += 1;
        true
    }

    /// Removes element `at` by putting the last one in its place.
    pub(crate) fn swap_remove(&mut self, at: usize) {
        if let [.., last] = *self.as_slice()
            && let Some(slot) = self.as_mut_slice().get_mut(at)
        {
            *slot = last;
            self.len -= 1;
        }
    }

    /// Forgets the elements and gives the pages back.
    pub(crate) fn clear(&mut self) {
        if !self.base.is_null() {
            // SAFETY: mapped by `grow` with this size.
            unsafe { sys::munmap(self.base.cast(), self.capacity * size_of::<T>()) };
        }
        *self = Growable::new();
    }

    fn grow(&mut self) -> bool {
        let capacity = if self.capacity == 0 { 4096 / size_of::<T>() } else { self.capacity * 2 };
        let Some(fresh) = sys::map_anonymous(capacity * size_of::<T>()) else { return false };
        let fresh = fresh.as_ptr().cast::<T>();
        if !self.base.is_null() {
            // SAFETY: both regions hold at least `len` elements and are distinct.
            unsafe {
                ptr::copy_nonoverlapping(self.base, fresh, self.len);
                sys::munmap(self.base.cast(), self.capacity * size_of::<T>());
            }
        }
        (self.base, self.capacity) = (fresh, capacity);
        true
    }
}

/// An array's pages, given back when the call that uses it is over or left. The array outlives this.
pub(crate) struct Pages<T: Copy>(pub(crate) *mut Growable<T>);

impl<T: Copy> Hold for Pages<T> {
    fn take(&self) {}

    fn give_back(&self) {
        // SAFETY: the maker's promise; the call uses the array no more.
        unsafe { (*self.0).clear() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_and_removes_like_a_vector() {
        let mut g = Growable::new();
        let mut v = Vec::new();
        for i in 0..5_000u32 {
            assert!(g.push(i));
            v.push(i);
            if i % 7 == 0 {
                g.swap_remove(i as usize / 3);
                v.swap_remove(i as usize / 3);
            }
        }
        assert_eq!(g.as_slice(), v);
        g.clear();
        assert_eq!(g.len(), 0);
    }
}
