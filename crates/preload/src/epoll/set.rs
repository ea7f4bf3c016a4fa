//! One epoll set's bookkeeping.

use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering::*};

use libc::{
    EPOLLERR, EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLPRI, EPOLLRDHUP, c_int,
    epoll_event,
};

use super::fdinfo;
use super::hot::Hot;
use crate::conn::{self, Conn};
use crate::growable::Growable;
use crate::spin::SpinState;
use crate::spinlock::{Guard, SpinLock};
use crate::sys;

/// Epoll sets per process with upgraded connections; connections in further sets stay on TCP.
const SETS_MAX: usize = 4096;
/// Epoll sets that one connection can be in and still be upgraded.
const PER_CONNECTION: usize = 4;
/// Longest time for waking the threads that fell asleep before the first conversion, in nanoseconds: meanwhile those
/// that are awake find no sleep.
const ROUSING_NS: u64 = 1_000_000_000;
/// High half of the data that converted registrations carry in the kernel.
const TOKEN: u64 = 0x9d3f_52c1_0000_0000;
const TOKEN_MASK: u64 = 0xffff_ffff_0000_0000;

/// The places of a connection's registrations: set plus one in the high half, slot in the low; 0 = free.
#[derive(Clone, Copy, Default)]
pub(crate) struct Registrations {
    places: [u64; PER_CONNECTION],
}

impl Registrations {
    /// The places as (set, slot).
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.places.iter().filter(|&&p| p != 0).map(|&p| ((p >> 32) as u32 - 1, p as u32))
    }

    fn pack((set, slot): (u32, u32)) -> u64 {
        (set as u64 + 1) << 32 | slot as u64
    }

    fn add(&mut self, place: (u32, u32)) -> bool {
        let free = self.places.iter_mut().find(|p| **p == 0);
        free.map(|p| *p = Self::pack(place)).is_some()
    }

    fn drop_place(&mut self, place: (u32, u32)) {
        if let Some(p) = self.places.iter_mut().find(|p| **p == Self::pack(place)) {
            *p = 0;
        }
    }
}

/// One connection in the set.
#[derive(Clone, Copy)]
pub(crate) struct Registration {
    /// The connection's place in the slab plus one; 0 = free slot.
    connection: u32,
    pub(super) fd: c_int,
    pub(super) events: u32,
    pub(super) data: u64,
    /// The kernel's registration carries our token.
    pub(super) converted: bool,
    /// The program has removed it, the kernel has not been told: programs that add and remove a
    /// descriptor around each operation need no system calls.
    pub(super) parked: bool,
    /// Place in the hot list plus one; 0 = not in it.
    pub(super) hot_at: u32,
    /// EPOLLONESHOT has fired.
    pub(super) spent: bool,
    /// Edge-triggered: something new since the last report.
    pub(super) edge: bool,
    /// Edge-triggered: the producer's tail at the last report.
    pub(super) seen_tail: u64,
    /// Edge-triggered: the bytes that TCP had brought at the last report.
    pub(super) seen_tcp_bytes: u64,
    /// Edge-triggered: the ring was full at the last look, or when the program last sent.
    pub(super) was_full: bool,
    /// Edge-triggered: the endings (RDHUP, HUP, ERR) that were reported.
    pub(super) seen_endings: u32,
    /// Sleeps in a row without anything to report.
    pub(super) idle_sleeps: u8,
}

/// An epoll descriptor inside the set.
#[derive(Clone, Copy)]
pub(crate) struct Nested {
    pub(super) set: u32,
    pub(super) fd: c_int,
    pub(super) events: u32,
    pub(super) data: u64,
}

pub(crate) struct Inner {
    pub(super) index: u32,
    pub(super) epfd: c_int,
    pub(super) registrations: Growable<Registration>,
    /// Slots that can be used again.
    free: Growable<u32>,
    /// Those that each wait looks at ([`super::hot`]).
    pub(super) hot: Growable<Hot>,
    pub(super) nested: Growable<Nested>,
    /// Kernel events that were met while looking for tokens: reported by the next wait.
    pub(super) kept: Growable<epoll_event>,
    /// Where the next look at the hot list begins: everybody gets a turn.
    pub(super) next: usize,
    /// How often the list has been gone through.
    pub(super) rounds: usize,
    /// Threads asleep in the kernel for this set.
    pub(crate) sleepers: u32,
    /// Wakes the threads that fell asleep before the first conversion.
    rousing: Option<Rousing>,
}

/// A registration that the kernel reports level-triggered for the moment: each thread that it wakes leaves it for the
/// next one.
struct Rousing {
    slot: u32,
    /// When it ends in any case: a thread that left its wait by a jump will never say so.
    until_ns: u64,
}

pub(crate) struct Set {
    descriptors: AtomicU32,
    /// Converted registrations plus nested sets: 0 means that the kernel alone knows everything.
    pub(super) ours: AtomicU32,
    /// Threads that may be asleep as if the kernel knew everything.
    plain_sleepers: AtomicU32,
    /// Waits so far, to give the kernel its turns.
    pub(super) waits: AtomicU32,
    /// Whether other processes may wait on the set, so that nothing that is added can be upgraded ([`holders`]).
    pub(super) foreign: AtomicU32,
    /// The family's slot, which counts the processes that have the set, plus one; 0 = none yet.
    pub(super) slot: AtomicU32,
    /// 1 while this process counts among them.
    pub(super) holds: AtomicU32,
    epfd: AtomicI32,
    pub(super) spin: SpinState,
    /// TSC of the last kernel wait.
    pub(super) kernel_tsc: core::sync::atomic::AtomicU64,
    inner: SpinLock<Inner>,
}

static SETS: [AtomicPtr<Set>; SETS_MAX] = [const { AtomicPtr::new(core::ptr::null_mut()) }; SETS_MAX];

#[inline]
pub(crate) fn get(index: u32) -> Option<&'static Set> {
    // SAFETY: sets are mapped once and never unmapped.
    unsafe { SETS.get(index as usize)?.load(Acquire).as_ref() }
}

/// Calls `f` for every set ever used.
pub(super) fn for_each(f: impl Fn(&'static Set)) {
    for index in 0..SETS_MAX as u32 {
        match get(index) {
            Some(set) => f(set),
            None => return,
        }
    }
}

/// Takes a free set for a new epoll descriptor.
pub(crate) fn create(fd: c_int) -> Option<u32> {
    for (index, cell) in SETS.iter().enumerate() {
        if cell.load(Acquire).is_null() {
            let fresh = sys::map_anonymous(size_of::<Set>())?.as_ptr().cast::<Set>();
            // SAFETY: fresh pages of the right size, seen by nobody.
            unsafe { fresh.write(Set::new(index as u32)) };
            if cell.compare_exchange(core::ptr::null_mut(), fresh, AcqRel, Acquire).is_err() {
                // SAFETY: as above.
                unsafe { sys::munmap(fresh.cast(), size_of::<Set>()) };
            }
        }
        let set = get(index as u32)?;
        if set.descriptors.compare_exchange(0, 1, AcqRel, Relaxed).is_ok() {
            set.epfd.store(fd, Relaxed);
            set.spin.reset();
            set.lock().epfd = fd;
            return Some(index as u32);
        }
    }
    None
}

/// Whether a kernel event's data is the token of a registration, and of which.
#[inline]
pub(super) fn token_slot(data: u64) -> Option<u32> {
    (data & TOKEN_MASK == TOKEN).then_some(data as u32)
}

impl Set {
    fn new(index: u32) -> Set {
        let inner = Inner {
            index,
            epfd: -1,
            registrations: Growable::new(),
            free: Growable::new(),
            hot: Growable::new(),
            nested: Growable::new(),
            kept: Growable::new(),
            next: 0,
            rounds: 0,
            sleepers: 0,
            rousing: None,
        };
        Set {
            descriptors: AtomicU32::new(0),
            ours: AtomicU32::new(0),
            plain_sleepers: AtomicU32::new(0),
            waits: AtomicU32::new(0),
            foreign: AtomicU32::new(0),
            slot: AtomicU32::new(0),
            holds: AtomicU32::new(0),
            epfd: AtomicI32::new(-1),
            spin: SpinState::new(),
            kernel_tsc: core::sync::atomic::AtomicU64::new(0),
            inner: SpinLock::new(inner),
        }
    }

    /// Whether this process has a descriptor of it.
    pub(super) fn is_open(&self) -> bool {
        self.descriptors.load(Relaxed) > 0
    }

    /// Whether the kernel does not know everything about the set.
    #[inline]
    pub(crate) fn is_mixed(&self) -> bool {
        self.ours.load(Relaxed) != 0
    }

    /// Runs a wait in which the kernel knows everything, if it does. A thread that sleeps there when that changes is
    /// woken, unless it is the process's only one.
    pub(super) fn wait_plainly<T>(&self, wait: impl FnOnce() -> T) -> Option<T> {
        if crate::thread::is_single_threaded() {
            return (!self.is_mixed()).then(wait);
        }
        self.plain_sleepers.fetch_add(1, SeqCst);
        let answer = (self.ours.load(SeqCst) == 0).then(wait);
        if self.plain_sleepers.fetch_sub(1, SeqCst) == 1 && self.is_mixed() {
            self.lock().end_rousing();
        }
        answer
    }

    pub(crate) fn lock(&self) -> Guard<'_, Inner> {
        self.inner.lock()
    }

    /// For fork.
    pub(crate) fn raw_lock(&self) -> &SpinLock<Inner> {
        &self.inner
    }

    pub(super) fn add_descriptor(&self) {
        self.descriptors.fetch_add(1, Relaxed);
    }

    pub(super) fn drop_descriptor(&self) {
        if self.descriptors.load(Relaxed) == 1 {
            self.empty();
        }
        self.descriptors.fetch_sub(1, AcqRel);
    }

    /// The last descriptor is gone: forgets everything.
    fn empty(&self) {
        let mut inner = self.lock();
        for slot in 0..inner.registrations.len() as u32 {
            inner.remove_from_connection(slot);
        }
        inner.registrations.clear();
        inner.hot.clear();
        inner.free.clear();
        inner.nested.clear();
        inner.kept.clear();
        inner.rousing = None;
        self.ours.store(0, Relaxed);
        self.disown();
    }
}

impl Inner {
    fn set(&self) -> Option<&'static Set> {
        get(self.index)
    }

    pub(super) fn registration(&mut self, slot: u32) -> Option<&mut Registration> {
        self.registrations.as_mut_slice().get_mut(slot as usize).filter(|r| r.connection != 0)
    }

    pub(super) fn conn_of(registration: &Registration) -> Option<&'static Conn> {
        conn::get(registration.connection.checked_sub(1)?)
    }

    /// The slot of the registration of `fd`, if the set has one for this connection.
    pub(super) fn find(&mut self, conn: &Conn, fd: c_int) -> Option<u32> {
        let (places, index) = (conn.registrations(), self.index);
        places.iter().filter(|p| p.0 == index).map(|p| p.1).find(|&slot| self.descriptor_of(slot) == Some(fd))
    }

    pub(super) fn descriptor_of(&mut self, slot: u32) -> Option<c_int> {
        self.registration(slot).map(|r| r.fd)
    }

    /// Adds a registration. False if a bound is reached.
    pub(super) fn add(&mut self, index: u32, conn: &'static Conn, fd: c_int, event: &epoll_event) -> Option<u32> {
        let fresh = Registration {
            connection: index + 1,
            fd,
            events: event.events,
            data: event.u64,
            converted: false,
            parked: false,
            hot_at: 0,
            spent: false,
            edge: true,
            seen_tail: 0,
            seen_tcp_bytes: 0,
            was_full: false,
            seen_endings: 0,
            idle_sleeps: 0,
        };
        let slot = match self.free.as_slice().last().copied() {
            Some(slot) => {
                let last = self.free.len() - 1;
                self.free.swap_remove(last);
                slot
            }
            None if self.registrations.push(fresh) => self.registrations.len() as u32 - 1,
            None => return None,
        };
        *self.registrations.as_mut_slice().get_mut(slot as usize)? = fresh;
        if !conn.registrations.lock().add((self.index, slot)) {
            self.registrations.as_mut_slice().get_mut(slot as usize)?.connection = 0;
            self.free.push(slot);
            return None;
        }
        Some(slot)
    }

    /// Forgets a registration, here and with the connection.
    pub(super) fn remove(&mut self, slot: u32) {
        self.remove_from_connection(slot);
        self.cool(slot);
        let set = self.set();
        if let Some(r) = self.registration(slot) {
            if r.converted
                && let Some(set) = set
            {
                set.ours.fetch_sub(1, Relaxed);
            }
            (r.connection, r.converted) = (0, false);
            self.free.push(slot);
        }
    }

    fn remove_from_connection(&mut self, slot: u32) {
        let place = (self.index, slot);
        if let Some(conn) = self.registration(slot).and_then(|r| Self::conn_of(r)) {
            conn.registrations.lock().drop_place(place);
        }
    }

    /// Changes the kernel's registration over to our token, edge-triggered.
    pub(super) fn convert(&mut self, index: u32, conn: &'static Conn, slot: u32) {
        let epfd = self.epfd;
        let set = self.set();
        let Some(r) = self.registration(slot).filter(|r| !r.converted && r.connection == index + 1) else { return };
        if r.is_one_shot() {
            r.spent = fdinfo::one_shot_has_fired(epfd, r.fd).unwrap_or(false);
        }
        let mut event = kernel_event(slot);
        // Before the first token can be reported: threads asleep in the kernel must know that it is one.
        if let Some(set) = set {
            set.ours.fetch_add(1, SeqCst);
            if set.plain_sleepers.load(SeqCst) > 0 && self.rousing.is_none() {
                event.events &= !(EPOLLET as u32);
                self.rousing = Some(Rousing { slot, until_ns: sys::monotonic_ns() + ROUSING_NS });
            }
        }
        let Some(r) = self.registration(slot) else { return };
        // SAFETY: one event of ours; the kernel checks the descriptors.
        let changed = unsafe {
            if r.events & EPOLLEXCLUSIVE as u32 != 0 {
                sys::epoll_ctl(epfd, libc::EPOLL_CTL_DEL, r.fd, &mut event);
                sys::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, r.fd, &mut event)
            } else {
                sys::epoll_ctl(epfd, libc::EPOLL_CTL_MOD, r.fd, &mut event)
            }
        };
        if changed < 0 {
            if let Some(set) = set {
                set.ours.fetch_sub(1, Relaxed);
            }
            return;
        }
        r.converted = true;
        conn.kernel_event.store(1, Relaxed);
        self.heat(slot);
    }

    /// Takes a registration out of the kernel's set.
    pub(super) fn withdraw(&mut self, slot: u32) {
        let epfd = self.epfd;
        if let Some(r) = self.registration(slot) {
            let mut event = kernel_event(slot);
            // SAFETY: one event of ours; the kernel checks the descriptors.
            unsafe { sys::epoll_ctl(epfd, libc::EPOLL_CTL_DEL, r.fd, &mut event) };
        }
    }

    /// Gives a registration back to the kernel, with the program's own data. Returns its connection and descriptor,
    /// unless the program has removed it.
    pub(super) fn unconvert(&mut self, slot: u32) -> Option<(&'static Conn, c_int)> {
        let (epfd, set) = (self.epfd, self.set());
        self.cool(slot);
        let r = self.registration(slot)?;
        if r.converted {
            let op = if r.parked { libc::EPOLL_CTL_DEL } else { libc::EPOLL_CTL_MOD };
            let mut event = epoll_event { events: r.kernel_events(), u64: r.data };
            // SAFETY: one event of ours; the kernel checks the descriptors.
            unsafe { sys::epoll_ctl(epfd, op, r.fd, &mut event) };
            r.converted = false;
            if let Some(set) = set {
                set.ours.fetch_sub(1, Relaxed);
            }
        }
        if r.parked {
            self.remove(slot);
            return None;
        }
        Some((Self::conn_of(r)?, r.fd))
    }

    /// The registration belongs to another connection from now on, or to none.
    pub(super) fn move_to(&mut self, slot: u32, fresh: Option<(u32, &'static Conn)>) {
        if self.unconvert(slot).is_none() {
            return;
        }
        let place = (self.index, slot);
        let Some((index, _)) = fresh.filter(|(_, conn)| conn.registrations.lock().add(place)) else {
            return self.remove(slot);
        };
        self.remove_from_connection(slot);
        if let Some(r) = self.registration(slot) {
            r.connection = index + 1;
            (r.edge, r.seen_tail, r.was_full, r.seen_endings) = (true, 0, false, 0);
        }
    }

    /// A send found the ring full.
    pub(super) fn note_full(&mut self, slot: u32) {
        if let Some(r) = self.registration(slot) {
            r.was_full = true;
        }
        self.renew(slot);
    }

    /// Something about the registration has changed that no bell tells of: the next sweep looks at it, and a thread
    /// that sleeps on the set wakes to do so (changing the kernel's registration reports that the socket is writable).
    pub(super) fn renew(&mut self, slot: u32) {
        self.heat(slot);
        if self.sleepers > 0 {
            self.tell_kernel(slot);
        }
    }

    fn tell_kernel(&mut self, slot: u32) {
        let epfd = self.epfd;
        let mut event = kernel_event(slot);
        if self.rousing.as_ref().is_some_and(|rousing| rousing.slot == slot) {
            event.events &= !(EPOLLET as u32);
        }
        if let Some(r) = self.registration(slot).filter(|r| r.converted) {
            // SAFETY: one event of ours; the kernel checks the descriptors.
            unsafe { sys::epoll_ctl(epfd, libc::EPOLL_CTL_MOD, r.fd, &mut event) };
        }
    }

    /// The kernel has reported the token of a registration.
    pub(super) fn note_report(&mut self, slot: u32) {
        if self.rousing.as_ref().is_some_and(|r| r.slot == slot && sys::monotonic_ns() >= r.until_ns) {
            self.end_rousing();
        }
    }

    fn end_rousing(&mut self) {
        if let Some(Rousing { slot, .. }) = self.rousing.take() {
            self.tell_kernel(slot);
        }
    }
}

/// What the kernel is told for a converted registration: every edge, with our token.
pub(super) fn kernel_event(slot: u32) -> epoll_event {
    let events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET;
    epoll_event { events: events as u32, u64: TOKEN | slot as u64 }
}

/// Events that are reported whether the program asked or not.
pub(super) const ALWAYS: u32 = (EPOLLERR | EPOLLHUP) as u32;

impl Registration {
    /// Takes over what the program wants from now on; whatever is ready then is news.
    pub(super) fn revive(&mut self, wanted: &epoll_event) {
        (self.events, self.data) = (wanted.events, wanted.u64);
        (self.parked, self.spent, self.edge) = (false, false, true);
    }

    /// What the program asked for, in words that the kernel takes for a change. A one-shot that has fired stays off.
    fn kernel_events(&self) -> u32 {
        let wanted = self.events & !(EPOLLEXCLUSIVE as u32);
        if self.spent { wanted & (EPOLLET | EPOLLONESHOT) as u32 } else { wanted }
    }

    pub(super) fn is_edge_triggered(&self) -> bool {
        self.events & EPOLLET as u32 != 0
    }

    pub(super) fn is_one_shot(&self) -> bool {
        self.events & EPOLLONESHOT as u32 != 0
    }

    /// The events that the program wants to hear of.
    pub(super) fn wanted(&self) -> u32 {
        if self.spent || self.parked { 0 } else { self.events | ALWAYS }
    }

    pub(super) fn connection(&self) -> Option<&'static Conn> {
        Inner::conn_of(self)
    }
}
