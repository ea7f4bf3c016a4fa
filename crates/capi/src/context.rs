//! Contexts: how the library reports errors, allocates and locks.

use std::cell::UnsafeCell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering::*};

use crate::layout::Nmctx;

/// The library's own context, and the lock that it has.
struct Own {
    context: UnsafeCell<Nmctx>,
    lock: UnsafeCell<libc::pthread_mutex_t>,
}

// SAFETY: the context is used through pointers as C does, its list under the lock; a mutex is made to be shared.
unsafe impl Sync for Own {}

static OWN: Own = Own {
    context: UnsafeCell::new(Nmctx {
        verbose: 1,
        error: Some(print),
        malloc: Some(allocate),
        free: Some(release),
        lock: Some(lock_own),
        mem_descs: std::ptr::null_mut(),
    }),
    lock: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
};

/// What [`nmctx_set_default`] chose; null: the library's own.
static CHOSEN: AtomicPtr<Nmctx> = AtomicPtr::new(std::ptr::null_mut());

unsafe extern "C" fn print(_ctx: *mut Nmctx, text: *const c_char) {
    // SAFETY: the caller of an error callback passes a string.
    eprintln!("{}", crate::text::shown(unsafe { crate::text::bytes(text) }));
}

unsafe extern "C" fn allocate(_ctx: *mut Nmctx, bytes: usize) -> *mut c_void {
    // SAFETY: any size may be asked for.
    unsafe { libc::malloc(bytes) }
}

unsafe extern "C" fn release(_ctx: *mut Nmctx, memory: *mut c_void) {
    // SAFETY: the caller passes what `allocate` gave, or null.
    unsafe { libc::free(memory) };
}

unsafe extern "C" fn lock_own(_ctx: *mut Nmctx, take: c_int) {
    // SAFETY: a static, initialised mutex; whoever gives it back has taken it.
    unsafe {
        match take {
            0 => libc::pthread_mutex_unlock(OWN.lock.get()),
            _ => libc::pthread_mutex_lock(OWN.lock.get()),
        }
    };
}

/// The context that new ports get.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nmctx_get() -> *mut Nmctx {
    let chosen = CHOSEN.load(Acquire);
    if chosen.is_null() { OWN.context.get() } else { chosen }
}

/// Chooses the context that new ports get; returns the one before.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nmctx_set_default(ctx: *mut Nmctx) -> *mut Nmctx {
    let before = CHOSEN.swap(ctx, AcqRel);
    if before.is_null() { OWN.context.get() } else { before }
}

/// The library's own context locks already; another one gets the same lock.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nmctx_set_threadsafe() {
    // SAFETY: contexts are valid as long as they are the default; programs call this before they use them.
    unsafe { (*nmctx_get()).lock = Some(lock_own) };
}

/// # Safety
/// `ctx` is a valid context, here and below.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmctx_malloc(ctx: *mut Nmctx, bytes: usize) -> *mut c_void {
    // SAFETY: the caller's promise; a callback takes its own context.
    unsafe { (*ctx).malloc.map_or(std::ptr::null_mut(), |malloc| malloc(ctx, bytes)) }
}

/// # Safety
/// As [`nmctx_malloc`], which gave `memory`; null is allowed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmctx_free(ctx: *mut Nmctx, memory: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(free) = (*ctx).free {
            free(ctx, memory);
        }
    }
}

/// # Safety
/// As [`nmctx_malloc`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmctx_lock(ctx: *mut Nmctx) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(lock) = (*ctx).lock {
            lock(ctx, 1);
        }
    }
}

/// # Safety
/// As [`nmctx_malloc`]; the lock is taken.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmctx_unlock(ctx: *mut Nmctx) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(lock) = (*ctx).lock {
            lock(ctx, 0);
        }
    }
}

/// A value in memory of the context; null, and errno, if there is none.
///
/// # Safety
/// As [`nmctx_malloc`].
pub(crate) unsafe fn make<T>(ctx: *mut Nmctx, value: T) -> *mut T {
    // SAFETY: the caller's promise.
    let place: *mut T = unsafe { nmctx_malloc(ctx, size_of::<T>()) }.cast();
    if place.is_null() {
        // SAFETY: as above.
        unsafe { report(ctx, libc::ENOMEM, "out of memory") };
    } else {
        // SAFETY: fresh memory of that size; malloc's alignment is enough for everything here (16 bytes at most).
        unsafe { place.write(value) };
    }
    place
}

/// Reports a failure: a message, and errno.
///
/// # Safety
/// As [`nmctx_malloc`].
pub(crate) unsafe fn report(ctx: *mut Nmctx, errno: c_int, message: &str) {
    let text = CString::new(message.replace('\0', "?")).unwrap_or_default();
    // SAFETY: the caller's promise; errno's place is this thread's.
    unsafe {
        if (*ctx).verbose != 0
            && let Some(error) = (*ctx).error
        {
            error(ctx, text.as_ptr());
        }
        set_errno(errno);
    }
}

pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: the place of this thread's errno is always there.
    unsafe { *libc::__errno_location() = errno };
}

pub(crate) fn errno() -> c_int {
    // SAFETY: as in `set_errno`.
    unsafe { *libc::__errno_location() }
}

/// The system's words for an errno.
pub(crate) fn in_words(errno: c_int) -> String {
    std::io::Error::from_raw_os_error(errno).to_string()
}
