//! Where thread slots live: chunks that are mapped on demand and never unmapped, with a free list.
//!
//! Lock-free throughout, because a slot may be claimed inside a signal handler.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::sys;
use crate::thread::{self, MAX_THREADS, ThreadSlot};

const CHUNK_SLOTS: usize = 512;

static CHUNKS: [AtomicPtr<ThreadSlot>; MAX_THREADS / CHUNK_SLOTS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MAX_THREADS / CHUNK_SLOTS];

/// Slots handed out so far, free ones included.
static USED: AtomicU32 = AtomicU32::new(0);

/// Top of the free list: index + 1 in the lower half; the upper counts changes, so that a slot which came and
/// went between a look and an exchange is noticed.
static FREE: AtomicU64 = AtomicU64::new(0);

/// pthread key whose destructor frees a slot; u32::MAX for none.
static EXIT_KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// glibc's `__libc_single_threaded`; null if this libc has none.
static SINGLE_THREADED: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Keys below this have room in glibc's thread descriptor; setting others allocates.
const INLINE_KEYS: u32 = 32;

/// Called once from the constructor.
pub(crate) fn init() {
    let mut key = u32::MAX;
    // SAFETY: `key` is on this frame; the destructor has the required type.
    let made = unsafe { libc::pthread_key_create(&raw mut key, Some(on_thread_exit)) } == 0;
    if made && key < INLINE_KEYS {
        EXIT_KEY.store(key, Ordering::Relaxed);
    }
    // SAFETY: a NUL-terminated name; the symbol is a `char` in every libc that has it.
    let single = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
    SINGLE_THREADED.store(single.cast(), Ordering::Relaxed);
}

pub(crate) fn is_single_threaded() -> bool {
    let flag = SINGLE_THREADED.load(Ordering::Relaxed);
    // SAFETY: null or libc's variable.
    !flag.is_null() && unsafe { flag.read_volatile() } != 0
}

unsafe extern "C" fn on_thread_exit(value: *mut c_void) {
    // SAFETY: the value is what `release_at_thread_exit` set: a registry slot.
    if let Some(slot) = unsafe { value.cast::<ThreadSlot>().as_ref() } {
        thread::leave_process(slot);
    }
}

/// Without a usable key the slot is found again when its thread is dead and slots are short.
pub(crate) fn release_at_thread_exit(slot: &'static ThreadSlot) {
    let key = EXIT_KEY.load(Ordering::Relaxed);
    if key != u32::MAX {
        // SAFETY: a key of ours, below INLINE_KEYS: glibc only stores into the thread descriptor.
        unsafe { libc::pthread_setspecific(key, ptr::from_ref(slot).cast()) };
    }
}

/// A slot for thread `tid`.
pub(crate) fn claim(tid: i32) -> Option<&'static ThreadSlot> {
    let slot = match pop_free() {
        Some(slot) => slot,
        None => grow().or_else(pop_free)?,
    };
    slot.reset(tid);
    Some(slot)
}

/// Back to the free list.
pub(crate) fn release(slot: &'static ThreadSlot) {
    slot.reset(0);
    push_free(slot);
}

/// In a child of `fork`: all other threads are gone, so all slots but `own` are free.
pub(crate) fn keep_only(own: *const ThreadSlot) {
    FREE.store(0, Ordering::Relaxed);
    all_slots(|slot| {
        if !ptr::eq(slot, own) {
            release(slot);
        }
        true
    });
}

/// Whether `test` holds for every slot ever used (free ones included).
pub(crate) fn all_slots(mut test: impl FnMut(&'static ThreadSlot) -> bool) -> bool {
    (0..USED.load(Ordering::Acquire)).all(|index| slot_at(index).is_none_or(&mut test))
}

fn slot_at(index: u32) -> Option<&'static ThreadSlot> {
    let chunk = CHUNKS.get(index as usize / CHUNK_SLOTS)?.load(Ordering::Acquire);
    if chunk.is_null() {
        return None;
    }
    // SAFETY: a chunk has CHUNK_SLOTS zeroed (hence valid) slots and is never unmapped.
    Some(unsafe { &*chunk.add(index as usize % CHUNK_SLOTS) })
}

fn index_of(slot: &ThreadSlot) -> Option<u32> {
    let address = ptr::from_ref(slot).addr();
    CHUNKS.iter().zip(0u32..).find_map(|(chunk, number)| {
        let offset = address.checked_sub(chunk.load(Ordering::Acquire).addr())? / size_of::<ThreadSlot>();
        (offset < CHUNK_SLOTS).then(|| number * CHUNK_SLOTS as u32 + offset as u32)
    })
}

/// A slot never used before. A full chunk is a reason to look for dead threads' slots first.
fn grow() -> Option<&'static ThreadSlot> {
    let next = USED.load(Ordering::Relaxed);
    if next > 0 && (next as usize).is_multiple_of(CHUNK_SLOTS) && reclaim_dead() {
        return None;
    }
    if next as usize >= MAX_THREADS {
        return None;
    }
    let chunk = CHUNKS.get(next as usize / CHUNK_SLOTS)?;
    if chunk.load(Ordering::Acquire).is_null() {
        let bytes = CHUNK_SLOTS * size_of::<ThreadSlot>();
        let fresh = sys::map_anonymous(bytes)?;
        if chunk.compare_exchange(ptr::null_mut(), fresh.as_ptr().cast(), Ordering::AcqRel, Ordering::Acquire).is_err()
        {
            // SAFETY: nobody else has seen this mapping.
            unsafe { sys::munmap(fresh.as_ptr(), bytes) };
        }
    }
    match USED.compare_exchange(next, next + 1, Ordering::AcqRel, Ordering::Relaxed) {
        Ok(_) => slot_at(next),
        Err(_) => claim_again(),
    }
}

/// Another thread took the slot in between; progress was made, so this recursion ends.
fn claim_again() -> Option<&'static ThreadSlot> {
    pop_free().or_else(grow)
}

/// Frees the slots of threads that died without their exit hook; whether there were any.
fn reclaim_dead() -> bool {
    let process = thread::process_id();
    let mut found = false;
    all_slots(|slot| {
        let tid = slot.tid.load(Ordering::Acquire);
        if tid != 0
            && sys::tgkill(process, tid, 0) == -(libc::ESRCH as isize)
            && slot.tid.compare_exchange(tid, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            release(slot);
            found = true;
        }
        true
    });
    found
}

fn push_free(slot: &'static ThreadSlot) {
    let Some(index) = index_of(slot) else { return };
    let mut top = FREE.load(Ordering::Relaxed);
    loop {
        slot.next_free.store(top as u32, Ordering::Relaxed);
        let new = changed(top, index + 1);
        match FREE.compare_exchange_weak(top, new, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return,
            Err(found) => top = found,
        }
    }
}

fn pop_free() -> Option<&'static ThreadSlot> {
    let mut top = FREE.load(Ordering::Acquire);
    loop {
        let slot = slot_at((top as u32).checked_sub(1)?)?;
        let new = changed(top, slot.next_free.load(Ordering::Relaxed));
        match FREE.compare_exchange_weak(top, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Some(slot),
            Err(found) => top = found,
        }
    }
}

/// The next value of the free list's top, with `link` in its lower half.
fn changed(top: u64, link: u32) -> u64 {
    (((top >> 32) + 1) << 32) | u64::from(link)
}
