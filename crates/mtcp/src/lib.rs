//! `libmtcp`: mTCP's C interface over `stack`, for programs that are written to it (`include/mtcp_api.h`, `mtcp_epoll.h`).
//!
//! ```text
//!   mtcp_init("x.conf")   conf       ports, addresses, sizes
//!   mtcp_create_context   contexts   one for each core: who holds a valid mctx_t
//!   mtcp_socket, ...      calls/     C's pointers become slices and addresses, errors become errno
//!                            |
//!                         state      a core's socket numbers over its Stack; turns of its loop
//!                            |
//!         +---------+--------+-+---------+----------+
//!       socket    stream     options    waits      pipe
//!       bind to   recv and   by Linux's epoll,     bytes within
//!       close     send       numbers    poll       a core
//! ```
//! A context belongs to one thread at a time. Run to completion: the stack moves in calls that wait (`mtcp_epoll_wait`,
//! `mtcp_poll`, blocking calls) and after many that had to answer `EAGAIN`, not in a thread of its own.
//!
//! Unsafe code is in `calls` and `signal` only.

mod address;
mod calls;
mod conf;
mod contexts;
mod epoll;
mod errno;
mod options;
mod pipe;
mod signal;
mod socket;
mod state;
mod stream;
mod waits;
