//! A web server on any [`ringway_stack::Sockets`]: static files, or replies of a fixed size.
//!
//! ```text
//!   server   the listener, who is ready, who is silent for too long
//!     |
//!   client   what is unread, what is unsent, what comes next
//!     |
//!   request  bytes -> one request, more bytes needed, or a refusal
//!   reply    head of a reply, refusals        content   what a path means: a file, a fixed reply
//! ```
//! Semantics are RFC 9110's, messages RFC 9112's: HTTP/1.1 and 1.0, GET and HEAD, connections kept or closed, requests
//! answered in order when they come many at a time. Nothing that a client sends makes it hold more than the bounds
//! in these files say.

mod client;
mod content;
mod reply;
mod request;
mod server;

pub(crate) use content::Content;
pub(crate) use server::{Done, Limits, Server};
