//! Giving back what a waiting call holds, also when it never returns: its thread is cancelled there, or a signal
//! handler leaves by `siglongjmp`. In both cases libc calls the cleanup handlers of the frames that go, and only it
//! knows which those are.

use core::ffi::c_void;
use core::ptr;

use libc::c_int;

use crate::thread;

/// `struct _pthread_cleanup_buffer` (pthread.h).
#[repr(C)]
struct Buffer {
    routine: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
    cancel_type: c_int,
    previous: *mut Buffer,
}

const _: () = assert!(size_of::<Buffer>() == 32);

unsafe extern "C" {
    fn _pthread_cleanup_push(buffer: *mut Buffer, routine: unsafe extern "C" fn(*mut c_void), argument: *mut c_void);
    fn _pthread_cleanup_pop(buffer: *mut Buffer, execute: c_int);
}

/// What a call takes before it may wait and gives back, once, afterwards.
pub(crate) trait Hold {
    fn take(&self);
    fn give_back(&self);

    /// Runs `call` in between. No handler can come between a step and libc's knowledge of it.
    #[inline]
    fn during<R>(&self, call: impl FnOnce() -> R) -> R
    where
        Self: Sized,
    {
        let mut buffer = Buffer { routine: None, argument: ptr::null_mut(), cancel_type: 0, previous: ptr::null_mut() };
        let critical = thread::enter();
        self.take();
        // SAFETY: the buffer and what is held stay where they are until the pop; a frame that goes before that is
        // taken off by libc, which calls the routine first.
        unsafe { _pthread_cleanup_push(&raw mut buffer, give_back::<Self>, ptr::from_ref(self).cast_mut().cast()) };
        drop(critical);
        let answer = call();
        let _critical = thread::enter();
        // SAFETY: pushed above, and everything that `call` pushed has been popped.
        unsafe { _pthread_cleanup_pop(&raw mut buffer, 0) };
        self.give_back();
        answer
    }
}

unsafe extern "C" fn give_back<T: Hold>(held: *mut c_void) {
    // SAFETY: the address that `during` pushed, whose frame still stands while libc calls this.
    unsafe { &*held.cast::<T>() }.give_back();
}

#[cfg(test)]
mod tests;
