//! `libringway_packetdrill.so`: lets packetdrill play its scripts against the TCP engine, in virtual time.
//!
//! ```text
//!   packetdrill --so_filename=libringway_packetdrill.so script.pkt
//!        |  packetdrill_interface_init: a table of 32 C functions        libc's getsockopt (LD_PRELOAD)
//!   +----v-----+                                                              |
//!   |   abi    |  pointers become slices, errors become errno                 |
//!   +----+-----+                                                         +----v-----+
//!        |                                                               | preload  |
//!   +----v-----+  who waits sleeps here; only `usleep` and               +----+-----+
//!   |  world   |  `netdev_receive` move the clock                             |
//!   +----+-----+                                                              |
//!   +----v-----+------------------------------------------------------------- v
//!   |  stack   |  descriptors, sockets, epoll sets, packets that have left
//!   +----+-----+
//!   ringway-tcp's Engine
//! ```
//!
//! Every destination address is the stack's own, so a packet is answered from wherever it was sent to. `--so_flags` takes
//! settings (`name=value`, separated by blanks or commas): the engine's ([`ringway_tcp::Config::NAMES`]) and
//! `silence=exit` or `silence=error`, what `netdev_receive` does when nothing can come out any more. The file named in
//! `RINGWAY_SYSCTL_FILE` holds settings too, one a line; it is read again whenever a socket is made.

mod abi;
mod address;
mod epoll;
mod errno;
mod messages;
mod options;
mod preload;
mod settings;
mod socket;
mod stack;
mod transfer;
mod world;

pub use abi::{Interface, packetdrill_interface_init};
