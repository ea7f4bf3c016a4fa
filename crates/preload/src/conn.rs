//! The connections that this process watches or has upgraded.
//!
//! Objects live in a slab that is never unmapped, so a stale reference reads a free object, never
//! unmapped memory. The regions that an object points to are unmapped only after every thread has
//! left the critical section in which it might have seen them (`thread::synchronize`).

use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

use libc::c_int;
use ringway_channel::layout::{CLASS_BYTES, END_REGION_BYTES, RING_REGION_BYTES, RingHeader, area_offset};
use ringway_channel::rendezvous::Role;
use ringway_channel::{End, EndPage};

use crate::epoll::Registrations;
use crate::family::{self, Slot};
use crate::leave::Hold;
use crate::spin::SpinState;
use crate::spinlock::SpinLock;
use crate::{limits, sys};

mod descriptor;

/// A process watches at most CHUNK * CHUNKS connections at a time (131,072); more stay on TCP.
const CHUNK: usize = 512;
const CHUNKS: usize = 256;

/// How long to wait for other threads to leave their critical sections, in microseconds.
const GRACE_US: u64 = 100_000;

/// [`area_offset`] by class and direction.
const AREAS: [[usize; 2]; CLASS_BYTES.len()] = {
    let mut areas = [[0; 2]; CLASS_BYTES.len()];
    let mut class = 0;
    while class < CLASS_BYTES.len() {
        areas[class] = [area_offset(class, 0), area_offset(class, 1)];
        class += 1;
    }
    areas
};

/// What [`Conn::state`] shows as `Watched` while one thread puts the regions in place.
const ATTACHING: u32 = 4;

/// Local view of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum State {
    Free = 0,
    /// Counting traffic; bytes go to the kernel.
    Watched = 1,
    /// The regions are mapped.
    Attached = 2,
    /// Stays on TCP.
    Plain = 3,
}

/// One connection as this process sees it.
#[repr(C, align(128))]
pub(crate) struct Conn {
    state: AtomicU32,
    role: AtomicU32,
    ring: AtomicPtr<u8>,
    page: AtomicPtr<EndPage>,
    /// TSC at the last look at the kernel socket while sending.
    pub(crate) looked_tsc: AtomicU64,
    /// How far this process had received when it last sent by the short way (see `quick`).
    pub(crate) answered_head: AtomicU64,
    /// The peer's request counter (`End::looks_asked`) at that time.
    pub(crate) looks_seen: AtomicU32,
    /// Index of the family's slot.
    slot: AtomicU32,
    /// 1 while this process counts among the slot's holders.
    holds: AtomicU32,
    pub(crate) spin: SpinState,
    /// Calls and bytes on TCP so far: what earns an upgrade.
    pub(crate) calls: AtomicU32,
    pub(crate) bytes: AtomicU64,
    /// 0 not offered, 1 offered, 2 refused.
    pub(crate) offered: AtomicU32,
    /// 1 if it came from another program: whether it is upgraded was decided there.
    pub(crate) inherited: AtomicU32,
    /// 1 while a thread waits for the monitor's answer whether somebody else has upgraded it.
    pub(crate) attach_asked: AtomicU32,
    /// Distinguishes successive connections in the same object.
    generation: AtomicU32,
    /// Descriptor entries that refer to it, plus threads that sleep on it.
    refs: AtomicU32,
    /// Descriptor entries alone.
    descriptors: AtomicU32,
    /// Some descriptor of it; a hint.
    pub(crate) fd: AtomicI32,
    /// Threads that use `fd` on their own account ([`descriptor`]).
    descriptor_users: AtomicU32,
    /// `SO_COOKIE`, once the connection is offered; 0 = not asked yet: most connections end before they are.
    pub(crate) cookie: AtomicU64,
    /// Next free object plus one.
    next_free: AtomicU32,
    /// Readiness events seen in the kernel since the last look (set by epoll).
    pub(crate) kernel_event: AtomicU32,
    /// Bells that this process has asked to be rung by TCP: [`crate::bell`]'s bits.
    pub(crate) bells_armed: AtomicU32,
    /// Doorbell bytes that are on their way or unread.
    pub(crate) bells_due: AtomicU32,
    /// Threads of this process asleep in poll or select for it.
    pub(crate) poll_sleepers: AtomicU32,
    /// Threads of this process whose sleep in poll or select ends by a doorbell byte: for data, for room.
    pub(crate) bell_waiters: [AtomicU32; 2],
    /// Epoll sets that watch it. This lock may be taken by one who holds a set's, so never the other way round.
    pub(crate) registrations: SpinLock<Registrations>,
}

static SLAB: [AtomicPtr<Conn>; CHUNKS] = [const { AtomicPtr::new(core::ptr::null_mut()) }; CHUNKS];
static FREE: SpinLock<FreeList> = SpinLock::new(FreeList { head: 0 });
/// Objects ever used; grows under the lock.
static USED: AtomicU32 = AtomicU32::new(0);

struct FreeList {
    /// First free object plus one; 0 = none.
    head: u32,
}

/// The connection with this index, free or not. `None` only for indices never handed out.
#[inline]
pub(crate) fn get(index: u32) -> Option<&'static Conn> {
    let chunk = SLAB.get(index as usize / CHUNK)?.load(Acquire);
    if chunk.is_null() {
        return None;
    }
    // SAFETY: chunks hold CHUNK objects, are zeroed when mapped (a valid free object) and stay mapped.
    Some(unsafe { &*chunk.add(index as usize % CHUNK) })
}

/// A new watched connection with one reference, or `None` when a bound is reached.
pub(crate) fn create(fd: c_int) -> Option<(u32, &'static Conn)> {
    let slot = family::claim()?;
    let Some(index) = take_free() else {
        family::leave(slot);
        return None;
    };
    let c = get(index)?;
    c.slot.store(slot, Relaxed);
    c.holds.store(1, Relaxed);
    c.cookie.store(0, Relaxed);
    c.fd.store(fd, Relaxed);
    for word in [
        &c.calls,
        &c.offered,
        &c.inherited,
        &c.attach_asked,
        &c.kernel_event,
        &c.looks_seen,
        &c.bells_armed,
        &c.bells_due,
        &c.poll_sleepers,
    ] {
        word.store(0, Relaxed);
    }
    c.bell_waiters.iter().for_each(|waiters| waiters.store(0, Relaxed));
    c.bytes.store(0, Relaxed);
    c.looked_tsc.store(0, Relaxed);
    c.answered_head.store(0, Relaxed);
    c.spin.reset();
    c.refs.store(1, Relaxed);
    c.descriptors.store(1, Relaxed);
    c.state.store(State::Watched as u32, Release);
    Some((index, c))
}

fn take_free() -> Option<u32> {
    let mut free = FREE.lock();
    if free.head != 0 {
        let index = free.head - 1;
        free.head = get(index)?.next_free.load(Relaxed);
        return Some(index);
    }
    let index = USED.load(Relaxed);
    let cell = SLAB.get(index as usize / CHUNK)?;
    if cell.load(Relaxed).is_null() {
        cell.store(sys::map_anonymous(CHUNK * size_of::<Conn>())?.as_ptr().cast(), Release);
    }
    USED.store(index + 1, Release);
    Some(index)
}

/// Calls `f` for every connection in use.
pub(crate) fn for_each(mut f: impl FnMut(u32, &'static Conn)) {
    for index in 0..USED.load(Acquire) {
        if let Some(c) = get(index).filter(|c| c.state() != State::Free) {
            f(index, c);
        }
    }
}

impl Conn {
    /// Notes whose connection it is, before the monitor is asked about it.
    pub(crate) fn identify(&self, fd: c_int) {
        self.cookie.store(crate::kernel::cookie(fd).unwrap_or(0), Relaxed);
    }

    #[inline]
    pub(crate) fn state(&self) -> State {
        match self.state.load(Acquire) {
            1 | ATTACHING => State::Watched,
            2 => State::Attached,
            3 => State::Plain,
            _ => State::Free,
        }
    }

    pub(crate) fn set_plain(&self) {
        let _ = self.state.compare_exchange(State::Watched as u32, State::Plain as u32, AcqRel, Relaxed);
    }

    /// Reserves a watched connection for the caller to attach; [`Conn::attach`] or [`Conn::give_up`] must follow.
    pub(crate) fn begin_attach(&self) -> bool {
        self.state.compare_exchange(State::Watched as u32, ATTACHING, AcqRel, Relaxed).is_ok()
    }

    /// It stays on TCP instead.
    pub(crate) fn give_up(&self) {
        self.state.store(State::Plain as u32, Release);
    }

    /// Whether another thread is putting the regions in place.
    pub(crate) fn is_attaching(&self) -> bool {
        self.state.load(Acquire) == ATTACHING
    }

    /// In a child of fork: the thread that was attaching it is the parent's.
    pub(crate) fn after_fork_child(&self) {
        let _ = self.state.compare_exchange(ATTACHING, State::Watched as u32, Relaxed, Relaxed);
        // The parent's offers are answered to the parent: the child makes its own.
        let _ = self.offered.compare_exchange(1, 0, Relaxed, Relaxed);
        self.descriptor_users.store(0, Relaxed);
    }

    /// The epoll sets that watch it now.
    pub(crate) fn registrations(&self) -> Registrations {
        *self.registrations.lock()
    }

    pub(crate) fn slot(&self) -> &'static Slot {
        family::slot(self.slot.load(Relaxed))
    }

    /// This process no longer counts among the slot's holders.
    pub(crate) fn leave_family(&self) {
        if self.holds.swap(0, AcqRel) != 0 {
            family::leave(self.slot.load(Relaxed));
        }
    }

    /// It does again: the exec failed.
    pub(crate) fn rejoin_family(&self) {
        if self.holds.swap(1, AcqRel) == 0 {
            family::rejoin(self.slot.load(Relaxed));
        }
    }

    /// A child that fork is about to make will be a holder, too.
    pub(crate) fn add_holder_for_child(&self) {
        if self.holds.load(Relaxed) != 0 {
            family::add_child(self.slot.load(Relaxed));
        }
    }

    /// Names this use of the object in messages to the monitor; never 0.
    pub(crate) fn token(&self, index: u32) -> u64 {
        (self.generation.load(Relaxed) as u64 + 1) << 32 | index as u64
    }

    /// The connection that a token names, pinned, if it still lives. Until the pin, another thread may let go of it at
    /// any moment, and the object become another connection.
    pub(crate) fn pinned(token: u64) -> Option<(u32, &'static Conn)> {
        Self::pinned_after(token, || {})
    }

    /// As `pinned`; `before_pin` is what other threads do just before the pin.
    pub(crate) fn pinned_after(token: u64, before_pin: impl FnOnce()) -> Option<(u32, &'static Conn)> {
        let index = token as u32;
        let c = get(index)?;
        before_pin();
        if !c.try_pin() {
            return None;
        }
        if c.generation.load(Acquire) as u64 + 1 == token >> 32 {
            return Some((index, c));
        }
        c.put(index);
        None
    }

    /// Stores the mapped regions and makes the connection `Attached`.
    pub(crate) fn attach(&self, ring: *mut u8, page: *mut EndPage, role: Role) {
        self.ring.store(ring, Relaxed);
        self.page.store(page, Relaxed);
        self.role.store(role as u32, Relaxed);
        limits::mapped();
        self.state.store(State::Attached as u32, SeqCst);
    }

    /// The end's page, for attached connections.
    #[inline]
    pub(crate) fn page(&self) -> Option<&'static EndPage> {
        // SAFETY: mapped by `attach` and unmapped only by `destroy`, after every critical section that
        // can have seen it has been left; all fields are atomic.
        unsafe { self.page.load(Relaxed).as_ref() }
    }

    /// This end of an attached connection. The reference is good inside the critical section or while
    /// a pin is held.
    #[inline]
    pub(crate) fn end(&self) -> Option<End<'static>> {
        let page = self.page()?;
        let role = if self.role.load(Relaxed) == 0 { Role::A } else { Role::B };
        // SAFETY: as for `page`; the header is at the start of the ring region.
        let header = unsafe { self.ring.load(Relaxed).cast::<RingHeader>().as_ref()? };
        Some(End::new(header, page, role))
    }

    fn direction(&self, outgoing: bool) -> usize {
        (self.role.load(Relaxed) as usize & 1) ^ (!outgoing) as usize
    }

    /// Start of the area of `class` in the outgoing or incoming direction, for attached connections.
    #[inline(always)]
    pub(crate) fn area(&self, class: usize, outgoing: bool) -> *mut u8 {
        self.ring.load(Relaxed).wrapping_add(AREAS[class % AREAS.len()][self.direction(outgoing)])
    }

    /// Keeps the object and its mappings alive while a thread sleeps outside the critical section.
    pub(crate) fn pin(&self) {
        self.refs.fetch_add(1, Relaxed);
    }

    /// As `pin`, by one who has no reference: false if the object is free.
    pub(crate) fn try_pin(&self) -> bool {
        self.refs.fetch_update(AcqRel, Relaxed, |refs| (refs > 0).then_some(refs + 1)).is_ok()
    }

    /// Another descriptor refers to the connection.
    pub(crate) fn add_descriptor(&self, fd: c_int) {
        self.refs.fetch_add(1, Relaxed);
        self.descriptors.fetch_add(1, Relaxed);
        self.fd.store(fd, Relaxed);
    }

    /// Whether this process has a descriptor of it.
    pub(crate) fn is_open(&self) -> bool {
        self.descriptors.load(Relaxed) > 0
    }

    /// A descriptor is about to go. True if it is this process's last one.
    pub(crate) fn drop_descriptor(&self) -> bool {
        self.descriptors.fetch_sub(1, AcqRel) == 1
    }

    /// Gives back a reference (a descriptor's, after `drop_descriptor`, or a pin).
    pub(crate) fn put(&self, index: u32) {
        if self.refs.fetch_sub(1, AcqRel) == 1 {
            self.destroy(index);
        }
    }

    #[cold]
    fn destroy(&self, index: u32) {
        crate::epoll::connection_gone(self);
        let (ring, page) =
            (self.ring.swap(core::ptr::null_mut(), AcqRel), self.page.swap(core::ptr::null_mut(), AcqRel));
        self.leave_family();
        self.generation.fetch_add(1, AcqRel);
        self.state.store(State::Free as u32, SeqCst);
        // Without the proof that nobody looks any more, the mappings stay.
        let unseen = ring.is_null() || crate::thread::synchronize(GRACE_US);
        for (base, bytes) in [(ring, RING_REGION_BYTES), (page.cast(), END_REGION_BYTES)] {
            if unseen && !base.is_null() {
                // SAFETY: mapped by this object with this length; no reference is left (see above).
                unsafe { sys::munmap(base, bytes) };
            }
        }
        if unseen && !ring.is_null() {
            limits::unmapped();
        }
        let mut free = FREE.lock();
        self.next_free.store(free.head, Relaxed);
        free.head = index + 1;
    }
}

/// A connection that a waiting call keeps.
pub(crate) struct Pin(pub(crate) u32, pub(crate) &'static Conn);

impl Hold for Pin {
    fn take(&self) {
        self.1.pin();
    }

    fn give_back(&self) {
        self.1.put(self.0);
    }
}

/// Fork holds the slab's lock, so that a child never inherits it in the middle of a change. Calls `f` for every
/// connection that the child inherits.
pub(crate) fn fork_acquire(mut f: impl FnMut(&Conn)) {
    FREE.acquire();
    for_each(|_, c| f(c));
}

pub(crate) fn fork_release() {
    FREE.release();
}
