//! libc's `getsockopt` for who asks past the table: packetdrill's assertions on TCP_INFO do. For that, the same library is
//! also in LD_PRELOAD; numbers that are none of ours go to the kernel.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use crate::abi;
use crate::world::World;

static WORLDS: Mutex<Vec<Arc<World>>> = Mutex::new(Vec::new());

pub(crate) fn register(world: Arc<World>) {
    WORLDS.lock().unwrap_or_else(PoisonError::into_inner).push(world);
}

pub(crate) fn forget(world: &Arc<World>) {
    WORLDS.lock().unwrap_or_else(PoisonError::into_inner).retain(|known| !Arc::ptr_eq(known, world));
}

fn world_of(fd: c_int) -> Option<Arc<World>> {
    let worlds = WORLDS.lock().unwrap_or_else(PoisonError::into_inner);
    worlds.iter().find(|world| world.knows(fd)).cloned()
}

/// As libc's.
///
/// # Safety
/// `value` and `len` are as getsockopt(2) wants them.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut libc::socklen_t,
) -> c_int {
    if let Some(world) = world_of(fd) {
        // SAFETY: the caller's promise, passed on.
        return unsafe { abi::get_option(&world, fd, level, name, value, len) };
    }
    // SAFETY: the caller's promise; the kernel checks the pointers itself.
    unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, value, len) as c_int }
}
