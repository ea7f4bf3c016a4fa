//! What the environment says, read once in the constructor. Set by `ringway run`.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use libc::c_char;

use crate::spin::{self, Profile};

/// Longest path of a Unix socket, with its final zero.
const PATH_BYTES: usize = 108;

static ENABLED: AtomicBool = AtomicBool::new(false);
static RUN: AtomicU64 = AtomicU64::new(0);
static PATH_LEN: AtomicUsize = AtomicUsize::new(0);
static mut PATH: [u8; PATH_BYTES] = [0; PATH_BYTES];

/// What `RINGWAY_IO_URING` says (see `ops::uring`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uring {
    Auto = 0,
    Deny = 1,
    Allow = 2,
}

/// Calls that move data after which a connection is offered, unless `RINGWAY_UPGRADE_CALLS` says otherwise.
const UPGRADE_CALLS: u32 = 8;

static CALLS: AtomicU32 = AtomicU32::new(UPGRADE_CALLS);
static URING: AtomicU32 = AtomicU32::new(Uring::Auto as u32);

pub(crate) fn uring() -> Uring {
    match URING.load(Relaxed) {
        1 => Uring::Deny,
        2 => Uring::Allow,
        _ => Uring::Auto,
    }
}

/// `RINGWAY_UPGRADE_CALLS`: calls that move data after which a connection is offered; 0 = as soon as it is made.
#[inline]
pub(crate) fn upgrade_calls() -> u32 {
    CALLS.load(Relaxed)
}

/// Whether connections are to be watched at all.
#[inline]
pub(crate) fn enabled() -> bool {
    ENABLED.load(Relaxed)
}

/// `RINGWAY_RUN_ID`: which `ringway run` the process belongs to; 0 = none.
pub(crate) fn run_id() -> u64 {
    RUN.load(Relaxed)
}

/// Path of the monitor's socket, without a final zero.
pub(crate) fn socket_path() -> &'static [u8] {
    // SAFETY: written once by `read`, before any other thread exists; PATH_LEN bounds it.
    let path: &'static [u8; PATH_BYTES] = unsafe {
        let path = &raw const PATH;
        &*path
    };
    path.get(..PATH_LEN.load(Acquire)).unwrap_or(&[])
}

/// Reads the environment.
///
/// # Safety
/// Called once, from the constructor.
pub(crate) unsafe fn read() {
    let path = variable(c"RINGWAY_SOCKET").unwrap_or(&[]);
    if path.is_empty() || path.len() >= PATH_BYTES || variable(c"RINGWAY_DISABLE").is_some_and(|v| v != b"0") {
        return;
    }
    // SAFETY: single threaded here (see the function's contract); `path` is shorter than PATH.
    unsafe { core::ptr::copy_nonoverlapping(path.as_ptr(), (&raw mut PATH).cast(), path.len()) };
    PATH_LEN.store(path.len(), Release);
    spin::set_profile(match variable(c"RINGWAY_PROFILE") {
        Some(b"latency") => Profile::Latency,
        Some(b"efficient") => Profile::Efficient,
        _ => Profile::Balanced,
    });
    let uring = match variable(c"RINGWAY_IO_URING") {
        Some(b"deny") => Uring::Deny,
        Some(b"allow") => Uring::Allow,
        _ => Uring::Auto,
    };
    URING.store(uring as u32, Relaxed);
    if let Some(calls) = variable(c"RINGWAY_UPGRADE_CALLS").and_then(number) {
        CALLS.store(calls.min(u32::MAX.into()) as u32, Relaxed);
    }
    if let Some(id) = variable(c"RINGWAY_RUN_ID").and_then(number) {
        RUN.store(id, Relaxed);
    }
    ENABLED.store(true, Release);
}

/// A decimal number; anything else is as if it were not said.
fn number(text: &[u8]) -> Option<u64> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// The value of an environment variable.
fn variable(name: &CStr) -> Option<&'static [u8]> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    let name = name.to_bytes();
    // SAFETY: the environment is a null-terminated array of strings that nobody changes while
    // constructors run; `read` copies what it keeps.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            let entry = CStr::from_ptr(*at).to_bytes();
            if let Some(value) = entry.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"=")) {
                return Some(value);
            }
            at = at.add(1);
        }
    }
    None
}
