//! Opening files by name: only to find out that the kernel has no `/dev/netmap`.

use core::ffi::c_char;

use libc::{c_int, mode_t};

use super::io::export;
use crate::{netmap, real};

// The variadic mode is one word in a register, given or not.
export!(open, __open = fn(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the program's own call.
    netmap::opened(path, flags, unsafe { real::open()(path, flags, mode) })
});

export!(open64, __open64 = fn(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the program's own call.
    netmap::opened(path, flags, unsafe { real::open64()(path, flags, mode) })
});

export!(openat = fn(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the program's own call.
    netmap::opened(path, flags, unsafe { real::openat()(folder, path, flags, mode) })
});

export!(openat64 = fn(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the program's own call.
    netmap::opened(path, flags, unsafe { real::openat64()(folder, path, flags, mode) })
});

export!(__open_2 = fn(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the program's own call.
    netmap::opened(path, flags, unsafe { real::__open_2()(path, flags) })
});

export!(__open64_2 = fn(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the program's own call.
    netmap::opened(path, flags, unsafe { real::__open64_2()(path, flags) })
});

export!(__openat_2 = fn(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the program's own call.
    netmap::opened(path, flags, unsafe { real::__openat_2()(folder, path, flags) })
});

export!(__openat64_2 = fn(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the program's own call.
    netmap::opened(path, flags, unsafe { real::__openat64_2()(folder, path, flags) })
});
