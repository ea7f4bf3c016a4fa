//! The program's actions, one per signal, readable in signal handlers at any time.
//!
//! An entry has two versions; a writer fills the one not in use and then turns over. A reader never waits for
//! a writer: it reads again if the entry was turned over meanwhile. Writers hold the module's lock.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use libc::c_int;

use super::LAST;
use crate::sys::KernelSigaction;

struct Entry {
    /// How often it was turned over; the last bit names the version in use.
    turns: AtomicU32,
    versions: [Version; 2],
}

struct Version {
    handler: AtomicU64,
    flags: AtomicU64,
    restorer: AtomicU64,
    mask: AtomicU64,
}

static TABLE: [Entry; LAST as usize] = [const { Entry::new() }; LAST as usize];

impl Entry {
    const fn new() -> Entry {
        Entry { turns: AtomicU32::new(0), versions: [const { Version::new() }; 2] }
    }

    fn version(&self, turns: u32) -> &Version {
        let [even, odd] = &self.versions;
        if turns.is_multiple_of(2) { even } else { odd }
    }
}

impl Version {
    const fn new() -> Version {
        let [handler, flags, restorer, mask] = [const { AtomicU64::new(0) }; 4];
        Version { handler, flags, restorer, mask }
    }
}

fn entry(signal: c_int) -> Option<&'static Entry> {
    TABLE.get(usize::try_from(signal).ok()?.checked_sub(1)?)
}

/// The program's action for `signal`; the default action before arming.
pub(super) fn read(signal: c_int) -> KernelSigaction {
    let Some(entry) = entry(signal) else { return KernelSigaction::default() };
    loop {
        let turns = entry.turns.load(Ordering::Acquire);
        let version = entry.version(turns);
        let action = KernelSigaction {
            handler: version.handler.load(Ordering::Relaxed) as usize,
            flags: version.flags.load(Ordering::Relaxed),
            restorer: version.restorer.load(Ordering::Relaxed) as usize,
            mask: version.mask.load(Ordering::Relaxed),
        };
        fence(Ordering::Acquire);
        if entry.turns.load(Ordering::Relaxed) == turns {
            return action;
        }
    }
}

/// Called with the lock held.
pub(super) fn write(signal: c_int, action: &KernelSigaction) {
    let Some(entry) = entry(signal) else { return };
    let turns = entry.turns.load(Ordering::Relaxed).wrapping_add(1);
    let version = entry.version(turns);
    // A reader that sees one of these values must also see the turn before it.
    fence(Ordering::Release);
    version.handler.store(action.handler as u64, Ordering::Relaxed);
    version.flags.store(action.flags, Ordering::Relaxed);
    version.restorer.store(action.restorer as u64, Ordering::Relaxed);
    version.mask.store(action.mask, Ordering::Relaxed);
    entry.turns.store(turns, Ordering::Release);
}
