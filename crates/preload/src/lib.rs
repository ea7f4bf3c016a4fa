//! libringway.so

mod copy;
mod hooks;
mod lock;
mod real;
mod registry;
mod signals;
mod sys;
#[cfg(test)]
mod testing;
mod thread;
