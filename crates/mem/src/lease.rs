//! Leases: how many senders fill one rx ring at once, each its own slots, without a lock.
//!
//! ```text
//!              hwcur            hwtail                    reserve
//!   slots  ----|--- received ---|- 7: done -|- 8 -|- 9: done -|--- free ---|
//!                                               ^ the oldest that is not done: nothing behind it is shown yet
//!   records    64 words, lease n in word n % 64:  owner, done, slots, n
//! ```
//! A sender *claims* the next record, *books* the slots by moving `reserve`, fills them, marks its record done, and
//! then whoever finds the oldest records done moves `hwtail` over them, so frames appear in the order of the leases.
//! After mSwitch (Honda et al., SOSR 2015) and netmap's VALE, which keep the same books under a lock.
//!
//! **Killed senders.** Whoever comes second finishes the booking of a claim, so a sender may die after any
//! instruction: its record names it, and who knows that it is dead [inherits](Leases::inherit) the lease, blanks the
//! slots and finishes it.
//!
//! **Detaching.** The ring behind a record changes when a port leaves and another one takes its place. `reserve`
//! carries the number of that change, the *epoch*; after [`Leases::close`] no lease is given any more, and once the
//! outstanding ones are done nobody touches the ring.
//!
//! What these words say is bounded before it is used, for they lie in memory that other processes write.

use crate::kring::IndexLine;
use crate::sync::{AtomicU64, Ordering::*, fence};

/// Leases of one ring that may be outstanding.
#[cfg(not(loom))]
pub const LEASES_MAX: u32 = 64;
#[cfg(loom)]
pub const LEASES_MAX: u32 = 4;
/// Largest number of an owner; 0 is nobody.
pub const OWNER_MAX: u32 = 0x7fff;
/// Largest epoch; 0 is never open.
pub const EPOCH_MAX: u32 = 0x7fff;

/// The books of one ring, in shared memory; zeroed is closed.
#[repr(C, align(128))]
pub struct Leases {
    reserve: AtomicU64,
    _gap: [AtomicU64; 15],
    records: [AtomicU64; LEASES_MAX as usize],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Leases>() == 640 && align_of::<Leases>() == 128);

/// The ring that leases are of.
#[derive(Clone, Copy)]
pub struct Ends<'a> {
    /// The receiver's index: slots before it are free.
    pub hwcur: &'a IndexLine,
    /// The delivering side's index, stamped with the number of the oldest lease that it has not passed.
    pub hwtail: &'a IndexLine,
    pub num_slots: u32,
}

/// Slots that are the holder's to fill, until [`Leases::finish`].
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub struct Lease {
    /// Index of the first slot.
    pub first: u32,
    /// How many; at least one.
    pub slots: u32,
    record: Record,
}

/// Why there is no lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No free slot.
    Full,
    /// [`LEASES_MAX`] are outstanding.
    Busy,
    /// The ring has been detached, or exchanged for another one.
    Closed,
}

/// `reserve`: index of the first slot that is not booked (16 bits), closed (1), epoch (15), number of the next lease (32).
#[derive(Clone, Copy, PartialEq, Eq)]
struct Reserve(u64);

impl Reserve {
    const CLOSED: u64 = 1 << 16;

    fn new(index: u32, epoch: u32, number: u32) -> Reserve {
        Reserve(u64::from(index & 0xffff) | u64::from(epoch & EPOCH_MAX) << 17 | u64::from(number) << 32)
    }

    fn index(self) -> u32 {
        self.0 as u32 & 0xffff
    }

    fn epoch(self) -> u32 {
        (self.0 >> 17) as u32 & EPOCH_MAX
    }

    fn number(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn is_closed(self) -> bool {
        self.0 & Self::CLOSED != 0 || self.epoch() == 0
    }
}

/// A record: slots (16 bits), done (1), owner (15), number of the lease (32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record(u64);

impl Record {
    const DONE: u64 = 1 << 16;

    fn new(slots: u32, owner: u32, number: u32) -> Record {
        Record(u64::from(slots & 0xffff) | u64::from(owner & OWNER_MAX) << 17 | u64::from(number) << 32)
    }

    fn slots(self) -> u32 {
        self.0 as u32 & 0xffff
    }

    fn owner(self) -> u32 {
        (self.0 >> 17) as u32 & OWNER_MAX
    }

    fn number(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn is_done(self) -> bool {
        self.0 & Self::DONE != 0
    }

    fn done(self) -> Record {
        Record(self.0 | Self::DONE)
    }
}

impl Ends<'_> {
    fn advance(&self, index: u32, n: u32) -> u32 {
        (index + n) % self.num_slots
    }

    /// Slots between `index`, where the next lease begins, and the receiver; one always stays unused.
    fn free_from(&self, index: u32) -> u32 {
        let hwcur = self.hwcur.get(self.num_slots);
        self.num_slots - 1 - (index + self.num_slots - hwcur) % self.num_slots
    }
}

impl Leases {
    fn record(&self, number: u32) -> &AtomicU64 {
        &self.records[(number % LEASES_MAX) as usize]
    }

    fn reserve(&self) -> Reserve {
        Reserve(self.reserve.load(Acquire))
    }

    /// The epoch of the ring that the books are of, open or closed.
    pub fn epoch(&self) -> u32 {
        self.reserve().epoch()
    }

    /// Slots that could be leased right now, if nobody else leases any.
    pub fn room(&self, ends: Ends<'_>) -> u32 {
        ends.free_from(self.reserve().index() % ends.num_slots)
    }

    /// Leases up to `wanted` slots to `owner`: fewer if fewer are free.
    ///
    /// # Errors
    /// [`Refused`]; never waits. Each turn of its loop that does not succeed means that another sender has.
    pub fn lease(&self, ends: Ends<'_>, epoch: u32, owner: u32, wanted: u32) -> Result<Lease, Refused> {
        loop {
            let reserve = self.reserve();
            let (first, number) = (reserve.index(), reserve.number());
            if reserve.is_closed() || reserve.epoch() != epoch || first >= ends.num_slots {
                return Err(Refused::Closed);
            }
            let record = self.record(number);
            let seen = Record(record.load(Acquire));
            if seen.number() == number {
                self.book(ends, reserve, seen);
                continue;
            }
            // The record was the lease's before the last LEASES_MAX: it is free once that one is shown.
            let outstanding = number.wrapping_sub(ends.hwtail.stamped().stamp);
            let slots = wanted.min(ends.free_from(first));
            if outstanding >= LEASES_MAX || slots == 0 {
                // The two ends may have been read later than `reserve`; together they tell only if it still stands.
                if self.reserve() != reserve {
                    continue;
                }
                return Err(if slots == 0 { Refused::Full } else { Refused::Busy });
            }
            let claim = Record::new(slots, owner, number);
            if record.compare_exchange(seen.0, claim.0, AcqRel, Relaxed).is_err() {
                continue;
            }
            return if self.book(ends, reserve, claim) {
                Ok(Lease { first, slots, record: claim })
            } else {
                Err(Refused::Closed)
            };
        }
    }

    /// Moves `reserve` over a claim; false if the ring was closed before.
    fn book(&self, ends: Ends<'_>, reserve: Reserve, claim: Record) -> bool {
        let index = ends.advance(reserve.index(), claim.slots());
        let booked = Reserve::new(index, reserve.epoch(), reserve.number().wrapping_add(1));
        match self.reserve.compare_exchange(reserve.0, booked.0, AcqRel, Acquire) {
            Ok(_) => true,
            // Somebody else has booked it, unless only the closing has changed the word; and a ring with a
            // booked lease outstanding is not exchanged, so another epoch means that it was not booked.
            Err(now) => Reserve(now).number() != reserve.number() && Reserve(now).epoch() == reserve.epoch(),
        }
    }

    /// The slots are filled. Returns whether this moved `hwtail`: then the receiver is to be woken.
    pub fn finish(&self, ends: Ends<'_>, lease: Lease) -> bool {
        let Lease { record, .. } = lease;
        if self.record(record.number()).compare_exchange(record.0, record.done().0, AcqRel, Relaxed).is_err() {
            // Somebody took us for dead and has finished it.
            return false;
        }
        // Two that finish at the same time: one of them sees the other's mark.
        fence(SeqCst);
        self.publish(ends)
    }

    fn publish(&self, ends: Ends<'_>) -> bool {
        let mut moved = false;
        for _ in 0..2 * LEASES_MAX {
            let tail = ends.hwtail.stamped();
            let oldest = Record(self.record(tail.stamp).load(Acquire));
            if oldest.number() != tail.stamp || !oldest.is_done() || tail.index >= ends.num_slots {
                break;
            }
            let index = ends.advance(tail.index, oldest.slots());
            moved |= ends.hwtail.exchange(tail, index, tail.stamp.wrapping_add(1));
        }
        moved
    }

    /// Whose lease keeps others from being shown: the oldest that is outstanding.
    pub fn blocker(&self, ends: Ends<'_>) -> Option<u32> {
        let tail = ends.hwtail.stamped();
        let oldest = Record(self.record(tail.stamp).load(Acquire));
        (oldest.number() == tail.stamp && !oldest.is_done()).then(|| oldest.owner())
    }

    /// Takes over the oldest lease from `dead`, if it has that one. The caller knows that `dead` does not write any more; it
    /// blanks the slots and finishes the lease.
    pub fn inherit(&self, ends: Ends<'_>, dead: u32, heir: u32) -> Option<Lease> {
        let tail = ends.hwtail.stamped();
        let reserve = self.reserve();
        let oldest = Record(self.record(tail.stamp).load(Acquire));
        if oldest.number() != tail.stamp || oldest.is_done() || oldest.owner() != dead {
            return None;
        }
        if reserve.number() == tail.stamp && (reserve.is_closed() || !self.book(ends, reserve, oldest)) {
            return None;
        }
        let ours = Record::new(oldest.slots(), heir, oldest.number());
        self.record(tail.stamp).compare_exchange(oldest.0, ours.0, AcqRel, Relaxed).ok()?;
        Some(Lease { first: tail.index % ends.num_slots, slots: ours.slots().min(ends.num_slots - 1), record: ours })
    }

    /// No more leases. The ring is quiet, and may be taken apart, once [`Leases::is_quiet`] says so.
    pub fn close(&self) {
        self.reserve.fetch_or(Reserve::CLOSED, AcqRel);
    }

    /// Whether no lease is outstanding on a ring that was closed: nobody fills its slots any more. Looks at the books only, for
    /// what the ring itself says may be its user's invention.
    pub fn is_quiet(&self) -> bool {
        let number = self.reserve().number();
        (1..=LEASES_MAX).all(|n| {
            let record = Record(self.record(number.wrapping_sub(n)).load(Acquire));
            let is_done = record.number() == number.wrapping_sub(n) && record.is_done();
            // A claim that came too late to be booked stands where the oldest record stood, which was done.
            is_done || record.number() == number
        })
    }

    /// Opens the books for a ring, which nobody delivers into, and returns its epoch. One at a time, and not before the
    /// ring before it was closed and quiet.
    pub fn open(&self, ends: Ends<'_>) -> u32 {
        let before = self.reserve();
        let number = before.number().wrapping_add(LEASES_MAX);
        // A claim that the closing has refused, or one that is still to be made on what was read long ago, fits
        // none of these.
        for n in 1..=LEASES_MAX {
            let passed = number.wrapping_sub(n);
            self.record(passed).store(Record::new(0, 0, passed).done().0, Release);
        }
        let epoch = before.epoch() % EPOCH_MAX + 1;
        let index = ends.hwtail.get(ends.num_slots);
        ends.hwtail.set_stamped(index, number);
        self.reserve.store(Reserve::new(index, epoch, number).0, Release);
        epoch
    }
}

#[cfg(test)]
mod tests;
