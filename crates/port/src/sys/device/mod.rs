//! System calls of the device back ends, made safe: each file wraps what one kind of device needs.
//!
//! All go through `syscall` or rustix, never through libc's wrappers, which may be hooked in the process we run in.

pub(crate) mod bpf;
mod call;
pub(crate) mod interface;
pub(crate) mod iovecs;
pub(crate) mod packet;
pub(crate) mod tun;
pub(crate) mod xsk;
pub(crate) mod xsk_ring;
