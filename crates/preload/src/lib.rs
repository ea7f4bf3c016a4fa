//! `libringway.so`: carries an unmodified program's local TCP connections over shared memory.
//!
//! The program's sockets stay kernel sockets at the program's own descriptor numbers. This library
//! exports libc's names for everything that touches a descriptor; each hook decides in a few
//! instructions whether the call is the kernel's (it nearly always is) or concerns an upgraded connection.
//!
//! ```text
//!   hooks/      extern "C" names                      table     what each descriptor number is
//!     |                                               conn      the connections
//!   upgrade     by which way a call goes              family    what forked processes agree on
//!     |                                               monitor   offers, answers
//!   tx, rx      the ring's send and receive           attach    from answer to upgraded connection
//!   readiness   poll's answer for a connection        wait,spin sleeping for one connection
//!   epoll/      sets of connections                   signals/  deferral while tables are changed
//!   process     fork and its relatives                exec,exit what other programs inherit; last words
//!   leave       calls that never return             netmap/   /dev/netmap where the kernel has none
//!   limits      what the program's limits allow     confine     programs with a filter of their own
//! ```
//!
//! Rules: no allocation, no std I/O, no lock held where a signal handler can run, no panic. Memory that
//! the peer can write is read once and bounded.

// Nothing is exported from the test binary, or it would hook itself: there much looks unused.
#![cfg_attr(test, allow(dead_code))]

mod attach;
mod bell;
mod config;
mod confine;
mod conn;
mod copy;
mod epoll;
mod exec;
mod exit;
mod family;
mod growable;
mod hooks;
#[cfg(test)]
mod hostile;
mod iov;
mod kernel;
mod leave;
mod limits;
mod lock;
mod monitor;
mod netmap;
mod ops;
mod process;
mod quick;
mod readiness;
mod real;
mod registry;
mod reset;
mod rx;
mod signals;
mod spin;
mod spinlock;
mod stats;
mod sys;
mod table;
#[cfg(test)]
mod testing;
mod thread;
mod tx;
mod upgrade;
mod wait;

/// Runs when the library is loaded, before the program and (usually) before other constructors.
unsafe extern "C" fn initialise() {
    real::resolve();
    thread::init();
    spin::find_rseq();
    // SAFETY: this is the constructor; nothing else runs yet.
    unsafe { config::read() };
    process::install();
    exit::install();
    if config::enabled() {
        if config::uring() == config::Uring::Deny {
            ops::uring::deny();
        }
        ops::stdio::adopt_standard_streams();
    }
}

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: unsafe extern "C" fn() = initialise;

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
static FINALISER: unsafe extern "C" fn() = exit::finalise;
