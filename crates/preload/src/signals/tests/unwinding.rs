//! Handlers and cancellation that leave a sleeping call by unwinding it.

use std::ffi::c_void;
use std::ptr;

use super::*;

unsafe extern "C-unwind" {
    fn pthread_exit(value: *mut c_void) -> !;
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
    fn pthread_cancel(thread: libc::pthread_t) -> c_int;
    #[link_name = "pthread_create"]
    fn create(
        thread: *mut libc::pthread_t,
        attributes: *const c_void,
        main: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
        arg: *mut c_void,
    ) -> c_int;
}

/// What the thread's exit value must be for each way to end.
const EXITED: usize = 7;
const CANCELLED: usize = usize::MAX;
const ASYNCHRONOUS: c_int = 1;

static SLEEPER: AtomicI32 = AtomicI32::new(0);
static UNWOUND: AtomicU32 = AtomicU32::new(0);

struct NoticesUnwinding;

impl Drop for NoticesUnwinding {
    fn drop(&mut self) {
        UNWOUND.fetch_add(1, Ordering::Relaxed);
    }
}

extern "C-unwind" fn leave_thread(_: c_int) {
    // SAFETY: ends the thread; its frames may be unwound, which is what is tested.
    unsafe { pthread_exit(EXITED as *mut c_void) }
}

extern "C-unwind" fn sleep_in_futex(_: *mut c_void) -> *mut c_void {
    // SAFETY: the thread's own cancellation state.
    unsafe { pthread_setcanceltype(ASYNCHRONOUS, ptr::null_mut()) };
    let _noticed = NoticesUnwinding;
    let word = 0u32;
    SLEEPER.store(sys::gettid(), Ordering::Release);
    loop {
        // SAFETY: the word is on this frame.
        unsafe { sys::futex_wait(&raw const word, 0, None, true) };
    }
}

extern "C-unwind" fn leave_section(_: *mut c_void) -> *mut c_void {
    let _noticed = NoticesUnwinding;
    let critical = thread::enter();
    raise(SIGUSR1);
    drop(critical);
    ptr::null_mut()
}

/// Runs a thread, ends it by `end` once it sleeps, and returns its exit value.
fn thread_value(main: extern "C-unwind" fn(*mut c_void) -> *mut c_void, end: impl Fn(libc::pthread_t)) -> usize {
    let (mut id, mut value) = (0, ptr::null_mut());
    // SAFETY: the thread is joined below.
    unsafe {
        assert_eq!(create(&raw mut id, ptr::null(), main, ptr::null_mut()), 0);
        end(id);
        assert_eq!(libc::pthread_join(id, &raw mut value), 0);
    }
    value.addr()
}

/// Waits until the thread sleeps in the kernel.
fn until_asleep() {
    until(|| SLEEPER.load(Ordering::Acquire) != 0);
    let path = format!("/proc/self/task/{}/stat", SLEEPER.load(Ordering::Acquire));
    until(|| std::fs::read_to_string(&path).unwrap().contains(") S "));
}

#[test]
fn a_handler_may_end_a_thread_that_sleeps_in_the_library() {
    in_child(|| {
        set(SIGUSR1, &action(leave_thread as *const () as usize, 0, 0));
        arm();
        let value = thread_value(sleep_in_futex, |_| {
            until_asleep();
            sys::tgkill(sys::getpid(), SLEEPER.load(Ordering::Acquire), SIGUSR1);
        });
        assert_eq!((value, UNWOUND.load(Ordering::Relaxed)), (EXITED, 1));
    });
}

#[test]
fn cancellation_unwinds_a_thread_that_sleeps_in_the_library() {
    in_child(|| {
        arm();
        let value = thread_value(sleep_in_futex, |id| {
            until_asleep();
            // SAFETY: a live thread.
            assert_eq!(unsafe { pthread_cancel(id) }, 0);
        });
        assert_eq!((value, UNWOUND.load(Ordering::Relaxed)), (CANCELLED, 1));
    });
}

#[test]
fn a_deferred_handler_may_end_its_thread() {
    in_child(|| {
        set(SIGUSR1, &action(leave_thread as *const () as usize, 0, 0));
        arm();
        let value = thread_value(leave_section, |_| {});
        assert_eq!((value, UNWOUND.load(Ordering::Relaxed)), (EXITED, 1));
    });
}
