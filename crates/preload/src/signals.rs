//! Signals: deferral while the library must not be interrupted, and faults in copies.

use core::sync::atomic::Ordering;

use crate::thread::ThreadSlot;

/// All signals but the synchronous ones (and what cannot be blocked anyway).
pub(crate) const DEFERRABLE: u64 = !0;

/// The signal that came during the critical section which just ended.
#[cold]
pub(crate) fn redeliver(slot: &ThreadSlot) {
    slot.deferred_signal.store(0, Ordering::Relaxed);
}
