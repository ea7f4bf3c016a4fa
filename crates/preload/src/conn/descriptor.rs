//! Using a connection's descriptor outside the program's calls on it: meanwhile its number stays its own.
//!
//! ```text
//!   hold_descriptor                 close, dup2
//!     users + 1                       the table forgets the number
//!     is it in the table? go on       any users? wait
//! ```
//! With full fences between, one of the two sees the other.

use core::sync::atomic::{Ordering::*, fence};

use libc::c_int;

use super::Conn;
use crate::sys;
use crate::table::{self, Entry};

/// Pause between two looks whether the users are through, in microseconds.
const STEP_US: u64 = 100;

/// A descriptor of a connection that nobody closes until this is dropped. The holder is in a critical section: a signal
/// handler that closes it would wait for ever.
pub(crate) struct Descriptor<'a> {
    conn: &'a Conn,
    fd: c_int,
}

impl Descriptor<'_> {
    pub(crate) fn number(&self) -> c_int {
        self.fd
    }
}

impl Drop for Descriptor<'_> {
    fn drop(&mut self) {
        self.conn.descriptor_users.fetch_sub(1, Release);
    }
}

impl Conn {
    /// The descriptor that is used for looks; `None` if it is being closed.
    pub(crate) fn hold_descriptor(&self, index: u32) -> Option<Descriptor<'_>> {
        self.descriptor_users.fetch_add(1, SeqCst);
        let descriptor = Descriptor { conn: self, fd: self.fd.load(Relaxed) };
        fence(SeqCst);
        (table::get(descriptor.fd) == Entry::Connection(index)).then_some(descriptor)
    }

    /// Before the kernel closes a descriptor that the table has forgotten.
    pub(crate) fn wait_for_holders(&self) {
        fence(SeqCst);
        while self.descriptor_users.load(Acquire) != 0 {
            sys::sleep_us(STEP_US);
        }
    }
}
