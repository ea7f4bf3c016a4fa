//! Tests of the whole engine, by its public calls.
//!
//! - `link`: two engines joined by a link that delays, loses and reorders. `life`: what they do.
//! - `script`: one engine and a scripted peer. `handshake`, `states`, `receiving`, `sending`, `attacks`: scripts. `fast_open`, `two_ways`: over the link.

mod attacks;
mod fast_open;
mod handshake;
mod life;
mod link;
mod receiving;
mod script;
mod sending;
mod states;
mod two_ways;
