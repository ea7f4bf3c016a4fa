//! `libnetmap`: the C libraries that netmap's programs are written for, by their documented interface
//! (`include/libnetmap.h`, and `include/net/netmap_user.h` with `NETMAP_WITH_LIBS`).
//!
//! ```text
//!   nm_open, ...              desc        nmport_open, _prepare, ...   port -- extmem (memory of the program's own)
//!   nm_inject, nm_nextpkt     packets
//!                              |            |
//!                              +--> decode (names, rings, flags), parse and parsers (@options), options (their list)
//!                              |            |
//!                              +--> device: open /dev/netmap, ioctl, mmap    memory: mapped regions   inject: a packet
//!                                           |                                context: errors, malloc, locks
//!                                 libc's names, which libringway.so serves: linked by `-lringway`, or by `ringway run`
//! ```
//! Everything here goes through `open`, `ioctl` and `mmap` as a program's own calls do, so the same library works with the
//! kernel's netmap. Pointers are the caller's promise, as everywhere in C; what they must be is said in the headers.

mod context;
mod decode;
mod desc;
mod device;
mod extmem;
mod inject;
mod layout;
mod memory;
mod options;
mod packets;
mod parse;
mod parsers;
mod port;
mod text;
