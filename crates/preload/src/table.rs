//! What this process knows about each descriptor number.
//!
//! A sparse two-level table, so that a raised limit on open files needs no resizing. An entry is one
//! word; reading it is the only thing that every hooked call pays. Numbers beyond the bound
//! ([`DESCRIPTORS_MAX`]) are never looked at and go to the kernel.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

use libc::c_int;

use crate::{sys, thread};

const PAGE_ENTRIES: usize = 1024;
const PAGES: usize = 1024;

/// Descriptors at or above this number are passed through.
pub(crate) const DESCRIPTORS_MAX: usize = PAGE_ENTRIES * PAGES;

type Page = [AtomicU64; PAGE_ENTRIES];

static TABLE: [AtomicPtr<Page>; PAGES] = [const { AtomicPtr::new(core::ptr::null_mut()) }; PAGES];

/// What a number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Never looked at.
    Unknown,
    /// Nothing of ours: files, pipes, other sockets, and TCP connections that stay on TCP.
    Plain,
    /// A TCP socket that is not connected (yet).
    Tcp,
    /// A connection; the number is its place in the slab.
    Connection(u32),
    /// A connection's when the table froze; the number may mean something else by now.
    Unsure(u32),
    /// An epoll set; the number is its place among the sets.
    Epoll(u32),
    /// A netmap device; the number is its place among the devices.
    Netmap(u32),
    /// One of the library's own descriptors: the program must not close or use it.
    Private,
}

impl Entry {
    fn to_word(self) -> u64 {
        match self {
            Entry::Unknown => 0,
            Entry::Plain => 1,
            Entry::Tcp => 2,
            Entry::Connection(i) => 3 | (i as u64) << 8,
            Entry::Epoll(i) => 4 | (i as u64) << 8,
            Entry::Private => 5,
            Entry::Unsure(i) => 6 | (i as u64) << 8,
            Entry::Netmap(i) => 7 | (i as u64) << 8,
        }
    }

    #[inline]
    fn from_word(word: u64) -> Entry {
        match word & 0xff {
            0 => Entry::Unknown,
            2 => Entry::Tcp,
            3 => Entry::Connection((word >> 8) as u32),
            4 => Entry::Epoll((word >> 8) as u32),
            5 => Entry::Private,
            6 => Entry::Unsure((word >> 8) as u32),
            7 => Entry::Netmap((word >> 8) as u32),
            _ => Entry::Plain,
        }
    }
}

#[inline]
fn slot(fd: c_int) -> Option<&'static AtomicU64> {
    let fd = fd as usize;
    if fd >= DESCRIPTORS_MAX {
        return None;
    }
    let page = TABLE.get(fd / PAGE_ENTRIES)?.load(Acquire);
    // SAFETY: pages are mapped once and never unmapped.
    unsafe { page.as_ref() }?.get(fd % PAGE_ENTRIES)
}

#[cold]
fn slot_or_map(fd: c_int) -> Option<&'static AtomicU64> {
    if fd as usize >= DESCRIPTORS_MAX {
        return None;
    }
    let cell = TABLE.get(fd as usize / PAGE_ENTRIES)?;
    if cell.load(Acquire).is_null() {
        let fresh = sys::map_anonymous(size_of::<Page>())?;
        let raced = cell.compare_exchange(core::ptr::null_mut(), fresh.as_ptr().cast(), AcqRel, Acquire).is_err();
        if raced {
            // SAFETY: the mapping was made above and nobody has seen it.
            unsafe { sys::munmap(fresh.as_ptr(), size_of::<Page>()) };
        }
    }
    slot(fd)
}

/// What is known about `fd`. Invalid and huge numbers are `Plain`: the kernel judges them.
#[inline]
pub(crate) fn get(fd: c_int) -> Entry {
    match slot(fd) {
        Some(word) => Entry::from_word(word.load(Acquire)),
        None if (fd as usize) < DESCRIPTORS_MAX => Entry::Unknown,
        None => Entry::Plain,
    }
}

/// Not 0 while there are children that share this table but not the descriptors, or once it is frozen.
pub(crate) static GUARDS: AtomicU32 = AtomicU32::new(0);
static FROZEN: AtomicBool = AtomicBool::new(false);

/// A child is about to be made that shares this table but not the descriptors, for any length of time.
pub(crate) fn expect_borrowers() {
    GUARDS.fetch_add(1, SeqCst);
}

/// From now on nothing is stored: numbers mean different things to different threads, or change unseen.
pub(crate) fn freeze() {
    GUARDS.fetch_add(1, SeqCst);
    FROZEN.store(true, SeqCst);
    for_each(0, c_int::MAX, |fd, entry| {
        let word = slot(fd);
        match entry {
            Entry::Connection(i) => word.map(|w| w.store(Entry::Unsure(i).to_word(), Release)),
            Entry::Private => word.map(|w| w.store(Entry::Unknown.to_word(), Release)),
            _ => None,
        };
    });
}

pub(crate) fn is_frozen() -> bool {
    FROZEN.load(Relaxed)
}

/// Whether the caller may store: false in a child of vfork, and once the table is frozen.
#[inline]
pub(crate) fn is_ours() -> bool {
    GUARDS.load(Acquire) == 0 || (!is_frozen() && !thread::is_borrower())
}

/// The child's table is its own, and so are its descriptors, unless its parent's were frozen.
pub(crate) fn after_fork_child() {
    GUARDS.store(is_frozen() as u32, Relaxed);
}

/// Replaces the entry and returns the old one. The caller releases what the old one referred to.
/// `Plain` comes back, and nothing is stored, for numbers beyond the bound or if the table is not ours.
pub(crate) fn replace(fd: c_int, entry: Entry) -> Entry {
    if !is_ours() {
        return Entry::Plain;
    }
    let word = match slot(fd) {
        Some(word) => word,
        None if entry == Entry::Unknown => return Entry::Unknown,
        None => match slot_or_map(fd) {
            Some(word) => word,
            None => return Entry::Plain,
        },
    };
    Entry::from_word(word.swap(entry.to_word(), AcqRel))
}

/// Replaces the entry only if it is still `old`.
pub(crate) fn replace_if(fd: c_int, old: Entry, new: Entry) -> bool {
    is_ours()
        && slot_or_map(fd).is_some_and(|w| w.compare_exchange(old.to_word(), new.to_word(), AcqRel, Relaxed).is_ok())
}

/// Calls `f` for each known number in `first..=last`, in ascending order.
pub(crate) fn for_each(first: c_int, last: c_int, mut f: impl FnMut(c_int, Entry)) {
    let last = (last.max(0) as usize).min(DESCRIPTORS_MAX - 1);
    let mut fd = first.max(0) as usize;
    while fd <= last {
        let page = TABLE.get(fd / PAGE_ENTRIES).map_or(core::ptr::null_mut(), |p| p.load(Acquire));
        if page.is_null() {
            fd = (fd / PAGE_ENTRIES + 1) * PAGE_ENTRIES;
            continue;
        }
        match get(fd as c_int) {
            Entry::Unknown => {}
            entry => f(fd as c_int, entry),
        }
        fd += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_the_word() {
        for e in [
            Entry::Unknown,
            Entry::Plain,
            Entry::Tcp,
            Entry::Connection(77),
            Entry::Epoll(3),
            Entry::Private,
            Entry::Unsure(8),
            Entry::Netmap(4),
        ] {
            assert_eq!(Entry::from_word(e.to_word()), e);
        }
    }

    #[test]
    fn numbers_out_of_range_are_plain() {
        assert_eq!(get(-1), Entry::Plain);
        assert_eq!(get(DESCRIPTORS_MAX as c_int), Entry::Plain);
        assert_eq!(replace(c_int::MAX, Entry::Tcp), Entry::Plain);
    }

    #[test]
    fn sparse_numbers_are_found_again() {
        replace(500_000, Entry::Epoll(9));
        replace(900_001, Entry::Connection(1));
        let mut seen = Vec::new();
        for_each(400_000, c_int::MAX, |fd, e| seen.push((fd, e)));
        assert_eq!(seen, [(500_000, Entry::Epoll(9)), (900_001, Entry::Connection(1))]);
    }
}
