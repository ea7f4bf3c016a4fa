//! The monitor as a process of its own, with real sockets on loopback.

mod harness;
mod hostile;
mod life;
mod namespaces;
mod pairing;
mod ports;
mod tools;
