//! Captures: packets made from the bytes of rings, written as pcapng.
//!
//! | module | what it does |
//! |---|---|
//! | `packet` | IP and TCP headers around a piece of a stream |
//! | `pcapng` | the file format |
//! | `follow` | one connection's two rings, looked at in turns |

pub(crate) mod follow;
pub(crate) mod packet;
pub(crate) mod pcapng;
